"""Interface of all destinations."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Absent(Enum):
    """Type of :data:`ABSENT`."""

    ABSENT = "absent"


#: Result for a record that should be changed but does not exist in the destination.
ABSENT: Final = Absent.ABSENT

# Up to here, a floating-point number represents every integer.
_LARGEST_EXACT = 2**53

#: Result for a record: ``None`` if the destination accepted it, otherwise the reason for the refusal.
Outcome: TypeAlias = str | Literal[Absent.ABSENT] | None


@dataclass(frozen=True)
class Record:
    """
    Record to send.

    :param record_id: The values of its key, as text.
    :param properties: The values, by property names of the destination.
    :param identity: The key properties among them.
    """

    record_id: str
    properties: dict[str, Any]
    identity: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """
    Target of a sync.

    :param sync_id: The sync. It distinguishes temporary data of different syncs.
    :param object_type_id: The object type.
    :param mode: The operation on each record.
    :param settings: The settings of the sync, valid for :func:`settings_schema` of its destination.
    """

    sync_id: str
    object_type_id: str
    mode: OperationName = OperationName.UPSERT
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unanswered:
    """
    Records without a response when the process or the run ended. Only the destination knows whether it has them.

    :param records: The records.
    :param is_deletion: The records were to be deleted.
    :param of_failed_run: A run failed with them. Otherwise the process was killed, and the same run continues.
    """

    records: list[Record]
    is_deletion: bool = False
    of_failed_run: bool = False


def key_value(value: Any) -> Any:
    """Return a key value. 1.0 becomes 1: it stays the same key if the type of its column changes."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_EXACT
    return int(value) if is_whole else value


def as_json(records: Sequence[Record]) -> list[Any]:
    """Return records as JSON values."""
    return [[record.record_id, record.properties, record.identity] for record in records]


def from_json(kept: list[Any]) -> list[Record]:
    """Return the records written by :func:`as_json`."""
    return [Record(*fields) for fields in kept]


def _nowhere(checkpoint: str) -> None:
    """Drop the checkpoint."""


@dataclass(frozen=True)
class Progress:
    """
    Progress of a run, as checkpoints in a format of the destination.

    :param checkpoint: The last checkpoint of this run from a killed process; ``None`` for a new run.
    :param before: The last checkpoint of an earlier run.
    :param note: A function that stores a checkpoint before the work that it describes. The results of finished work are
        stored with its checkpoint.
    """

    checkpoint: str | None = None
    before: str | None = None
    note: Callable[[str], None] = _nowhere


class Destination(Protocol):
    """Connection to a destination for one run. It holds resources until :meth:`close`."""

    #: Number of records that are sent, and then recorded as sent, at a time. A killed process sends them again, unless
    #: the checkpoint has more detail.
    batch_size: int

    def unanswered(self) -> Unanswered | None:
        """Return the records to resolve before any others; None if there are none."""

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Send records according to the mode.

        :return: The results of the first records, of at least one. The caller must store them before it sends the rest.
        :raises RunError: the destination accepts no more records.
        """

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Delete records. A record that does not exist counts as deleted.

        :return: For the first records, at least one: ``None``, or the reason for the refusal.
        :raises RunError: the destination accepts no more records.
        """

    def checkpoint(self) -> str | None:
        """Return the checkpoint with which another process can continue the run; None if it needs none."""

    def close(self) -> None:
        """
        Release all resources. Afterwards all accepted records are visible to readers.

        :raises RunError: that failed.
        """
