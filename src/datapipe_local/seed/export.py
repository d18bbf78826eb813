"""Export of a store as a seed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from airflow_provider_datapipe.api.models.formats.yaml_reader import escape_variables
from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.seed import models
from datapipe_local.services import integrations, reverse_etl_sources, version_control
from datapipe_local.services.settings_schema import settings_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datapipe_local.common.base_model import Strict
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Connection, Json, Transform
    from datapipe_local.storage.store import Store

_REFERENCE = "{{"


class Exported(NamedTuple):
    """
    Seed as text.

    :param text: The YAML.
    :param variables: The environment variables that replace secrets.
    :param drafts: The number of published transforms that the seed has as drafts, because their references would have
        to be loaded first.
    :param left_out: The number of reverse ETL syncs that the seed omits, because their sources were deleted.
    """

    text: str
    variables: list[str]
    drafts: int
    left_out: int


def export(context: Context) -> Exported:
    """
    Return the resources of a service as a seed, without runs and rows. Variables replace secrets.

    :param context: The service.
    """
    store = context.store
    with store.transaction():
        secrets = _Secrets()
        transforms = list(_transforms(store))
        all_reverse_etl_syncs = store.reverse_etl_syncs.all("ORDER BY seq")
        reverse_etl_syncs = [sync for sync in all_reverse_etl_syncs if reverse_etl_sources.of(context, sync).owner_id]
        content = {
            "runs": _settings(store, models.RunSettings),
            "limits": _settings(store, models.Limits),
            "responses": _settings(store, models.Responses),
            "transforms_managed_by_version_control": store.setting(version_control.SETTING, default=None),
            "connections": [_connection(record, secrets) for record in store.connections.all("ORDER BY seq")],
            "orchestrations": [_fields(models.Orchestration, one) for one in store.orchestrations.all("ORDER BY seq")],
            "elt_syncs": list(_elt_syncs(store)),
            "custom_reports": [
                # The stream of a report is among the streams of its sync, with its options.
                _fields(models.CustomReport, one, add_as_source_stream=False)
                for one in store.custom_reports.all("ORDER BY seq")
            ],
            "transforms": [entry for _, entry in transforms],
            "reverse_etl_syncs": [_fields(models.ReverseEtlSync, sync) for sync in reverse_etl_syncs],
        }
    seed = models.Seed.model_validate({name: value for name, value in content.items() if value})
    # Omit default values.
    shown = secrets.shown(escape_variables(seed.model_dump(mode="json", exclude_defaults=True)))
    text = _as_yaml(shown)
    drafts = sum(record.published_version_id is not None and not entry["publish"] for record, entry in transforms)
    left_out = len(all_reverse_etl_syncs) - len(reverse_etl_syncs)
    return Exported(text, sorted(secrets.variables), drafts, left_out)


def _as_yaml(value: Any) -> str:
    def dumped(*, allow_unicode: bool) -> str:
        text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=allow_unicode, width=120)
        return text

    text = dumped(allow_unicode=True)
    # safe_dump writes U+0085 unescaped, but the YAML reader takes it for a line end.
    return dumped(allow_unicode=False) if "\x85" in text else text


class _Secrets:
    """Replacement of secrets in settings by marks, and of the marks by variables after escaping."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}

    def hide(self, value: Any, schema: Json, name: str) -> Any:
        """Return a value with marks in place of secrets. Settings cannot contain such marks."""
        if isinstance(value, str):
            return self._variable(name) if _is_secret(value, schema) else value
        choices = [one for kind in ("anyOf", "oneOf", "allOf") for one in schema.get(kind, ())]
        if isinstance(value, dict):
            for field, inner in value.items():
                for one in (schema, *choices):
                    field_schema = one.get("properties", {}).get(field, {})
                    value = {**value, field: self.hide(value.get(field, inner), field_schema, f"{name}_{field}")}
        elif isinstance(value, list):
            return [self.hide(entry, schema.get("items", {}), f"{name}_{index}") for index, entry in enumerate(value)]
        return value

    def shown(self, value: Any) -> Any:
        """Return a value with variables in place of the marks."""
        if isinstance(value, dict):
            return {name: self.shown(entry) for name, entry in value.items()}
        if isinstance(value, list):
            return [self.shown(entry) for entry in value]
        return self.variables_by_mark().get(value, value) if isinstance(value, str) else value

    def variables_by_mark(self) -> dict[str, str]:
        """Return the variable reference for each mark."""
        return {mark: f"${{{name}}}" for name, mark in self.variables.items()}

    def _variable(self, name: str) -> str:
        wanted = base = re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        number = 1
        while wanted in self.variables:
            number += 1
            wanted = f"{base}_{number}"
        # Stored text never contains NUL.
        mark = f"\0{wanted}"
        self.variables[wanted] = mark
        return mark


def _is_secret(value: str, schema: Json) -> bool:
    if value.startswith("\0"):
        return False
    choices = [one for kind in ("anyOf", "oneOf", "allOf") for one in schema.get(kind, ())]
    if any(one.get("format") == "password" for one in (schema, *choices)):
        return True
    # A URL can contain a password, or a key in its query.
    parts = urlsplit(value) if "://" in value else None
    return parts is not None and bool("@" in parts.netloc or parts.query)


def _settings(store: Store, model: type[Strict]) -> Json:
    settings = {name: store.setting(name, default=None) for name in model.model_fields}
    return {name: value for name, value in settings.items() if value is not None}


def _fields(model: type[Strict], record: object, **computed: Any) -> Json:
    """Return the entry of a record: the fields of a model, as computed or as the attributes of the record."""
    return {name: computed[name] if name in computed else getattr(record, name) for name in model.model_fields}


def _connection(record: Connection, secrets: _Secrets) -> Json:
    schema = settings_schema(integrations.get(record.integration_id).settings)
    settings = secrets.hide(record.settings, schema, f"CONNECTION_{record.id}")
    return _fields(models.Connection, record, settings=settings)


def _elt_syncs(store: Store) -> Iterator[Json]:
    for sync in store.elt_syncs.all("ORDER BY seq"):
        streams = store.elt_streams.all("WHERE elt_sync_id = ? ORDER BY seq", sync.id)
        yield _fields(
            models.EltSync,
            sync,
            start_date=None if sync.start_date is None else sync.start_date[:10],
            elt_settings=sync.settings,
            # The origin contains the fields of the source, or the ID of the custom report.
            source_streams=[_fields(models.SourceStream, one, custom_report_id=None) | one.origin for one in streams],
        )


def _transforms(store: Store) -> Iterator[tuple[Transform, Json]]:
    for record in store.transforms.all("WHERE deleted_at IS NULL ORDER BY seq"):
        version = store.transform_versions.get(record.latest_version_id)
        sql = "" if version is None else version.sql_template
        publish = record.published_version_id is not None and _REFERENCE not in sql
        materialization = record.next_materialization or record.materialization
        yield (
            record,
            {
                "id": record.id,
                "name": record.next_name or record.name,
                "folder_path": record.folder_path if record.next_folder_path is None else record.next_folder_path,
                "materialization": materialization,
                "publish": publish,
                "sql_template": sql,
                "documentation": record.documentation,
                # Views have no schedule.
                "cron_expression": record.cron_expression if materialization == Materialization.TABLE else None,
                "orchestration_workflow_id": record.orchestration_workflow_id,
            },
        )
