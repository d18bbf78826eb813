"""How what a service holds of transforms differs from what files say: told alike for plans and for deployments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_datapipe.api.endpoints import orchestrations, transforms
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.transforms import Transform, TransformStatus
from airflow_provider_datapipe.changes.comparable import UNKNOWN, Schedule
from airflow_provider_datapipe.changes.transform_folder import Attachment, DesiredTransform, levels, path_of
from airflow_provider_datapipe.changes.transforms import NO_SCHEDULE, schedule_change
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError, near_matches
from airflow_provider_datapipe.runs.steps import Steps, ask_all


def folder_of(transform: Transform) -> str:
    """Give the folder that a transform is in; empty for none."""
    return transform.folder_path.strip("/")


def path_in_service(transform: Transform) -> str:
    """Give folder and name of a transform, by which it is known."""
    return path_of(folder_of(transform), transform.name)


def all_by_path() -> Steps[dict[str, list[Transform]]]:
    """Read all transforms, by folder and name."""
    # A list that is read page by page may show something twice, if it changes meanwhile.
    listed = {each.id: each for each in (yield from ask_all(transforms.list_()))}
    there: dict[str, list[Transform]] = {}
    for each in listed.values():
        there.setdefault(path_in_service(each), []).append(each)
    return there


def is_within(transform: Transform, folder_path: str) -> bool:
    """Tell whether a transform is in a folder or below it; in the empty one all are."""
    around = folder_path.strip("/")
    return not around or f"{folder_of(transform)}/".startswith(f"{around}/")


def orphans_of(
    desired: Sequence[DesiredTransform], there: Mapping[str, Sequence[Transform]], folder_path: str
) -> list[Transform]:
    """Give what a service holds in a folder or below it, and nobody wants."""
    named = {each.path for each in desired}
    return [each for key in sorted(there) if key not in named for each in there[key] if is_within(each, folder_path)]


def build_order(desired: Sequence[DesiredTransform], read: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """
    Order transforms so that each is built after those that it reads.

    :param desired: the transforms; those that are not to be built wait for none, and none for them.
    :param read: by path, the paths of those that it reads.
    :raises CyclicTransformsError: some that are to be built read one another.
    """
    built = {each.path for each in desired if each.publish}
    return levels(
        {each.path: [other for other in read[each.path] if other in built] if each.publish else [] for each in desired}
    )


class Orchestrations:
    """
    The orchestrations of a service, by id and by name.

    :param listed: all that there are; none if nobody asks for any.
    """

    def __init__(self, listed: Sequence[Orchestration]) -> None:
        self._by_id = {each.id: each for each in listed}

    def id_of(self, wanted: Attachment | None) -> str | None:
        """
        Give the id of an orchestration; empty for none; None if that is not said.

        :raises NameLookupError: there is none of that name, or several are.
        """
        if wanted is None:
            return None
        if wanted.id is not None:
            # The service refuses one that is not there.
            return wanted.id
        if wanted.name is None:
            return ""
        found = [each.id for each in self._by_id.values() if each.name == wanted.name]
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousNameError(
                f"{wanted.name!r} is the name of more than one orchestration: {', '.join(sorted(found))}. "
                "Say orchestration_id."
            )
        near = near_matches(wanted.name, [each.name for each in self._by_id.values()])
        hint = f" Near to it: {', '.join(near)}." if near else ""
        raise UnknownNameError(f"There is no orchestration named {wanted.name!r}.{hint}")

    def name_of(self, orchestration_id: str) -> str | None:
        """Give the name of an orchestration, if it tells it apart."""
        known = self._by_id.get(orchestration_id)
        if known is None or sum(each.name == known.name for each in self._by_id.values()) != 1:
            return None
        return known.name


def orchestrations_of(desired: Sequence[DesiredTransform]) -> Steps[Orchestrations]:
    """Read the orchestrations, if any are named."""
    if not any(each.orchestration is not None for each in desired):
        return Orchestrations([])
    return Orchestrations((yield from ask_all(orchestrations.list_())))


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What is to be set once a transform is built, because it is another.

    :param schedule: the schedule, ``none`` for none; None if it is as it should be.
    :param orchestration_id: the orchestration, empty for none; None if it is as it should be.
    :param can_be_had: whether a transform that is in the present state can have them; else once it is published.
    :param is_unknown: whether the service does not show the schedule, and it is not sent.
    """

    schedule: str | None = None
    orchestration_id: str | None = None
    can_be_had: bool = True
    is_unknown: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be set."""
        return self.schedule is None and self.orchestration_id is None


def settings_of(
    wanted: DesiredTransform,
    there: Transform | None,
    orchestration_id: str | None,
    *,
    builds: bool,
    sends_unknown: bool,
) -> Settings:
    """
    Tell what is to be set.

    :param wanted: what the transform is to be.
    :param there: what it is; None if it is not there.
    :param orchestration_id: that of the orchestration that it is to be attached to; empty for none, None if not said.
    :param builds: whether it is going to be published.
    :param sends_unknown: whether a schedule that the service does not show is sent: with another change it is.
    """
    schedule: Schedule
    if there is None:
        schedule = None if wanted.cron_expression in (None, NO_SCHEDULE) else wanted.cron_expression
        attachment = orchestration_id or None
    else:
        schedule = schedule_change(wanted, there, sends_unknown=sends_unknown)
        attachment = None if orchestration_id == (there.orchestration_workflow_id or "") else orchestration_id
    is_unknown = schedule is UNKNOWN
    schedule = None if schedule is UNKNOWN else schedule
    is_published = there is not None and there.status == TransformStatus.PUBLISHED
    takes_away = schedule in (None, NO_SCHEDULE) and not attachment
    can_be_had = is_published or builds or takes_away
    return Settings(schedule, attachment, can_be_had=can_be_had, is_unknown=is_unknown)
