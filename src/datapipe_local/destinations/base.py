"""What every kind of destination offers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from airflow_provider_datapipe.api.models.reverse_etl import OperationName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Absent(Enum):
    """The type of :data:`ABSENT`."""

    ABSENT = "absent"


#: The destination does not have the record that was to be changed.
ABSENT: Final = Absent.ABSENT

#: What became of a record: ``None`` if it was taken, the reason if it was refused.
Outcome: TypeAlias = str | Literal[Absent.ABSENT] | None


@dataclass(frozen=True)
class Record:
    """
    What is sent.

    :param record_id: The values of its key, as text.
    :param properties: The values, by the destination's names.
    :param identity: The values of its key among them.
    """

    record_id: str
    properties: dict[str, Any]
    identity: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """
    What a sync writes, and how.

    :param sync_id: The sync: what it leaves behind on the way is told apart by it.
    :param object_type_id: The kind of object.
    :param mode: What is done with a record.
    :param settings: The sync's settings, which fit :func:`settings_schema` of its destination.
    """

    sync_id: str
    object_type_id: str
    mode: OperationName = OperationName.UPSERT
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unanswered:
    """
    What was under way when somebody was cut off: only the destination knows whether it was taken.

    :param records: The records.
    :param is_deletion: Whether they were to be deleted.
    :param of_failed_run: Whether a run has failed with it. Else the process was killed, and the same run goes on.
    """

    records: list[Record]
    is_deletion: bool = False
    of_failed_run: bool = False


def as_json(records: Sequence[Record]) -> list[Any]:
    """Give records as JSON keeps them."""
    return [[record.record_id, record.properties, record.identity] for record in records]


def from_json(kept: list[Any]) -> list[Record]:
    """Give the records that :func:`as_json` has kept."""
    return [Record(*fields) for fields in kept]


def _nowhere(checkpoint: str) -> None:
    """Note nothing."""


@dataclass(frozen=True)
class Progress:
    """
    How far one got, in the destination's own words.

    :param checkpoint: What was noted of this run by a process that was killed; ``None`` for a new run.
    :param before: What was noted last of an earlier run.
    :param note: Keeps such words, before what they tell of is begun. What is done is noted with what became of it.
    """

    checkpoint: str | None = None
    before: str | None = None
    note: Callable[[str], None] = _nowhere


class Destination(Protocol):
    """A connection to a destination, for one run. It holds what it needs until :meth:`close`."""

    #: How many records are sent, and then noted as sent, at a time. A process that is killed between the two
    #: sends them again, unless the checkpoint tells it better.
    batch_size: int

    def unanswered(self) -> Unanswered | None:
        """Give what is to be asked again before anything else, if there is anything."""

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Send records, as the mode says.

        :return: What became of the first of them, of at least one: that is to be noted before the others are sent
            again.
        :raises RunError: the destination takes nothing more.
        """

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Have records deleted; one that is not there is deleted already.

        :return: For the first of them, of at least one, ``None``, or the reason for which the destination refused it.
        :raises RunError: the destination takes nothing more.
        """

    def checkpoint(self) -> str | None:
        """Tell how far one got, for a run that is carried on by another process."""

    def close(self) -> None:
        """
        Let go of what is held. Afterwards all that was taken is where others look for it.

        :raises RunError: that cannot be done.
        """
