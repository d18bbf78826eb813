"""What every kind of source offers."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from datapipe_local.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from datapipe_local.loading.increment import Newest
    from datapipe_local.loading.readable import Readable
    from datapipe_local.statements import Interruptible


class SourceError(RunError):
    """
    A source as a whole cannot be had.

    :param message: What is wrong and what to do, in a line.
    :param lost_access: It is there, and does not let this service in any more.
    """

    def __init__(self, message: str, *, lost_access: bool = False) -> None:
        super().__init__(message)
        self.lost_access = lost_access


@dataclass(frozen=True)
class Offer:
    """
    A stream that a source has.

    :param name: Its name, which is another for each of them.
    :param origin: Where it is in the source, as the definition of a stream says it.
    :param is_selectable: It can become a stream of a sync.
    :param key: The columns that tell its rows apart, as far as the source knows.
    """

    name: str
    origin: dict[str, Any]
    is_selectable: bool = True
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """
    What is needed of a stream. A source leaves out of the rest what it can, and may give more.

    :param excluded: Columns that are not needed.
    :param newest: Rows with a smaller pointer are not needed.
    :param rows: Rows are needed, and not just columns.
    :param check: Raises an error once nothing is needed any more; whoever takes long calls it now and then.
    :param breaking_off: Has what is done in a ``with`` block interrupted then.
    """

    excluded: Collection[str] = ()
    newest: Newest | None = None
    rows: bool = True
    check: Callable[[], None] = field(default=lambda: None)
    breaking_off: Callable[[Interruptible], AbstractContextManager[None]] = field(default=lambda _: nullcontext())


@dataclass(frozen=True)
class Fetched:
    """
    What a stream's run can load.

    :param name: What it is called at the source, for people.
    :param scan: Where and how it is read.
    :param size: Its bytes, as they have come from the source.
    :param is_whole: No row was left out.
    """

    name: str
    scan: Readable
    size: int
    is_whole: bool = True


class Source(Protocol):
    """A connection to a source."""

    def offers(self) -> Sequence[Offer]:
        """
        Tell what streams it has now.

        :raises SourceError: it cannot be asked.
        """

    def has(self, origin: dict[str, Any]) -> bool:
        """
        Tell whether what a stream reads is there now.

        :param origin: Where it is in the source, as the stream's definition says.
        """

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """
        Tell whether rows of a stream can hold lists of records, so that it is worth to look.

        :param origin: Where it is in the source.
        """

    def fetch(self, origin: dict[str, Any], scratch: Path, need: Need) -> AbstractContextManager[Fetched]:
        """
        Get the data of one stream, for the time of a ``with`` block.

        :param origin: Where it is in the source, as the stream's definition says.
        :param scratch: A folder for files that are needed on the way.
        :param need: What of it is needed.
        :raises RunError: it cannot be had.
        """
