"""Models of a workspace file. Omitted fields stay unchanged on the service."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from airflow_provider_datapipe.api.models.rules import Cron, JsonObject, Omissible, parse_day
from airflow_provider_datapipe.pipelines.workspace.document import Document, Problem

Text = Annotated[str, Field(min_length=1)]
#: Fields in which null means none.
_NULLABLE = frozenset({"sync_interval", "incremental_pointer_id", "orchestration"})
ORCHESTRATIONS, ELT_SYNCS, REVERSE_ETL_SYNCS = "orchestrations", "elt_syncs", "reverse_etl_syncs"


class Entry(BaseModel):
    """Base class of entries. ``model_fields_set`` contains the fields that the file sets."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def is_set(self, *fields: str) -> bool:
        """Return True if the file sets any of these fields."""
        return not self.model_fields_set.isdisjoint(fields)


class OrchestrationEntry(Entry):
    """An orchestration, identified by its ID if it is given, otherwise by its name."""

    id: Omissible[Text] = None
    name: Text
    cron_schedule: Omissible[Cron] = None


class StreamEntry(Entry):
    """A stream of an ELT sync, identified by its name."""

    name: Text
    sync_interval: Cron | None = None
    incremental_pointer_id: Text | None = None
    excluded_columns: Omissible[list[str]] = None
    hashed_columns: Omissible[list[str]] = None
    full_sync_always: Omissible[bool] = None
    full_sync_at_midnight: Omissible[bool] = None
    protected_from_full_sync: Omissible[bool] = None
    excluded_substreams: Omissible[list[str]] = None
    enabled_history_table: Omissible[bool] = None


def _day(value: object) -> object:
    given = parse_day(value)
    return dt.date.fromisoformat(given) if isinstance(given, str) else given


Day = Annotated[dt.date, BeforeValidator(_day)]


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class _Attachable(Entry):
    orchestration: Text | None = None
    orchestration_id: Omissible[Text] = None

    @model_validator(mode="after")
    def _one_orchestration(self) -> Self:
        if self.is_set("orchestration") and self.is_set("orchestration_id"):
            raise ValueError("set either orchestration or orchestration_id, not both")
        return self

    @property
    def sets_orchestration(self) -> bool:
        """True if the file sets the orchestration, which may be none."""
        return self.is_set("orchestration", "orchestration_id")


class EltSyncEntry(_Attachable):
    """An ELT sync, identified by its ID if it is given, otherwise by its connection and its schema."""

    id: Omissible[Text] = None
    connection_label: Omissible[Text] = None
    connection_id: Omissible[Text] = None
    destination_schema_name: Omissible[Text] = None
    sync_interval: Cron | None = None
    enabled: Omissible[bool] = None
    start_date: Omissible[Annotated[Day, WithJsonSchema({"type": "string", "format": "date"})]] = None
    # Settings can contain secrets.
    settings: Omissible[JsonObject] = Field(default=None, repr=False)
    source_streams: Omissible[
        list[Annotated[StreamEntry, BeforeValidator(_named, json_schema_input_type=StreamEntry | str)]]
    ] = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.is_set("connection_label") == self.is_set("connection_id"):
            raise ValueError("set either connection_label or connection_id")
        if not self.is_set("destination_schema_name") and not self.is_set("id"):
            raise ValueError("destination_schema_name is required")
        return self


class MappingEntry(Entry):
    """Mapping of a source column to a property of the destination."""

    source_property_id: Text
    destination_property_id: Text
    primary_key: Omissible[bool] = None


class OperationEntry(Entry):
    """Mode and mappings of a reverse ETL sync."""

    mode: Literal["insert", "update", "upsert", "mirror"]
    mappings: Annotated[list[MappingEntry], Field(min_length=1)]


class ReverseEtlSyncEntry(_Attachable):
    """A reverse ETL sync, identified by its ID if given, otherwise by its source, destination and object type."""

    id: Omissible[Text] = None
    transform: Omissible[Text] = None
    source_id: Omissible[Text] = None
    destination_connection_label: Omissible[Text] = None
    destination_connection_id: Omissible[Text] = None
    object_type_id: Text
    operation: Omissible[OperationEntry] = None
    sync_interval: Cron | None = None
    enabled: Omissible[bool] = None
    # Settings can contain secrets.
    settings: Omissible[JsonObject] = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.is_set("transform") == self.is_set("source_id"):
            raise ValueError("set either transform, such as sales/people, or source_id")
        if self.is_set("destination_connection_label") == self.is_set("destination_connection_id"):
            raise ValueError("set either destination_connection_label or destination_connection_id")
        return self

    @property
    def sets_orchestration(self) -> bool:
        """True if the file sets the schedule, which consists of both fields: an omitted one means none."""
        return self.is_set("sync_interval", "orchestration", "orchestration_id")


class Workspace(Entry):
    """A workspace file. All resources of an omitted section stay unchanged on the service."""

    orchestrations: Omissible[list[OrchestrationEntry]] = None
    elt_syncs: Omissible[list[EltSyncEntry]] = None
    reverse_etl_syncs: Omissible[list[ReverseEtlSyncEntry]] = None


def workspace_of(document: Document) -> Workspace:
    """
    Validate a workspace file.

    :raises WorkspaceError: if it contains errors. The message lists all of them.
    """
    problems = list(document.problems)
    # Values that cannot be parsed are None, which would be reported as another error.
    reported = {problem.location for problem in problems}
    try:
        workspace = Workspace.model_validate(document.content)
    except ValidationError as error:
        wrong = [_problem(document, each) for each in error.errors(include_url=False, include_input=False)]
        problems += [problem for problem in wrong if problem.location not in reported]
    else:
        if not problems:
            return workspace
    raise document.error(problems)


def _problem(document: Document, error: Any) -> Problem:
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        return Problem(location, "unknown field", document.keys.get(location))
    message: str = error["msg"]
    return Problem(location, message.removeprefix("Value error, "))


def schema_text() -> str:
    """Return the JSON Schema of workspace files."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Workspace.model_json_schema()}
    for entry in (schema, *schema["$defs"].values()):
        for field, field_schema in entry["properties"].items():
            if "anyOf" in field_schema and field not in _NULLABLE:
                kinds = [kind for kind in field_schema.pop("anyOf") if kind != {"type": "null"}]
                field_schema.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
            # Omitted fields have no default value.
            field_schema.pop("default", None)
    return json.dumps(schema, indent=2) + "\n"


def declared_fields(entry: Entry, fields: Sequence[str]) -> dict[str, Any]:
    """Return those of the fields that an entry sets, as JSON."""
    given = entry.model_dump(mode="json", include=entry.model_fields_set & set(fields), exclude_unset=True)
    return {field: given[field] for field in fields if field in given}
