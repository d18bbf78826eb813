"""Deployment of many transforms at once, in the order of their references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.errors import (
    ConflictError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ServerError,
    TransportError,
    in_one_line,
)
from airflow_provider_datapipe.api.models.transforms import ReferenceType, Transform
from airflow_provider_datapipe.flows import gather, send, sleep
from airflow_provider_datapipe.resources.comparable import not_compared
from airflow_provider_datapipe.resources.transform_checks import failed_checks
from airflow_provider_datapipe.resources.transform_folder import DesiredTransform, reads
from airflow_provider_datapipe.resources.transform_orphans import in_order_of_deletion
from airflow_provider_datapipe.resources.transform_state import (
    Settings,
    all_by_path,
    build_order,
    orchestrations_of,
    orphans_of,
    settings_of,
)
from airflow_provider_datapipe.resources.transforms import (
    BUILT_FROM,
    CRON_EXPRESSION,
    KIND,
    NO_SCHEDULE,
    SET_CRON,
    Due,
    definition_of,
    differences,
    due_of,
    forget,
)
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.results import exception_for
from airflow_provider_datapipe.runs.task_state import TaskState
from airflow_provider_datapipe.runs.wait import WaitOutcomeReason

#: Maximum number of transforms that one request creates (interface).
MOST_AT_ONCE = 50
#: Seconds until the second search for transforms whose creation request got no response.
_SECOND_POLL = 3
#: Maximum number of failures in an error message.
_MOST_NAMED = 5
_BAD = ("failed", "skipped")
#: Errors that concern a single transform.
_ABOUT_ONE = (InvalidInputError, InvalidRequestError, NotFoundError, PermissionDeniedError, ConflictError)


class ItemResult(TypedDict):
    """
    Result of one transform.

    ``result``: ``created``, ``updated``, ``unchanged``, ``failed``, or ``skipped`` because a transform that it reads
    was not built; ``deleted`` for orphans. ``published``: True if it was published and built. ``error``: reason why it
    failed or was skipped.
    """

    id: str | None
    result: str
    published: bool
    error: str | None


class BulkResult(TypedDict):
    """
    Result of a deployment of many transforms.

    ``outcome``: ``succeeded``, ``partial`` (some were not deployed) or ``failed`` (none was deployed). ``counts``:
    number of transforms with each result. ``transforms``: an :class:`ItemResult` for each transform, by folder and
    name.
    """

    outcome: str
    counts: dict[str, int]
    transforms: dict[str, ItemResult]


class BulkDeployError(DatapipeError):
    """Some transforms could not be deployed."""


async def begin(
    desired: Sequence[DesiredTransform],
    *,
    publish: bool,
    records: TaskState,
    folder_path: str = "",
    delete_orphans: bool = False,
    resend: bool = False,
    note: dict[str, Any] | None = None,
) -> Batch:
    """
    Create new transforms, update the fields that differ, and leave the others unchanged.

    :param desired: the desired transforms.
    :param publish: if True, the transforms whose own ``publish`` is True are also built.
    :param records: the task state of earlier tries.
    :param folder_path: folder of the service that contains all desired transforms; empty for all folders.
    :param delete_orphans: if True, other transforms in that folder or below it are deleted after the deployment
        succeeded.
    :param resend: send schedules also if the service does not show them and nothing else differs.
    :param note: receives the results and the remaining steps as soon as they are known, for :func:`complete_results`.
    :returns: a batch with the publications of transforms that do not read others, and ``note`` for :func:`go_on`.
    :raises CyclicTransformsError: if transforms read one another in a cycle. Nothing was changed.
    :raises NameLookupError: if an orchestration does not exist or is ambiguous. Nothing was changed.
    :raises DatapipeError: if the service cannot be reached, or does not accept the key.
    """
    references = await send(transforms.available_references())
    raw = {each.tag for each in references.data if each.type == ReferenceType.RAW_VIEW}
    read = reads(desired, raw)
    order = build_order(desired, read)
    existing = await all_by_path()
    known = await orchestrations_of(desired)
    ids = {each.path: known.id_of(each.orchestration) for each in desired}
    orphans = orphans_of(desired, existing, folder_path) if delete_orphans else []
    batch = Batch(KIND, note={} if note is None else note)
    items: dict[str, ItemResult] = {}
    # The readers of orphans are read before the first change, so that an error leaves everything unchanged.
    batch.note |= {
        "items": items,
        "orphans": await in_order_of_deletion(orphans, desired, existing, raw, publish=publish),
        "deletes": delete_orphans,
    }
    missing = [each for each in desired if each.path not in existing]
    for first in range(0, len(missing), MOST_AT_ONCE):
        items |= await _create(missing[first : first + MOST_AT_ONCE])
    due: dict[str, str] = dict.fromkeys(items, Due.PUBLICATION)
    existing_transforms: list[_ExistingTransform] = []
    for each in desired:
        if each.path in existing:
            items[each.path], transform = await _change(each, existing[each.path], builds=publish and each.publish)
            due[each.path] = Due.NOTHING
            existing_transforms += [] if transform is None else [transform]
    # This requires the newest version of each transform: send many requests at the same time.
    due_or_errors = await gather([_due_of(each) for each in existing_transforms])
    for transform, due_or_error in zip(existing_transforms, due_or_errors, strict=True):
        path = transform.target.name
        if isinstance(due_or_error, DatapipeError):
            items[path] = _item(transform.target.resource_id, "failed", str(due_or_error))
            continue
        due[path] = due_or_error
        forget(records, transform.target, is_settled=transform.is_changed or due_or_error is Due.NOTHING)
    settings = {
        each.path: settings_of(
            each,
            existing[each.path][0] if each.path in existing else None,
            ids[each.path],
            builds=publish and each.publish,
            sends_unknown=resend or items[each.path]["result"] != "unchanged" or due[each.path] == Due.PUBLICATION,
        )
        for each in desired
    }
    unknown = [path for path, each in settings.items() if each.is_unknown]
    building = {each.path for each in desired if publish and each.publish and due[each.path] is not Due.NOTHING}
    levels_to_build = [[path for path in level if path in building] for level in order]
    batch.note |= {
        "items": {each.path: items[each.path] for each in desired},
        "reads": read,
        "due": due,
        "levels": [level for level in levels_to_build if level],
        "checks": {each.path: [asdict(check) for check in each.checks] for each in desired if each.checks},
        "settings": {path: asdict(each) for path, each in settings.items() if not each.is_empty and each.can_be_had},
        "warnings": [not_compared(CRON_EXPRESSION, unknown, SET_CRON)] if unknown else [],
    }
    await _queue_next(batch)
    return batch


async def go_on(batch: Batch) -> None:
    """Record the outcomes of builds, and queue the next level. At the end, apply settings and delete orphans."""
    items: dict[str, ItemResult] = batch.note["items"]
    by_id = {item["id"]: item for item in items.values() if item["id"] is not None}
    for end in batch.ended:
        item, error = by_id[end.reference.resource_id], exception_for(end)
        if error is not None:
            item["result"], item["error"] = "failed", in_one_line(error)
        else:
            item["published"] = item["published"] or not end.reference.attached
            batch.note["due"][end.reference.name] = Due.NOTHING
    if any(end.reason in (WaitOutcomeReason.TIMEOUT, WaitOutcomeReason.LOST_CONTACT) for end in batch.ended):
        for path in chain.from_iterable(batch.note["levels"]):
            _skip(items[path], "the wait for another transform timed out or lost contact with the service")
        batch.note["levels"] = []
    await _queue_next(batch)
    if batch.is_over:
        await _set(batch)
        await _delete(batch)


def result_of_bulk(batch: Batch) -> tuple[BulkResult, BulkDeployError | None]:
    """Return the results of all transforms, and the common error, if any."""
    items: dict[str, ItemResult] = batch.note["items"]
    counts = dict.fromkeys(("created", "updated", "unchanged", "failed", "skipped"), 0)
    if batch.note.get("deletes"):
        counts["deleted"] = 0
    for item in items.values():
        counts[item["result"]] += 1
    bad = {path: item["error"] for path, item in items.items() if item["result"] in _BAD}
    outcome = "succeeded" if not bad else "failed" if len(bad) == len(items) else "partial"
    result = BulkResult(outcome=outcome, counts=counts, transforms=items)
    if not bad:
        return result, None
    reported = [f"{path}: {error}" for path, error in bad.items()][:_MOST_NAMED]
    more = f" | and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
    return result, BulkDeployError(
        f"{len(bad)} of {len(items)} transforms were not deployed: {' | '.join(reported)}{more}"
    )


def is_anything_changed(note: Mapping[str, Any]) -> bool:
    """
    Return True if any definition was created or updated.

    :param note: the note of :func:`begin`.
    """
    return any(item["result"] in ("created", "updated") for item in note.get("items", {}).values())


def complete_results(note: Mapping[str, Any], desired: Sequence[DesiredTransform], *, publish: bool) -> None:
    """
    Complete the results after an error has ended a deployment that has changed definitions.

    Steps that are not known yet count as remaining.

    :param note: the note of :func:`begin`; its results are modified in place.
    :param desired: the desired transforms.
    :param publish: if True, the transforms whose own ``publish`` is True were to be built.
    """
    items: dict[str, ItemResult] = note["items"]
    due: Mapping[str, str] = note.get("due", {})
    settings = note.get("settings", {each.path for each in desired if each.cron_expression or each.orchestration})
    for each in desired:
        item = items.setdefault(each.path, _item(None, "unchanged"))
        is_due = publish and each.publish and due.get(each.path) != Due.NOTHING
        if item["result"] not in _BAD and (item["id"] is None or is_due or each.path in settings):
            undone = "not published" if is_due else "its schedule or orchestration was not set"
            _skip(item, "the deployment was aborted", undone)
    for orphan in note["orphans"]:
        item = items.setdefault(orphan["key"], _item(orphan["id"], "unchanged"))
        _skip(item, "not deleted: the deployment was aborted")


async def _create(missing: Sequence[DesiredTransform]) -> dict[str, ItemResult]:
    """Create drafts. The service accepts or refuses each one separately."""
    try:
        response = await send(transforms.create_bulk(transforms=[definition_of(each) for each in missing]))
    except (TransportError, ServerError) as error:
        if isinstance(error, TransportError) and not error.sent:
            raise
        return await _find_created(missing, error)
    return {
        each.path: _item(result.id, "created") if result.success and result.id else _item(None, "failed", result.error)
        for each, result in zip(missing, response.results, strict=True)
    }


async def _find_created(missing: Sequence[DesiredTransform], error: DatapipeError) -> dict[str, ItemResult]:
    """Return the transforms that were created although the response was lost. Raise the error if some are missing."""
    for pause in (0, _SECOND_POLL):
        if pause:
            await sleep(pause)
        existing = await all_by_path()
        if all(each.path in existing for each in missing):
            return {each.path: _item(existing[each.path][0].id, "created") for each in missing}
    raise error


@dataclass(frozen=True, slots=True)
class _ExistingTransform:
    """
    A transform that existed before.

    :param current: its current state on the service.
    :param target: its ID, and its folder and name.
    :param is_changed: True if a field was updated.
    :param is_rebuilt: True if that update requires a new publication.
    :param builds: True if it is to be built.
    """

    current: Transform
    target: RunTarget
    is_changed: bool
    is_rebuilt: bool
    builds: bool


async def _change(
    each: DesiredTransform, found: Sequence[Transform], *, builds: bool
) -> tuple[ItemResult, _ExistingTransform | None]:
    """Update the fields that differ. Return the result and the transform, None if it failed."""
    if len(found) > 1:
        ids = ", ".join(sorted(one.id for one in found))
        return _item(None, "failed", f"several transforms have this name: {ids}. Delete all but one."), None
    (existing,) = found
    differing = differences(each, existing)
    try:
        if differing:
            existing = await send(transforms.update(existing.id, **differing).repeatable())
    except _ABOUT_ONE as error:
        return _item(existing.id, "failed", in_one_line(error)), None
    is_rebuilt = bool(BUILT_FROM & differing.keys())
    result = _item(existing.id, "updated" if differing else "unchanged")
    target = RunTarget(existing.id, each.path)
    return result, _ExistingTransform(existing, target, bool(differing), is_rebuilt, builds)


async def _due_of(transform: _ExistingTransform) -> Due | DatapipeError:
    """Return the next step for a transform, or the error that prevents its detection."""
    try:
        return (await due_of(transform.current, is_changed=transform.is_rebuilt)) if transform.builds else Due.NOTHING
    except _ABOUT_ONE as error:
        return error


async def _queue_next(batch: Batch) -> None:
    """Queue the transforms of the next level. Skip those that read a failed or skipped transform."""
    note = batch.note
    items: dict[str, ItemResult] = note["items"]
    while note["levels"] and batch.is_over:
        ready = []
        for path in note["levels"].pop(0):
            item = items[path]
            if item["result"] == "failed":
                continue
            bad = [other for other in note["reads"][path] if items[other]["result"] in _BAD]
            if bad:
                _skip(item, f"it reads {' and '.join(bad)}, which {'was' if len(bad) == 1 else 'were'} not built")
            elif note["due"][path] == Due.WAIT:
                batch.waiting.append(RunRef.to(KIND, RunTarget(str(item["id"]), path), attached=True))
            else:
                ready.append(path)
        # Triggers of an earlier version of the provider have no checks.
        checks = {path: note.get("checks", {}).get(path, ()) for path in ready}
        checks_to_run = {path: (str(items[path]["id"]), checks[path]) for path in ready}
        for path, why in (await failed_checks(checks_to_run)).items():
            done = f"{items[path]['result']}, but " if items[path]["result"] != "unchanged" else ""
            items[path]["result"], items[path]["error"] = "failed", f"{done}not published: {why}"
            ready.remove(path)
        batch.queued += [RunTarget(str(items[path]["id"]), path) for path in ready]


async def _set(batch: Batch) -> None:
    """Set the schedules and orchestrations of built transforms: only published ones can have them."""
    items: dict[str, ItemResult] = batch.note["items"]
    given = batch.note.get("settings", {})
    for path in list(given):
        item, settings = items[path], Settings(**given[path])
        if item["result"] in _BAD or item["id"] is None:
            continue
        try:
            if settings.orchestration_id:
                await send(
                    transforms.attach_orchestration(item["id"], orchestration_workflow_id=settings.orchestration_id)
                )
            elif settings.orchestration_id is not None:
                await send(transforms.detach_orchestration(item["id"]))
            if settings.schedule is not None:
                cron = None if settings.schedule == NO_SCHEDULE else settings.schedule
                await send(transforms.update(item["id"], cron_expression=cron).repeatable())
        except _ABOUT_ONE as error:
            item["result"], item["error"] = "failed", f"its schedule or orchestration was not set: {in_one_line(error)}"
        else:
            item["result"] = "updated" if item["result"] == "unchanged" else item["result"]
        del given[path]


async def _delete(batch: Batch) -> None:
    """Delete orphans, unless a transform was not deployed: it may still read them."""
    items: dict[str, ItemResult] = batch.note["items"]
    is_incomplete = any(item["result"] in _BAD for item in items.values())
    orphans = batch.note.get("orphans", [])
    while orphans:
        orphan = orphans[0]
        item = _item(orphan["id"], "deleted")
        if is_incomplete:
            _skip(item, "not deleted, because another transform was not deployed")
        elif orphan["read_by"]:
            users = ", ".join(orphan["read_by"])
            item["result"], item["error"] = "failed", f"not deleted, because it is used by: {users}"
        else:
            try:
                await send(transforms.delete(orphan["id"]))
            except NotFoundError:
                pass
            except _ABOUT_ONE as error:
                item["result"], item["error"] = "failed", in_one_line(error)
        items[orphan["key"]] = item
        del orphans[0]


def _item(transform_id: str | None, result: str, error: str | None = None) -> ItemResult:
    return ItemResult(id=transform_id, result=result, published=False, error=error)


def _skip(item: ItemResult, why: str, undone: str = "not published") -> None:
    done = f"{item['result']}, but {undone}: " if item["result"] in ("created", "updated") else ""
    item["error"] = done + why
    item["result"] = "skipped"
