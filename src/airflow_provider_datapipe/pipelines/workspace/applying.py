"""Application of a workspace file, which continues after failures and returns a result for each resource."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import reverse_etl_syncs
from airflow_provider_datapipe.api.errors import AuthenticationError, DatapipeError, NotFoundError, TransportError
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.pipelines.atomic_write import write_atomically
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.plan import Action, Item, Report, ReportItem, Result
from airflow_provider_datapipe.pipelines.workspace.document import WorkspaceError
from airflow_provider_datapipe.pipelines.workspace.planning import make_plan
from airflow_provider_datapipe.pipelines.workspace.units import ApplyState, Key, Unit, Work, failed, succeeded
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
    task_state: TaskState,
    *,
    delete_orphans: bool = False,
    wait_for_run: int = WAIT_FOR_RUN,
    resend: bool = False,
) -> Report:
    """
    Apply a workspace file. It can be repeated at any time, also after an interruption.

    :param service: runner of the requests.
    :param document: the file.
    :param task_state: storage for the reverse ETL syncs that were active, if the file does not set ``enabled``.
    :param delete_orphans: if True, resources that the file does not name are deleted. Tables are kept.
    :param wait_for_run: the most seconds to wait for a run that blocks a change of a reverse ETL sync.
    :param resend: send schedules also if the service does not show them and nothing else differs.
    :raises WorkspaceError: if the file is invalid. Nothing was changed.
    :raises DatapipeError: if the service could not be read. Nothing was changed.
    """
    plan = make_plan(service, document, delete_orphans=delete_orphans, resend=resend)
    state = ApplyState(task_state, wait_for_run)
    service.run(_recover(DeactivatedSyncs(task_state), plan.sets_enabled))
    report: list[ReportItem] = []
    failures: dict[Key, Item] = {}
    skip_reason: str | None = None
    for unit in plan.units:
        reason = skip_reason or _missing_dependency(unit, failures)
        if unit.work is None:
            results = [succeeded(item) for item in unit.items]
        elif reason is not None:
            results = [ReportItem(item.kind, item.name, Result.SKIPPED, reason) for item in unit.items]
        else:
            results, skip_reason = _apply_unit(service, unit, unit.work, state)
        report += (_masked(each, document.masked) for each in results)
        pairs = zip(unit.keys, unit.items, results, strict=False)
        failures |= {key: item for key, item, result in pairs if result.result in (Result.FAILED, Result.SKIPPED)}
    report += (succeeded(item) for item in plan.unchanged)
    return Report(tuple(report), plan.warnings)


def _apply_unit(service: Runner, unit: Unit, work: Work, state: ApplyState) -> tuple[list[ReportItem], str | None]:
    """Apply a unit. Return the results, and the reason to skip all further units, if there is one."""
    try:
        return list(service.run(work(state))), None
    except (DatapipeError, PipelineError, ValueError) as error:
        results = [failed(item, error) for item in unit.items]
        if isinstance(error, AuthenticationError) or (isinstance(error, TransportError) and not error.sent):
            return results, "not sent, because the service can't be reached or rejects the API key"
        return results, None
    except BaseException:
        # The process is being stopped: activate the syncs that were deactivated for a change.
        if state.deactivated is not None:
            service.run(restore(state.deactivated))
        raise


def _missing_dependency(unit: Unit, failures: dict[Key, Item]) -> str | None:
    """Return the reason to skip a unit, None if there is none."""
    needed = (failures[key] for key in unit.needs if key in failures)
    # Failed updates keep the resource.
    found = [item for item in needed if item.action is Action.CREATE]
    found += [failures[key] for key in unit.needs_applied if key in failures]
    return f"{found[0].kind} {found[0].name} failed" if found else None


def _masked(result: ReportItem, masked: Callable[[str], str]) -> ReportItem:
    error = None if result.error is None else masked(result.error)
    return ReportItem(result.kind, result.name, result.result, error)


async def _recover(deactivated: DeactivatedSyncs, sets_enabled: Mapping[str, bool]) -> None:
    """Activate the syncs that an interrupted change has deactivated, unless the file sets ``enabled`` meanwhile."""
    for sync_id, is_set in sets_enabled.items():
        if deactivated.was_active(sync_id):
            if not is_set:
                with suppress(NotFoundError):
                    await send(reverse_etl_syncs.activate(sync_id))
            deactivated.forget(sync_id)


@contextmanager
def exclusive_lock(path: Path, report: Callable[[str], None]) -> Iterator[None]:
    """
    Lock the file while it is applied, because two processes could create the same resources twice.

    :param path: the file.
    :param report: callback for the message that another process has the lock.
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
            report(f"another process on this machine is applying {path}: waiting until it finishes.")
            flock(file, LOCK_EX)
        except OSError:
            # Not all file systems support locks.
            pass
        yield


class FileTaskState:
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
        content = self._read()
        if key in content:
            del content[key]
            self._write(content)

    def close(self, key: str) -> None:
        """Delete a value, because the next application starts without it."""
        self.delete(key)

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise WorkspaceError(f"{self._path}, the state of an interrupted apply, can't be read: {error}.") from None
        return content if isinstance(content, dict) else {}

    def _write(self, content: dict[str, Any]) -> None:
        try:
            if not content:
                self._path.unlink(missing_ok=True)
                return
            write_atomically(self._path, json.dumps(content))
        except OSError as error:
            raise WorkspaceError(
                f"{self._path} can't be written ({error.strerror or error}). It stores which reverse ETL syncs were "
                "active. It is not needed if the workspace file sets enabled for each of them."
            ) from None
