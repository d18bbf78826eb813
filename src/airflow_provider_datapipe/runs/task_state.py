"""Stored state of a task about the run that it started, for its next tries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from airflow_provider_datapipe.runs.known_runs import KnownRuns
from airflow_provider_datapipe.runs.models import RunRef, RunTarget


class TaskState(Protocol):
    """Store of records. It must write immediately, and be scoped to one task of one DAG run."""

    def get(self, key: str) -> Any:
        """Return a record, None if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Store a record."""

    def delete(self, key: str) -> None:
        """Delete a record, if there is one."""

    def close(self, key: str) -> None:
        """Restrict a record, if there is one, to retries. The task is about to succeed, and may be cleared later."""


class AirflowTaskStateStore(Protocol):
    """Interface of Airflow's task state, as far as it is used."""

    def get(self, key: str) -> Any:
        """Return a value, None if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Store a value."""

    def delete(self, key: str) -> None:
        """Delete a value."""


class NoTaskState:
    """Store that keeps no records, for Airflow before 3.3, which has no task state."""

    def get(self, key: str) -> Any:
        """Return None."""
        return None

    def set(self, key: str, value: Any) -> None:
        """Do nothing."""

    def delete(self, key: str) -> None:
        """Do nothing."""

    def close(self, key: str) -> None:
        """Do nothing."""


class AirflowTaskState:
    """
    Store of records in Airflow's task state, which persists across retries and clearing.

    A task that has succeeded must start another run when it is cleared. It must not start one if it was killed before
    Airflow stored its success, and retried. Therefore a task that succeeds closes its records: only retries read them.

    :param store: the task state.
    :param life: number that distinguishes a retry from a cleared task: Airflow's ``max_tries``, which clearing
        increases.
    """

    def __init__(self, store: AirflowTaskStateStore, life: int) -> None:
        self._store = store
        self._life = life

    def get(self, key: str) -> Any:
        """Return a record, None if there is none that this try may read."""
        kept = self._store.get(key)
        if kept is None or kept["closed_in"] not in (None, self._life):
            return None
        return kept["record"]

    def set(self, key: str, value: Any) -> None:
        """Store a record."""
        self._store.set(key, {"record": value, "closed_in": None})

    def delete(self, key: str) -> None:
        """Delete a record, if there is one."""
        self._store.delete(key)

    def close(self, key: str) -> None:
        """Restrict a record, if there is one, to retries of the task before it is cleared."""
        record = self.get(key)
        if record is not None:
            self._store.set(key, {"record": record, "closed_in": self._life})


@dataclass(frozen=True, slots=True)
class StartRecord:
    """
    State of the start of a run.

    :param baseline: runs known before the first request.
    :param intended_at: time of the last request by the service's clock, in seconds since the epoch.
    :param reference: the run; None as long as it is not known.
    """

    baseline: KnownRuns
    intended_at: float
    reference: RunRef | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"reference": self.reference and self.reference.as_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StartRecord:
        """Return the record that :meth:`as_dict` serialized."""
        reference = data["reference"]
        return cls(
            KnownRuns(**data["baseline"]), data["intended_at"], RunRef.from_dict(reference) if reference else None
        )


def task_state_key(kind: str, target: RunTarget) -> str:
    """Return the key of the record of one run. A sync has one record for each stream."""
    return f"datapipe.{kind}.{target.resource_id}"
