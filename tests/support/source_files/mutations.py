"""Hypothesis strategies: valid CSV and JSON Lines files, and mutations of their bytes."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: Columns of a file after the first one, which is always ``id`` and never empty.
_NAMES = ["name", "amount", "day", "note", "x"]
# A single CR is not included, because Python 3.11 writes it without quotes.
_CHARACTERS = [*'abz 19.-,;|\t"\n#\u00e9\u20ac\U0001f600', "\r\n"]
_WORDS = st.lists(st.sampled_from(_CHARACTERS), max_size=8).map("".join)
_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str), st.integers(-99, 99).map(str), st.decimals(-99, 99, places=2).map(str)
)
_DAYS = st.dates().map(str)
_CELLS = [_WORDS, _NUMBERS, _DAYS, st.sampled_from(["", "true", "false", "NULL"])]
#: Inserted bytes.
_TOKENS = [*(bytes([byte]) for byte in b'"\n,;\t|\\ \0\xff#{}[:1'), b'""', b"\r\n", b",extra", b"null"]


class CsvFile(NamedTuple):
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
    # Text values, because quotes around a number do not guarantee a text column.
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


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Return a file after one to three changes of its bytes."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(content)))
        change = draw(st.sampled_from(["cut", "repeat", "swap", "insert", "remove"]))
        if change == "cut":
            content = content[:place]
        elif change == "repeat":
            content = content[: place + draw(st.integers(1, 40))] + content[place:]
        elif change == "insert":
            content = content[:place] + draw(st.sampled_from(_TOKENS)) + content[place:]
        elif change == "remove":
            # Change one occurrence of a character.
            character = draw(st.sampled_from([b'"', b"\n", b",", b";", b"\t", b"|", b"{", b"}", b":"]))
            found = content.find(character, place)
            content = content if found < 0 else content[:found] + content[found + 1 :]
        elif place < len(content):
            other = draw(st.integers(0, len(content) - 1))
            changed = bytearray(content)
            changed[place], changed[other] = changed[other], changed[place]
            content = bytes(changed)
    return content
