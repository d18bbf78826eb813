"""Serializers of transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.api.serializers import Json, present
from datapipe_local.services import transforms
from datapipe_local.services.references import Catalogue

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.services.references import Reference
    from datapipe_local.services.transform_bulk import Result
    from datapipe_local.storage import records
    from datapipe_local.warehouse.warehouse import Column

#: The only user: the owner of the API key.
_USER = "local"


def transform(context: Context, catalogue: Catalogue, record: records.Transform) -> Json:
    """Return ``TransformDto``. ``materialization_status`` of drafts and views is null, and so is a missing schedule."""
    template = transforms.version(context, record, record.latest_version_id).sql_template
    name, folder_path, materialization = transforms.definition(record)
    body = present(
        {
            "id": record.id,
            "name": name,
            "folder_path": folder_path,
            "status": record.status,
            "materialization": materialization,
            "sql_template": template,
            "parameters": [reference(entry) for entry in catalogue.describe(template)],
            "documentation": record.documentation,
            "materialization_error": record.materialization_error,
            "orchestration_workflow_id": record.orchestration_workflow_id,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }
    )
    is_table = record.materialization == Materialization.TABLE
    body["materialization_status"] = record.materialization_status if is_table else None
    if context.shows_newer_fields:
        body |= {"cron_expression": record.cron_expression, "rebuild_trigger": record.rebuild_trigger}
    return body


def version(catalogue: Catalogue, owner: records.Transform, record: records.TransformVersion) -> Json:
    """Return ``TransformVersionDto``."""
    return {
        "id": record.id,
        "sql_template": record.sql_template,
        "parameters": [reference(entry) for entry in catalogue.describe(record.sql_template)],
        "is_published": record.id == owner.published_version_id,
        "user_id": _USER,
        "created_at": record.created_at,
    }


def bulk_result(result: Result) -> Json:
    """Return ``TransformBulkResultItemDto``."""
    return present(
        {
            "name": result.name,
            "success": result.error is None,
            "id": result.transform_id,
            "error": result.error,
        }
    )


def reference(entry: Reference) -> Json:
    """Return ``TransformParameterDto`` or ``AvailableReferenceDto``."""
    return {"weld_tag": entry.tag, "type": entry.type, "dw_item_id": str(entry.place)}


def column(entry: Column) -> Json:
    """Return ``TransformSchemaFieldDto``."""
    return {"name": entry.name, "type": entry.type, "nullable": entry.nullable}
