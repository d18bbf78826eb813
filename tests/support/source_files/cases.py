"""Test cases: a source file, and the acceptable outcomes of its load."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A cell: text, a number as it was written, a nested JSON value, or None if it is absent.
Cell = Any


class Number(str):
    """JSON number, as it was written."""

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


@dataclass(frozen=True)
class Case:
    """
    Source file and the acceptable outcomes of its load.

    :param name: The name of the case, and of its stream.
    :param valid: The bytes of a valid file with the same name and options, which is loaded before.
    :param tables: The acceptable tables. Without any, the run must fail.
    :param may_fail: A failure is acceptable.
    :param lines: The line numbers of which the message of a failure must contain one. Empty if no line is at fault.
    :param why: The reason for several acceptable outcomes.
    :param origin: Other settings of the stream, such as ``format``.
    """

    name: str
    file: str
    content: bytes = field(repr=False)
    valid: bytes = field(repr=False)
    tables: tuple[Table, ...] = field(repr=False)
    may_fail: bool
    lines: Collection[int] = ()
    why: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.tables or self.may_fail, f"{self.name}: no outcome is acceptable"
        is_open = bool(self.tables) and (self.may_fail or len(self.tables) > 1)
        assert not is_open or self.why, f"{self.name}: several outcomes need a reason"

    def __str__(self) -> str:
        return self.name
