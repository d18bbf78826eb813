"""Deploying many transforms together, in the order in which they read one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.errors import (
    ConflictError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.transforms import ReferenceType, Transform
from airflow_provider_datapipe.changes.transform_checks import failing
from airflow_provider_datapipe.changes.transform_folder import (
    DesiredTransform,
    reads,
)
from airflow_provider_datapipe.changes.transform_orphans import in_order_of_deletion
from airflow_provider_datapipe.changes.transform_state import (
    Settings,
    all_by_path,
    build_order,
    orchestrations_of,
    orphans_of,
    settings_of,
)
from airflow_provider_datapipe.changes.transforms import (
    BUILT_FROM,
    KIND,
    NO_SCHEDULE,
    Due,
    definition_of,
    differences,
    due_of,
    forget,
    repeatable,
)
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.records import Records
from airflow_provider_datapipe.runs.reference import Reference, Target
from airflow_provider_datapipe.runs.steps import Pause, Steps, ask
from airflow_provider_datapipe.runs.verdict import error_of
from airflow_provider_datapipe.runs.wait import EndReason

#: How many transforms one request creates at the most (interface).
MOST_AT_ONCE = 50
#: Seconds after which transforms are looked for once more whose creation was not answered.
_SECOND_LOOK = 3
#: How many failures an error tells of.
_TOLD = 5
_BAD = ("failed", "skipped")


class ItemResult(TypedDict):
    """
    What became of one transform.

    ``result``: ``created``, ``updated``, ``unchanged``, ``failed``, or ``skipped``, because something that it reads was
    not built; of orphans ``deleted``.
    ``published``: whether it was published, and built.
    ``error``: why it failed, or was skipped.
    """

    id: str | None
    result: str
    published: bool
    error: str | None


class BulkResult(TypedDict):
    """
    What became of many transforms.

    ``outcome``: ``succeeded``, ``partial`` (some were not deployed) or ``failed`` (all were not).
    ``counts``: how many there are of each result.
    ``transforms``: an :class:`ItemResult` for each, by folder and name.
    """

    outcome: str
    counts: dict[str, int]
    transforms: dict[str, ItemResult]


class BulkDeployError(DatapipeError):
    """Some transforms could not be deployed."""


def begin(
    desired: Sequence[DesiredTransform],
    *,
    publish: bool,
    records: Records,
    folder_path: str = "",
    delete_orphans: bool = False,
) -> Steps[Batch]:
    """
    Have the service hold many definitions: create what is new, change what differs, leave the rest.

    :param desired: what is to be there.
    :param publish: whether those are to be built, too, that want to be.
    :param records: what earlier tries of the task have left.
    :param folder_path: the folder of the service that all of them are in or below; empty for all folders.
    :param delete_orphans: whether what else is in that folder or below it is deleted, once all is as it is to be.
    :returns: the publications of those that read none of the others, and notes for :func:`go_on`.
    :raises CyclicTransformsError: they read one another in a circle; nothing was changed.
    :raises NameLookupError: there is no such orchestration; nothing was changed.
    """
    references = yield from ask(transforms.available_references())
    raw = {each.tag for each in references.data if each.type == ReferenceType.RAW_VIEW}
    read = reads(desired, raw)
    order = build_order(desired, read)
    there = yield from all_by_path()
    known = yield from orchestrations_of(desired)
    ids = {each.path: known.id_of(each.orchestration) for each in desired}
    items: dict[str, ItemResult] = {}
    due: dict[str, str] = {}
    missing = [each for each in desired if each.path not in there]
    for first in range(0, len(missing), MOST_AT_ONCE):
        items |= yield from _create(missing[first : first + MOST_AT_ONCE])
    for each in desired:
        if each.path in items:
            due[each.path] = Due.PUBLICATION
        else:
            builds = publish and each.publish
            items[each.path], due[each.path] = yield from _bring_up(each, there[each.path], records, publish=builds)
    batch = Batch(KIND)
    building = {each.path for each in desired if publish and each.publish and due[each.path] is not Due.NOTHING}
    levels_to_build = [[path for path in level if path in building] for level in order]
    orphans = orphans_of(desired, there, folder_path) if delete_orphans else []
    batch.note = {
        "items": {each.path: items[each.path] for each in desired},
        "reads": read,
        "due": due,
        "levels": [level for level in levels_to_build if level],
        "checks": {each.path: [asdict(check) for check in each.checks] for each in desired if each.checks},
        "settings": {
            each.path: asdict(settings)
            for each in desired
            if not (settings := _settings(each, there, ids[each.path], publish=publish)).is_empty
            and settings.can_be_had
        },
        "orphans": (yield from in_order_of_deletion(orphans, desired, there, raw)) if orphans else [],
        "deletes": delete_orphans,
    }
    yield from _queue_next(batch)
    return batch


def go_on(batch: Batch) -> Steps[None]:
    """Take the ends of what was published, and queue what reads it; when all is built, do what is left."""
    items: dict[str, ItemResult] = batch.note["items"]
    by_id = {item["id"]: item for item in items.values() if item["id"] is not None}
    for end in batch.ended:
        item, error = by_id[end.reference.resource_id], error_of(end)
        if error is not None:
            item["result"], item["error"] = "failed", str(error)
        else:
            item["published"] = item["published"] or not end.reference.attached
    in_vain = any(end.reason in (EndReason.TIMEOUT, EndReason.LOST_CONTACT) for end in batch.ended)
    if in_vain:
        for path in _flat(batch.note["levels"]):
            _skip(items[path], "another transform was waited for in vain")
        batch.note["levels"] = []
    yield from _queue_next(batch)
    if batch.is_over:
        yield from _set(batch)
        yield from _delete(batch)


def result_of_bulk(batch: Batch) -> tuple[BulkResult, BulkDeployError | None]:
    """Give the results of all, and the error that they are together, if any."""
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
    told = [f"{path}: {error}" for path, error in bad.items()][:_TOLD]
    more = f" | and {len(bad) - _TOLD} more" if len(bad) > _TOLD else ""
    return result, BulkDeployError(f"{len(bad)} of {len(items)} transforms were not deployed: {' | '.join(told)}{more}")


def _settings(
    each: DesiredTransform, there: Mapping[str, Sequence[Transform]], orchestration_id: str | None, *, publish: bool
) -> Settings:
    found = there.get(each.path)
    return settings_of(each, found[0] if found else None, orchestration_id, builds=publish and each.publish)


def _create(missing: Sequence[DesiredTransform]) -> Steps[dict[str, ItemResult]]:
    """Create drafts; each is created or refused by itself."""
    try:
        answer = yield from ask(transforms.create_bulk(transforms=[definition_of(each) for each in missing]))
    except (TransportError, ServerError) as error:
        if isinstance(error, TransportError) and not error.sent:
            raise
        return (yield from _found_after_all(missing, error))
    return {
        each.path: _item(result.id, "created") if result.success and result.id else _item(None, "failed", result.error)
        for each, result in zip(missing, answer.results, strict=True)
    }


def _found_after_all(missing: Sequence[DesiredTransform], error: DatapipeError) -> Steps[dict[str, ItemResult]]:
    """Find what was created although no answer came; whoever tries again goes on with what can be found then."""
    for pause in (0, _SECOND_LOOK):
        if pause:
            yield Pause(pause)
        there = yield from all_by_path()
        if all(each.path in there for each in missing):
            return {each.path: _item(there[each.path][0].id, "created") for each in missing}
    raise error


def _bring_up(
    each: DesiredTransform, found: list[Transform], records: Records, *, publish: bool
) -> Steps[tuple[ItemResult, Due]]:
    """Change what differs, and tell what the transform needs then."""
    if len(found) > 1:
        ids = ", ".join(sorted(one.id for one in found))
        return _item(None, "failed", f"there is more than one of it: {ids}. Delete all but one."), Due.NOTHING
    (there,) = found
    differing = differences(each, there)
    try:
        if differing:
            there = yield from ask(repeatable(transforms.update(there.id, **differing)))
        due = (yield from due_of(there, is_changed=bool(BUILT_FROM & differing.keys()))) if publish else Due.NOTHING
    except (InvalidInputError, InvalidRequestError, NotFoundError) as error:
        return _item(there.id, "failed", str(error)), Due.NOTHING
    forget(records, Target(there.id, each.path), is_settled=bool(differing) or due is Due.NOTHING)
    return _item(there.id, "updated" if differing else "unchanged"), due


def _queue_next(batch: Batch) -> Steps[None]:
    """Queue what has to be published and reads nothing that is still to be; skip what reads something that failed."""
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
            elif note["due"][path] == Due.PATIENCE:
                batch.waiting.append(Reference.to(KIND, Target(str(item["id"]), path), attached=True))
            else:
                ready.append(path)
        # A trigger of an earlier version has none.
        checks = {path: note.get("checks", {}).get(path, ()) for path in ready}
        about_what = {path: (str(items[path]["id"]), checks[path]) for path in ready}
        for path, why in (yield from failing(about_what)).items():
            done = f"{items[path]['result']}, but " if items[path]["result"] != "unchanged" else ""
            items[path]["result"], items[path]["error"] = "failed", f"{done}not published: {why}"
            ready.remove(path)
        batch.queued += [Target(str(items[path]["id"]), path) for path in ready]


def _set(batch: Batch) -> Steps[None]:
    """Give what was built its schedule and its orchestration: only what is published has them."""
    items: dict[str, ItemResult] = batch.note["items"]
    for path, given in batch.note.pop("settings", {}).items():
        item, settings = items[path], Settings(**given)
        if item["result"] in _BAD or item["id"] is None:
            continue
        try:
            if settings.orchestration_id:
                yield from ask(
                    transforms.attach_orchestration(item["id"], orchestration_workflow_id=settings.orchestration_id)
                )
            elif settings.orchestration_id is not None:
                yield from ask(transforms.detach_orchestration(item["id"]))
            if settings.schedule is not None:
                cron = None if settings.schedule == NO_SCHEDULE else settings.schedule
                yield from ask(repeatable(transforms.update(item["id"], cron_expression=cron)))
        except (InvalidInputError, InvalidRequestError, NotFoundError) as error:
            item["result"], item["error"] = "failed", f"its schedule or orchestration was not set: {error}"
        else:
            item["result"] = "updated" if item["result"] == "unchanged" else item["result"]


def _delete(batch: Batch) -> Steps[None]:
    """Delete orphans, unless something is not as it is to be: then it may still read them."""
    items: dict[str, ItemResult] = batch.note["items"]
    in_vain = any(item["result"] in _BAD for item in items.values())
    for orphan in batch.note.pop("orphans", []):
        item = items[orphan["key"]] = _item(orphan["id"], "deleted")
        if in_vain:
            _skip(item, "not deleted, as something else is not as it is to be")
        elif orphan["read_by"]:
            item["result"], item["error"] = "failed", f"not deleted: {', '.join(orphan['read_by'])} reads it"
        else:
            try:
                yield from ask(transforms.delete(orphan["id"]))
            except NotFoundError:
                pass
            except (InvalidRequestError, ConflictError) as error:
                item["result"], item["error"] = "failed", str(error)


def _item(transform_id: str | None, result: str, error: str | None = None) -> ItemResult:
    return ItemResult(id=transform_id, result=result, published=False, error=error)


def _skip(item: ItemResult, why: str) -> None:
    done = {"created": "created, but not published: ", "updated": "updated, but not published: "}
    item["error"] = done.get(item["result"], "") + why
    item["result"] = "skipped"


def _flat(nested: Iterable[Iterable[Any]]) -> list[Any]:
    return [each for inner in nested for each in inner]
