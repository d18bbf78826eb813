"""Changes of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, cast

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.models.transforms import Materialization, Transform, TransformStatus
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.resources.base import Change, IfMissing, change, deletion, get_or_create
from airflow_provider_datapipe.resources.comparable import (
    UNKNOWN,
    Schedule,
    not_compared,
    not_verified,
    schedule_of_transform,
)
from airflow_provider_datapipe.resources.template_values import choice
from airflow_provider_datapipe.resources.transform_folder import DesiredTransform, path_of
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.errors import RunError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef, RunResult, RunTarget
from airflow_provider_datapipe.runs.names import AmbiguousNameError
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result, exception_for
from airflow_provider_datapipe.runs.targets import (
    folder_of,
    orchestration_target,
    rendered_text,
    required,
    transform_target,
)
from airflow_provider_datapipe.runs.task_state import StartRecord, TaskState, task_state_key

KIND = "transform"
#: Value of a schedule that means no schedule, because None keeps the current schedule.
NO_SCHEDULE = "none"
CRON_EXPRESSION = "cron_expression of transforms"
SET_CRON = "To send it all the same, clear the task, run `datapipe deploy --resend`, or use endpoint transforms.update."
#: Fields whose change requires a new publication.
BUILT_FROM = frozenset({"sql_template", "materialization"})


class DeployResult(RunResult):
    """
    Result of a deployment: the result of the build, and the actions of the task.

    ``action``: ``created``, ``updated`` or ``none``; ``changed``: True if the service holds another definition than
    before. ``published``: True if the task published the transform. ``outcome`` is the outcome of that publication, or
    of a build that was active already. Without ``publish``, ``outcome`` is ``skipped``.
    """

    action: str
    changed: bool
    published: bool


class Due(StrEnum):
    """Next step that is necessary to build the current definition of a transform."""

    PUBLICATION = "publication"
    #: A build is active.
    WAIT = "wait"
    NOTHING = "nothing"


def desired(
    *,
    name: str | None,
    folder_path: str | None,
    sql_template: str | None,
    materialization: str | None,
    documentation: str | None,
    cron_expression: str | None,
) -> DesiredTransform:
    """
    Return the definition of a transform from rendered arguments.

    :raises ValueError: if the name or the SQL is empty, or another given argument that must not be empty.
    """
    if materialization is not None:
        choice("materialization", materialization, ("view", "table"))
    return DesiredTransform(
        required("name", name),
        (folder_of(folder_path) or "").strip("/"),
        required("sql_template", sql_template),
        materialization,
        rendered_text("documentation", documentation),
        cron_expression if cron_expression is None else required("cron_expression", cron_expression),
    )


async def deploy(wanted: DesiredTransform, *, publish: bool, records: TaskState, resend: bool = False) -> Batch:
    """
    Create a transform, update the fields that differ, or leave it unchanged.

    The transform is identified by its folder and its name. The state that the service shows decides whether it has to
    be published, so the actions of earlier tries do not matter.

    :param publish: if True, the transform is also built.
    :param records: the task state of earlier tries.
    :param resend: send the schedule also if the service does not show it and nothing else differs.
    :returns: a batch with the publication to start, the build to wait for, or neither; and notes for :func:`conclude`.
    :raises AmbiguousNameError: if several transforms have the name.
    """
    current, is_new = await get_or_create(
        lambda: _named(wanted.name, wanted.folder_path), transforms.create(**definition_of(wanted))
    )
    differing = {} if is_new else differences(wanted, current)
    if differing:
        # Updates that do not publish are idempotent.
        current = await send(transforms.update(current.id, **differing).repeatable())
    target = RunTarget(current.id, wanted.path)
    batch = Batch(KIND)
    batch.note = {
        "transform_id": current.id,
        "name": wanted.path,
        "action": "created" if is_new else "updated" if differing else "none",
        "published": False,
    }
    due = (await due_of(current, is_changed=bool(BUILT_FROM & differing.keys()))) if publish else Due.NOTHING
    sends_unknown = resend or is_new or bool(differing) or due is Due.PUBLICATION
    schedule = schedule_change(wanted, current, sends_unknown=sends_unknown)
    batch.note["schedule"] = None if schedule is UNKNOWN else schedule
    batch.note["warnings"] = [not_compared(CRON_EXPRESSION, [wanted.path], SET_CRON)] if schedule is UNKNOWN else []
    if publish:
        forget(records, target, is_settled=bool(differing) or due is Due.NOTHING)
    if due is Due.PUBLICATION:
        batch.queued.append(target)
        batch.note["published"] = True
    elif due is Due.WAIT:
        batch.waiting.append(RunRef.to(KIND, target, attached=True))
    else:
        state = KINDS[KIND].read(RunRef.to(KIND, target), current)
        outcome = str(state.outcome if publish else Outcome.SKIPPED)
        batch.note["result"] = {**(state.result or {}), "name": wanted.path, "outcome": outcome}
    return batch


async def conclude(batch: Batch) -> None:
    """Set the schedule if it differs and the build has not failed. Only published transforms have a schedule."""
    schedule = batch.note["schedule"]
    if schedule is None or any(exception_for(end) for end in batch.ended):
        return
    cron = None if schedule == NO_SCHEDULE else schedule
    await send(transforms.update(batch.note["transform_id"], cron_expression=cron).repeatable())
    batch.note["schedule"] = None
    if batch.note["action"] == "none":
        batch.note["action"] = "updated"


def result_of_deployment(batch: Batch) -> tuple[DeployResult, RunError | None]:
    """Return the result of a deployment, and its error, if any."""
    note = batch.note
    end = batch.ended[0] if batch.ended else None
    run = note["result"] if end is None else build_run_result(end)
    action = note["action"]
    did = {"name": note["name"], "action": action, "changed": action != "none", "published": note["published"]}
    result = cast("DeployResult", {**run, **did})
    return result, None if end is None else exception_for(end)


def definition_of(wanted: DesiredTransform) -> dict[str, Any]:
    """Return the fields that create a transform as a draft. Drafts cannot have a schedule."""
    names = ("name", "folder_path", "sql_template", "materialization", "documentation")
    fields = {name: getattr(wanted, name) for name in names}
    # The service's default is no folder.
    return {field: value for field, value in fields.items() if value not in (None, "")}


def differences(wanted: DesiredTransform, current: Transform) -> dict[str, Any]:
    """Return the fields of a definition that differ, except the schedule."""
    compared = {
        "sql_template": (wanted.sql_template, current.sql_template),
        "materialization": (wanted.materialization, current.materialization),
        "documentation": (wanted.documentation, current.documentation or ""),
    }
    # Whitespace around SQL has no meaning, and a service may strip it.
    return {field: new for field, (new, old) in compared.items() if new is not None and new.strip() != str(old).strip()}


def schedule_change(wanted: DesiredTransform, current: Transform, *, sends_unknown: bool) -> Schedule:
    """
    Return the schedule to send: None for no change, unknown if it can't be compared and is not sent.

    :param sends_unknown: if True, a schedule that the service does not show is sent.
    """
    shown = schedule_of_transform(current)
    if wanted.cron_expression is None or wanted.cron_expression == (shown or NO_SCHEDULE):
        return None
    return UNKNOWN if shown is UNKNOWN and not sends_unknown else wanted.cron_expression


async def due_of(current: Transform, *, is_changed: bool) -> Due:
    """
    Return the next step that is necessary to build the current definition of a transform.

    :param is_changed: True if the definition has just changed.
    """
    if is_changed or current.status != TransformStatus.PUBLISHED:
        return Due.PUBLICATION
    # A published view has no status, a published table has one: otherwise it is published as the other kind.
    if (current.materialization == Materialization.VIEW) != (current.materialization_status is None):
        return Due.PUBLICATION
    outcome = KINDS[KIND].read(RunRef(KIND, current.id, current.name), current).outcome
    if outcome is Outcome.FAILED:
        return Due.PUBLICATION
    newest = await send(transforms.versions(current.id, limit=1))
    if not newest.data or not newest.data[0].is_published:
        return Due.PUBLICATION
    return Due.NOTHING if outcome is Outcome.SUCCEEDED else Due.WAIT


def forget(records: TaskState, target: RunTarget, *, is_settled: bool) -> None:
    """
    Delete the stored record of an earlier publication, unless it is unknown whether its request was received.

    The state that the service shows is more reliable: the earlier try may have published another definition.

    :param is_settled: if True, such an uncertain record is deleted as well.
    """
    key = task_state_key(KIND, target)
    kept = records.get(key)
    if kept is not None and (is_settled or StartRecord.from_dict(kept).reference is not None):
        records.delete(key)


async def delete(
    transform_id: str | None, transform_name: str | None, folder_path: str | None, if_missing: IfMissing
) -> Change:
    """Delete a transform, and its view or table."""
    finding = transform_target(transform_id, transform_name, folder_path, {})
    return await deletion(KIND, finding, transforms.get, transforms.delete, if_missing)


async def attach(
    transform_id: str | None,
    transform_name: str | None,
    folder_path: str | None,
    *,
    orchestration_id: str | None,
    orchestration_name: str | None,
) -> Change:
    """Attach a published transform to an orchestration."""
    orchestration = await orchestration_target(orchestration_id, orchestration_name)
    before = await _transform(transform_id, transform_name, folder_path)
    after = await send(transforms.attach_orchestration(before.id, orchestration_workflow_id=orchestration.resource_id))
    changed = before.orchestration_workflow_id != orchestration.resource_id
    return _changed(after, action="attached", changed=changed)


async def detach(
    transform_id: str | None, transform_name: str | None, folder_path: str | None, cron_expression: str | None
) -> Change:
    """Detach a transform from its orchestration."""
    cron = cron_expression if cron_expression is None else required("cron_expression", cron_expression)
    before = await _transform(transform_id, transform_name, folder_path)
    after = await send(transforms.detach_orchestration(before.id, cron_expression=cron))
    changed = before.orchestration_workflow_id is not None or cron not in (None, before.cron_expression)
    is_hidden = cron is not None and schedule_of_transform(after) is UNKNOWN
    warnings = [not_verified(CRON_EXPRESSION, f"transform {after.name}")] if is_hidden else []
    return _changed(after, action="detached", changed=changed, warnings=warnings)


async def _named(name: str, folder_path: str) -> Transform | None:
    """Return the transform with exactly this name and folder; None if there is none."""
    listed = await list_all(transforms.list_(name=name, folder_path=folder_path or None))
    found = [each for each in listed if (each.name, each.folder_path.strip("/")) == (name, folder_path)]
    if len(found) > 1:
        ids = ", ".join(sorted(each.id for each in found))
        raise AmbiguousNameError(
            f"There is more than one transform {path_of(folder_path, name)!r}: {ids}. Delete all but one."
        )
    return found[0] if found else None


async def _transform(transform_id: str | None, transform_name: str | None, folder_path: str | None) -> Transform:
    target = await transform_target(transform_id, transform_name, folder_path, {})
    return await send(transforms.get(target.resource_id))


def _changed(transform: Transform, *, action: str, changed: bool, warnings: Sequence[str] = ()) -> Change:
    result = change(
        KIND, transform.id, action=action, changed=changed, name=transform.name, after=transform, warnings=warnings
    )
    # Omitted because it can be long; the service returns it on request.
    del result["details"]["sql_template"], result["details"]["parameters"]
    return result
