"""What a deployment of files would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import orchestrations, transforms
from airflow_provider_datapipe.api.models.transforms import Materialization, ReferenceType, Transform, TransformStatus
from airflow_provider_datapipe.changes.comparable import NOT_SHOWN, UNKNOWN, not_compared, schedule_of_transform
from airflow_provider_datapipe.changes.transform_folder import DesiredTransform, leading_to, reads, references
from airflow_provider_datapipe.changes.transform_orphans import desired_like
from airflow_provider_datapipe.changes.transform_state import (
    Orchestrations,
    Settings,
    all_by_path,
    build_order,
    orphans_of,
    path_in_service,
    settings_of,
)
from airflow_provider_datapipe.changes.transforms import (
    BUILT_FROM,
    CRON_EXPRESSION,
    KIND,
    NO_SCHEDULE,
    SET_CRON,
    Due,
    differences,
    due_of,
)
from airflow_provider_datapipe.pipelines.plan import Action, FieldChange, Item, Plan, differing_lines
from airflow_provider_datapipe.pipelines.transforms.direct_names import named_directly
from airflow_provider_datapipe.pipelines.transforms.front_matter import NO_ORCHESTRATION
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.names import AmbiguousNameError
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Reference
from airflow_provider_datapipe.runs.steps import Steps, ask, ask_all

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.collect import Runner


@dataclass(frozen=True, slots=True)
class Held:
    """
    What a service holds.

    :param there: its transforms, by folder and name.
    :param orchestrations: its orchestrations.
    :param places: what SQL can name: the tags, with where they lead to in the warehouse.
    :param raw: the tags among these that are of no transforms.
    """

    there: Mapping[str, Sequence[Transform]]
    orchestrations: Orchestrations
    places: Mapping[str, str]
    raw: frozenset[str]

    def orchestration_of(self, transform: Transform) -> str:
        """Give what the orchestration of a transform is called; its id, where no name tells it apart."""
        return self.called(transform.orchestration_workflow_id or "")

    def called(self, orchestration_id: str) -> str:
        """Give what an orchestration is called; its id, where no name tells it apart."""
        if not orchestration_id:
            return NO_ORCHESTRATION
        return self.orchestrations.name_of(orchestration_id) or orchestration_id


def held() -> Steps[Held]:
    """Read what a service holds."""
    there = yield from all_by_path()
    known = yield from ask_all(orchestrations.list_())
    available = (yield from ask(transforms.available_references())).data
    raw = frozenset(each.tag for each in available if each.type == ReferenceType.RAW_VIEW)
    return Held(there, Orchestrations(known), {each.tag: each.dw_item_id for each in available}, raw)


def what_is_due(service: Runner, wanted: Mapping[str, bool], there: Mapping[str, Transform]) -> dict[str, Due]:
    """
    Tell what transforms need so that their present definitions are built.

    :param service: is asked; of each published one its newest version has to be.
    :param wanted: by path, whether the definition is going to be changed.
    :param there: the transforms.
    """
    due = service.run_together([due_of(there[key], is_changed=changed) for key, changed in wanted.items()])
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
    Tell what a deployment would do.

    :param service: is asked.
    :param desired: what is to be there.
    :param folder_path: the folder of the service that all of them are in or below; empty for all folders.
    :param delete_orphans: whether what else is there would be deleted.
    :param resend: whether schedules that the service does not show would be sent although nothing else differs.
    :raises CyclicTransformsError: some that are to be built read one another in a circle.
    :raises NameLookupError: a file stands for several transforms, or its orchestration is not there.
    :raises DatapipeError: the service refused, or could not be reached.
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
    # What reads others is deleted before these; here it is enough to name them.
    items += [Item(KIND, path_in_service(each), action, orphan=True) for each in orphans]
    if delete_orphans:
        warnings += _still_read(desired, orphans, now)
    return Plan(tuple(items), tuple(warnings))


def why_due(transform: Transform) -> str:
    """Say why what stands in the warehouse is not the present definition."""
    if transform.status != TransformStatus.PUBLISHED:
        return "it is a draft"
    outcome = KINDS[KIND].read(Reference(KIND, transform.id, transform.name), transform).outcome
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
    """A transform as it is; what of it is to be another; and what it needs so that it is built."""

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
    """Tell which references nothing has, neither there nor in the files."""
    drafts = {each.path for each in desired if not each.publish}
    transform_of = leading_to(desired, now.raw)
    warnings = []
    for each in desired:
        for tag in references(each.sql_template) if each.publish else ():
            other = None if tag in now.places else transform_of(tag)
            if other in drafts:
                warnings.append(f"{each.path} reads {other}, whose file says publish: false.")
            elif other is None and tag not in now.places:
                warnings.append(f"{each.path} names {{{{{tag}}}}}, which is neither in the service nor in the files.")
    return warnings


def _by_name(desired: Sequence[DesiredTransform], now: Held) -> list[str]:
    """Tell which tables are named without a reference."""
    tags = {place: tag for tag, place in now.places.items()}
    return [
        f"{each.path} reads {now.places[tag]} without a reference, so it does not wait for it: write {{{{{tag}}}}}."
        for each in desired
        for tag in named_directly(each.sql_template, tags)
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
