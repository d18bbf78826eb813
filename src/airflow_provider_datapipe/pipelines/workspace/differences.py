"""Comparison of the entries of a workspace file with the service. Only fields that the file sets are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.pipelines.plan import FieldChange
from airflow_provider_datapipe.pipelines.workspace.models import (
    EltSyncEntry,
    OperationEntry,
    OrchestrationEntry,
    ReverseEtlSyncEntry,
    StreamEntry,
    day_text,
    said,
)
from airflow_provider_datapipe.resources.comparable import (
    NOT_SHOWN,
    UNKNOWN,
    Schedule,
    schedule_of_orchestration,
    schedule_of_stream,
    schedule_of_sync,
)

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.orchestrations import Orchestration
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import Operation, ReverseEtlSync

MASK = "***"
#: Options that are sent with a stream, in the order in which they are shown.
STREAM_OPTIONS = (
    "incremental_pointer_id",
    "full_sync_always",
    "full_sync_at_midnight",
    "protected_from_full_sync",
    "excluded_substreams",
    "enabled_history_table",
)
#: Options that are sent with a stream, and that no service shows.
HIDDEN_STREAM_OPTIONS = ("excluded_columns", "hashed_columns")
_IN_ANY_ORDER = frozenset({"excluded_substreams"})


@dataclass(slots=True)
class Differences:
    """
    Differences between an entry and a resource.

    :param changes: the fields that differ, for plans.
    :param impossible: reasons for those changes that the interface does not support.
    :param hidden: True if the entry sets fields that the service never shows.
    :param unknown: fields that can't be compared, because the service does not show them now.
    """

    changes: list[FieldChange] = field(default_factory=list)
    impossible: list[str] = field(default_factory=list)
    hidden: bool = False
    unknown: list[FieldChange] = field(default_factory=list)

    def __contains__(self, name: object) -> bool:
        """Return True if a field differs. ``settings`` stands for any setting."""
        return any(each.field == name or each.field.startswith(f"{name}.") for each in self.changes)

    def compare(self, name: str, old: Any, new: Any) -> None:
        """Add a field if it differs."""
        if old != new:
            self.changes.append(FieldChange(name, old, new))

    def compare_schedule(self, name: str, shown: Schedule, new: str | None) -> None:
        """Add a schedule if it differs, or to the unknown fields if it can't be compared."""
        if shown is UNKNOWN:
            self.unknown.append(FieldChange(name, NOT_SHOWN, new))
        else:
            self.compare(name, shown, new)

    def add_unknown(self, *, resend: bool = False) -> None:
        """
        Add the unknown fields to the changes, if another change is sent to the same resource anyway.

        :param resend: add them in any case.
        """
        others = sum(each.field != "enabled" for each in self.changes) - len(self.impossible)
        if resend or others > 0:
            self.changes += self.unknown
            self.unknown = []

    def refuse(self, name: str, old: Any, new: Any, why: str) -> None:
        """Add a field that cannot be changed if it differs."""
        if old != new:
            self.changes.append(FieldChange(name, old, new))
            self.impossible.append(f"{name}: {why}")

    def compare_settings(self, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> None:
        """Add the settings that differ, without their values."""
        before = old or {}
        for key in sorted(before.keys() | new.keys()):
            if key not in before or key not in new or before[key] != new[key]:
                masked = [MASK if key in each else None for each in (before, new)]
                self.changes.append(FieldChange(f"settings.{key}", *masked))


def of_new(entry: Any, fields: Iterable[str]) -> list[FieldChange]:
    """Return the fields of a resource to create."""
    given = said(entry, [each for each in fields if each != "settings"])
    changes = [FieldChange(name, None, value) for name, value in given.items()]
    if "settings" in fields and entry.settings is not None:
        changes += [FieldChange(f"settings.{key}", None, MASK) for key in sorted(entry.settings)]
    return changes


def of_orchestration(entry: OrchestrationEntry, held: Orchestration) -> Differences:
    """Compare an orchestration."""
    found = Differences()
    found.compare("name", held.name, entry.name)
    if entry.cron_schedule is not None:
        found.compare_schedule("cron_schedule", schedule_of_orchestration(held), entry.cron_schedule)
    return found


def of_sync(
    entry: EltSyncEntry, held: EltSync, *, connection_id: str | None, orchestration: tuple[str | None, str | None]
) -> Differences:
    """
    Compare an ELT sync.

    :param connection_id: ID of the connection of the entry.
    :param orchestration: names of the current and the desired orchestration.
    """
    found = Differences()
    found.refuse("connection", held.source_connection_id, connection_id, "it can't be changed once a sync is there")
    if entry.says("destination_schema_name"):
        old, new = held.destination_schema_name, entry.destination_schema_name
        found.refuse("destination_schema_name", old, new, "it can't be changed once a sync is there")
    if entry.says("sync_interval"):
        if entry.sync_interval is None:
            found.refuse("sync_interval", held.sync_interval, None, "it can't be taken away: give another")
        else:
            found.compare_schedule("sync_interval", schedule_of_sync(held), entry.sync_interval)
    if entry.says("orchestration", "orchestration_id"):
        found.compare("orchestration", *orchestration)
    if entry.start_date is not None:
        shown = None if held.start_date is None else held.start_date.date()
        found.refuse(
            "start_date", day_text(shown), day_text(entry.start_date), "it can't be changed once a sync is there"
        )
    if entry.settings is not None:
        found.compare_settings(held.config, entry.settings)
    if entry.enabled is not None:
        found.compare("enabled", held.enabled, entry.enabled)
    return found


def of_stream(entry: StreamEntry, held: EltStream) -> Differences:
    """Compare a stream of an ELT sync."""
    found = Differences(hidden=entry.says(*HIDDEN_STREAM_OPTIONS))
    shown = held.model_dump(mode="json", include=set(STREAM_OPTIONS))
    for name, wanted in said(entry, STREAM_OPTIONS).items():
        old, new = shown[name], wanted
        if name in _IN_ANY_ORDER and sorted(old) == sorted(new):
            continue
        if new is None:
            found.refuse(name, old, None, "it can't be taken away: give another, or delete the stream")
        else:
            found.compare(name, old, new)
    if entry.says("sync_interval"):
        found.compare_schedule("sync_interval", schedule_of_stream(held), entry.sync_interval)
    return found


def of_sending(
    entry: ReverseEtlSyncEntry,
    held: ReverseEtlSync,
    *,
    source_id: str | None,
    connection_id: str | None,
    orchestration: tuple[str | None, str | None],
) -> Differences:
    """
    Compare a reverse ETL sync.

    :param source_id: ID of the source of the entry.
    :param connection_id: ID of the connection of the entry.
    :param orchestration: names of the current and the desired orchestration.
    """
    found = Differences()
    known = {held.source_id, held.transform_id, f"raw.{held.source_id}"}
    if source_id not in known:
        found.refuse("source_id", held.source_id, source_id, "it can't be changed once a sync is there")
    found.refuse(
        "destination_connection",
        held.destination_connection_id,
        connection_id,
        "it can't be changed once a sync is there",
    )
    found.compare("object_type_id", held.object_type_id, entry.object_type_id)
    if entry.operation is not None and meaning(entry.operation) != meaning(held.operation):
        found.changes.append(
            FieldChange("operation", operation_shown(held.operation), operation_shown(entry.operation))
        )
    if says_schedule(entry):
        # The schedule consists of both fields: an omitted one means none.
        shown = schedule_of_sync(held)
        called_before, called = orchestration
        if entry.sync_interval is None and called is None:
            old = NOT_SHOWN if shown is UNKNOWN else shown
            found.refuse("sync_interval", old, None, "it needs a schedule, or an orchestration")
        elif entry.sync_interval is not None or shown is not UNKNOWN:
            found.compare_schedule("sync_interval", shown, entry.sync_interval)
        found.compare("orchestration", called_before, called)
    if entry.settings is not None:
        found.compare_settings(getattr(held, "settings", None), entry.settings)
    if entry.enabled is not None:
        found.compare("enabled", held.enabled, entry.enabled)
    return found


def says_schedule(entry: ReverseEtlSyncEntry) -> bool:
    """Return True if the entry sets the schedule."""
    return entry.says("sync_interval", "orchestration", "orchestration_id")


def meaning(operation: Operation | OperationEntry | None) -> Any:
    """Return the mode and the mappings of an operation, independent of the order of the mappings."""
    if operation is None:
        return None
    return str(operation.mode), sorted(
        (each.source_property_id, each.destination_property_id, bool(each.primary_key)) for each in operation.mappings
    )


def operation_shown(operation: Operation | OperationEntry | None) -> Any:
    """Return an operation as in files."""
    if operation is None:
        return None
    return {
        "mode": str(operation.mode),
        "mappings": [
            {
                "source_property_id": each.source_property_id,
                "destination_property_id": each.destination_property_id,
                **({"primary_key": True} if each.primary_key else {}),
            }
            for each in operation.mappings
        ],
    }
