"""Export of the service's transforms to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.transforms import Transform, TransformStatus
from airflow_provider_datapipe.pipelines.atomic_write import write_atomically
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.plan import Report, ReportItem, Result
from airflow_provider_datapipe.pipelines.transforms.files import desired_from_files, path_for, path_matches
from airflow_provider_datapipe.pipelines.transforms.front_matter import (
    NO_ORCHESTRATION,
    SqlFile,
    TransformFileError,
    parse,
    render,
)
from airflow_provider_datapipe.pipelines.transforms.planning import (
    CurrentTransforms,
    due_reason,
    due_steps,
    read_current_transforms,
)
from airflow_provider_datapipe.resources.comparable import UNKNOWN, schedule_of_transform
from airflow_provider_datapipe.resources.transform_state import folder_of, is_within, settings_of
from airflow_provider_datapipe.resources.transforms import KIND, NO_SCHEDULE, Due, differences
from airflow_provider_datapipe.runs.names import NameLookupError

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.collect import Runner
    from airflow_provider_datapipe.resources.transform_folder import DesiredTransform

#: Maximum number of files in an error message.
_MOST_NAMED = 10


class OverwriteError(PipelineError):
    """Files differ from the service, and ``force`` is not set."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """
    Changes that make a folder match the service.

    :param texts: texts of new and changed files, by path.
    :param new: paths of those that do not exist yet.
    :param orphaned: paths of files whose transforms are not on the service.
    :param report: a result for each transform.
    """

    texts: Mapping[str, str]
    new: frozenset[str]
    orphaned: tuple[str, ...]
    report: Report

    @property
    def overwritten(self) -> list[str]:
        """Paths of existing files that would change."""
        return sorted(self.texts.keys() - self.new)


def pull_transforms(service: Runner, files: Sequence[SqlFile], *, folder_path: str = "") -> Pulled:
    """
    Return the changes that make files match the service.

    Files that match already do not change. Omitted properties stay omitted.

    :param service: runner of the requests.
    :param files: the existing files.
    :param folder_path: folder of the service to export, with its subfolders; empty for all folders.
    :raises TransformFileError: if two files define the same transform.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    current = service.run(read_current_transforms())
    by_path = {
        each.path: (each, file) for file in files for each in desired_from_files([file], folder_path=folder_path)
    }
    # This raises if two files define the same transform.
    desired_from_files(files, folder_path=folder_path)
    in_folder = {key: found for key, found in sorted(current.by_path.items()) if is_within(found[0], folder_path)}
    unique = {key: found[0] for key, found in in_folder.items() if len(found) == 1}
    published = {key: one for key, one in unique.items() if one.status == TransformStatus.PUBLISHED}
    due = due_steps(service, dict.fromkeys(published, False), published)
    texts: dict[str, str] = {}
    new: set[str] = set()
    items = []
    warnings = []
    taken = {file.path for file in files}
    for key, found in in_folder.items():
        if len(found) > 1:
            ids = ", ".join(sorted(each.id for each in found))
            items.append(ReportItem(KIND, key, Result.FAILED, f"several transforms have this name: {ids}"))
            continue
        existing = found[0]
        is_built = due.get(key) in (Due.NOTHING, Due.WAIT)
        if key in published and not is_built:
            warnings.append(f"{key}: its file sets publish: false, because {due_reason(existing)}.")
        known = by_path.get(key)
        if known is not None and not _differs(known[0], existing, current, is_built=is_built):
            items.append(ReportItem(KIND, key, Result.UNCHANGED))
            continue
        file = None if known is None else known[1]
        path = path_for(_below(existing, folder_path), existing.name, taken) if file is None else file.path
        text = _text(file, path, existing, current, folder_path, is_built=is_built)
        try:
            # Parse the text again: if the result differs, the transform cannot be written as YAML.
            (again,) = desired_from_files([parse(text, path)], folder_path=folder_path)
            is_same = again.path == key and not _differs(again, existing, current, is_built=is_built)
            text.encode()
        except (TransformFileError, UnicodeEncodeError) as error:
            items.append(ReportItem(KIND, key, Result.FAILED, f"it can't be written to a file: {error}"))
            continue
        if not is_same:
            items.append(ReportItem(KIND, key, Result.FAILED, "it can't be written to a file without changes"))
            continue
        texts[path] = text
        taken.add(path)
        if file is None:
            new.add(path)
        items.append(ReportItem(KIND, key, Result.CREATED if file is None else Result.UPDATED))
    orphaned = tuple(sorted(file.path for key, (_, file) in by_path.items() if key not in in_folder))
    return Pulled(texts, frozenset(new), orphaned, Report(tuple(items), tuple(warnings)))


def write_files(folder: Path, pulled: Pulled, *, force: bool = False, delete: bool = False) -> Report:
    """
    Write the changes of a pull.

    :param folder: the folder; it is created if it does not exist.
    :param pulled: the changes.
    :param force: if True, existing files are overwritten.
    :param delete: if True, files whose transforms are not on the service are deleted.
    :raises OverwriteError: if existing files differ, and ``force`` is False. Nothing was written.
    :raises TransformFileError: if a link leads out of the folder, and nothing was written; or if a file cannot be
        written.
    """
    if pulled.overwritten and not force:
        named = ", ".join(pulled.overwritten[:_MOST_NAMED])
        more = f" and {len(pulled.overwritten) - _MOST_NAMED} more" if len(pulled.overwritten) > _MOST_NAMED else ""
        raise OverwriteError(
            f"{len(pulled.overwritten)} files differ from the service: {named}{more}. Nothing was written. To "
            "overwrite the files, commit your edits, run the command with --force, and review the changes."
        )
    for path in pulled.texts:
        _refuse_links(folder, path)
    for path, text in pulled.texts.items():
        _write(folder / path, text)
    if delete:
        for path in pulled.orphaned:
            (folder / path).unlink(missing_ok=True)
    items = [ReportItem("file", path, Result.DELETED) for path in pulled.orphaned if delete]
    left = [] if delete else [f"{each}: the service does not have its transform." for each in pulled.orphaned]
    report = pulled.report
    return Report((*report.items, *items), (*report.warnings, *left))


def _differs(file: DesiredTransform, existing: Transform, current: CurrentTransforms, *, is_built: bool) -> bool:
    """Return True if a plan would contain a change."""
    if differences(file, existing) or (file.publish and not is_built):
        return True
    try:
        orchestration_id = current.orchestrations.id_of(file.orchestration)
    except NameLookupError:
        return True
    settings = settings_of(file, existing, orchestration_id, builds=file.publish, sends_unknown=False)
    return not settings.is_empty


def _below(existing: Transform, folder_path: str) -> str:
    """Return the folder of a transform, relative to the common folder."""
    return folder_of(existing).removeprefix(folder_path.strip("/")).strip("/")


def _text(
    file: SqlFile | None,
    path: str,
    existing: Transform,
    current: CurrentTransforms,
    folder_path: str,
    *,
    is_built: bool,
) -> str:
    """Return the text of a new or existing file. An existing file changes only where it differs."""
    given = {} if file is None else dict(file.given)
    before = dict(given)
    folder = _below(existing, folder_path)
    if file is None and not path_matches(path, folder, existing.name):
        given |= {"name": existing.name, "folder": folder}
    attached = existing.orchestration_workflow_id or ""
    shown: dict[str, Any] = {
        "materialization": str(existing.materialization),
        "schedule": schedule_of_transform(existing) or NO_SCHEDULE,
        "orchestration": current.orchestration_name(attached),
        "documentation": existing.documentation or "",
    }
    is_unknown = shown["schedule"] is UNKNOWN
    if is_unknown:
        del shown["schedule"]
    name = current.orchestrations.name_of(attached) if attached else NO_ORCHESTRATION
    if attached and (name is None or name == NO_ORCHESTRATION or not name.strip()):
        shown["orchestration_id"] = attached
        del shown["orchestration"]
    if shown.get("schedule") == NO_SCHEDULE and shown["materialization"] == "view":
        # Views cannot have a schedule.
        del shown["schedule"]
    kinds = ("orchestration", "orchestration_id")
    if file is not None:
        sets_orchestration = any(kind in before for kind in kinds)
        shown = {key: value for key, value in shown.items() if key in before or (key in kinds and sets_orchestration)}
        if "schedule" in before and "schedule" not in shown and not is_unknown:
            shown["schedule"] = NO_SCHEDULE
    if any(kind in shown for kind in kinds):
        given = {key: value for key, value in given.items() if key not in kinds or key in shown}
    given |= {key: value for key, value in shown.items() if not _is_same(key, value, before)}
    if not is_built:
        given["publish"] = False
    block = file.block if file is not None and given == before else render(given) if given else ""
    if file is not None and "\r\n" in file.block + file.sql and "\r\n" not in block:
        block = block.replace("\n", "\r\n")
    sql = existing.sql_template
    if file is not None and file.sql.strip() == sql.strip():
        return block + file.sql
    return block + (sql if sql.endswith("\n") else f"{sql}\n")


def _is_same(key: str, value: Any, before: Mapping[str, Any]) -> bool:
    """Return True if a file has the value already. As in plans, surrounding whitespace is ignored."""
    return key in before and str(before[key]).strip() == str(value).strip()


def _refuse_links(folder: Path, path: str) -> None:
    """Raise if a link leads out of the folder, or to another folder in it."""
    root = folder.resolve()
    place = root / path
    if place.parent.resolve() != place.parent or not place.resolve().is_relative_to(root):
        raise TransformFileError(f"{folder / path}: the path contains a link to another place: nothing was written.")


def _write(path: Path, text: str) -> None:
    try:
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise TransformFileError(f"{path} can't be written: {error.strerror or error}.") from None
