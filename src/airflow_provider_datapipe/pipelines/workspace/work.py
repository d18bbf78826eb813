"""How the things of a workspace file are brought about: a unit for each that has something done to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_datapipe.api.endpoints import elt_streams, elt_syncs, orchestrations, reverse_etl_syncs
from airflow_provider_datapipe.api.errors import DatapipeError, InvalidInputError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.api.request import Repeat, Request
from airflow_provider_datapipe.changes import elt_syncs as sync_changes
from airflow_provider_datapipe.changes import orchestrations as orchestration_changes
from airflow_provider_datapipe.changes import reverse_etl as sending_changes
from airflow_provider_datapipe.pipelines.plan import Action, Done, Item, Result
from airflow_provider_datapipe.pipelines.workspace.differences import (
    HIDDEN_STREAM_OPTIONS,
    STREAM_OPTIONS,
    Differences,
)
from airflow_provider_datapipe.pipelines.workspace.matching import stream_named
from airflow_provider_datapipe.pipelines.workspace.models import said
from airflow_provider_datapipe.runs.records import NoRecords
from airflow_provider_datapipe.runs.steps import Steps, ask, ask_all

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.pipelines.workspace.models import (
        EltSyncEntry,
        OrchestrationEntry,
        ReverseEtlSyncEntry,
        StreamEntry,
    )
    from airflow_provider_datapipe.runs.records import Records

#: What something is called among the units: its section, and where it stands there.
Key: TypeAlias = "tuple[str | int, ...]"

_RESULTS = {
    Action.CREATE: Result.CREATED,
    Action.UPDATE: Result.UPDATED,
    Action.DELETE: Result.DELETED,
    Action.NONE: Result.UNCHANGED,
}
#: For what nothing is attached to, and the interface wants all the same.
_ANY_SCHEDULE = "0 0 * * *"


@dataclass(slots=True)
class Applying:
    """
    What is known while a file is applied.

    :param ids: of what was created.
    :param earlier: which reverse ETL syncs the last unit has deactivated.
    :param records: which reverse ETL syncs were active before they were deactivated for a change.
    :param wait_for_run: seconds to wait for a run that stands in the way of a change of a reverse ETL sync.
    """

    records: Records
    wait_for_run: int
    ids: dict[Key, str] = field(default_factory=dict)
    earlier: sending_changes.Earlier | None = None

    def id_of(self, known: str | None, key: Key | None) -> str | None:
        """Give the id of something that was there, or was created since."""
        return known if known is not None or key is None else self.ids[key]


@dataclass(frozen=True, slots=True)
class Unit:
    """
    Something that is done at once, or not at all as far as others are concerned.

    :param items: what it is about.
    :param work: does it, and tells what became of each item; None if there is nothing to do.
    :param keys: by which others need the items, in the order of these; none if nobody does.
    :param needs: what has to be there first.
    """

    items: tuple[Item, ...]
    work: Callable[[Applying], Steps[Sequence[Done]]] | None = None
    keys: tuple[Key, ...] = ()
    needs: tuple[Key, ...] = ()


def done(item: Item) -> Done:
    """Tell that all was done of an item."""
    return Done(item.kind, item.name, _RESULTS[item.action])


def failed(item: Item, error: object) -> Done:
    """Tell that an item failed."""
    return Done(item.kind, item.name, Result.FAILED, str(error))


def _all_but(impossible: Sequence[str]) -> None:
    if impossible:
        raise InvalidInputError("; ".join(impossible))


def orchestration(
    entry: OrchestrationEntry, item: Item, key: Key, *, known: str | None, differences: Differences
) -> Callable[[Applying], Steps[Sequence[Done]]]:
    """
    Create or change an orchestration.

    :param known: its id, if it is there.
    """

    def work(applying: Applying) -> Steps[Sequence[Done]]:
        if known is None:
            made = yield from orchestration_changes.create(entry.name, entry.cron_schedule, "keep")
            applying.ids[key] = str(made["id"])
        else:
            fields = {"name": entry.name} if "name" in differences else {}
            if entry.cron_schedule is not None and "cron_schedule" in differences:
                fields["cron_schedule"] = entry.cron_schedule
            yield from ask(orchestrations.update(known, **fields))
        return [done(item)]

    return work


@dataclass(frozen=True, slots=True)
class Attached:
    """The orchestration that something is to have: its id, or what it is called among the units."""

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
) -> Callable[[Applying], Steps[Sequence[Done]]]:
    """
    Create or change an ELT sync.

    :param known: its id, if it is there.
    :param connection_id: id of its connection.
    :param attached: its orchestration.
    """

    def work(applying: Applying) -> Steps[Sequence[Done]]:
        orchestration_id = applying.id_of(attached.id, attached.key)
        if known is None:
            made = yield from sync_changes.create(
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
                yield from ask(elt_syncs.update(sync_id, **fields))
        if is_attached:
            if orchestration_id is None:
                yield from ask(elt_syncs.detach_orchestration(sync_id))
            else:
                yield from ask(elt_syncs.attach_orchestration(sync_id, orchestration_workflow_id=orchestration_id))
        if is_switched:
            yield from ask(elt_syncs.enable(sync_id) if entry.enabled else elt_syncs.disable(sync_id))
        _all_but(differences.impossible)
        return [done(item)]

    return work


@dataclass(frozen=True, slots=True)
class StreamWork:
    """
    A stream that something is to be done to.

    :param known: it, if it is there.
    """

    entry: StreamEntry
    item: Item
    known: EltStream | None
    differences: Differences

    @property
    def options(self) -> dict[str, Any] | None:
        """What is to be sent with its name; None if nothing is."""
        given = said(self.entry, (*STREAM_OPTIONS, *HIDDEN_STREAM_OPTIONS))
        if self.known is None:
            return {name: value for name, value in given.items() if value is not None}
        sent = {
            name: value
            for name, value in given.items()
            if value is not None and (name in self.differences or name in HIDDEN_STREAM_OPTIONS)
        }
        # It has a default, which a service may take for what is meant.
        return {"enabled_history_table": self.known.enabled_history_table, **sent} if sent else None

    @property
    def has_interval(self) -> bool:
        """Whether its own schedule is to be set, or taken away."""
        if self.known is None:
            return self.entry.sync_interval is not None
        return "sync_interval" in self.differences


def streams(
    sync_id: str | None, sync_key: Key, several: Sequence[StreamWork]
) -> Callable[[Applying], Steps[Sequence[Done]]]:
    """
    Add streams to a sync, and change others of it: in one request, as long as that is taken.

    :param sync_id: id of the sync, if it is there.
    :param sync_key: what it is called among the units.
    :param several: the streams.
    """

    def work(applying: Applying) -> Steps[Sequence[Done]]:
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
        yield from _add(of_sync, wanted, errors)
        created: list[EltStream] = []
        if any(each.known is None and each.has_interval for each in several):
            created = yield from ask_all(elt_streams.list_(elt_sync_id=of_sync))
        for place, each in enumerate(several):
            if place in errors:
                continue
            try:
                if each.has_interval:
                    yield from _set_interval(each, created)
                _all_but(each.differences.impossible)
            except DatapipeError as error:
                errors[place] = error
        return [
            failed(each.item, errors[place]) if place in errors else done(each.item)
            for place, each in enumerate(several)
        ]

    return work


def _add(sync_id: str, wanted: Sequence[tuple[int, dict[str, Any]]], errors: dict[int, Exception]) -> Steps[None]:
    """Add streams, or find out which of them are refused: a service takes all of a request, or none."""
    if not wanted:
        return
    try:
        # Streams are told by their names, so sending again does no harm.
        request = elt_syncs.add_source_streams(sync_id, source_streams=[each for _, each in wanted])
        yield from ask(replace(request, endpoint=replace(request.endpoint, repeat=Repeat.IDEMPOTENT)))
    except (InvalidRequestError, InvalidInputError) as error:
        if len(wanted) == 1:
            errors[wanted[0][0]] = error
            return
        middle = len(wanted) // 2
        yield from _add(sync_id, wanted[:middle], errors)
        yield from _add(sync_id, wanted[middle:], errors)
    except DatapipeError as error:
        errors.update((place, error) for place, _ in wanted)


def _set_interval(each: StreamWork, created: Sequence[EltStream]) -> Steps[None]:
    stream = each.known or stream_named(created, each.entry.name)
    if stream is None:
        raise InvalidInputError("the service does not show the stream that it was given")
    if each.entry.sync_interval is None:
        yield from ask(elt_streams.clear_sync_interval(stream.id))
    else:
        yield from ask(elt_streams.set_sync_interval(stream.id, sync_interval=each.entry.sync_interval))


def sending(
    entry: ReverseEtlSyncEntry,
    item: Item,
    *,
    known: str | None,
    source_id: str | None,
    connection_id: str | None,
    attached: Attached,
    differences: Differences,
) -> Callable[[Applying], Steps[Sequence[Done]]]:
    """
    Create or change a reverse ETL sync.

    :param known: its id, if it is there.
    :param source_id: id of its source.
    :param connection_id: id of its destination.
    :param attached: its orchestration.
    """

    def work(applying: Applying) -> Steps[Sequence[Done]]:
        says_enabled = entry.enabled is not None
        # What the file says needs no memory.
        earlier = sending_changes.Earlier(NoRecords() if says_enabled else applying.records)
        wanted = sending_changes.Definition(
            object_type_id=entry.object_type_id,
            operation=None if entry.operation is None else entry.operation.model_dump(mode="json", exclude_unset=True),
            sync_interval=entry.sync_interval,
            orchestration_id=applying.id_of(attached.id, attached.key),
            settings=entry.settings,
        )
        if known is None:
            made = yield from sending_changes.create(
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
                yield from ask(reverse_etl_syncs.deactivate(str(made["id"])))
        elif all(each.field == "enabled" for each in differences.changes):
            yield from ask(reverse_etl_syncs.activate(known) if entry.enabled else reverse_etl_syncs.deactivate(known))
        else:
            applying.earlier = earlier
            yield from sending_changes.update(
                known, wanted, enabled=entry.enabled, earlier=earlier, wait_for_run=applying.wait_for_run
            )
        _all_but(differences.impossible)
        return [done(item)]

    return work


def deletion(item: Item, request: Request[Any]) -> Callable[[Applying], Steps[Sequence[Done]]]:
    """Delete something; that it is gone already is as well."""

    def work(_: Applying) -> Steps[Sequence[Done]]:
        with suppress(NotFoundError):
            yield from ask(request)
        return [done(item)]

    return work


def delete_orchestration(orchestration_id: str, schedule: str | None) -> Request[Any]:
    """Ask for the deletion of an orchestration to which nothing is attached."""
    return orchestrations.delete(orchestration_id, cron_schedule=schedule or _ANY_SCHEDULE)
