"""
Pausing the schedule of a resource, and restoring exactly the schedule that it had.

There are three tasks: the first one records the schedule and changes nothing, the second one pauses it, and the third
one restores it. The record exists before anything is changed, so the schedule can be restored wherever the second task
stops.

A paused resource gets a cron expression that is due on February 29 only. Its minute and hour identify the owner: other
tasks see that the schedule is paused, and the owner recognizes its own expression.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from typing import Any, Literal, TypedDict, cast

from airflow_provider_datapipe.api.endpoints import orchestrations
from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.flows import Flow, send
from airflow_provider_datapipe.resources.base import Change, change
from airflow_provider_datapipe.resources.schedule_kinds import (
    ATTACHED,
    KINDS,
    Fields,
    NotHoldableError,
    PauseContext,
    ScheduleKind,
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

_NEVER = re.compile(r"\d{1,2} \d{1,2} 29 2 \*", re.ASCII)

IfChanged = Literal["fail", "keep", "restore"]


class ScheduleSnapshot(TypedDict):
    """
    Record of a schedule before it is changed, as JSON.

    :ivar resource: kind of the resource: ``elt_sync``, ``transform``, ``reverse_etl_sync`` or ``orchestration``.
    :ivar id: ID of the resource.
    :ivar name: name of the resource in messages.
    :ivar round: unique ID of the record.
    :ivar original: fields of the schedule before the change.
    :ivar held: the fields to change, with their values while the schedule is paused; empty if the resource has no
        schedule.
    """

    resource: str
    id: str
    name: str
    round: str
    original: dict[str, Any]
    held: dict[str, Any]


class ScheduleOwnedError(DatapipeError):
    """Another task has paused the schedule and not restored it yet."""


class ScheduleChangedError(DatapipeError):
    """The schedule was changed after it was recorded, or its orchestration was deleted. Nothing was overwritten."""


class ScheduleLostError(DatapipeError):
    """The schedule is paused, and there is no record of the original one."""


class ScheduleNotRestoredError(DatapipeError):
    """The service accepted all requests, but shows a schedule other than the requested one."""


def never(*owner: object) -> str:
    """
    Return the cron expression of an owner: a minute of February 29.

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
    begun: Sequence[ScheduleSnapshot],
    kept: ScheduleSnapshot | None,
) -> ScheduleSnapshot:
    """
    Return a record of the current schedule. Nothing is changed.

    If this owner has paused the schedule already, the earlier record is returned.

    :param finding: flow that returns the kind and the target.
    :param owner: cron expression of the owner.
    :param paused: if True, no run can be requested either.
    :param cron_schedule: the schedule to restore if the service does not show it; ``none`` for none.
    :param begun: records of pauses that were started and not undone, for this and other resources.
    :param kept: the record of the previous try, whether or not a pause followed.
    :raises ScheduleOwnedError: if another owner has paused the schedule.
    :raises ScheduleLostError: if this owner has paused the schedule, and the original one is unknown.
    :raises NotHoldableError: if the interface cannot pause the schedule, or not restore it.
    """
    is_paused = flag("paused", paused)
    resource, target = await finding
    kind = KINDS[resource]
    there = await kind.read(target.resource_id)
    marks = _marks(there)
    for earlier in (*begun, kept):
        if not earlier or (earlier["resource"], earlier["id"]) != (resource, target.resource_id):
            continue
        changed = _changed(kind, earlier, there)
        if not changed and _is_off(earlier, there):
            return earlier
        if changed and owner in marks:
            _refuse_foreign(kind, target.name, marks - {owner})
            raise ScheduleChangedError(
                f"{_story(kind, earlier, there, changed)} The rest is still off its schedule. Put it back first: "
                "on the service, or by the task that does so, with if_changed='restore'."
            )
        # Otherwise the schedule is unchanged, or a user has set it: record the current one.
    _refuse_foreign(kind, target.name, marks - {owner})
    if owner in marks:
        raise ScheduleLostError(
            f"{kind.noun} {target.name} was paused by an earlier try of this task, which left no snapshot of its "
            "schedule. Set the schedule in the service, and clear this task."
        )
    if cron_schedule is not None:
        given = required("cron_schedule", cron_schedule)
        there.setdefault(kind.field, None if given == NO_SCHEDULE else given)
    try:
        held = kind.held(there, owner, paused=is_paused)
    except NotHoldableError as error:
        raise NotHoldableError(f"{kind.noun} {target.name} can't be taken off its schedule: {error}") from None
    return ScheduleSnapshot(
        resource=resource,
        id=target.resource_id,
        name=target.name,
        round=uuid.uuid4().hex,
        original={field: value for field, value in there.items() if value is not None or field in held},
        held=held,
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
    held = snapshot["held"]
    if not held:
        return _result(snapshot, "taken_off", changed=False, there=snapshot["original"])
    there = await kind.read(snapshot["id"])
    _refuse_foreign(kind, snapshot["name"], _marks(there) - _marks(held))
    if changed := _changed(kind, snapshot, there):
        raise ScheduleChangedError(
            f"{_story(kind, snapshot, there, changed)} Nothing was overwritten. Clear the task that took the snapshot."
        )
    todo = {field: value for field, value in held.items() if field in there and there[field] != value}
    # If the service does not show a field, send it in any case.
    todo |= {field: value for field, value in held.items() if field not in there and not _is_stream(field)}
    if todo:
        await kind.apply(snapshot["id"], there, todo, context)
        there = await kind.read(snapshot["id"])
        # Two tasks may have read it at the same time: the one whose cron expression was overwritten fails.
        _refuse_foreign(kind, snapshot["name"], _marks(there) - _marks(held))
        _check(kind, snapshot, there, held, "Taken off its schedule")
    return _result(snapshot, "taken_off", changed=bool(todo), there=there)


async def restore(
    snapshot: ScheduleSnapshot, context: PauseContext, *, left_whole: bool, if_changed: Any
) -> tuple[Change, list[str]]:
    """
    Restore the recorded fields, and no others.

    :param left_whole: True if the pause was completed or never started. Then a deactivation is not from this owner.
    :param if_changed: policy if the schedule was changed meanwhile: ``fail``, ``keep`` the changed fields and restore
        the others, or ``restore`` all fields.
    :returns: the change, and further messages for the log.
    :raises ScheduleOwnedError: if another owner has paused the schedule meanwhile. The cron expressions of this owner
        are removed first.
    :raises ScheduleChangedError: if the schedule was changed, and ``if_changed`` is ``fail``; or if its orchestration
        was deleted.
    :raises ScheduleNotRestoredError: if the service shows another schedule afterwards.
    """
    choice("if_changed", if_changed, ("fail", "keep", "restore"))
    kind = KINDS[snapshot["resource"]]
    if not snapshot["held"]:
        return _result(snapshot, "restore", changed=False, there=snapshot["original"]), []
    try:
        there = await kind.read(snapshot["id"])
    except NotFoundError:
        return _result(snapshot, "restore", changed=False, there=None), [f"{kind.noun} {snapshot['name']} is gone."]
    was_changed = False
    if _foreign(snapshot, there):
        ours = _marks(snapshot["held"])
        # If two owners conflict, each removes its own cron expressions, so that the last one sees no other and restores
        # the rest.
        wanted = {field: snapshot["original"].get(field) for field in snapshot["held"] if there.get(field) in ours}
        wanted |= _activated(kind, snapshot, there, context, left_whole=left_whole)
        if wanted:
            was_changed = True
            await kind.apply(snapshot["id"], there, wanted, context)
            there = await kind.read(snapshot["id"])
        _leave_foreign(kind, snapshot, there)
    said = [f"{field} is gone." for field in snapshot["held"] if _is_stream(field) and field not in there]
    changed = _changed(kind, snapshot, there)
    if changed:
        story = _story(kind, snapshot, there, changed)
        if if_changed == "fail":
            raise ScheduleChangedError(
                f"{story} Nothing was overwritten, and nothing was put back. Run this task again with "
                "if_changed='keep', to keep that and put back the rest, or with if_changed='restore', to have all as "
                "it was before; or do so on the service, and mark this task as success."
            )
        said.append(f"{story} {'That is kept' if if_changed == 'keep' else 'What was there before is put back'}.")
    kept = changed if if_changed == "keep" else []
    activated = _activated(kind, snapshot, there, context, left_whole=left_whole)
    said += [
        f"{kind.noun} {snapshot['name']}: {field} was changed to {there[field]} in the meantime, and is kept."
        for field, passing in kind.passing.items()
        if field not in activated
        and field in snapshot["held"]
        and there[field] == passing != snapshot["original"][field]
    ]
    wanted = activated | {
        field: snapshot["original"].get(field)
        for field in snapshot["held"]
        if field not in kind.passing and field not in kept and (field in there or not _is_stream(field))
    }
    # A field that is not shown is sent if the snapshot has it: an earlier try may have been stopped before it.
    todo = {
        field: value
        for field, value in wanted.items()
        if (there[field] != value if field in there else field in snapshot["original"])
    }
    # Sent without knowing whether it differs: the service does not show it while the resource is attached.
    is_only_unknown = there.get(ATTACHED) is not None and not any(field in there for field in todo)
    if todo:
        gone = await _restore_fields(kind, snapshot, there, todo, context)
        there = await kind.read(snapshot["id"])
        _leave_foreign(kind, snapshot, there)
        without = ""
        if gone is not None:
            without = f" without orchestration {gone}, which is gone"
            del wanted[ATTACHED], todo[ATTACHED]
        _check(kind, snapshot, there, wanted | _derived(kind, snapshot, there), f"Put back on its schedule{without}")
        if gone is not None:
            lost = f"Orchestration {gone}, to which {kind.noun} {snapshot['name']} was attached, is gone."
            if if_changed != "keep":
                raise ScheduleChangedError(
                    f"{lost} All else is put back. Give it another one on the service, and mark this task as success."
                )
            said.append(f"{lost} All else is put back.")
    changed_now = was_changed or (bool(todo) and not is_only_unknown)
    return _result(snapshot, "restore", changed=changed_now, there=there), said


def _activated(
    kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields, context: PauseContext, *, left_whole: bool
) -> Fields:
    """Return the fields that a try of this owner has left at their temporary values, with their original values."""
    return {
        field: snapshot["original"][field]
        for field, passing in kind.passing.items()
        if field in snapshot["held"]
        and there[field] == passing != snapshot["original"][field]
        and (snapshot["held"][field] == passing or not left_whole or context.earlier.was_active(snapshot["id"]))
    }


async def _restore_fields(
    kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields, todo: Fields, context: PauseContext
) -> str | None:
    """Restore fields. If the orchestration was deleted, restore the other fields and return its ID."""
    try:
        await kind.apply(snapshot["id"], there, todo, context)
    except (NotFoundError, InvalidRequestError):
        # Services return different errors for a deleted orchestration.
        if todo.get(ATTACHED) is None or await _is_there(todo[ATTACHED]):
            raise
    else:
        return None
    rest = {field: value for field, value in todo.items() if field != ATTACHED}
    if rest:
        await kind.apply(snapshot["id"], there, rest, context)
    return str(todo[ATTACHED])


async def _is_there(orchestration_id: str) -> bool:
    try:
        await send(orchestrations.get(orchestration_id))
    except NotFoundError:
        return False
    return True


def _is_off(snapshot: ScheduleSnapshot, there: Fields) -> bool:
    """Return True if any of the fields to change differs from its original value."""
    return any(field in there and there[field] != snapshot["original"].get(field) for field in snapshot["held"])


def _derived(kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields) -> Fields:
    """Return the original values of derived fields if all other fields have their original values."""
    if any(there[field] != snapshot["original"].get(field) for field in there if field not in kind.derived):
        return {}
    return {field: snapshot["original"].get(field) for field in kind.derived}


def _changed(kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields) -> list[str]:
    """Return the fields that have neither their original values nor those of the pause."""
    return [
        field
        for field, held in snapshot["held"].items()
        if field in there
        and there[field] not in (snapshot["original"].get(field), held)
        and (field not in kind.passing or there[field] != kind.passing[field])
    ]


def _check(kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields, wanted: Fields, done: str) -> None:
    wrong = [
        f"{field} {there[field]!r} in place of {value!r}"
        for field, value in wanted.items()
        if field in there and there[field] != value
    ]
    if wrong:
        raise ScheduleNotRestoredError(
            f"{done}, {kind.noun} {snapshot['name']} shows {', '.join(wrong)}. Look at it on the service."
        )


def _refuse_foreign(kind: ScheduleKind, name: str, marks: set[str]) -> None:
    if marks:
        raise ScheduleOwnedError(
            f"{kind.noun} {name} is paused already: another DAG run or task has replaced its schedule by "
            f"{', '.join(sorted(marks))}. Wait until that one restores the schedule. If that DAG run no longer exists, "
            "restore the schedule in the service."
        )


def _leave_foreign(kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields) -> None:
    if foreign := _foreign(snapshot, there):
        raise ScheduleOwnedError(
            f"{kind.noun} {snapshot['name']} is paused by another DAG run or task, which has replaced its schedule by "
            f"{', '.join(sorted(foreign))}. Nothing was changed, regardless of if_changed: the other one restores the "
            "schedule. If that DAG run no longer exists, restore the schedule in the service."
        )


def _foreign(snapshot: ScheduleSnapshot, there: Fields) -> set[str]:
    """Return the cron expressions of other owners in the fields of this owner."""
    return _marks({field: there.get(field) for field in snapshot["held"]}) - _marks(snapshot["held"])


def _marks(fields: Fields) -> set[str]:
    return {value for value in fields.values() if isinstance(value, str) and _NEVER.fullmatch(value)}


def _is_stream(field: str) -> bool:
    return field.startswith("sync_interval of")


def _story(kind: ScheduleKind, snapshot: ScheduleSnapshot, there: Fields, changed: list[str]) -> str:
    changes = (
        f"{field} is {there[field]!r} (before the pause {snapshot['original'].get(field)!r}, during the pause "
        f"{snapshot['held'][field]!r})"
        for field in changed
    )
    return f"Another client has changed the schedule of {kind.noun} {snapshot['name']}: {'; '.join(changes)}."


def _result(snapshot: ScheduleSnapshot, action: str, *, changed: bool, there: Fields | None) -> Change:
    name = None if snapshot["name"] == snapshot["id"] else snapshot["name"]
    result = change(snapshot["resource"], snapshot["id"], action=action, changed=changed, name=name)
    # A sync can have many streams without their own schedules: omit them.
    result["details"] = (
        there
        if there is None
        else {field: value for field, value in there.items() if value is not None or not _is_stream(field)}
    )
    return result
