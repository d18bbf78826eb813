"""Test cases: a source file, and the acceptable outcomes of its load; and builders of cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

#: A file, or its lines.
Content = str | bytes | Sequence[str]
#: Cell: text, a number in its original spelling, a nested JSON value, or None if it is absent.
Cell = Any


class Number(str):
    """JSON number in its original spelling."""

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """
    Rows that a file contains.

    :param columns: The names of the columns. None if the file does not name them.
    :param rows: The cells of each row, in the order of the columns.
    """

    columns: tuple[str, ...] | None
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, eq=False)
class Case:
    """
    Source file and the acceptable outcomes of its load.

    :param name: The name of the case, and of its stream.
    :param valid: The bytes of a valid file with the same name and options, which is loaded before.
    :param tables: The acceptable tables. Without any, the run must fail.
    :param may_fail: A failure is acceptable.
    :param lines: Line numbers. The message of a failure must contain one of them, unless this is empty.
    :param why: The reason for several acceptable outcomes.
    :param says: Words that the message of a failure must contain.
    :param origin: Other settings of the stream, such as ``format``.
    :param as_pattern: The stream has a pattern, which may match several files, instead of one file.
    """

    name: str
    file: str
    content: bytes = field(repr=False)
    valid: bytes = field(repr=False)
    tables: tuple[Table, ...] = field(repr=False)
    may_fail: bool
    lines: Collection[int] = ()
    why: str = ""
    says: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)
    as_pattern: bool = False

    def __post_init__(self) -> None:
        assert self.tables or self.may_fail, f"{self.name}: no outcome is acceptable"
        is_open = bool(self.tables) and (self.may_fail or len(self.tables) > 1)
        assert not is_open or self.why, f"{self.name}: several outcomes need a reason"


class MalformedError(Exception):
    """Bytes that are not a table in their format."""


def joined(parts: Iterable[str], newline: str = "\n") -> str:
    return "".join(f"{part}{newline}" for part in parts)


def encoded(content: Content) -> bytes:
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else joined(content)).encode()


@dataclass(frozen=True)
class Builder:
    """
    Builder of cases of a format. Other keyword arguments of its methods are parameters of the reference reader.

    :param prefix: The first part of the names.
    :param file: The name of the file.
    :param read: The reference reader.
    :param valid_file: Returns a valid file with the columns of these tables.
    """

    prefix: str
    file: str
    read: Callable[..., Table]
    valid_file: Callable[..., bytes]

    def table_of(self, content: Content, **reading: Any) -> Table:
        """Return the table that the reference reader finds in a file."""
        return self.read(encoded(content), **reading)

    def valid(self, name: str, content: Content, *, expected: Table | None = None, **more: Any) -> Case:
        """Return a case whose rows must be loaded: the expected ones, or those of the reference reader."""
        return self._case(name, content, [expected] if expected else None, may_fail=False, **more)

    def malformed(self, name: str, content: Content, at: int | Collection[int] = (), **more: Any) -> Case:
        """Return a case that must fail: the reference reader must fail, too, unless there is another reason."""
        return self._case(name, content, (), at=at, **more)

    def ambiguous(self, name: str, content: Content, *tables: Table, why: str, **more: Any) -> Case:
        """Return a case on which readers differ: each of the tables is acceptable, or that of the reference reader."""
        return self._case(name, content, tables or None, why=why, **more)

    def _case(
        self,
        name: str,
        content: Content,
        tables: Sequence[Table] | None,
        *,
        may_fail: bool = True,
        at: int | Collection[int] = (),
        why: str = "",
        file: str = "",
        options: Mapping[str, Any] | None = None,
        before: Content | None = None,
        **reading: Any,
    ) -> Case:
        if tables is None:
            tables = [self.table_of(content, **reading)]
        elif not tables and not why:
            with pytest.raises(MalformedError):
                self.table_of(content, **reading)
        return Case(
            name=f"{self.prefix}_{name}",
            file=file or self.file,
            content=encoded(content),
            valid=self.valid_file(tables, **reading) if before is None else encoded(before),
            tables=tuple(tables),
            may_fail=may_fail,
            lines=[at] if isinstance(at, int) else at,
            why=why,
            origin={"options": dict(options)} if options else {},
        )
