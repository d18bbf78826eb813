"""Units of work of `datapipe apply`: groups of changes, with the resources that they depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_datapipe.api.errors import InvalidInputError, NotFoundError, in_one_line
from airflow_provider_datapipe.flows import Flow, send
from airflow_provider_datapipe.pipelines.plan import Action, Item, ReportItem, Result
from airflow_provider_datapipe.pipelines.workspace.models import declared_fields
from airflow_provider_datapipe.resources.differences import MASK, Differences, FieldChange

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs
    from airflow_provider_datapipe.runs.task_state import TaskState

#: Key of a resource among the units: its section and position in the file.
Key: TypeAlias = "tuple[str | int, ...]"

_RESULTS = {
    Action.CREATE: Result.CREATED,
    Action.UPDATE: Result.UPDATED,
    Action.DELETE: Result.DELETED,
    Action.NONE: Result.UNCHANGED,
}


@dataclass(slots=True)
class ApplyState:
    """
    State while a file is applied.

    :param ids: IDs of created resources.
    :param deactivated: record of the reverse ETL syncs that the last unit has deactivated.
    :param task_state: storage for the reverse ETL syncs that were active before a change.
    :param wait_for_run: the most seconds to wait for a run that blocks a change of a reverse ETL sync.
    """

    task_state: TaskState
    wait_for_run: int
    ids: dict[Key, str] = field(default_factory=dict)
    deactivated: DeactivatedSyncs | None = None

    def id_of(self, known: str | None, key: Key | None) -> str | None:
        """Return the ID of a resource that existed before, or was created meanwhile."""
        return known if known is not None or key is None else self.ids[key]


#: Flow that applies the changes of a unit and returns a result for each item.
Work: TypeAlias = "Callable[[ApplyState], Flow[Sequence[ReportItem]]]"


@dataclass(frozen=True, slots=True)
class Unit:
    """
    A group of changes that other units depend on as a whole.

    :param items: items of the plan.
    :param work: flow that applies the changes; None if there are no changes.
    :param keys: keys of the items for units that depend on them, in the same order; empty if there are none.
    :param needs: keys of the resources that this unit depends on. If their creation failed, it is skipped.
    :param needs_applied: keys of the items that this unit depends on. If any of their changes failed, it is skipped.
    """

    items: tuple[Item, ...]
    work: Work | None = None
    keys: tuple[Key, ...] = ()
    needs: tuple[Key, ...] = ()
    needs_applied: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Attached:
    """The orchestration to attach: its ID, or its key if it is created by another unit."""

    id: str | None = None
    key: Key | None = None


def succeeded(item: Item) -> ReportItem:
    """Return the result of an item that was applied."""
    return ReportItem(item.kind, item.name, _RESULTS[item.action])


def failed(item: Item, error: object) -> ReportItem:
    """Return the result of an item that failed."""
    return ReportItem(item.kind, item.name, Result.FAILED, in_one_line(error))


def check_possible(differences: Differences) -> None:
    """
    Raise if some of the differences cannot be removed. Call this after all others are sent.

    :raises InvalidInputError: if the interface does not support a change.
    """
    if differences.impossible:
        raise InvalidInputError("; ".join(differences.impossible))


def new_fields(entry: Any, fields: Iterable[str]) -> list[FieldChange]:
    """Return the fields of a resource to create."""
    given = declared_fields(entry, [each for each in fields if each != "settings"])
    changes = [FieldChange(name, None, value) for name, value in given.items()]
    if "settings" in fields and entry.settings is not None:
        changes += [FieldChange(f"settings.{key}", None, MASK) for key in sorted(entry.settings)]
    return changes


def deletion(item: Item, request: Request[Any]) -> Work:
    """Return the flow that deletes a resource. A missing resource is success."""

    async def work(_: ApplyState) -> Sequence[ReportItem]:
        with suppress(NotFoundError):
            await send(request)
        return [succeeded(item)]

    return work
