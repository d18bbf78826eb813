"""What a task remembers of the run that it started, across retries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from airflow_provider_datapipe.runs.reference import Reference, Target


class Records(Protocol):
    """Where records are kept: durable at once, and scoped to one task of one DAG run."""

    def get(self, key: str) -> Any:
        """Give a record, None if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Keep a record."""

    def delete(self, key: str) -> None:
        """Forget a record, if there is one."""


class NoRecords:
    """Keeps nothing: Airflow before 3.3 has no task state."""

    def get(self, key: str) -> Any:
        """Give nothing."""
        return None

    def set(self, key: str, value: Any) -> None:
        """Keep nothing."""

    def delete(self, key: str) -> None:
        """Forget nothing."""


@dataclass(frozen=True, slots=True)
class Record:
    """
    What is known of a start.

    :param cursor: the newest run before the request, as the kind of run writes it; None where there was none.
    :param intended_at: when the request was about to be sent, as seconds since the epoch.
    :param reference: the run, once the service has answered.
    """

    cursor: str | None
    intended_at: float
    reference: Reference | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Record:
        """Read what :meth:`as_dict` gave."""
        reference = data["reference"]
        return cls(data["cursor"], data["intended_at"], Reference(**reference) if reference else None)


def key_of(kind: str, target: Target) -> str:
    """Name the record of one run of a task; the streams of a sync have one each."""
    return f"datapipe.{kind}.{target.resource_id}"
