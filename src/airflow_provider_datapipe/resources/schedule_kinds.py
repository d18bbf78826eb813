"""Kinds of resources with schedules: how to read, pause and restore the schedule of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_datapipe.api.endpoints import (
    elt_streams,
    elt_syncs,
    orchestrations,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.transforms import Materialization, TransformStatus
from airflow_provider_datapipe.flows import Flow, list_all, send
from airflow_provider_datapipe.resources import reverse_etl_syncs as reverse_etl
from airflow_provider_datapipe.resources.comparable import (
    UNKNOWN,
    Schedule,
    schedule_of_orchestration,
    schedule_of_stream,
    schedule_of_sync,
    schedule_of_transform,
)

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync

#: Fields of a schedule, by name.
Fields = dict[str, Any]

#: Field with the ID of the orchestration that the resource is attached to.
ATTACHED = "orchestration_workflow_id"
_STREAM = "sync_interval of stream "
_NO_TRIGGER = (None, "none")


class ScheduleNotPausableError(DatapipeError):
    """The interface cannot pause the schedule of the resource and restore it later."""


class PauseContext:
    """
    Inputs of :meth:`ScheduleKind.apply` that only reverse ETL syncs use.

    :param deactivated: reverse ETL syncs that this task and its earlier tries have deactivated.
    :param wait_for_run: the longest wait for the end of a run that blocks an update, in seconds.
    """

    def __init__(self, deactivated: reverse_etl.DeactivatedSyncs, wait_for_run: Any) -> None:
        self.deactivated = deactivated
        self.wait_for_run = wait_for_run


class ScheduleKind:
    """
    A kind of resource that has a schedule.

    :ivar resource: its name in results.
    :ivar noun: its name in messages.
    :ivar field: name of the schedule field, which the service may omit.
    :ivar temporary: values that fields have only during a change, by field.
    :ivar derived: names of fields whose values follow from other fields.
    """

    resource: ClassVar[str]
    noun: ClassVar[str]
    field: ClassVar[str]
    temporary: ClassVar[Mapping[str, Any]] = {}
    derived: ClassVar[tuple[str, ...]] = ()

    def read(self, resource_id: str) -> Flow[Fields]:
        """Return the fields of the schedule, without those that the service does not show."""
        raise NotImplementedError

    def paused_fields(self, original: Fields, mark: str, *, paused: bool) -> Fields:
        """
        Return the fields that a pause changes, with their values during the pause.

        :param original: the current fields.
        :param mark: cron expression of the owner, which is not due for years.
        :param paused: if True, no run can be requested either.
        :returns: the fields; empty if the resource has no schedule.
        :raises ScheduleNotPausableError: if the interface cannot pause it, or cannot restore the current values.
        """
        raise NotImplementedError

    def apply(self, resource_id: str, current: Fields, wanted: Fields, context: PauseContext) -> Flow[None]:
        """
        Change fields in an order in which no run becomes due in between.

        :param current: the current fields.
        :param wanted: the fields to change.
        """
        raise NotImplementedError


class _EltSync(ScheduleKind):
    resource = "elt_sync"
    noun = "ELT sync"
    field = "sync_interval"

    async def read(self, resource_id: str) -> Fields:
        sync = await send(elt_syncs.get(resource_id))
        streams = await list_all(elt_streams.list_(elt_sync_id=resource_id))
        return _of_sync(sync) | _shown(**{f"{_STREAM}{each.id}": schedule_of_stream(each) for each in streams})

    def paused_fields(self, original: Fields, mark: str, *, paused: bool) -> Fields:
        if not original["enabled"]:
            return {}
        if paused:
            return {"enabled": False}
        if "sync_interval" not in original:
            raise ScheduleNotPausableError(
                f"It is attached to orchestration {original[ATTACHED]}, and therefore the service does not show its "
                "sync_interval, which is needed to restore it. Pass the sync_interval as cron_schedule, pause the "
                "schedule of the orchestration instead, or use paused=True."
            )
        if original["sync_interval"] is None:
            raise ScheduleNotPausableError(
                "It has no sync_interval, so it runs daily, and the interface cannot remove a sync_interval. Set a "
                "sync_interval in the service, or use paused=True."
            )
        streams = {field: mark for field, own in original.items() if field.startswith(_STREAM) and own is not None}
        attached = {} if original[ATTACHED] is None else {ATTACHED: None}
        return {"sync_interval": mark} | streams | attached

    async def apply(self, resource_id: str, current: Fields, wanted: Fields, context: PauseContext) -> None:
        if wanted.get("enabled") is False:
            await send(elt_syncs.disable(resource_id))
        # An attached sync ignores its own schedule: attach first and detach last, so that no run becomes due meanwhile.
        if wanted.get(ATTACHED) is not None:
            await send(elt_syncs.attach_orchestration(resource_id, orchestration_workflow_id=wanted[ATTACHED]))
        for field, cron in wanted.items():
            if field.startswith(_STREAM):
                await send(elt_streams.set_sync_interval(field.removeprefix(_STREAM), sync_interval=cron))
        if "sync_interval" in wanted:
            await send(elt_syncs.update(resource_id, sync_interval=wanted["sync_interval"]))
        if ATTACHED in wanted and wanted[ATTACHED] is None:
            await send(elt_syncs.detach_orchestration(resource_id))
        if wanted.get("enabled") is True:
            await send(elt_syncs.enable(resource_id))


class _Transform(ScheduleKind):
    resource = "transform"
    noun = "Transform"
    field = "cron_expression"
    derived = ("rebuild_trigger",)

    async def read(self, resource_id: str) -> Fields:
        current = await send(transforms.get(resource_id))
        is_table = current.status == TransformStatus.PUBLISHED and current.materialization == Materialization.TABLE
        fields = {ATTACHED: current.orchestration_workflow_id, "is_published_table": is_table}
        if "rebuild_trigger" in current.model_fields_set:
            fields["rebuild_trigger"] = current.rebuild_trigger
        # Only a published table can have a schedule of its own.
        return _shown(cron_expression=schedule_of_transform(current) if is_table else None) | fields

    def paused_fields(self, original: Fields, mark: str, *, paused: bool) -> Fields:
        if paused:
            raise ScheduleNotPausableError("Only ELT syncs and reverse ETL syncs can be paused.")
        if "cron_expression" not in original:
            raise ScheduleNotPausableError(
                "The service does not show its cron_expression, which is needed to restore it. Pass it as "
                "cron_schedule, or cron_schedule='none' if it has none."
            )
        own = {"cron_expression": mark} if original["is_published_table"] else {}
        if original[ATTACHED] is not None:
            return own | {ATTACHED: None}
        if original["cron_expression"] is not None:
            return own
        if original.get("rebuild_trigger") not in _NO_TRIGGER:
            raise ScheduleNotPausableError(
                f"It is built by its rebuild_trigger {original['rebuild_trigger']!r}, which the interface cannot "
                "change."
            )
        return {}

    async def apply(self, resource_id: str, current: Fields, wanted: Fields, context: PauseContext) -> None:
        attached = wanted.get(ATTACHED)
        if attached is not None:
            await send(transforms.attach_orchestration(resource_id, orchestration_workflow_id=attached))
        elif ATTACHED in wanted:
            # One request does both, so that the transform has no other schedule in between.
            cron = wanted.get("cron_expression")
            await send(transforms.detach_orchestration(resource_id, cron_expression=cron))
            return
        if "cron_expression" in wanted:
            await send(transforms.update(resource_id, cron_expression=wanted["cron_expression"]).repeatable())


class _ReverseEtlSync(ScheduleKind):
    resource = reverse_etl.KIND
    noun = "Reverse ETL sync"
    field = "sync_interval"
    #: The service updates deactivated syncs only.
    temporary: ClassVar[Mapping[str, Any]] = {"enabled": False}

    async def read(self, resource_id: str) -> Fields:
        sync = await send(reverse_etl_syncs.get(resource_id))
        return _of_sync(sync)

    def paused_fields(self, original: Fields, mark: str, *, paused: bool) -> Fields:
        if not original["enabled"]:
            return {}
        if paused:
            return {"enabled": False}
        # The sync_interval of an attached sync is not shown, has no effect, and is replaced when the sync is detached.
        if original.get("sync_interval") is None and original[ATTACHED] is None:
            return {}
        return {"sync_interval": mark, ATTACHED: None, "enabled": True}

    async def apply(self, resource_id: str, current: Fields, wanted: Fields, context: PauseContext) -> None:
        schedule = {field: wanted.get(field, current.get(field)) for field in ("sync_interval", ATTACHED)}
        if any(schedule[field] != current.get(field) for field in schedule):
            await reverse_etl.update(
                resource_id,
                # The service removes fields of the schedule that the request omits.
                reverse_etl.Definition(sync_interval=schedule["sync_interval"], orchestration_id=schedule[ATTACHED]),
                # Activate it if it was active: another task may deactivate it between this read and the update.
                enabled=wanted.get("enabled", current["enabled"] or None),
                deactivated=context.deactivated,
                wait_for_run=context.wait_for_run,
            )
        elif "enabled" in wanted:
            on = wanted["enabled"]
            await send((reverse_etl_syncs.activate if on else reverse_etl_syncs.deactivate)(resource_id))
            context.deactivated.forget(resource_id)


class _Orchestration(ScheduleKind):
    resource = "orchestration"
    noun = "Orchestration"
    field = "cron_schedule"

    async def read(self, resource_id: str) -> Fields:
        return _shown(cron_schedule=schedule_of_orchestration(await send(orchestrations.get(resource_id))))

    def paused_fields(self, original: Fields, mark: str, *, paused: bool) -> Fields:
        if paused:
            raise ScheduleNotPausableError("Only ELT syncs and reverse ETL syncs can be paused.")
        if original.get("cron_schedule") is None:
            raise ScheduleNotPausableError(
                "The service does not show its schedule, which is needed to restore it. Pass it as cron_schedule."
            )
        return {"cron_schedule": mark}

    async def apply(self, resource_id: str, current: Fields, wanted: Fields, context: PauseContext) -> None:
        await send(orchestrations.update(resource_id, cron_schedule=wanted["cron_schedule"]))


def _of_sync(sync: EltSync | ReverseEtlSync) -> Fields:
    fields = {"enabled": sync.enabled, ATTACHED: sync.orchestration_workflow_id}
    return fields | _shown(sync_interval=schedule_of_sync(sync))


def _shown(**schedules: Schedule) -> Fields:
    """Return the fields that the service shows."""
    return {field: value for field, value in schedules.items() if value is not UNKNOWN}


KINDS: dict[str, ScheduleKind] = {
    kind.resource: kind for kind in (_EltSync(), _Transform(), _ReverseEtlSync(), _Orchestration())
}
