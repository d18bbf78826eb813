"""Writing what a service holds as files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.transforms import Transform, TransformStatus
from airflow_provider_datapipe.changes.comparable import UNKNOWN, schedule_of_transform
from airflow_provider_datapipe.changes.transform_state import folder_of, is_within, settings_of
from airflow_provider_datapipe.changes.transforms import KIND, NO_SCHEDULE, Due, differences
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.plan import Done, Report, Result
from airflow_provider_datapipe.pipelines.transforms.files import path_for, says, wanted
from airflow_provider_datapipe.pipelines.transforms.front_matter import (
    NO_ORCHESTRATION,
    SqlFile,
    TransformFileError,
    parse,
    render,
)
from airflow_provider_datapipe.pipelines.transforms.planning import Held, held, what_is_due, why_due
from airflow_provider_datapipe.runs.names import NameLookupError

if TYPE_CHECKING:
    from airflow_provider_datapipe.changes.transform_folder import DesiredTransform
    from airflow_provider_datapipe.pipelines.collect import Runner

#: How many files a refusal names.
_TOLD = 10


class OverwriteError(PipelineError):
    """Files differ from the service, and are not to be overwritten."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """
    What a folder is to be, to say what the service holds.

    :param texts: the new texts of files that are to be others, by their paths.
    :param new: which of these are not there yet.
    :param gone: the files whose transforms the service does not hold.
    :param report: one result for each transform.
    """

    texts: Mapping[str, str]
    new: frozenset[str]
    gone: tuple[str, ...]
    report: Report

    @property
    def overwritten(self) -> list[str]:
        """The files that are there, and would be others."""
        return sorted(self.texts.keys() - self.new)


def pull_transforms(service: Runner, files: Sequence[SqlFile], *, folder_path: str = "") -> Pulled:
    """
    Tell what files have to be so that they say what a service holds.

    A file that says it already stays as it is. What a file leaves unsaid stays unsaid.

    :param service: is asked.
    :param files: the files that are there.
    :param folder_path: the folder of the service whose transforms are wanted, with those below it; empty for all.
    :raises TransformFileError: two files stand for one transform.
    :raises DatapipeError: the service refused, or could not be reached.
    """
    now = service.run(held())
    by_path = {each.path: (each, file) for file in files for each in wanted([file], folder_path=folder_path)}
    # Two files for one transform are refused.
    wanted(files, folder_path=folder_path)
    mine = {key: found for key, found in sorted(now.there.items()) if is_within(found[0], folder_path)}
    alone = {key: found[0] for key, found in mine.items() if len(found) == 1}
    published = {key: one for key, one in alone.items() if one.status == TransformStatus.PUBLISHED}
    due = what_is_due(service, dict.fromkeys(published, False), published)
    texts: dict[str, str] = {}
    new: set[str] = set()
    done = []
    warnings = []
    taken = {file.path for file in files}
    for key, found in mine.items():
        if len(found) > 1:
            ids = ", ".join(sorted(each.id for each in found))
            done.append(Done(KIND, key, Result.FAILED, f"there is more than one of it: {ids}"))
            continue
        there = found[0]
        is_built = due.get(key) in (Due.NOTHING, Due.PATIENCE)
        if key in published and not is_built:
            warnings.append(f"{key}: its file says publish: false, as {why_due(there)}.")
        known = by_path.get(key)
        if known is not None and not _differs(known[0], there, now, is_built=is_built):
            done.append(Done(KIND, key, Result.UNCHANGED))
            continue
        file = None if known is None else known[1]
        where = path_for(_below(there, folder_path), there.name, taken) if file is None else file.path
        text = _text(file, where, there, now, folder_path, is_built=is_built)
        try:
            # Whatever can't be written as YAML, and read as the same, is not.
            (again,) = wanted([parse(text, where)], folder_path=folder_path)
            is_same = again.path == key and not _differs(again, there, now, is_built=is_built)
            text.encode()
        except (TransformFileError, UnicodeEncodeError) as error:
            done.append(Done(KIND, key, Result.FAILED, f"it can't be written as a file: {error}"))
            continue
        if not is_same:
            done.append(Done(KIND, key, Result.FAILED, "it can't be written as a file that means the same"))
            continue
        texts[where] = text
        taken.add(where)
        if file is None:
            new.add(where)
        done.append(Done(KIND, key, Result.CREATED if file is None else Result.UPDATED))
    gone = tuple(sorted(file.path for key, (_, file) in by_path.items() if key not in mine))
    return Pulled(texts, frozenset(new), gone, Report(tuple(done), tuple(warnings)))


def write(folder: Path, pulled: Pulled, *, force: bool = False, delete: bool = False) -> Report:
    """
    Write what was pulled.

    :param folder: the folder; made if it is missing.
    :param pulled: what is to be written.
    :param force: whether files that differ are overwritten.
    :param delete: whether files are deleted whose transforms the service does not hold.
    :raises OverwriteError: files differ, and are not to be overwritten; nothing was written.
    :raises TransformFileError: a link leads elsewhere, and nothing was written; or a file can't be.
    """
    if pulled.overwritten and not force:
        named = ", ".join(pulled.overwritten[:_TOLD])
        more = f" and {len(pulled.overwritten) - _TOLD} more" if len(pulled.overwritten) > _TOLD else ""
        raise OverwriteError(
            f"{len(pulled.overwritten)} files say something else than the service: {named}{more}. Nothing was "
            "written. What was edited in them would be lost: commit it, then give --force, and look at what changed."
        )
    for where in pulled.texts:
        _refuse_way_out(folder, where)
    for where, text in pulled.texts.items():
        _write(folder / where, text)
    if delete:
        for where in pulled.gone:
            (folder / where).unlink(missing_ok=True)
    done = [Done("file", where, Result.DELETED) for where in pulled.gone if delete]
    left = [] if delete else [f"{each}: the service does not hold its transform." for each in pulled.gone]
    report = pulled.report
    return Report((*report.items, *done), (*report.warnings, *left))


def _differs(file: DesiredTransform, there: Transform, now: Held, *, is_built: bool) -> bool:
    """Tell whether a plan would have something to do."""
    if differences(file, there) or (file.publish and not is_built):
        return True
    try:
        orchestration_id = now.orchestrations.id_of(file.orchestration)
    except NameLookupError:
        return True
    settings = settings_of(file, there, orchestration_id, builds=file.publish, sends_unknown=False)
    return not settings.is_empty


def _below(there: Transform, folder_path: str) -> str:
    """Give the folder of a transform below the one that all are in."""
    return folder_of(there).removeprefix(folder_path.strip("/")).strip("/")


def _text(file: SqlFile | None, where: str, there: Transform, now: Held, folder_path: str, *, is_built: bool) -> str:
    """Write a file, or write it anew: as it is, but for what differs."""
    given = {} if file is None else dict(file.given)
    before = dict(given)
    folder = _below(there, folder_path)
    if file is None and not says(where, folder, there.name):
        given |= {"name": there.name, "folder": folder}
    attached = there.orchestration_workflow_id or ""
    shown: dict[str, Any] = {
        "materialization": str(there.materialization),
        "schedule": schedule_of_transform(there) or NO_SCHEDULE,
        "orchestration": now.called(attached),
        "documentation": there.documentation or "",
    }
    is_unknown = shown["schedule"] is UNKNOWN
    if is_unknown:
        del shown["schedule"]
    name = now.orchestrations.name_of(attached) if attached else NO_ORCHESTRATION
    if attached and (name is None or name == NO_ORCHESTRATION or not name.strip()):
        shown["orchestration_id"] = attached
        del shown["orchestration"]
    if shown.get("schedule") == NO_SCHEDULE and shown["materialization"] == "view":
        # It can have none.
        del shown["schedule"]
    kinds = ("orchestration", "orchestration_id")
    if file is not None:
        says_orchestration = any(kind in before for kind in kinds)
        shown = {key: value for key, value in shown.items() if key in before or (key in kinds and says_orchestration)}
        if "schedule" in before and "schedule" not in shown and not is_unknown:
            shown["schedule"] = NO_SCHEDULE
    if any(kind in shown for kind in kinds):
        given = {key: value for key, value in given.items() if key not in kinds or key in shown}
    given |= {key: value for key, value in shown.items() if not _is_same(key, value, before)}
    if not is_built:
        given["publish"] = False
    block = file.block if file is not None and given == before else render(given) if given else ""
    sql = there.sql_template
    if file is not None and file.sql.strip() == sql.strip():
        return block + file.sql
    return block + (sql if sql.endswith("\n") else f"{sql}\n")


def _is_same(key: str, value: Any, before: Mapping[str, Any]) -> bool:
    """Tell whether a file says already what it should, but for white space, as plans compare."""
    return key in before and str(before[key]).strip() == str(value).strip()


def _refuse_way_out(folder: Path, where: str) -> None:
    """Refuse to write where a link leads out of the folder, or to where the file would be another transform's."""
    root = folder.resolve()
    place = root / where
    if place.parent.resolve() != place.parent or not place.resolve().is_relative_to(root):
        raise TransformFileError(f"{folder / where}: a link stands in its way: nothing was written.")


def _write(path_: Path, text: str) -> None:
    """Write a file whole or not at all."""
    # A link stays one.
    place = path_.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = place.stat().st_mode & 0o777 if place.exists() else None
        descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:40]}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                os.fchmod(file.fileno(), _usual_mode() if mode is None else mode)
            Path(name).replace(place)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise TransformFileError(f"{path_} can't be written: {error.strerror or error}.") from None


def _usual_mode() -> int:
    # There is no other way to read it.
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
