"""What every kind of source offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from datapipe_local.warehouse import Scan


@dataclass(frozen=True)
class Fetched:
    """
    What a stream's run can load.

    :param name: What it is called at the source, for people.
    :param scan: Where and how it is read.
    :param size: Its bytes at the source.
    """

    name: str
    scan: Scan
    size: int


class Source(Protocol):
    """A connection to a source."""

    def fetch(self, origin: dict[str, Any], scratch: Path) -> AbstractContextManager[Fetched]:
        """
        Get the data of one stream, for the time of a ``with`` block.

        :param origin: Where it is in the source, as the stream's definition says.
        :param scratch: A folder for files that are needed on the way.
        :raises RunError: it cannot be had.
        """
