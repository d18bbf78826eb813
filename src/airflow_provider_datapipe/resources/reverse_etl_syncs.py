"""Changes of reverse ETL syncs, and retries of their failed records."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_datapipe.api.endpoints import reverse_etl_failed_records, reverse_etl_sync_runs, reverse_etl_syncs
from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError
from airflow_provider_datapipe.api.models.common import UNSET
from airflow_provider_datapipe.api.models.reverse_etl_syncs import (
    ReverseEtlSync,
    ReverseEtlSyncRunStatus,
    ReverseEtlSyncWithSettings,
)
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import list_all, send, sleep
from airflow_provider_datapipe.resources.base import (
    Change,
    IfExists,
    IfMissing,
    change,
    check_if_exists,
    deletion,
    existing,
    get_or_create,
)
from airflow_provider_datapipe.resources.comparable import not_compared, schedule_of_sync
from airflow_provider_datapipe.resources.differences import Differences
from airflow_provider_datapipe.resources.template_values import flag, mapping, number, texts
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError, near_matches
from airflow_provider_datapipe.runs.targets import (
    by_id,
    connection_target,
    orchestration_target,
    required,
    transform_target,
)
from airflow_provider_datapipe.runs.task_state import TaskState

KIND = "reverse_etl_sync"
FAILED_RECORDS = "reverse_etl_failed_records"
HIDDEN_INTERVAL = "sync_interval of a reverse ETL sync that is attached to an orchestration"
IDLE_INTERVAL = "It has no effect while the sync is attached: remove it, or set it without an orchestration."

#: Seconds between two polls of a run that blocks an update.
_PAUSE = 5
_LISTED = 5
_ACTIVE = (ReverseEtlSyncRunStatus.SCHEDULED, ReverseEtlSyncRunStatus.RUNNING)


class NotRestoredError(DatapipeError):
    """A sync was deactivated for an update, and could not be activated again."""


class AnyOperation(Protocol):
    """Mode and mappings of a sync: of a response, a request or a workspace file."""

    @property
    def mode(self) -> str:
        """Mode of the operation."""

    @property
    def mappings(self) -> Sequence[Any]:
        """Mappings of columns to properties."""


class DeactivatedSyncs:
    """
    Record of the syncs that were active before they were deactivated for an update.

    The record is in memory until the syncs are active again, and in the task state for the retry of a killed task.

    :param records: the task state.
    """

    def __init__(self, records: TaskState) -> None:
        self._records = records
        self._pending: list[str] = []

    @property
    def pending(self) -> tuple[str, ...]:
        """IDs of the syncs that this try has deactivated and not activated again."""
        return tuple(self._pending)

    def was_active(self, sync_id: str) -> bool:
        """Return True if the sync was active before a try of this task deactivated it."""
        return sync_id in self._pending or self._records.get(_key(sync_id)) is not None

    def record_active(self, sync_id: str) -> None:
        """Record that a sync is active. Call this before deactivating it."""
        self._records.set(_key(sync_id), {"enabled": True})
        if sync_id not in self._pending:
            self._pending.append(sync_id)

    def forget(self, sync_id: str) -> None:
        """Delete the record of a sync that has its final state."""
        self._records.delete(_key(sync_id))
        if sync_id in self._pending:
            self._pending.remove(sync_id)


def _key(sync_id: str) -> str:
    return f"datapipe.{KIND}.active.{sync_id}"


async def restore(deactivated: DeactivatedSyncs) -> None:
    """Activate the syncs that an incomplete update has deactivated."""
    for sync_id in deactivated.pending:
        await send(reverse_etl_syncs.activate(sync_id))
        deactivated.forget(sync_id)


async def reactivate(deactivated: DeactivatedSyncs) -> None:
    """Activate the same syncs, but keep the record: a request in flight may still deactivate them."""
    for sync_id in deactivated.pending:
        await send(reverse_etl_syncs.activate(sync_id))


@dataclass(frozen=True, slots=True)
class Definition:
    """Arguments of a task that define a sync. None means not given."""

    object_type_id: str | None = None
    object_type_name: str | None = None
    operation: Any = None
    sync_interval: str | None = None
    orchestration_id: str | None = None
    orchestration_name: str | None = None
    settings: Any = None


async def create(
    *,
    source_id: str | None,
    transform_name: str | None,
    folder_path: str | None,
    destination_connection_id: str | None,
    destination_connection_label: str | None,
    wanted: Definition,
    if_exists: IfExists,
    deactivated: DeactivatedSyncs,
    wait_for_run: Any,
) -> Change:
    """
    Create a sync, which is active at once. It is identified by its source, connection and object type.

    :raises ResourceExistsError: if the sync exists, and ``if_exists`` is ``fail``.
    :raises AmbiguousNameError: if several syncs have the same source, connection and object type.
    """
    check_if_exists(if_exists)
    number("wait_for_run", wait_for_run, least=0)
    if transform_name is None:
        source = await by_id("source_id", source_id)
    else:
        source = await transform_target(None, transform_name, folder_path, {})
    connection = await connection_target(destination_connection_id, destination_connection_label)
    body = await _body(connection.resource_id, wanted, None)
    object_type_id = body["object_type_id"]
    request = reverse_etl_syncs.create(
        source_id=source.resource_id, destination_connection_id=connection.resource_id, **body
    )
    found, is_new = await get_or_create(
        lambda: _find(source.resource_id, connection.resource_id, object_type_id),
        # Parsed as in lists, so that a new sync has the same details as an existing one.
        request.read_as(ReverseEtlSync),
    )
    if is_new:
        return change(KIND, found.id, action="created", after=found)
    existing(found, f"a reverse ETL sync of {source.name} to {object_type_id} of {connection.name}", if_exists)
    if if_exists == "keep":
        return change(KIND, found.id, action="created", changed=False, after=found)
    return await update(found.id, wanted, enabled=None, deactivated=deactivated, wait_for_run=wait_for_run)


async def _find(source_id: str, connection_id: str, object_type_id: str) -> ReverseEtlSync | None:
    listed = await list_all(reverse_etl_syncs.list_(destination_connection_id=connection_id))
    found = [
        sync
        for sync in listed
        if source_id in (sync.source_id, sync.transform_id)
        and sync.destination_connection_id == connection_id
        and sync.object_type_id == object_type_id
    ]
    if len(found) > 1:
        ids = ", ".join([sync.id for sync in found[:_LISTED]] + ["..."] * (len(found) > _LISTED))
        raise AmbiguousNameError(
            f"{len(found)} reverse ETL syncs copy {source_id!r} to {object_type_id!r} of connection {connection_id!r}: "
            f"{ids}. Update one of them by its ID with ReverseEtlSyncUpdateOperator, or delete the others."
        )
    return found[0] if found else None


async def _body(connection_id: str, wanted: Definition, current: ReverseEtlSyncWithSettings | None) -> dict[str, Any]:
    """Return the body of a request. Arguments that are not given keep their current values."""
    body: dict[str, Any] = {"object_type_id": await _object_type(connection_id, wanted, current)}
    if wanted.operation is not None:
        body["operation"] = mapping("operation", wanted.operation)
    elif current is not None and current.operation is not None:
        body["operation"] = current.operation
    else:
        raise ValueError("operation is required: set its mode and mappings")
    orchestration_id = None
    if wanted.orchestration_id is not None or wanted.orchestration_name is not None:
        target = await orchestration_target(wanted.orchestration_id, wanted.orchestration_name)
        orchestration_id = target.resource_id
    interval = None if wanted.sync_interval is None else required("sync_interval", wanted.sync_interval)
    if interval is None and orchestration_id is None and current is not None:
        interval, orchestration_id = current.sync_interval, current.orchestration_workflow_id
    body["sync_interval"] = UNSET if interval is None else interval
    body["orchestration_workflow_id"] = UNSET if orchestration_id is None else orchestration_id
    body["settings"] = UNSET if wanted.settings is None else mapping("settings", wanted.settings)
    return body


async def _object_type(connection_id: str, wanted: Definition, current: ReverseEtlSyncWithSettings | None) -> str:
    if wanted.object_type_name is not None:
        name = required("object_type_name", wanted.object_type_name)
        kinds = (await send(reverse_etl_syncs.object_types(connection_id=connection_id))).data
        found = [kind.id for kind in kinds if kind.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousNameError(
                f"{name!r} is the name of more than one object type of connection {connection_id}: "
                f"{', '.join(found[:_LISTED])}. Set object_type_id instead."
            )
        names = [kind.name for kind in kinds]
        near = ", ".join(near_matches(name, names) or names[:_LISTED]) or "none at all"
        raise UnknownNameError(f"Connection {connection_id} has no object type named {name!r}. It has: {near}.")
    if wanted.object_type_id is None and current is not None:
        return current.object_type_id
    return required("object_type_id", wanted.object_type_id)


async def update(
    reverse_etl_sync_id: str | None,
    wanted: Definition,
    *,
    enabled: Any,
    deactivated: DeactivatedSyncs,
    wait_for_run: Any,
) -> Change:
    """
    Update a sync. The service requires that it is deactivated meanwhile; afterwards it is as active as before.

    A sync that has the requested state already is not changed.

    :param enabled: if True or False, the sync is activated or deactivated afterwards; None for its state before.
    :param deactivated: record of deactivated syncs. Syncs that remain pending were not activated again.
    :param wait_for_run: the most seconds to wait for the end of a run because of which the service refuses the update.
    :raises NotRestoredError: if the sync could not be activated again.
    """
    given = required("reverse_etl_sync_id", reverse_etl_sync_id)
    if deactivated.was_active(given):
        # An earlier try has deactivated it: activate it even if this try fails.
        deactivated.record_active(given)
    try:
        result = await _update(given, wanted, enabled, deactivated, wait_for_run)
    except DatapipeError as error:
        try:
            await restore(deactivated)
        except DatapipeError as another:
            raise NotRestoredError(
                f"{error}\nThen reverse ETL sync {given}, which was active, could not be activated again: {another}\n"
                "It may be deactivated: run this task again, or activate it."
            ) from error
        raise
    deactivated.forget(given)
    return result


async def _update(
    sync_id: str, wanted: Definition, enabled: Any, deactivated: DeactivatedSyncs, wait_for_run: Any
) -> Change:
    longest_wait = number("wait_for_run", wait_for_run, least=0)
    afterwards = None if enabled is None else flag("enabled", enabled)
    before = await send(reverse_etl_syncs.get(sync_id))
    body = await _body(before.destination_connection_id, wanted, before)
    request = reverse_etl_syncs.update(sync_id, **body)
    was_active = before.enabled or deactivated.was_active(sync_id)
    active = was_active if afterwards is None else afterwards
    found = _compared(before, request.body)
    differs = bool(found.changes)
    after = before
    if differs:
        if was_active:
            deactivated.record_active(sync_id)
        # The response above may be stale, so deactivate in any case.
        await send(reverse_etl_syncs.deactivate(sync_id))
        after = await _update_when_idle(sync_id, request, longest_wait)
    # The response may be stale: trust it only if no try has deactivated the sync.
    is_active = False if differs else None if deactivated.was_active(sync_id) else before.enabled
    if is_active != active:
        await send(reverse_etl_syncs.activate(sync_id) if active else reverse_etl_syncs.deactivate(sync_id))
        after = await send(reverse_etl_syncs.get(sync_id))
    is_hidden = wanted.sync_interval is not None and not differs and bool(found.unknown)
    warnings = [not_compared(HIDDEN_INTERVAL, [sync_id], IDLE_INTERVAL)] if is_hidden else []
    changed = differs or before.enabled != active
    return change(KIND, sync_id, action="updated", changed=changed, after=after, warnings=warnings)


async def _update_when_idle(
    sync_id: str, request: Request[ReverseEtlSyncWithSettings], longest_wait: int
) -> ReverseEtlSyncWithSettings:
    """
    Send an update. If the service refuses it while a run is active, wait until the run ends, and send it again.

    :raises RunConflictError: if a run is still active after ``longest_wait`` seconds. A retry may succeed.
    """
    waited, is_last = 0, False
    while True:
        try:
            return await send(request)
        except InvalidRequestError as error:
            is_active = await _has_active_run(sync_id)
            if is_active and waited >= longest_wait:
                raise RunConflictError(
                    f"Reverse ETL sync {sync_id} was not changed: a run was still active after {waited} s "
                    f"(wait_for_run).\n{error}\nRun this task again when the run has ended, or increase "
                    "wait_for_run."
                ) from error
            if is_last and not is_active:
                raise
        # A run that has just ended may be the reason: try once more.
        is_last = not is_active
        if is_active:
            await sleep(_PAUSE)
            waited += _PAUSE


async def _has_active_run(sync_id: str) -> bool:
    newest = (await send(reverse_etl_sync_runs.list_(sync_id, limit=1))).data
    return bool(newest) and newest[0].status in _ACTIVE and newest[0].finished_at is None


def _compared(current: ReverseEtlSyncWithSettings, wanted: Any) -> Differences:
    """Compare a sync with the body of a request."""
    found = Differences()
    compare_operation(found, current.operation, wanted.operation)
    found.compare("object_type_id", current.object_type_id, wanted.object_type_id)
    found.compare_schedule("sync_interval", schedule_of_sync(current), wanted.sync_interval)
    found.compare("orchestration", current.orchestration_workflow_id, wanted.orchestration_workflow_id)
    if "settings" in wanted.model_fields_set:
        found.compare("settings", current.settings, wanted.settings)
    return found


def compare_operation(found: Differences, old: AnyOperation | None, new: AnyOperation | None) -> None:
    """Add the operation of a sync to the differences if its mode or its mappings differ, apart from their order."""
    if operation_meaning(old) != operation_meaning(new):
        found.compare("operation", operation_shown(old), operation_shown(new))


def operation_meaning(operation: AnyOperation | None) -> Any:
    """Return the mode and the mappings of an operation, independent of the order of the mappings."""
    if operation is None:
        return None
    return str(operation.mode), sorted(
        (each.source_property_id, each.destination_property_id, bool(each.primary_key)) for each in operation.mappings
    )


def operation_shown(operation: AnyOperation | None) -> Any:
    """Return an operation as in workspace files."""
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


async def activate(reverse_etl_sync_id: str | None) -> Change:
    """Activate a sync."""
    return await _switch(reverse_etl_sync_id, on=True)


async def deactivate(reverse_etl_sync_id: str | None) -> Change:
    """Deactivate a sync."""
    return await _switch(reverse_etl_sync_id, on=False)


async def _switch(sync_id: str | None, *, on: bool) -> Change:
    given = required("reverse_etl_sync_id", sync_id)
    before = await send(reverse_etl_syncs.get(given))
    await send(reverse_etl_syncs.activate(given) if on else reverse_etl_syncs.deactivate(given))
    after = await send(reverse_etl_syncs.get(given))
    action = "activated" if on else "deactivated"
    return change(KIND, given, action=action, changed=before.enabled != on, after=after)


async def delete(reverse_etl_sync_id: str | None, if_missing: IfMissing) -> Change:
    """Delete a sync. Records in the destination stay."""
    finding = by_id("reverse_etl_sync_id", reverse_etl_sync_id)
    return await deletion(KIND, finding, reverse_etl_syncs.get, reverse_etl_syncs.delete, if_missing)


async def retry_failed(
    reverse_etl_sync_id: str | None, *, record_ids: Any, reason: str | None, reason_pattern: str | None
) -> Change:
    """
    Request that the next run sends failed records again: all, listed ones, or those whose error matches.

    :param record_ids: ``all``, or the IDs of the records.
    :param reason: substring of the error.
    :param reason_pattern: regular expression to search for in the error.
    :raises ValueError: if the regular expression is invalid.
    """
    given = required("reverse_etl_sync_id", reverse_etl_sync_id)
    if record_ids is not None:
        return await _retry_listed(given, record_ids)
    fits = _reason(reason) if reason_pattern is None else _reason_pattern(reason_pattern)
    total = (await send(reverse_etl_failed_records.count(given))).count
    seen: set[str] = set()
    matched: list[str] = []
    while True:
        # No cursor: requested records disappear from the list, so its first page shows further ones.
        page = (await send(reverse_etl_failed_records.list_(given, limit=LARGEST_PAGE))).data
        found = [each.record_id for each in page if each.record_id not in seen and fits(each.error)]
        seen.update(each.record_id for each in page)
        if not found:
            break
        await send(reverse_etl_failed_records.retry(given, record_ids=found))
        matched += found
        if len(seen) >= total:
            break
    return _requested(given, total, len(matched), changed=bool(matched), seen=len(seen))


async def _retry_listed(sync_id: str, record_ids: Any) -> Change:
    total = (await send(reverse_etl_failed_records.count(sync_id))).count
    if record_ids == "all":
        await send(reverse_etl_failed_records.retry_all(sync_id))
        return _requested(sync_id, total, total, changed=total > 0)
    ids = list(dict.fromkeys(texts("record_ids", record_ids)))
    if ids:
        await send(reverse_etl_failed_records.retry(sync_id, record_ids=ids))
    return _requested(sync_id, total, len(ids), changed=bool(ids) and total > 0)


def _requested(sync_id: str, total: float, asked: float, *, changed: bool, seen: int | None = None) -> Change:
    result = change(FAILED_RECORDS, sync_id, action="retry_requested", changed=changed)
    # There can be as many record IDs as rows, so the details contain numbers only.
    result["details"] = {"failed_records": total, "seen": seen, "requested": asked}
    return result


def _reason(reason: str | None) -> Callable[[str], bool]:
    part = required("reason", reason)
    return lambda error: part in error


def _reason_pattern(pattern: str) -> Callable[[str], bool]:
    try:
        compiled = re.compile(required("reason_pattern", pattern))
    except re.error as error:
        raise ValueError(f"reason_pattern is not a regular expression: {error}") from None
    return lambda error: compiled.search(error) is not None
