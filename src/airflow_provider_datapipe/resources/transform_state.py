"""Differences between the transforms of the service and those in files, for plans and deployments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_datapipe.api.endpoints import orchestrations, transforms
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.transforms import Transform, TransformStatus, TransformVersion
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.resources.comparable import UNKNOWN, Schedule
from airflow_provider_datapipe.resources.transform_folder import Attachment, DesiredTransform, levels, path_of
from airflow_provider_datapipe.resources.transforms import NO_SCHEDULE, schedule_change
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError, near_matches


def folder_of(transform: Transform) -> str:
    """Return the folder of a transform; empty for none."""
    return transform.folder_path.strip("/")


def path_in_service(transform: Transform) -> str:
    """Return folder and name of a transform, which identify it."""
    return path_of(folder_of(transform), transform.name)


async def all_by_path() -> dict[str, list[Transform]]:
    """Return all transforms, by folder and name."""
    # Pages can contain duplicates if the list changes between the requests.
    listed = {each.id: each for each in await list_all(transforms.list_())}
    existing: dict[str, list[Transform]] = {}
    for each in listed.values():
        existing.setdefault(path_in_service(each), []).append(each)
    return existing


async def published_version(transform_id: str) -> TransformVersion | None:
    """
    Return the published version of a transform, None if there is none.

    :raises NotFoundError: the transform does not exist.
    """
    # In most cases, it is the newest one: request one version first.
    newest = await send(transforms.versions(transform_id, limit=1))
    found = next((version for version in newest.data if version.is_published), None)
    if found is None and newest.has_more:
        older = await list_all(transforms.versions(transform_id))
        found = next((version for version in older if version.is_published), None)
    return found


def is_within(transform: Transform, folder_path: str) -> bool:
    """Return True if a transform is in a folder or below it. The empty folder contains all transforms."""
    folder = folder_path.strip("/")
    return not folder or f"{folder_of(transform)}/".startswith(f"{folder}/")


def orphans_of(
    desired: Sequence[DesiredTransform], existing: Mapping[str, Sequence[Transform]], folder_path: str
) -> list[Transform]:
    """Return the transforms in a folder or below it that are not desired."""
    named = {each.path for each in desired}
    return [
        each for key in sorted(existing) if key not in named for each in existing[key] if is_within(each, folder_path)
    ]


def build_order(desired: Sequence[DesiredTransform], read: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """
    Return transforms in levels, so that each is built after those that it reads.

    :param desired: the transforms. Those without ``publish`` depend on none, and none depends on them.
    :param read: paths of the transforms that each transform reads, by path.
    :raises CyclicTransformsError: if transforms to build read one another in a cycle.
    """
    built = {each.path for each in desired if each.publish}
    return levels(
        {each.path: [other for other in read[each.path] if other in built] if each.publish else [] for each in desired}
    )


class Orchestrations:
    """
    Orchestrations of the service, by ID and by name.

    :param listed: all orchestrations; empty if no transform names any.
    """

    def __init__(self, listed: Sequence[Orchestration]) -> None:
        self._by_id = {each.id: each for each in listed}

    def id_of(self, desired: Attachment | None) -> str | None:
        """
        Return the ID of an orchestration; empty for detached, None if ``desired`` is None.

        :raises NameLookupError: if no orchestration or more than one has the name.
        """
        if desired is None:
            return None
        if desired.id is not None:
            # The service validates the ID.
            return desired.id
        if desired.name is None:
            return ""
        found = [each.id for each in self._by_id.values() if each.name == desired.name]
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousNameError(
                f"{desired.name!r} is the name of more than one orchestration: {', '.join(sorted(found))}. "
                "Set orchestration_id."
            )
        near = near_matches(desired.name, [each.name for each in self._by_id.values()])
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(f"There is no orchestration named {desired.name!r}.{hint}")

    def name_of(self, orchestration_id: str) -> str | None:
        """Return the name of an orchestration, None if it is unknown or not unique."""
        known = self._by_id.get(orchestration_id)
        if known is None or sum(each.name == known.name for each in self._by_id.values()) != 1:
            return None
        return known.name


async def orchestrations_of(desired: Sequence[DesiredTransform]) -> Orchestrations:
    """Return the orchestrations of the service. They are read only if a desired transform refers to one."""
    if not any(each.orchestration is not None for each in desired):
        return Orchestrations([])
    return Orchestrations(await list_all(orchestrations.list_()))


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Settings that differ, to be applied after the transform is built.

    :param schedule: the schedule, ``none`` for none; None for no change.
    :param orchestration_id: ID of the orchestration, empty to detach; None for no change.
    :param can_be_had: True if the transform is or will be published, or if settings are only removed. Other transforms
        get their settings once they are published.
    :param is_unknown: True if the service does not show the schedule, and it is not sent.
    """

    schedule: str | None = None
    orchestration_id: str | None = None
    can_be_had: bool = True
    is_unknown: bool = False

    @property
    def is_empty(self) -> bool:
        """True if nothing differs."""
        return self.schedule is None and self.orchestration_id is None


def settings_of(
    desired: DesiredTransform,
    existing: Transform | None,
    orchestration_id: str | None,
    *,
    builds: bool,
    sends_unknown: bool,
) -> Settings:
    """
    Return the settings to apply.

    :param desired: the desired transform.
    :param existing: the current transform; None if it does not exist.
    :param orchestration_id: ID of the orchestration to attach the transform to; empty for none, None if not given.
    :param builds: True if the transform is published.
    :param sends_unknown: if True, a schedule that the service does not show is sent, because there is another change.
    """
    schedule: Schedule
    if existing is None:
        schedule = None if desired.cron_expression in (None, NO_SCHEDULE) else desired.cron_expression
        attachment = orchestration_id or None
    else:
        schedule = schedule_change(desired, existing, sends_unknown=sends_unknown)
        attachment = None if orchestration_id == (existing.orchestration_workflow_id or "") else orchestration_id
    is_unknown = schedule is UNKNOWN
    schedule = None if schedule is UNKNOWN else schedule
    is_published = existing is not None and existing.status == TransformStatus.PUBLISHED
    only_removes = schedule in (None, NO_SCHEDULE) and not attachment
    can_be_had = is_published or builds or only_removes
    return Settings(schedule, attachment, can_be_had=can_be_had, is_unknown=is_unknown)
