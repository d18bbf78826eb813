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
from airflow_provider_datapipe.resources.transform_folder import DesiredTransform, reads, tag_resolver
from airflow_provider_datapipe.resources.transform_orphans import Orphan, in_order_of_deletion
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
class CurrentTransforms:
    """
    State of the service.

    :param by_path: its transforms, by folder and name.
    :param orchestrations: its orchestrations.
    :param table_names: table names in the warehouse by the tags that refer to them.
    :param raw_tags: the tags that do not belong to transforms.
    """

    by_path: Mapping[str, Sequence[Transform]]
    orchestrations: Orchestrations
    table_names: Mapping[str, str]
    raw_tags: frozenset[str]

    def orchestration_name(self, orchestration_id: str | None) -> str:
        """Return the name of an orchestration, its ID if the name is ambiguous, or the value for none."""
        if not orchestration_id:
            return NO_ORCHESTRATION
        return self.orchestrations.name_of(orchestration_id) or orchestration_id


async def read_current_transforms() -> CurrentTransforms:
    """Read the state of the service."""
    by_path = await all_by_path()
    known = await list_all(orchestrations.list_())
    available = (await send(transforms.available_references())).data
    raw = frozenset(each.tag for each in available if each.type == ReferenceType.RAW_VIEW)
    return CurrentTransforms(by_path, Orchestrations(known), {each.tag: each.dw_item_id for each in available}, raw)


def due_steps(service: Runner, changed: Mapping[str, bool], existing: Mapping[str, Transform]) -> dict[str, Due]:
    """
    Return the next step that is necessary to build the current definition of each transform.

    :param service: runner of the requests, at most one for each transform.
    :param changed: True for transforms whose definition will change, by path.
    :param existing: the current transforms.
    """
    due = service.run_concurrently(
        [due_of(existing[key], is_changed=is_changed) for key, is_changed in changed.items()]
    )
    return dict(zip(changed, due, strict=True))


def plan_transforms(
    service: Runner, desired: Sequence[DesiredTransform], *, folder_path: str = "", delete_orphans: bool = False
) -> Plan:
    """
    Return the plan of a deployment.

    :param service: runner of the requests.
    :param desired: the desired transforms.
    :param folder_path: folder of the service that contains all desired transforms; empty for all folders.
    :param delete_orphans: if True, other transforms in that folder or below it are deleted.
    :raises CyclicTransformsError: if transforms to build read one another in a cycle.
    :raises NameLookupError: if the name of a transform or an orchestration is ambiguous, or an orchestration does not
        exist.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    current = service.run(read_current_transforms())
    read = reads(desired, current.raw_tags)
    order = build_order(desired, read)
    by_path = {each.path: each for each in desired}
    existing = {each.path: _only(each, current) for each in desired if each.path in current.by_path}
    differing = {key: differences(by_path[key], one) for key, one in existing.items()}
    changed = {key: bool(BUILT_FROM & differing[key].keys()) for key in existing if by_path[key].publish}
    due = due_steps(service, changed, existing)
    warnings: list[str] = []
    unknown: list[str] = []
    items = []
    for key in (key for level in order for key in level):
        found = _Comparison(existing.get(key), differing.get(key, {}), due.get(key, Due.NOTHING))
        settings = _settings(by_path[key], found, current)
        if settings.is_unknown:
            unknown.append(key)
        items.append(_item(by_path[key], found, settings, current, warnings))
    if unknown:
        warnings.append(not_compared(CRON_EXPRESSION, unknown, SET_CRON))
    warnings += [*_unknown_reference_warnings(desired, current), *_direct_name_warnings(desired, current)]
    orphans = orphans_of(desired, current.by_path, folder_path)
    action = Action.DELETE if delete_orphans else Action.NONE
    # The plan does not show the order of deletion.
    items += [Item(KIND, path_in_service(each), action, orphan=True) for each in orphans]
    if delete_orphans:
        in_order = in_order_of_deletion(orphans, desired, current.by_path, current.raw_tags, publish=True)
        warnings += _orphan_reader_warnings(service.run(in_order))
    return Plan(tuple(items), tuple(warnings))


def due_reason(transform: Transform) -> str:
    """Return the reason why the current definition is not built."""
    if transform.status != TransformStatus.PUBLISHED:
        return "it is a draft"
    outcome = KINDS[KIND].read(RunRef(KIND, transform.id, transform.name), transform).outcome
    if outcome is Outcome.FAILED:
        return "its last build failed"
    return "an earlier version is published"


def _only(desired: DesiredTransform, current: CurrentTransforms) -> Transform:
    found = current.by_path[desired.path]
    if len(found) > 1:
        ids = ", ".join(sorted(each.id for each in found))
        raise AmbiguousNameError(f"There is more than one transform {desired.path!r}: {ids}. Delete all but one.")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An existing transform, the fields that differ, and the next step of its build."""

    transform: Transform | None
    differing: Mapping[str, Any]
    due: Due


def _settings(desired: DesiredTransform, found: _Comparison, current: CurrentTransforms) -> Settings:
    return settings_of(
        desired,
        found.transform,
        current.orchestrations.id_of(desired.orchestration),
        builds=desired.publish,
        sends_unknown=bool(found.differing) or found.due is Due.PUBLICATION,
    )


def _item(
    desired: DesiredTransform, found: _Comparison, settings: Settings, current: CurrentTransforms, warnings: list[str]
) -> Item:
    existing, differing, due = found.transform, found.differing, found.due
    if not settings.is_empty and not settings.can_be_had:
        warnings.append(
            f"{desired.path}: drafts can't have a schedule or an orchestration, and the file sets publish: false."
        )
    kind = desired.materialization or (Materialization.VIEW if existing is None else existing.materialization)
    if settings.can_be_had and settings.schedule not in (None, NO_SCHEDULE) and kind == Materialization.VIEW:
        warnings.append(
            f"{desired.path}: only tables can have a schedule, and this is a view: the service will reject it."
        )
    changes = _changes(desired, existing, differing)
    if settings.can_be_had and settings.schedule is not None:
        shown = None if existing is None else schedule_of_transform(existing) or NO_SCHEDULE
        old = NOT_SHOWN if shown is UNKNOWN else shown
        changes.append(FieldChange("schedule", old, settings.schedule))
    if settings.can_be_had and settings.orchestration_id is not None:
        old = None if existing is None else current.orchestration_name(existing.orchestration_workflow_id)
        changes.append(FieldChange("orchestration", old, current.orchestration_name(settings.orchestration_id)))
    if existing is None:
        reason = "" if desired.publish else "as a draft"
        whole = differing_lines("", desired.sql_template.strip())
        return Item(KIND, desired.path, Action.CREATE, tuple(changes), whole, reason)
    diff: tuple[str, ...] = ()
    if "sql_template" in differing:
        diff = differing_lines(existing.sql_template.strip(), desired.sql_template.strip())
    if changes or diff:
        is_rebuilt = bool(BUILT_FROM & differing.keys())
        reason = "and not publish" if is_rebuilt and not desired.publish else ""
        if due is Due.PUBLICATION and not is_rebuilt:
            reason = f"and publish: {due_reason(existing)}"
        return Item(KIND, desired.path, Action.UPDATE, tuple(changes), diff, reason)
    if due is Due.PUBLICATION:
        return Item(KIND, desired.path, Action.PUBLISH, reason=due_reason(existing))
    return Item(KIND, desired.path, Action.NONE, reason="it is being built" if due is Due.WAIT else "")


def _changes(desired: DesiredTransform, existing: Transform | None, differing: Mapping[str, Any]) -> list[FieldChange]:
    if existing is None:
        given = (("materialization", desired.materialization), ("documentation", desired.documentation or None))
        return [FieldChange(name, None, value) for name, value in given if value is not None]
    old = {"materialization": str(existing.materialization), "documentation": existing.documentation or ""}
    return [FieldChange(name, old[name], differing[name]) for name in old if name in differing]


def _unknown_reference_warnings(desired: Sequence[DesiredTransform], current: CurrentTransforms) -> list[str]:
    """Return warnings about references that neither the service nor the files define."""
    drafts = {each.path for each in desired if not each.publish}
    transform_of = tag_resolver(desired, current.raw_tags)
    warnings = []
    for each in desired:
        for tag in tags(each.sql_template) if each.publish else ():
            other = None if tag in current.table_names else transform_of(tag)
            if other in drafts:
                warnings.append(f"{each.path} reads {other}, whose file sets publish: false.")
            elif other is None and tag not in current.table_names:
                warnings.append(f"{each.path} refers to {{{{{tag}}}}}, which neither the service nor the files define.")
    return warnings


def _direct_name_warnings(desired: Sequence[DesiredTransform], current: CurrentTransforms) -> list[str]:
    """Return warnings about tables that SQL names directly although references to them exist."""
    tags_by_table = {place: tag for tag, place in current.table_names.items()}
    return [
        f"{each.path} reads {current.table_names[tag]} without a reference, so deployments do not "
        f"wait for it: write {{{{{tag}}}}}."
        for each in desired
        for tag in named_directly(each.sql_template, tags_by_table)
    ]


def _orphan_reader_warnings(orphans: Sequence[Orphan]) -> list[str]:
    return [
        f"{reader} reads {each['key']}, so {each['key']} will not be deleted."
        for each in orphans
        for reader in each["read_by"]
    ]
