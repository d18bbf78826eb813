"""Application of a workspace file, which continues after failures and returns a result for each resource."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import reverse_etl_syncs
from airflow_provider_datapipe.api.errors import AuthenticationError, DatapipeError, NotFoundError, TransportError
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.pipelines.atomic_write import write_atomically
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.plan import Action, Done, Report, Result
from airflow_provider_datapipe.pipelines.workspace.document import WorkspaceError
from airflow_provider_datapipe.pipelines.workspace.planning import make_plan
from airflow_provider_datapipe.pipelines.workspace.units import Applying, Key, Unit, done, failed
from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs, restore

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.collect import Runner
    from airflow_provider_datapipe.pipelines.workspace.document import Document
    from airflow_provider_datapipe.runs.task_state import TaskState

#: The most seconds to wait for a run that blocks a change of a reverse ETL sync.
WAIT_FOR_RUN = 600


class NotAppliedError(PipelineError):
    """Parts of a workspace file could not be applied."""


def apply(
    service: Runner,
    document: Document,
    records: TaskState,
    *,
    delete_orphans: bool = False,
    wait_for_run: int = WAIT_FOR_RUN,
    resend: bool = False,
) -> Report:
    """
    Apply a workspace file. It can be repeated at any time, also after an interruption.

    :param service: runner of the requests.
    :param document: the file.
    :param records: storage for the reverse ETL syncs that were active, if the file does not set ``enabled``.
    :param delete_orphans: if True, resources that the file does not name are deleted. Tables are kept.
    :param wait_for_run: the most seconds to wait for a run that blocks a change of a reverse ETL sync.
    :param resend: send schedules also if the service does not show them and nothing else differs.
    :raises WorkspaceError: if the file is invalid. Nothing was changed.
    :raises DatapipeError: if the service could not be read. Nothing was changed.
    """
    plan = make_plan(service, document, delete_orphans=delete_orphans, resend=resend)
    applying = Applying(records, wait_for_run)
    service.run(_recover(DeactivatedSyncs(records), plan.not_enabled))
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
    """Apply a unit. Return the results, and the reason to skip all further units, if there is one."""
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
        # The process is being stopped: activate the syncs that were deactivated for a change.
        if applying.earlier is not None:
            service.run(restore(applying.earlier))
        raise


def _note_broken(unit: Unit, results: list[Done], broken: dict[Key, str]) -> None:
    """Record failed creations and deletions, on which other units may depend. Failed updates keep the resource."""
    for key, item, result in zip(unit.keys, unit.items, results, strict=False):
        if item.action in (Action.CREATE, Action.DELETE) and result.result in (Result.FAILED, Result.SKIPPED):
            broken[key] = f"{item.kind} {item.name}"


def _masked(result: Done, masked: Callable[[str], str]) -> Done:
    error = None if result.error is None else masked(result.error)
    return Done(result.kind, result.name, result.result, error)


async def _recover(earlier: DeactivatedSyncs, sync_ids: tuple[str, ...]) -> None:
    """Activate the syncs that an interrupted change has deactivated."""
    for sync_id in sync_ids:
        if earlier.was_active(sync_id):
            with suppress(NotFoundError):
                await send(reverse_etl_syncs.activate(sync_id))
            earlier.forget(sync_id)


@contextmanager
def alone(path: Path, reported: Callable[[str], None]) -> Iterator[None]:
    """
    Hold a lock on the file while it is applied, because two processes could create the same resources twice.

    :param path: the file.
    :param reported: callback for the message that another process has the lock.
    :raises WorkspaceError: if the file cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise WorkspaceError(f"{path} can't be read: {error.strerror or error}.") from None
    with file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            reported(f"another process on this machine applies {path}: waiting until it ends.")
            flock(file, LOCK_EX)
        except OSError:
            # Not all file systems support locks.
            pass
        yield


class FileRecords:
    """
    Storage in a file, which exists only while it has content.

    :param path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        """Return a value, None if there is none."""
        return self._read().get(key)

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._write({**self._read(), key: value})

    def delete(self, key: str) -> None:
        """Delete a value, if there is one."""
        kept = self._read()
        if key in kept:
            del kept[key]
            self._write(kept)

    def close(self, key: str) -> None:
        """Delete a value, because the next application starts without it."""
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
            write_atomically(self._path, json.dumps(kept))
        except OSError as error:
            raise WorkspaceError(
                f"{self._path} can't be written ({error.strerror or error}). It remembers which reverse ETL syncs are "
                "active: say enabled of each in the workspace file, and it is not needed."
            ) from None
