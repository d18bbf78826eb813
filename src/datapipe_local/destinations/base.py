"""What every kind of destination offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Record:
    """
    What is sent.

    :param record_id: The values of its key.
    :param properties: The values, by the destination's names.
    """

    record_id: str
    properties: dict[str, Any]


class Destination(Protocol):
    """A connection to a destination, for one run. It holds what it needs until :meth:`close`."""

    #: How many records are sent, and then noted as sent, at a time. A process that is killed between the two
    #: sends them again, unless the checkpoint tells it better.
    batch_size: int

    def send(self, records: Sequence[Record]) -> list[str | None]:
        """
        Send records.

        :return: For each record ``None``, or the reason for which the destination refused it.
        :raises RunError: the destination takes nothing more.
        """

    def checkpoint(self) -> str | None:
        """Tell how far one got, for a run that is carried on by another process."""

    def close(self) -> None:
        """Let go of what is held."""
