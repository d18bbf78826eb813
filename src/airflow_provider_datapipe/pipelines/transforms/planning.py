"""Plans of deployments of transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import orchestrations, transforms
from airflow_provider_datapipe.api.models.formats.sql_references import tags
from airflow_provider_datapipe.api.models.transforms import Materialization, ReferenceType, Transform, TransformStatus
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.pipelines.plan import Action, Item, Plan, differing_lines
from airflow_provider_datapipe.pipelines.transforms.direct_names import named_directly
from airflow_provider_datapipe.pipelines.transforms.front_matter import NO_ORCHESTRATION
from airflow_provider_datapipe.resources.comparable import NOT_SHOWN, UNKNOWN, not_compared, schedule_of_transform
from airflow_provider_datapipe.resources.differences import FieldChange
from airflow_provider_datapipe.resources.transform_folder import DesiredTransform, leading_to, reads
from airflow_provider_datapipe.resources.transform_orphans import desired_like
from airflow_provider_datapipe.resources.transform_state import (
    Orchestrations,
    Settings,
    all_by_path,
    build_order,
    orphans_of,
    path_in_service,
    settings_of,
)
from airflow_provider_datapipe.resources.transforms import (
    BUILT_FROM,
    CRON_EXPRESSION,
    KIND,
    NO_SCHEDULE,
    SET_CRON,
    Due,
    differences,
    due_of,
)
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.names import AmbiguousNameError
from airflow_provider_datapipe.runs.outcome import Outcome

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.collect import Runner


@dataclass(frozen=True, slots=True)
class Held:
    """
    State of the service.

    :param there: its transforms, by folder and name.
    :param orchestrations: its orchestrations.
    :param places: table names in the warehouse by the tags that refer to them.
    :param raw: the tags that do not belong to transforms.
    """

    there: Mapping[str, Sequence[Transform]]
    orchestrations: Orchestrations
    places: Mapping[str, str]
    raw: frozenset[str]

    def orchestration_of(self, transform: Transform) -> str:
        """Return the name of a transform's orchestration; its ID if the name is ambiguous."""
        return self.called(transform.orchestration_workflow_id or "")

    def called(self, orchestration_id: str) -> str:
        """Return the name of an orchestration; its ID if the name is ambiguous."""
        if not orchestration_id:
            return NO_ORCHESTRATION
        return self.orchestrations.name_of(orchestration_id) or orchestration_id


async def held() -> Held:
    """Read the state of the service."""
    there = await all_by_path()
    known = await list_all(orchestrations.list_())
    available = (await send(transforms.available_references())).data
    raw = frozenset(each.tag for each in available if each.type == ReferenceType.RAW_VIEW)
    return Held(there, Orchestrations(known), {each.tag: each.dw_item_id for each in available}, raw)


def what_is_due(service: Runner, wanted: Mapping[str, bool], there: Mapping[str, Transform]) -> dict[str, Due]:
    """
    Return the next step that is necessary to build the current definition of each transform.

    :param service: runner of the requests, at most one for each transform.
    :param wanted: True for transforms whose definition is changed, by path.
    :param there: the current transforms.
    """
    due = service.run_concurrently([due_of(there[key], is_changed=changed) for key, changed in wanted.items()])
    return dict(zip(wanted, due, strict=True))


def plan_transforms(
    service: Runner,
    desired: Sequence[DesiredTransform],
    *,
    folder_path: str = "",
    delete_orphans: bool = False,
    resend: bool = False,
) -> Plan:
    """
    Return the plan of a deployment.

    :param service: runner of the requests.
    :param desired: the desired transforms.
    :param folder_path: folder of the service that contains all desired transforms; empty for all folders.
    :param delete_orphans: if True, other transforms in that folder or below it are deleted.
    :param resend: if True, schedules that the service does not show are sent even if nothing else differs.
    :raises CyclicTransformsError: if transforms to build read one another in a cycle.
    :raises NameLookupError: if the name of a transform or an orchestration is ambiguous, or an orchestration does not
        exist.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    now = service.run(held())
    read = reads(desired, now.raw)
    order = build_order(desired, read)
    by_path = {each.path: each for each in desired}
    there = {each.path: _only(each, now) for each in desired if each.path in now.there}
    differing = {key: differences(by_path[key], one) for key, one in there.items()}
    asked = {key: bool(BUILT_FROM & differing[key].keys()) for key in there if by_path[key].publish}
    due = what_is_due(service, asked, there)
    warnings: list[str] = []
    unknown: list[str] = []
    items = []
    for key in (key for level in order for key in level):
        found = _Found(there.get(key), differing.get(key, {}), due.get(key, Due.NOTHING))
        settings = _settings(by_path[key], found, now, resend=resend)
        if settings.is_unknown:
            unknown.append(key)
        items.append(_item(by_path[key], found, settings, now, warnings))
    if unknown:
        warnings.append(not_compared(CRON_EXPRESSION, unknown, SET_CRON))
    warnings += [*_leading_nowhere(desired, now), *_by_name(desired, now)]
    orphans = orphans_of(desired, now.there, folder_path)
    action = Action.DELETE if delete_orphans else Action.NONE
    # The plan does not show the order of deletion.
    items += [Item(KIND, path_in_service(each), action, orphan=True) for each in orphans]
    if delete_orphans:
        warnings += _still_read(desired, orphans, now)
    return Plan(tuple(items), tuple(warnings))


def why_due(transform: Transform) -> str:
    """Return the reason why the current definition is not built."""
    if transform.status != TransformStatus.PUBLISHED:
        return "it is a draft"
    outcome = KINDS[KIND].read(RunRef(KIND, transform.id, transform.name), transform).outcome
    if outcome is Outcome.FAILED:
        return "its last build failed"
    return "what was published is an earlier definition"


def _only(wanted: DesiredTransform, now: Held) -> Transform:
    found = now.there[wanted.path]
    if len(found) > 1:
        ids = ", ".join(sorted(each.id for each in found))
        raise AmbiguousNameError(f"There is more than one transform {wanted.path!r}: {ids}. Delete all but one.")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Found:
    """An existing transform, the fields that differ, and the next step of its build."""

    transform: Transform | None
    differing: Mapping[str, Any]
    due: Due


def _settings(wanted: DesiredTransform, found: _Found, now: Held, *, resend: bool) -> Settings:
    return settings_of(
        wanted,
        found.transform,
        now.orchestrations.id_of(wanted.orchestration),
        builds=wanted.publish,
        sends_unknown=resend or bool(found.differing) or found.due is Due.PUBLICATION,
    )


def _item(wanted: DesiredTransform, found: _Found, settings: Settings, now: Held, warnings: list[str]) -> Item:
    there, differing, due = found.transform, found.differing, found.due
    if not settings.is_empty and not settings.can_be_had:
        warnings.append(
            f"{wanted.path}: a draft has no schedule and no orchestration, and the file says publish: false."
        )
    kind = wanted.materialization or (Materialization.VIEW if there is None else there.materialization)
    if settings.can_be_had and settings.schedule not in (None, NO_SCHEDULE) and kind == Materialization.VIEW:
        warnings.append(f"{wanted.path}: only tables have a schedule, and this is a view, which will be refused.")
    changes = _changes(wanted, there, differing)
    if settings.can_be_had and settings.schedule is not None:
        shown = None if there is None else schedule_of_transform(there) or NO_SCHEDULE
        old = NOT_SHOWN if shown is UNKNOWN else shown
        changes.append(FieldChange("schedule", old, settings.schedule))
    if settings.can_be_had and settings.orchestration_id is not None:
        old = None if there is None else now.orchestration_of(there)
        changes.append(FieldChange("orchestration", old, now.called(settings.orchestration_id)))
    if there is None:
        reason = "" if wanted.publish else "as a draft"
        whole = differing_lines("", wanted.sql_template.strip())
        return Item(KIND, wanted.path, Action.CREATE, tuple(changes), whole, reason)
    diff: tuple[str, ...] = ()
    if "sql_template" in differing:
        diff = differing_lines(there.sql_template.strip(), wanted.sql_template.strip())
    if changes or diff:
        is_rebuilt = bool(BUILT_FROM & differing.keys())
        reason = "and not publish" if is_rebuilt and not wanted.publish else ""
        if due is Due.PUBLICATION and not is_rebuilt:
            reason = f"and publish: {why_due(there)}"
        return Item(KIND, wanted.path, Action.UPDATE, tuple(changes), diff, reason)
    if due is Due.PUBLICATION:
        return Item(KIND, wanted.path, Action.PUBLISH, reason=why_due(there))
    return Item(KIND, wanted.path, Action.NONE, reason="it is being built" if due is Due.PATIENCE else "")


def _changes(wanted: DesiredTransform, there: Transform | None, differing: Mapping[str, Any]) -> list[FieldChange]:
    if there is None:
        given = (("materialization", wanted.materialization), ("documentation", wanted.documentation or None))
        return [FieldChange(name, None, value) for name, value in given if value is not None]
    old = {"materialization": str(there.materialization), "documentation": there.documentation or ""}
    return [FieldChange(name, old[name], differing[name]) for name in old if name in differing]


def _leading_nowhere(desired: Sequence[DesiredTransform], now: Held) -> list[str]:
    """Return warnings about references that neither the service nor the files define."""
    drafts = {each.path for each in desired if not each.publish}
    transform_of = leading_to(desired, now.raw)
    warnings = []
    for each in desired:
        for tag in tags(each.sql_template) if each.publish else ():
            other = None if tag in now.places else transform_of(tag)
            if other in drafts:
                warnings.append(f"{each.path} reads {other}, whose file says publish: false.")
            elif other is None and tag not in now.places:
                warnings.append(f"{each.path} names {{{{{tag}}}}}, which is neither in the service nor in the files.")
    return warnings


def _by_name(desired: Sequence[DesiredTransform], now: Held) -> list[str]:
    """Return warnings about tables that SQL names directly although references to them exist."""
    by_place = {place: tag for tag, place in now.places.items()}
    return [
        f"{each.path} reads {now.places[tag]} without a reference, so it does not wait for it: write {{{{{tag}}}}}."
        for each in desired
        for tag in named_directly(each.sql_template, by_place)
    ]


def _still_read(desired: Sequence[DesiredTransform], orphans: Sequence[Transform], now: Held) -> list[str]:
    gone = [desired_like(each) for each in orphans]
    paths = {each.path for each in gone}
    read = reads([*gone, *desired], now.raw)
    return [
        f"{each.path} reads {other}, which would not be deleted therefore."
        for each in desired
        for other in read[each.path]
        if other in paths
    ]
