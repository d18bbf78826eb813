"""Routes of reverse ETL destination catalogs."""

from typing import Any

from fastapi import APIRouter

from datapipe_local.api.routes.common import CurrentContext
from datapipe_local.api.routes.documented import answering
from datapipe_local.api.routes.reverse_etl.bodies import SettingsRequest
from datapipe_local.api.schemas.common import ListDto
from datapipe_local.api.schemas.reverse_etl import (
    ReverseEtlAvailableOperationDto,
    ReverseEtlDestinationPropertyDto,
    ReverseEtlObjectTypeDto,
    SyncSettingsSchemaDto,
)
from datapipe_local.api.serializers import reverse_etl as answers
from datapipe_local.services import reverse_etl_catalog as reverse_etl_offers

router = APIRouter()


@router.get("/reverse_etl_syncs/object_types", **answering(ListDto[ReverseEtlObjectTypeDto], 404))
def list_object_types(context: CurrentContext, connection_id: str) -> dict[str, Any]:
    """List the object types of a destination."""
    kinds = reverse_etl_offers.object_types(context, connection_id)
    return {"data": [answers.object_type(kind.object_type, declared=kind.declared) for kind in kinds]}


@router.get("/reverse_etl_syncs/available_operations", **answering(ListDto[ReverseEtlAvailableOperationDto], 404))
def list_available_operations(context: CurrentContext, connection_id: str, object_type_id: str) -> dict[str, Any]:
    """List the operations of an object type."""
    modes = reverse_etl_offers.operations(context, connection_id, object_type_id)
    return {"data": [answers.operation(mode, needs_key=mode in reverse_etl_offers.WITH_KEY) for mode in modes]}


@router.get("/reverse_etl_syncs/destination_schema", **answering(ListDto[ReverseEtlDestinationPropertyDto], 404))
def get_destination_schema(
    context: CurrentContext, connection_id: str, object_type_id: str, operation_mode: str, source_id: str
) -> dict[str, Any]:
    """Return the properties that source columns can be mapped to."""
    properties = reverse_etl_offers.properties(context, connection_id, object_type_id, operation_mode, source_id)
    return {"data": [answers.destination_property(one) for one in properties]}


@router.post("/reverse_etl_syncs/settings_schema", **answering(SyncSettingsSchemaDto, 404))
def get_settings_schema(
    context: CurrentContext, connection_id: str, object_type: str, body: SettingsRequest | None = None
) -> dict[str, Any]:
    """Return the JSON Schema of a sync's settings. Read-only."""
    known = None if body is None else body.partial_settings
    return reverse_etl_offers.settings_schema(context, connection_id, object_type, known)
