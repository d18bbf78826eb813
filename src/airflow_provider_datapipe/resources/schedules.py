"""
Pausing the schedule of a resource, and restoring exactly the schedule that it had.

There are three tasks: the first one records the schedule and changes nothing, the second one pauses it, and the third
one restores it. The record exists before anything is changed, so the schedule can be restored even if the second task
stops between two requests.

A paused resource gets a cron expression that is due on February 29 only: the mark of its owner, the DAG run and task
that paused it. Its minute and hour identify the owner: other tasks see that the schedule is paused, and the owner
recognizes its own mark.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from typing import Any, TypedDict, cast

from airflow_provider_datapipe.api.endpoints import orchestrations
from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.flows import Flow, send
from airflow_provider_datapipe.resources.base import Change, change
from airflow_provider_datapipe.resources.schedule_kinds import (
    ATTACHED,
    KINDS,
    Fields,
    PauseContext,
    ScheduleKind,
    ScheduleNotPausableError,
)
from airflow_provider_datapipe.resources.template_values import choice, flag, mapping
from airflow_provider_datapipe.resources.transforms import NO_SCHEDULE
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.targets import (
    by_id,
    elt_sync_target,
    orchestration_target,
    required,
    transform_target,
)

_MARK = re.compile(r"\d{1,2} \d{1,2} 29 2 \*", re.ASCII)


class ScheduleSnapshot(TypedDict):
    """
    Record of a schedule before it is changed, as JSON.

    :ivar resource: kind of the resource: ``elt_sync``, ``transform``, ``reverse_etl_sync`` or ``orchestration``.
    :ivar id: ID of the resource.
    :ivar name: name of the resource in messages.
    :ivar round: unique ID of the record.
    :ivar original: fields of the schedule before the change.
    :ivar paused: the fields to change, with their values while the schedule is paused; empty if the resource has no
        schedule.
    """

    resource: str
    id: str
    name: str
    round: str
    original: dict[str, Any]
    paused: dict[str, Any]


class ScheduleOwnedError(DatapipeError):
    """Another task has paused the schedule and not restored it yet."""


class ScheduleChangedError(DatapipeError):
    """The schedule was changed after it was recorded, or its orchestration was deleted. Nothing was overwritten."""


class ScheduleLostError(DatapipeError):
    """The schedule is paused, and there is no record of the original one."""


class ScheduleNotRestoredError(DatapipeError):
    """The service accepted all requests, but shows a schedule other than the requested one."""


def owner_mark(*owner: object) -> str:
    """
    Return the mark of an owner: a cron expression that is due at one minute of February 29.

    :param owner: values that identify the owner, such as the IDs of the DAG, the run and the task.
    """
    digest = hashlib.sha256("\0".join(map(str, owner)).encode()).digest()
    return f"{digest[0] % 60} {digest[1] % 24} 29 2 *"


async def find(
    *,
    elt_sync_id: str | None = None,
    destination_schema_name: str | None = None,
    transform_id: str | None = None,
    transform_name: str | None = None,
    folder_path: str | None = None,
    reverse_etl_sync_id: str | None = None,
    orchestration_id: str | None = None,
    orchestration_name: str | None = None,
) -> tuple[str, RunTarget]:
    """Return the kind and the target of the resource that the arguments name."""
    if elt_sync_id is not None or destination_schema_name is not None:
        return "elt_sync", await elt_sync_target(elt_sync_id, destination_schema_name)
    if transform_id is not None or transform_name is not None:
        return "transform", await transform_target(transform_id, transform_name, folder_path, {})
    if reverse_etl_sync_id is not None:
        return "reverse_etl_sync", await by_id("reverse_etl_sync_id", reverse_etl_sync_id)
    return "orchestration", await orchestration_target(orchestration_id, orchestration_name)


async def take_snapshot(
    finding: Flow[tuple[str, RunTarget]],
    owner: str,
    *,
    paused: Any,
    cron_schedule: str | None,
    open_pauses: Sequence[ScheduleSnapshot],
    previous: ScheduleSnapshot | None,
) -> ScheduleSnapshot:
    """
    Return a record of the current schedule. Nothing is changed.

    If this owner has paused the schedule already, the earlier record is returned.

    :param finding: flow that returns the kind and the target.
    :param owner: mark of the owner.
    :param paused: if True, no run can be requested either.
    :param cron_schedule: the schedule to restore if the service does not show it; ``none`` for none.
    :param open_pauses: records of pauses that were started and not yet undone, of this and other resources.
    :param previous: the record that the previous try returned, even if no pause followed; None for the first try.
    :raises ScheduleOwnedError: if another owner has paused the schedule.
    :raises ScheduleLostError: if this owner has paused the schedule, and the original one is unknown.
    :raises ScheduleNotPausableError: if the interface cannot pause the schedule, or cannot restore it.
    """
    is_paused = flag("paused", paused)
    resource, target = await finding
    kind = KINDS[resource]
    current = await kind.read(target.resource_id)
    marks = _marks(current)
    for earlier in (*open_pauses, previous):
        if not earlier or (earlier["resource"], earlier["id"]) != (resource, target.resource_id):
            continue
        changed = _changed_fields(kind, earlier, current)
        if not changed and _is_paused(earlier, current):
            return earlier
        if changed and owner in marks:
            _raise_if_owned_by_other(kind, target.name, marks - {owner})
            raise ScheduleChangedError(
                f"{_describe_changes(kind, earlier, current, changed)} The other fields are still paused. Restore them "
                "first: in the service, or by clearing the restore task with if_changed='restore'."
            )
        # Otherwise the schedule is unchanged, or another client has set it: record the current one.
    _raise_if_owned_by_other(kind, target.name, marks - {owner})
    if owner in marks:
        raise ScheduleLostError(
            f"{kind.noun} {target.name} was paused by an earlier try of this task, which left no snapshot of its "
            "schedule. Set the schedule in the service, and clear this task."
        )
    if cron_schedule is not None:
        cron = required("cron_schedule", cron_schedule)
        current.setdefault(kind.field, None if cron == NO_SCHEDULE else cron)
    try:
        paused_values = kind.paused_fields(current, owner, paused=is_paused)
    except ScheduleNotPausableError as error:
        raise ScheduleNotPausableError(f"The schedule of {kind.noun} {target.name} cannot be paused: {error}") from None
    return ScheduleSnapshot(
        resource=resource,
        id=target.resource_id,
        name=target.name,
        round=uuid.uuid4().hex,
        original={field: value for field, value in current.items() if value is not None or field in paused_values},
        paused=paused_values,
    )


def read_snapshot(value: Any) -> ScheduleSnapshot:
    """
    Parse a record after its template was rendered.

    :raises ValueError: if the value is not a record.
    """
    read = mapping("snapshot", value)
    if not ScheduleSnapshot.__required_keys__ <= read.keys() or read["resource"] not in KINDS:
        raise ValueError("snapshot must be the output of a ScheduleSnapshotOperator")
    return cast("ScheduleSnapshot", read)


async def pause(snapshot: ScheduleSnapshot, context: PauseContext) -> Change:
    """
    Pause a schedule.

    :raises ScheduleChangedError: if the schedule is neither the recorded one nor paused already.
    :raises ScheduleOwnedError: if another owner has paused it.
    """
    kind = KINDS[snapshot["resource"]]
    paused_values = snapshot["paused"]
    if not paused_values:
        return _result(snapshot, "paused", changed=False, current=snapshot["original"])
    current = await kind.read(snapshot["id"])
    _raise_if_owned_by_other(kind, snapshot["name"], _marks(current) - _marks(paused_values))
    if changed := _changed_fields(kind, snapshot, current):
        raise ScheduleChangedError(
            f"{_describe_changes(kind, snapshot, current, changed)} Nothing was overwritten. "
            "Clear the task that took the snapshot."
        )
    todo = {field: value for field, value in paused_values.items() if field in current and current[field] != value}
    # If the service does not show a field, send it in any case.
    todo |= {field: value for field, value in paused_values.items() if field not in current and not _is_stream(field)}
    if todo:
        await kind.apply(snapshot["id"], current, todo, context)
        current = await kind.read(snapshot["id"])
        # Two tasks may have read it at the same time: the one whose mark was overwritten fails.
        _raise_if_owned_by_other(kind, snapshot["name"], _marks(current) - _marks(paused_values))
        _verify(kind, snapshot, current, paused_values, "After the pause")
    return _result(snapshot, "paused", changed=bool(todo), current=current)


async def restore(
    snapshot: ScheduleSnapshot, context: PauseContext, *, pause_may_be_partial: bool, if_changed: Any
) -> tuple[Change, list[str]]:
    """
    Restore the recorded fields, and no others.

    :param pause_may_be_partial: True if the pause task may have stopped between two requests, so that an inactive sync
        may have been deactivated by it. False if the pause task has completed, or never started.
    :param if_changed: policy if the schedule was changed meanwhile: ``fail``, ``keep`` the changed fields and restore
        the others, or ``restore`` all fields.
    :returns: the change, and warnings for the log.
    :raises ScheduleOwnedError: if another owner has paused the schedule meanwhile. The marks of this owner are removed
        first.
    :raises ScheduleChangedError: if the schedule was changed, and ``if_changed`` is ``fail``; or if its orchestration
        was deleted.
    :raises ScheduleNotRestoredError: if the service shows another schedule afterwards.
    """
    choice("if_changed", if_changed, ("fail", "keep", "restore"))
    kind = KINDS[snapshot["resource"]]
    if not snapshot["paused"]:
        return _result(snapshot, "restored", changed=False, current=snapshot["original"]), []
    try:
        current = await kind.read(snapshot["id"])
    except NotFoundError:
        return _result(snapshot, "restored", changed=False, current=None), [
            f"{kind.noun} {snapshot['name']} was deleted, so its schedule is not restored."
        ]
    was_changed = False
    if _foreign_marks(snapshot, current):
        ours = _marks(snapshot["paused"])
        # If two owners conflict, each removes its own marks. The last one then sees no other mark, and restores all
        # other fields.
        wanted = {field: snapshot["original"].get(field) for field in snapshot["paused"] if current.get(field) in ours}
        wanted |= _fields_to_reactivate(kind, snapshot, current, context, pause_may_be_partial=pause_may_be_partial)
        if wanted:
            was_changed = True
            await kind.apply(snapshot["id"], current, wanted, context)
            current = await kind.read(snapshot["id"])
        _raise_if_paused_by_other(kind, snapshot, current)
    messages = [
        f"{field} is not restored, because the stream was deleted."
        for field in snapshot["paused"]
        if _is_stream(field) and field not in current
    ]
    changed = _changed_fields(kind, snapshot, current)
    if changed:
        changes = _describe_changes(kind, snapshot, current, changed)
        if if_changed == "fail":
            raise ScheduleChangedError(
                f"{changes} Nothing was overwritten, and nothing was restored. Run this task again with "
                "if_changed='keep' to keep these values and restore the other fields, or with if_changed='restore' to "
                "restore all fields. Or set the schedule in the service, and mark this task as success."
            )
        decision = "These values are kept" if if_changed == "keep" else "The values before the pause are restored"
        messages.append(f"{changes} {decision}.")
    kept = changed if if_changed == "keep" else []
    activated = _fields_to_reactivate(kind, snapshot, current, context, pause_may_be_partial=pause_may_be_partial)
    messages += [
        f"{kind.noun} {snapshot['name']}: {field} was changed to {current[field]} in the meantime, and is kept."
        for field, temporary in kind.temporary.items()
        if field not in activated
        and field in snapshot["paused"]
        and current[field] == temporary != snapshot["original"][field]
    ]
    wanted = activated | {
        field: snapshot["original"].get(field)
        for field in snapshot["paused"]
        if field not in kind.temporary and field not in kept and (field in current or not _is_stream(field))
    }
    # Send a field that the service does not show if the snapshot has it: an earlier try may have stopped before it.
    todo = {
        field: value
        for field, value in wanted.items()
        if (current[field] != value if field in current else field in snapshot["original"])
    }
    # The service does not show these fields while the resource is attached, so it is unknown whether they differ.
    is_only_unknown = current.get(ATTACHED) is not None and not any(field in current for field in todo)
    if todo:
        deleted_orchestration = await _restore_fields(kind, snapshot, current, todo, context)
        current = await kind.read(snapshot["id"])
        _raise_if_paused_by_other(kind, snapshot, current)
        without = ""
        if deleted_orchestration is not None:
            without = f" without orchestration {deleted_orchestration}, which was deleted"
            del wanted[ATTACHED], todo[ATTACHED]
        _verify(kind, snapshot, current, wanted | _derived(kind, snapshot, current), f"After the restore{without}")
        if deleted_orchestration is not None:
            message = (
                f"Orchestration {deleted_orchestration}, to which {kind.noun} {snapshot['name']} was attached, was "
                "deleted. All other fields are restored."
            )
            if if_changed != "keep":
                raise ScheduleChangedError(
                    f"{message} Attach it to another orchestration in the service, and mark this task as success."
                )
            messages.append(message)
    changed_now = was_changed or (bool(todo) and not is_only_unknown)
    return _result(snapshot, "restored", changed=changed_now, current=current), messages


def _fields_to_reactivate(
    kind: ScheduleKind,
    snapshot: ScheduleSnapshot,
    current: Fields,
    context: PauseContext,
    *,
    pause_may_be_partial: bool,
) -> Fields:
    """
    Return the original values of fields that the tasks of this owner left at a temporary value.

    The only such field is ``enabled`` of a reverse ETL sync, which is deactivated during an update.
    """
    return {
        field: snapshot["original"][field]
        for field, temporary in kind.temporary.items()
        if field in snapshot["paused"]
        and current[field] == temporary != snapshot["original"][field]
        and (
            snapshot["paused"][field] == temporary
            or pause_may_be_partial
            or context.deactivated.was_active(snapshot["id"])
        )
    }


async def _restore_fields(
    kind: ScheduleKind, snapshot: ScheduleSnapshot, current: Fields, todo: Fields, context: PauseContext
) -> str | None:
    """Restore fields. If the orchestration was deleted, restore the other fields and return its ID."""
    try:
        await kind.apply(snapshot["id"], current, todo, context)
    except (NotFoundError, InvalidRequestError):
        # Services return different errors for a deleted orchestration.
        if todo.get(ATTACHED) is None or await _orchestration_exists(todo[ATTACHED]):
            raise
    else:
        return None
    rest = {field: value for field, value in todo.items() if field != ATTACHED}
    if rest:
        await kind.apply(snapshot["id"], current, rest, context)
    return str(todo[ATTACHED])


async def _orchestration_exists(orchestration_id: str) -> bool:
    try:
        await send(orchestrations.get(orchestration_id))
    except NotFoundError:
        return False
    return True


def _is_paused(snapshot: ScheduleSnapshot, current: Fields) -> bool:
    """Return True if any of the fields that a pause changes differs from its original value."""
    return any(field in current and current[field] != snapshot["original"].get(field) for field in snapshot["paused"])


def _derived(kind: ScheduleKind, snapshot: ScheduleSnapshot, current: Fields) -> Fields:
    """Return the original values of derived fields if all other fields have their original values."""
    if any(current[field] != snapshot["original"].get(field) for field in current if field not in kind.derived):
        return {}
    return {field: snapshot["original"].get(field) for field in kind.derived}


def _changed_fields(kind: ScheduleKind, snapshot: ScheduleSnapshot, current: Fields) -> list[str]:
    """Return the fields whose values are neither the original ones nor those of the pause: another client set them."""
    return [
        field
        for field, paused_value in snapshot["paused"].items()
        if field in current
        and current[field] not in (snapshot["original"].get(field), paused_value)
        and (field not in kind.temporary or current[field] != kind.temporary[field])
    ]


def _verify(kind: ScheduleKind, snapshot: ScheduleSnapshot, current: Fields, wanted: Fields, when: str) -> None:
    """Raise if the service shows other values than the requested ones."""
    wrong = [
        f"{field} {current[field]!r} in place of {value!r}"
        for field, value in wanted.items()
        if field in current and current[field] != value
    ]
    if wrong:
        raise ScheduleNotRestoredError(
            f"{when}, {kind.noun} {snapshot['name']} shows {', '.join(wrong)}. Check the schedule in the service."
        )


def _raise_if_owned_by_other(kind: ScheduleKind, name: str, marks: set[str]) -> None:
    if marks:
        raise ScheduleOwnedError(
            f"{kind.noun} {name} is paused already: another DAG run or task has replaced its schedule by "
            f"{', '.join(sorted(marks))}. Wait until the other task restores the schedule. If that DAG run no longer "
            "exists, restore the schedule in the service."
        )


def _raise_if_paused_by_other(kind: ScheduleKind, snapshot: ScheduleSnapshot, current: Fields) -> None:
    if foreign := _foreign_marks(snapshot, current):
        raise ScheduleOwnedError(
            f"{kind.noun} {snapshot['name']} is paused by another DAG run or task, which has replaced its schedule by "
            f"{', '.join(sorted(foreign))}. Nothing was changed, regardless of if_changed: the other task restores the "
            "schedule. If that DAG run no longer exists, restore the schedule in the service."
        )


def _foreign_marks(snapshot: ScheduleSnapshot, current: Fields) -> set[str]:
    """Return the marks of other owners in the fields that this owner has paused."""
    return _marks({field: current.get(field) for field in snapshot["paused"]}) - _marks(snapshot["paused"])


def _marks(fields: Fields) -> set[str]:
    """Return the values of fields that are marks of an owner."""
    return {value for value in fields.values() if isinstance(value, str) and _MARK.fullmatch(value)}


def _is_stream(field: str) -> bool:
    return field.startswith("sync_interval of")


def _describe_changes(kind: ScheduleKind, snapshot: ScheduleSnapshot, current: Fields, changed: list[str]) -> str:
    changes = (
        f"{field} is {current[field]!r} (before the pause {snapshot['original'].get(field)!r}, during the pause "
        f"{snapshot['paused'][field]!r})"
        for field in changed
    )
    return f"Another client has changed the schedule of {kind.noun} {snapshot['name']}: {'; '.join(changes)}."


def _result(snapshot: ScheduleSnapshot, action: str, *, changed: bool, current: Fields | None) -> Change:
    name = None if snapshot["name"] == snapshot["id"] else snapshot["name"]
    result = change(snapshot["resource"], snapshot["id"], action=action, changed=changed, name=name)
    # A sync can have many streams without schedules of their own. Omit them.
    result["details"] = current and {
        field: value for field, value in current.items() if value is not None or not _is_stream(field)
    }
    return result
