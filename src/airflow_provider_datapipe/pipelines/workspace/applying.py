"""Carrying out the plan of a workspace file: one result for each thing, past what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import reverse_etl_syncs
from airflow_provider_datapipe.api.errors import AuthenticationError, DatapipeError, NotFoundError, TransportError
from airflow_provider_datapipe.changes.reverse_etl import Earlier, restore
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.plan import Action, Done, Report, Result
from airflow_provider_datapipe.pipelines.workspace.document import WorkspaceError
from airflow_provider_datapipe.pipelines.workspace.planning import make_plan
from airflow_provider_datapipe.pipelines.workspace.work import Applying, Key, Unit, done, failed
from airflow_provider_datapipe.runs.steps import Steps, ask

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.collect import Runner
    from airflow_provider_datapipe.pipelines.workspace.document import Document
    from airflow_provider_datapipe.runs.records import Records

#: Seconds to wait for a run that stands in the way of a change of a reverse ETL sync.
WAIT_FOR_RUN = 600


class NotAppliedError(PipelineError):
    """Some of a workspace file could not be applied."""


def apply(
    service: Runner,
    document: Document,
    records: Records,
    *,
    delete_orphans: bool = False,
    wait_for_run: int = WAIT_FOR_RUN,
    resend: bool = False,
) -> Report:
    """
    Have a service hold what a workspace file says. It can be done again at any time, also after it was killed.

    :param service: is asked.
    :param document: the file.
    :param records: remember which reverse ETL syncs were active, where the file does not say it.
    :param delete_orphans: whether what the service holds, and the file does not name, is deleted; tables stay.
    :param wait_for_run: seconds to wait for a run that stands in the way of a change of a reverse ETL sync.
    :param resend: send schedules also if the service does not show them and nothing else differs.
    :raises WorkspaceError: something in the file is not right; nothing was done.
    :raises DatapipeError: the service could not be read; nothing was done.
    """
    plan = make_plan(service, document, delete_orphans=delete_orphans, resend=resend)
    applying = Applying(records, wait_for_run)
    service.run(_recover(Earlier(records), plan.not_enabled))
    report: list[Done] = []
    broken: dict[Key, str] = {}
    away: str | None = None
    for unit in plan.units:
        missing = next((broken[need] for need in unit.needs if need in broken), None)
        if away is not None and unit.work is not None:
            results = [Done(item.kind, item.name, Result.SKIPPED, away) for item in unit.items]
        elif missing is not None and unit.work is not None:
            results = [Done(item.kind, item.name, Result.SKIPPED, f"{missing} failed") for item in unit.items]
        else:
            results, away = _carry_out(service, unit, applying)
        report += (_masked(each, document.masked) for each in results)
        _note_broken(unit, results, broken)
    report += (done(item) for item in plan.leftovers)
    return Report(tuple(report), plan.warnings)


def _carry_out(service: Runner, unit: Unit, applying: Applying) -> tuple[list[Done], str | None]:
    """Do what a unit is about; tell also why nothing else need be tried, if that is so."""
    if unit.work is None:
        return [done(item) for item in unit.items], None
    try:
        return list(service.run(unit.work(applying))), None
    except (DatapipeError, PipelineError, ValueError) as error:
        results = [failed(item, error) for item in unit.items]
        if isinstance(error, AuthenticationError) or (isinstance(error, TransportError) and not error.sent):
            return results, "the service could not be asked any more"
        return results, None
    except BaseException:
        # Somebody stops it: what was deactivated for a change is activated again.
        if applying.earlier is not None:
            service.run(restore(applying.earlier))
        raise


def _note_broken(unit: Unit, results: list[Done], broken: dict[Key, str]) -> None:
    """Note what others need and is not there now; a change that failed leaves what was there."""
    for key, item, result in zip(unit.keys, unit.items, results, strict=False):
        if item.action in (Action.CREATE, Action.DELETE) and result.result in (Result.FAILED, Result.SKIPPED):
            broken[key] = f"{item.kind} {item.name}"


def _masked(result: Done, masked: Callable[[str], str]) -> Done:
    error = None if result.error is None else masked(result.error)
    return Done(result.kind, result.name, result.result, error)


def _recover(earlier: Earlier, sync_ids: tuple[str, ...]) -> Steps[None]:
    """Activate what was deactivated for a change that was killed before it came to its end."""
    for sync_id in sync_ids:
        if earlier.was_active(sync_id):
            with suppress(NotFoundError):
                yield from ask(reverse_etl_syncs.activate(sync_id))
            earlier.forget(sync_id)


@contextmanager
def alone(path: Path, told: Callable[[str], None]) -> Iterator[None]:
    """
    Apply a file while nobody else on this machine does: two at once would create things twice.

    :param path: the file.
    :param told: is told that there is somebody to wait for.
    :raises WorkspaceError: the file can't be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise WorkspaceError(f"{path} can't be read: {error.strerror or error}.") from None
    with file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            told(f"{path} is being applied by somebody else on this machine: waiting for the end of that.")
            flock(file, LOCK_EX)
        except OSError:
            # Not all file systems have locks.
            pass
        yield


class FileRecords:
    """
    Keeps records in a file, which is there only while there are any.

    :param path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        """Give a record, None if there is none."""
        return self._read().get(key)

    def set(self, key: str, value: Any) -> None:
        """Keep a record."""
        self._write({**self._read(), key: value})

    def delete(self, key: str) -> None:
        """Forget a record, if there is one."""
        kept = self._read()
        if key in kept:
            del kept[key]
            self._write(kept)

    def close(self, key: str) -> None:
        """Forget a record: whoever applies a file anew has nothing to go on with."""
        self.delete(key)

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise WorkspaceError(
                f"{self._path}, which an apply that was killed left behind, can't be read: {error}."
            ) from None
        return kept if isinstance(kept, dict) else {}

    def _write(self, kept: dict[str, Any]) -> None:
        try:
            if not kept:
                self._path.unlink(missing_ok=True)
                return
            whole = self._path.with_name(f"{self._path.name}.new")
            whole.write_text(json.dumps(kept), encoding="utf-8")
            whole.replace(self._path)
        except OSError as error:
            raise WorkspaceError(
                f"{self._path} can't be written ({error.strerror or error}). It remembers which reverse ETL syncs are "
                "active: say enabled of each in the workspace file, and it is not needed."
            ) from None
