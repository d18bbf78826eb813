"""Hypothesis strategies: valid CSV and JSON Lines files, and mutations of their bytes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: The other columns of a file. The first one is always ``id``: a column that stays, and is never empty.
_NAMES = ["name", "amount", "day", "note", "x"]
# CR alone is not among them: Python 3.11 writes it without quotes.
_CHARACTERS = [*'abz 19.-,;|\t"\n#\u00e9\u20ac\U0001f600', "\r\n"]
_WORDS = st.lists(st.sampled_from(_CHARACTERS), max_size=8).map("".join)
_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str), st.integers(-99, 99).map(str), st.decimals(-99, 99, places=2).map(str)
)
_DAYS = st.dates().map(str)
_CELLS = [_WORDS, _NUMBERS, _DAYS, st.sampled_from(["", "true", "false", "NULL"])]
#: What is inserted into files.
_TOKENS = [
    b'"',
    b'""',
    b"\n",
    b"\r\n",
    b",",
    b";",
    b"\t",
    b"|",
    b",extra",
    b"\\",
    b" ",
    b"\0",
    b"\xff",
    b"#",
    b"{",
    b"}",
    b"[",
    b":",
    b"1",
    b"null",
]


@dataclass(frozen=True)
class CsvFile:
    """Valid CSV file, and the name of its delimiter."""

    delimiter: str
    content: bytes


@st.composite
def csv_files(draw: st.DrawFn) -> CsvFile:
    """Return valid files of several dialects."""
    delimiter = draw(st.sampled_from(sorted(DELIMITERS)))
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    columns = [draw(st.sampled_from(_CELLS)) for _ in names]
    rows = draw(st.lists(st.tuples(st.integers(0, 99), *columns), min_size=1, max_size=12))
    out = io.StringIO()
    writer = csv.writer(
        out,
        delimiter=DELIMITERS[delimiter],
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
    )
    writer.writerow(["id", *names])
    # Text, so that a quote around a number is no promise.
    writer.writerows([str(cell) for cell in row] for row in rows)
    return CsvFile(delimiter, out.getvalue().encode())


@st.composite
def jsonl_files(draw: st.DrawFn) -> bytes:
    """Return valid files with an object on each line."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(-1e9, 1e9).map(lambda number: round(number, 3)),
        _WORDS,
    )
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=5,
    )
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    columns = {name: draw(st.sampled_from([st.integers(0, 9), _WORDS, scalars, values])) for name in names}
    rows: list[dict[str, Any]] = draw(
        st.lists(st.fixed_dictionaries({"id": st.integers(0, 99)}, optional=columns), min_size=1, max_size=12)
    )
    return "".join(json.dumps(row, ensure_ascii=draw(st.booleans())) + "\n" for row in rows).encode()


def mutations() -> st.SearchStrategy[list[Mutation]]:
    """Return sequences of changes of bytes."""
    place = st.floats(0, 1, exclude_max=True)
    one = st.one_of(
        st.builds(Cut, place),
        st.builds(Repeat, place, st.integers(1, 40)),
        st.builds(Swap, place, place),
        st.builds(Insert, place, st.sampled_from(_TOKENS)),
        st.builds(Remove, st.sampled_from([b'"', b"\n", b",", b";", b"\t", b"|", b"{", b"}", b":"]), place),
    )
    return st.lists(one, min_size=1, max_size=3)


def mutated(content: bytes, changes: list[Mutation]) -> bytes:
    """Return the content after all changes."""
    for change in changes:
        content = change(content)
    return content


@dataclass(frozen=True)
class Cut:
    """End of a file at a place, which is a fraction of its length."""

    place: float

    def __call__(self, content: bytes) -> bytes:
        return content[: int(self.place * len(content))]


@dataclass(frozen=True)
class Repeat:
    """Repetition of bytes of a file."""

    place: float
    size: int

    def __call__(self, content: bytes) -> bytes:
        start = int(self.place * len(content))
        return content[: start + self.size] + content[start:]


@dataclass(frozen=True)
class Swap:
    """Exchange of two bytes of a file."""

    one: float
    other: float

    def __call__(self, content: bytes) -> bytes:
        changed = bytearray(content)
        if changed:
            one, other = int(self.one * len(changed)), int(self.other * len(changed))
            changed[one], changed[other] = changed[other], changed[one]
        return bytes(changed)


@dataclass(frozen=True)
class Insert:
    """Insertion of bytes into a file."""

    place: float
    token: bytes

    def __call__(self, content: bytes) -> bytes:
        start = int(self.place * len(content))
        return content[:start] + self.token + content[start:]


@dataclass(frozen=True)
class Remove:
    """Removal of one of the occurrences of a character."""

    character: bytes
    place: float

    def __call__(self, content: bytes) -> bytes:
        places = [index for index in range(len(content)) if content[index : index + 1] == self.character]
        if not places:
            return content
        start = places[int(self.place * len(places))]
        return content[:start] + content[start + 1 :]


Mutation = Callable[[bytes], bytes]
