"""Changes of orchestrations."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints import orchestrations
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.resources.base import (
    Change,
    IfExists,
    IfMissing,
    change,
    check_if_exists,
    deletion,
    drop_none,
    existing,
    get_or_create,
    or_none,
)
from airflow_provider_datapipe.resources.comparable import (
    UNKNOWN,
    not_compared,
    not_verified,
    schedule_of_orchestration,
)
from airflow_provider_datapipe.resources.differences import Differences
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.names import UnknownNameError, find_orchestration
from airflow_provider_datapipe.runs.targets import orchestration_target, required

KIND = "orchestration"
_CRON_SCHEDULE = "cron_schedule of orchestrations"
_SET_SCHEDULE = "To set it, use OrchestrationUpdateOperator."


async def create(name: str | None, cron_schedule: str | None, if_exists: IfExists) -> Change:
    """
    Create an orchestration, which is identified by its name.

    :raises ResourceExistsError: if it exists, and ``if_exists`` is ``fail``.
    :raises AmbiguousNameError: if several orchestrations have the name.
    """
    check_if_exists(if_exists)
    wanted, cron = required("name", name), required("cron_schedule", cron_schedule)
    found, is_new = await get_or_create(
        lambda: or_none(find_orchestration(wanted)), orchestrations.create(name=wanted, cron_schedule=cron)
    )
    if is_new:
        return change(KIND, found.id, action="created", name=found.name, after=found)
    existing(found, f"an orchestration named {wanted!r}", if_exists)
    if if_exists == "keep":
        return change(KIND, found.id, action="created", changed=False, name=found.name, after=found)
    differences = compare(found, name=found.name, cron_schedule=cron)
    if differences.changes:
        return _updated(await send_differences(found.id, differences), sends_schedule=True)
    warnings = [not_compared(_CRON_SCHEDULE, [found.name], _SET_SCHEDULE)] if differences.unknown else []
    return change(KIND, found.id, action="updated", changed=False, name=found.name, after=found, warnings=warnings)


async def update(
    orchestration_id: str | None, orchestration_name: str | None, *, new_name: str | None, cron_schedule: str | None
) -> Change:
    """
    Update an orchestration. Fields that are None stay unchanged. The result is always ``changed``.

    :raises ValueError: if there is nothing to change.
    """
    given = drop_none(new_name=new_name, cron_schedule=cron_schedule)
    if not given:
        raise ValueError("nothing to change: set new_name or cron_schedule")
    if "new_name" in given:
        given["name"] = given.pop("new_name")
    try:
        target = await orchestration_target(orchestration_id, orchestration_name)
    except UnknownNameError:
        # An earlier try may have renamed it.
        renamed = (await or_none(find_orchestration(given["name"]))) if "name" in given else None
        if renamed is None:
            raise
        target = RunTarget(renamed.id, renamed.name)
    after = await send(orchestrations.update(target.resource_id, **given))
    return _updated(after, sends_schedule="cron_schedule" in given)


def compare(current: Orchestration, *, name: str, cron_schedule: str | None) -> Differences:
    """
    Compare an orchestration with its desired state.

    :param cron_schedule: the desired schedule; None for the current one.
    """
    found = Differences()
    found.compare("name", current.name, name)
    if cron_schedule is not None:
        found.compare_schedule("cron_schedule", schedule_of_orchestration(current), cron_schedule)
    return found


async def send_differences(orchestration_id: str, found: Differences) -> Orchestration:
    """Send the fields that differ. Return the orchestration after the change."""
    return await send(orchestrations.update(orchestration_id, **{each.field: each.new for each in found.changes}))


async def delete(
    orchestration_id: str | None, orchestration_name: str | None, cron_schedule: str | None, if_missing: IfMissing
) -> Change:
    """Delete an orchestration. The syncs and transforms that are attached to it continue with ``cron_schedule``."""
    cron = required("cron_schedule", cron_schedule)
    return await deletion(
        KIND,
        orchestration_target(orchestration_id, orchestration_name),
        orchestrations.get,
        lambda resource_id: orchestrations.delete(resource_id, cron_schedule=cron),
        if_missing,
    )


def _updated(after: Orchestration, *, sends_schedule: bool) -> Change:
    is_hidden = sends_schedule and schedule_of_orchestration(after) is UNKNOWN
    warnings = [not_verified(_CRON_SCHEDULE, f"orchestration {after.name}")] if is_hidden else []
    return change(KIND, after.id, action="updated", name=after.name, after=after, warnings=warnings)
