"""Units of work that apply the entries of a workspace file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_datapipe.api.endpoints import elt_streams, elt_syncs, orchestrations, reverse_etl_syncs
from airflow_provider_datapipe.api.errors import (
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    in_one_line,
)
from airflow_provider_datapipe.api.request import Repeat, Request
from airflow_provider_datapipe.flows import Flow, list_all, send
from airflow_provider_datapipe.pipelines.plan import Action, Done, Item, Result
from airflow_provider_datapipe.pipelines.workspace.differences import (
    HIDDEN_STREAM_OPTIONS,
    STREAM_OPTIONS,
    Differences,
)
from airflow_provider_datapipe.pipelines.workspace.matching import stream_named
from airflow_provider_datapipe.pipelines.workspace.models import said
from airflow_provider_datapipe.resources import elt_syncs as sync_changes
from airflow_provider_datapipe.resources import orchestrations as orchestration_changes
from airflow_provider_datapipe.resources import reverse_etl_syncs as sending_changes
from airflow_provider_datapipe.runs.task_state import NoTaskState

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.pipelines.workspace.models import (
        EltSyncEntry,
        OrchestrationEntry,
        ReverseEtlSyncEntry,
        StreamEntry,
    )
    from airflow_provider_datapipe.runs.task_state import TaskState

#: Key of a resource among the units: its section and position in the file.
Key: TypeAlias = "tuple[str | int, ...]"

_RESULTS = {
    Action.CREATE: Result.CREATED,
    Action.UPDATE: Result.UPDATED,
    Action.DELETE: Result.DELETED,
    Action.NONE: Result.UNCHANGED,
}
#: Schedule for a deletion that affects no attached resources. The interface requires one.
_ANY_SCHEDULE = "0 0 * * *"


@dataclass(slots=True)
class Applying:
    """
    State while a file is applied.

    :param ids: IDs of created resources.
    :param earlier: record of the reverse ETL syncs that the last unit has deactivated.
    :param records: storage for the reverse ETL syncs that were active before a change.
    :param wait_for_run: the most seconds to wait for a run that blocks a change of a reverse ETL sync.
    """

    records: TaskState
    wait_for_run: int
    ids: dict[Key, str] = field(default_factory=dict)
    earlier: sending_changes.DeactivatedSyncs | None = None

    def id_of(self, known: str | None, key: Key | None) -> str | None:
        """Return the ID of a resource that existed before, or was created meanwhile."""
        return known if known is not None or key is None else self.ids[key]


@dataclass(frozen=True, slots=True)
class Unit:
    """
    A group of changes that other units depend on as a whole.

    :param items: items of the plan.
    :param work: flow that applies the changes and returns a result for each item; None if there are no changes.
    :param keys: keys of the items for units that depend on them, in the same order; empty if there are none.
    :param needs: keys of the items that this unit depends on.
    """

    items: tuple[Item, ...]
    work: Callable[[Applying], Flow[Sequence[Done]]] | None = None
    keys: tuple[Key, ...] = ()
    needs: tuple[Key, ...] = ()


def done(item: Item) -> Done:
    """Return the result of an item that was applied."""
    return Done(item.kind, item.name, _RESULTS[item.action])


def failed(item: Item, error: object) -> Done:
    """Return the result of an item that failed."""
    return Done(item.kind, item.name, Result.FAILED, in_one_line(error))


def _all_but(impossible: Sequence[str]) -> None:
    if impossible:
        raise InvalidInputError("; ".join(impossible))


def orchestration(
    entry: OrchestrationEntry, item: Item, key: Key, *, known: str | None, differences: Differences
) -> Callable[[Applying], Flow[Sequence[Done]]]:
    """
    Return the flow that creates or updates an orchestration.

    :param known: its ID; None to create it.
    """

    async def work(applying: Applying) -> Sequence[Done]:
        if known is None:
            made = await orchestration_changes.create(entry.name, entry.cron_schedule, "keep")
            applying.ids[key] = str(made["id"])
        else:
            fields = {"name": entry.name} if "name" in differences else {}
            if entry.cron_schedule is not None and "cron_schedule" in differences:
                fields["cron_schedule"] = entry.cron_schedule
            await send(orchestrations.update(known, **fields))
        return [done(item)]

    return work


@dataclass(frozen=True, slots=True)
class Attached:
    """The orchestration to attach: its ID, or its key if it is created by another unit."""

    id: str | None = None
    key: Key | None = None


def sync(
    entry: EltSyncEntry,
    item: Item,
    key: Key,
    *,
    known: str | None,
    connection_id: str | None,
    attached: Attached,
    differences: Differences,
) -> Callable[[Applying], Flow[Sequence[Done]]]:
    """
    Return the flow that creates or updates an ELT sync.

    :param known: its ID; None to create it.
    :param connection_id: ID of its connection.
    :param attached: its orchestration.
    """

    async def work(applying: Applying) -> Sequence[Done]:
        orchestration_id = applying.id_of(attached.id, attached.key)
        if known is None:
            made = await sync_changes.create(
                connection_id,
                None,
                entry.destination_schema_name,
                sync_interval=entry.sync_interval,
                elt_settings=entry.settings,
                data_start_date=entry.start_date,
                if_exists="keep",
            )
            sync_id = applying.ids[key] = str(made["id"])
            is_attached, is_switched = orchestration_id is not None, entry.enabled is False
        else:
            sync_id = known
            is_attached, is_switched = "orchestration" in differences, "enabled" in differences
            fields: dict[str, Any] = {}
            if entry.sync_interval is not None and "sync_interval" in differences:
                fields["sync_interval"] = entry.sync_interval
            if "settings" in differences:
                fields["elt_settings"] = entry.settings
            if fields:
                await send(elt_syncs.update(sync_id, **fields))
        if is_attached:
            if orchestration_id is None:
                await send(elt_syncs.detach_orchestration(sync_id))
            else:
                await send(elt_syncs.attach_orchestration(sync_id, orchestration_workflow_id=orchestration_id))
        if is_switched:
            await send(elt_syncs.enable(sync_id) if entry.enabled else elt_syncs.disable(sync_id))
        _all_but(differences.impossible)
        return [done(item)]

    return work


@dataclass(frozen=True, slots=True)
class StreamWork:
    """
    A stream to create or update.

    :param known: the existing stream; None to create it.
    """

    entry: StreamEntry
    item: Item
    known: EltStream | None
    differences: Differences

    @property
    def options(self) -> dict[str, Any] | None:
        """Options to send with the name of the stream; None if no request is necessary."""
        given = said(self.entry, (*STREAM_OPTIONS, *HIDDEN_STREAM_OPTIONS))
        if self.known is None:
            return {name: value for name, value in given.items() if value is not None}
        sent = {
            name: value
            for name, value in given.items()
            if value is not None and (name in self.differences or name in HIDDEN_STREAM_OPTIONS)
        }
        # The field has a default, which a service may apply if it is omitted.
        return {"enabled_history_table": self.known.enabled_history_table, **sent} if sent else None

    @property
    def has_interval(self) -> bool:
        """True if its own schedule has to be set or removed."""
        if self.known is None:
            return self.entry.sync_interval is not None
        return "sync_interval" in self.differences


def streams(
    sync_id: str | None, sync_key: Key, several: Sequence[StreamWork]
) -> Callable[[Applying], Flow[Sequence[Done]]]:
    """
    Return the flow that adds and updates streams of a sync, in one request unless the service refuses it.

    :param sync_id: ID of the sync; None if it is created by another unit.
    :param sync_key: key of the sync.
    :param several: the streams.
    """

    async def work(applying: Applying) -> Sequence[Done]:
        of_sync = str(applying.id_of(sync_id, sync_key))
        errors: dict[int, Exception] = {}
        sent = {place: each.options for place, each in enumerate(several)}
        wanted = [
            (
                place,
                {
                    "name": several[place].entry.name if (known := several[place].known) is None else known.name,
                    **options,
                },
            )
            for place, options in sent.items()
            if options is not None
        ]
        await _add(of_sync, wanted, errors)
        created: list[EltStream] = []
        if any(each.known is None and each.has_interval for each in several):
            created = await list_all(elt_streams.list_(elt_sync_id=of_sync))
        for place, each in enumerate(several):
            if place in errors:
                continue
            try:
                if each.has_interval:
                    await _set_interval(each, created)
                _all_but(each.differences.impossible)
            except DatapipeError as error:
                errors[place] = error
        return [
            failed(each.item, errors[place]) if place in errors else done(each.item)
            for place, each in enumerate(several)
        ]

    return work


async def _add(sync_id: str, wanted: Sequence[tuple[int, dict[str, Any]]], errors: dict[int, Exception]) -> None:
    """Add streams. If the service refuses the request as a whole, split it to find the invalid streams."""
    if not wanted:
        return
    try:
        # Streams are identified by name, so a repeated request is harmless.
        request = elt_syncs.add_source_streams(sync_id, source_streams=[each for _, each in wanted])
        await send(replace(request, endpoint=replace(request.endpoint, repeat=Repeat.IDEMPOTENT)))
    except (InvalidRequestError, InvalidInputError) as error:
        if len(wanted) == 1:
            errors[wanted[0][0]] = error
            return
        middle = len(wanted) // 2
        await _add(sync_id, wanted[:middle], errors)
        await _add(sync_id, wanted[middle:], errors)
    except DatapipeError as error:
        errors.update((place, error) for place, _ in wanted)


async def _set_interval(each: StreamWork, created: Sequence[EltStream]) -> None:
    stream = each.known or stream_named(created, each.entry.name)
    if stream is None:
        raise InvalidInputError("the service does not show the stream that it was given")
    if each.entry.sync_interval is None:
        await send(elt_streams.clear_sync_interval(stream.id))
    else:
        await send(elt_streams.set_sync_interval(stream.id, sync_interval=each.entry.sync_interval))


def sending(
    entry: ReverseEtlSyncEntry,
    item: Item,
    *,
    known: str | None,
    source_id: str | None,
    connection_id: str | None,
    attached: Attached,
    differences: Differences,
) -> Callable[[Applying], Flow[Sequence[Done]]]:
    """
    Return the flow that creates or updates a reverse ETL sync.

    :param known: its ID; None to create it.
    :param source_id: ID of its source.
    :param connection_id: ID of its destination.
    :param attached: its orchestration.
    """

    async def work(applying: Applying) -> Sequence[Done]:
        says_enabled = entry.enabled is not None
        # Stored state is not necessary if the file sets enabled.
        earlier = sending_changes.DeactivatedSyncs(NoTaskState() if says_enabled else applying.records)
        wanted = sending_changes.Definition(
            object_type_id=entry.object_type_id,
            operation=None if entry.operation is None else entry.operation.model_dump(mode="json", exclude_unset=True),
            sync_interval=entry.sync_interval,
            orchestration_id=applying.id_of(attached.id, attached.key),
            settings=entry.settings,
        )
        if known is None:
            made = await sending_changes.create(
                source_id=source_id,
                transform_name=None,
                folder_path=None,
                connection_id=connection_id,
                connection_label=None,
                wanted=wanted,
                if_exists="keep",
                earlier=earlier,
                wait_for_run=applying.wait_for_run,
            )
            if entry.enabled is False:
                await send(reverse_etl_syncs.deactivate(str(made["id"])))
        elif all(each.field == "enabled" for each in differences.changes):
            await send(reverse_etl_syncs.activate(known) if entry.enabled else reverse_etl_syncs.deactivate(known))
        else:
            applying.earlier = earlier
            await sending_changes.update(
                known, wanted, enabled=entry.enabled, earlier=earlier, wait_for_run=applying.wait_for_run
            )
        _all_but(differences.impossible)
        return [done(item)]

    return work


def deletion(item: Item, request: Request[Any]) -> Callable[[Applying], Flow[Sequence[Done]]]:
    """Return the flow that deletes a resource. A missing resource is success."""

    async def work(_: Applying) -> Sequence[Done]:
        with suppress(NotFoundError):
            await send(request)
        return [done(item)]

    return work


def delete_orchestration(orchestration_id: str, schedule: str | None) -> Request[Any]:
    """Return the request that deletes an orchestration to which nothing is attached."""
    return orchestrations.delete(orchestration_id, cron_schedule=schedule or _ANY_SCHEDULE)
