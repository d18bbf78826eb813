"""Interface of all sources."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from datapipe_local.common.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from datapipe_local.warehouse.loading.incremental import Newest
    from datapipe_local.warehouse.loading.readable import Readable
    from datapipe_local.warehouse.statements import Interruptible


class SourceError(RunError):
    """
    Failure to access a source as a whole.

    :param message: The problem and the remedy, in one line.
    :param lost_access: The source exists, but denies access.
    """

    def __init__(self, message: str, *, lost_access: bool = False) -> None:
        super().__init__(message)
        self.lost_access = lost_access


@dataclass(frozen=True)
class Offer:
    """
    Available stream of a source.

    :param name: Its unique name.
    :param origin: Its place in the source, as in the definition of a stream.
    :param is_selectable: It can become a stream of a sync.
    :param key: The key columns, as far as the source knows them.
    """

    name: str
    origin: dict[str, Any]
    is_selectable: bool = True
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """
    Required part of a stream. A source omits the rest where it can, and may return more.

    :param excluded: The columns that are not needed.
    :param newest: The greatest known pointer value. Rows with smaller ones are not needed.
    :param rows: Rows are needed, not only columns.
    :param check: A function that raises if the data is no longer needed; long operations call it repeatedly.
    :param interruptible: A context manager that makes the operation of its ``with`` block interruptible.
    """

    excluded: Collection[str] = ()
    newest: Newest | None = None
    rows: bool = True
    check: Callable[[], None] = field(default=lambda: None)
    interruptible: Callable[[Interruptible], AbstractContextManager[None]] = field(default=lambda _: nullcontext())


@dataclass(frozen=True)
class Fetched:
    """
    Source data of a stream for one run.

    :param name: The name of the data at the source, for messages.
    :param scan: The data, in a form that DuckDB reads.
    :param size: The number of bytes read at the source.
    :param is_whole: No row was omitted.
    """

    name: str
    scan: Readable
    size: int
    is_whole: bool = True


class Source(Protocol):
    """Connection to a source."""

    def offers(self) -> Sequence[Offer]:
        """
        Return the available streams.

        :raises SourceError: the source cannot be accessed.
        """

    def has(self, origin: dict[str, Any]) -> bool:
        """
        Return True if the data of a stream exists.

        :param origin: The place in the source, from the stream's definition.
        """

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """
        Return True if rows of a stream may contain lists of records, so that a check is worthwhile.

        :param origin: The place in the source.
        """

    def fetch(self, origin: dict[str, Any], scratch: Path, need: Need) -> AbstractContextManager[Fetched]:
        """
        Yield the data of one stream, which exists during the ``with`` block.

        :param origin: The place in the source, from the stream's definition.
        :param scratch: A folder for temporary files.
        :param need: The required part of the data.
        :raises RunError: the data cannot be read.
        """
