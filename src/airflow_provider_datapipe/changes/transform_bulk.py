"""Deploying many transforms together, in the order in which they read one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.errors import (
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.transforms import ReferenceType, Transform
from airflow_provider_datapipe.changes.transform_folder import DesiredTransform, levels, path_of, reads
from airflow_provider_datapipe.changes.transforms import (
    KIND,
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
from airflow_provider_datapipe.runs.steps import Pause, Steps, ask, ask_all
from airflow_provider_datapipe.runs.verdict import error_of
from airflow_provider_datapipe.runs.wait import EndReason

#: How many transforms one request creates at the most (interface).
MOST_AT_ONCE = 50
#: Seconds after which transforms are looked for once more whose creation was not answered.
_SECOND_LOOK = 3
#: How many failures an error tells of.
_TOLD = 5


class ItemResult(TypedDict):
    """
    What became of one transform.

    ``result``: ``created``, ``updated``, ``unchanged``, ``failed``, or ``skipped``, because something that it reads was
    not built.
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


def begin(desired: Sequence[DesiredTransform], *, publish: bool, records: Records) -> Steps[Batch]:
    """
    Have the service hold many definitions: create what is new, change what differs, leave the rest.

    :param desired: what is to be there; nothing else is touched.
    :param publish: whether they are to be built, too.
    :param records: what earlier tries of the task have left.
    :returns: the publications of those that read none of the others, and notes for :func:`go_on`.
    :raises CyclicTransformsError: they read one another in a circle; nothing was changed.
    """
    references = yield from ask(transforms.available_references())
    raw = {each.tag for each in references.data if each.type == ReferenceType.RAW_VIEW}
    read = reads(desired, raw)
    order = levels(read)
    there = yield from _all_by_path()
    items: dict[str, ItemResult] = {}
    due: dict[str, Due] = {}
    missing = [each for each in desired if each.path not in there]
    for first in range(0, len(missing), MOST_AT_ONCE):
        items |= yield from _create(missing[first : first + MOST_AT_ONCE])
    for each in desired:
        if each.path in items:
            due[each.path] = Due.PUBLICATION
        else:
            items[each.path], due[each.path] = yield from _bring_up(each, there[each.path], records, publish=publish)
    batch = Batch(KIND)
    wanted = [[path for path in level if publish and due[path] is not Due.NOTHING] for level in order]
    to_do = _flat(wanted)
    # It goes through the trigger: of what is left alone, only the result is of use.
    batch.note = {
        "items": {each.path: items[each.path] for each in desired},
        "reads": {path: read[path] for path in to_do},
        "due": {path: due[path] for path in to_do},
        "levels": [level for level in wanted if level],
    }
    _queue_next(batch)
    return batch


def go_on(batch: Batch) -> None:
    """Take the ends of what was published, and queue what reads it."""
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
    _queue_next(batch)


def result_of_bulk(batch: Batch) -> tuple[BulkResult, BulkDeployError | None]:
    """Give the results of all, and the error that they are together, if any."""
    items: dict[str, ItemResult] = batch.note["items"]
    counts = dict.fromkeys(("created", "updated", "unchanged", "failed", "skipped"), 0)
    for item in items.values():
        counts[item["result"]] += 1
    bad = {path: item["error"] for path, item in items.items() if item["result"] in ("failed", "skipped")}
    outcome = "succeeded" if not bad else "failed" if len(bad) == len(items) else "partial"
    result = BulkResult(outcome=outcome, counts=counts, transforms=items)
    if not bad:
        return result, None
    told = [f"{path}: {error}" for path, error in bad.items()][:_TOLD]
    more = f" | and {len(bad) - _TOLD} more" if len(bad) > _TOLD else ""
    return result, BulkDeployError(f"{len(bad)} of {len(items)} transforms were not deployed: {' | '.join(told)}{more}")


def _all_by_path() -> Steps[dict[str, list[Transform]]]:
    there: dict[str, list[Transform]] = {}
    for each in (yield from ask_all(transforms.list_())):
        there.setdefault(path_of(each.folder_path.strip("/"), each.name), []).append(each)
    return there


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
        there = yield from _all_by_path()
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
        due = (yield from due_of(there, is_changed=bool(differing))) if publish else Due.NOTHING
    except (InvalidInputError, InvalidRequestError, NotFoundError) as error:
        return _item(there.id, "failed", str(error)), Due.NOTHING
    forget(records, Target(there.id, each.path), is_settled=bool(differing) or due is Due.NOTHING)
    return _item(there.id, "updated" if differing else "unchanged"), due


def _queue_next(batch: Batch) -> None:
    """Queue what has to be published and reads nothing that is still to be; skip what reads something that failed."""
    note = batch.note
    items: dict[str, ItemResult] = note["items"]
    while note["levels"] and batch.is_over:
        for path in note["levels"].pop(0):
            item = items[path]
            if item["result"] == "failed":
                continue
            bad = [other for other in note["reads"][path] if items[other]["result"] in ("failed", "skipped")]
            if bad:
                _skip(item, f"it reads {' and '.join(bad)}, which {'was' if len(bad) == 1 else 'were'} not built")
                continue
            target = Target(str(item["id"]), path)
            if note["due"][path] == Due.PATIENCE:
                batch.waiting.append(Reference.to(KIND, target, attached=True))
            else:
                batch.queued.append(target)


def _item(transform_id: str | None, result: str, error: str | None = None) -> ItemResult:
    return ItemResult(id=transform_id, result=result, published=False, error=error)


def _skip(item: ItemResult, why: str) -> None:
    done = {"created": "created, but not published: ", "updated": "updated, but not published: "}
    item["error"] = done.get(item["result"], "") + why
    item["result"] = "skipped"


def _flat(nested: Iterable[Iterable[Any]]) -> list[Any]:
    return [each for inner in nested for each in inner]
