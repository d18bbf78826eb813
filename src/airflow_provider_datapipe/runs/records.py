"""What a task remembers of the run that it started, across retries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from airflow_provider_datapipe.runs.baseline import Baseline
from airflow_provider_datapipe.runs.reference import Reference, Target


class Records(Protocol):
    """Where records are kept: durable at once, and scoped to one task of one DAG run."""

    def get(self, key: str) -> Any:
        """Give a record, None if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Keep a record."""

    def delete(self, key: str) -> None:
        """Forget a record, if there is one."""

    def close(self, key: str) -> None:
        """Keep a record, if there is one, for tries of the same life only: the task is about to succeed."""


class Store(Protocol):
    """The part of Airflow's task state that is used."""

    def get(self, key: str) -> Any:
        """Give a value, None if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""

    def delete(self, key: str) -> None:
        """Forget a value."""


class NoRecords:
    """Keeps nothing: Airflow before 3.3 has no task state."""

    def get(self, key: str) -> Any:
        """Give nothing."""
        return None

    def set(self, key: str, value: Any) -> None:
        """Keep nothing."""

    def delete(self, key: str) -> None:
        """Forget nothing."""

    def close(self, key: str) -> None:
        """Keep nothing."""


class TaskStateRecords:
    """
    Keeps records in Airflow's task state, which outlives tries and clearing alike.

    A task that succeeds must run again when it is cleared, and must not when it was killed before Airflow heard of its
    success. So its records are not deleted then, but closed: read only by tries of the same life.

    :param store: the task state.
    :param life: what tells a retry from a cleared task: Airflow's ``max_tries``, which clearing moves on.
    """

    def __init__(self, store: Store, life: int) -> None:
        self._store = store
        self._life = life

    def get(self, key: str) -> Any:
        """Give a record, None if there is none that this try may read."""
        kept = self._store.get(key)
        if kept is None or kept["closed_in"] not in (None, self._life):
            return None
        return kept["record"]

    def set(self, key: str, value: Any) -> None:
        """Keep a record."""
        self._store.set(key, {"record": value, "closed_in": None})

    def delete(self, key: str) -> None:
        """Forget a record, if there is one."""
        self._store.delete(key)

    def close(self, key: str) -> None:
        """Keep a record, if there is one, for tries of the same life only."""
        record = self.get(key)
        if record is not None:
            self._store.set(key, {"record": record, "closed_in": self._life})


@dataclass(frozen=True, slots=True)
class Record:
    """
    What is known of a start.

    :param baseline: runs known before the first request.
    :param intended_at: when a request was sent last, in seconds since the epoch, by the service's clock.
    :param reference: the run, once the service has answered.
    """

    baseline: Baseline
    intended_at: float
    reference: Reference | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Record:
        """Read what :meth:`as_dict` gave."""
        reference = data["reference"]
        return cls(Baseline(**data["baseline"]), data["intended_at"], Reference(**reference) if reference else None)


def key_of(kind: str, target: Target) -> str:
    """Name the record of one run of a task; the streams of a sync have one each."""
    return f"datapipe.{kind}.{target.resource_id}"
