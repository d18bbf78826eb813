"""Comparison of a loaded table with the expected table of its file, by the types of the loaded columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.support.source_files.cases import MalformedError, Number, Table
from tests.support.source_files.references import json_value

Canonical = Any

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
#: Integer whose spelling does not change in an integer type.
_PLAIN_INTEGER = re.compile(r"\s*(0|-?[1-9]\d*)\s*")
_INTEGER_TYPE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM")
_NESTED_TYPE = re.compile(r"(STRUCT|MAP|UNION)\(|.*\]$|JSON$")
_DAY = re.compile(r"\s*(\d{4})([-/ \\])(\d{1,2})\2(\d{1,2})\s*")
_MOMENT = re.compile(
    r"\s*(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?)?"
    r"\s*(?:(Z|UTC)|([+-]\d{2}):?(\d{2})?)?\s*",
    re.ASCII,
)
_CLOCK = re.compile(r"\s*(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?\s*")
#: Forms of days other than that of ISO 8601. One of them must fit all cells of a column.
_DAY_FORMS = [
    f"{day}{separator}{month}{separator}{year}"
    for separator in "/-. "
    for year in ("%Y", "%y")
    for day, month in (("%d", "%m"), ("%m", "%d"))
]
_LATER_FORMS = ["", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S"]


class Unfit(tuple[str]):
    """Cell that a type cannot represent. It equals itself alone."""

    __slots__ = ()


@dataclass(frozen=True)
class Loaded:
    """
    Table of the warehouse.

    :param columns: Names and types.
    :param rows: The cells as text. Nested ones are JSON.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str | None, ...], ...]


def cell_as_text(column: str, kind: str) -> str:
    """Return the SQL of a cell as text."""
    quoted = '"' + column.replace('"', '""') + '"'
    return f"to_json({quoted})::VARCHAR" if _NESTED_TYPE.match(kind) else f"{quoted}::VARCHAR"


def difference(loaded: Loaded, wanted: Table) -> str | None:
    """Return the first difference between a loaded table and the expected one. None if there is none."""
    order = _order([name for name, _ in loaded.columns], wanted)
    if order is None:
        return (
            f"it has the columns {[name for name, _ in loaded.columns][:8]}, and not {list(wanted.columns or ())[:8]}"
        )
    if len(loaded.rows) != len(wanted.rows):
        return f"it has {len(loaded.rows)} rows, and not {len(wanted.rows)}"
    there, expected = [], []
    for index, place in enumerate(order):
        kind = loaded.columns[place][1]
        cells = [row[place] for row in loaded.rows]
        source = [row[index] for row in wanted.rows]
        one, other = _canonical_columns(kind, cells, source)
        if Counter(one) != Counter(other):
            lost = next(iter((Counter(other) - Counter(one)).elements()), None)
            extra = next(iter((Counter(one) - Counter(other)).elements()), None)
            return f"column {loaded.columns[place][0]!r} ({kind}) has {extra!r:.80}, and not {lost!r:.80}"
        there.append(one)
        expected.append(other)
    if Counter(zip(*there, strict=True)) != Counter(zip(*expected, strict=True)):
        return "the cells are right in each column, and wrong in the rows"
    return None


def _order(names: Sequence[str], table: Table) -> list[int] | None:
    """Return the position of each expected column. Names that a table cannot contain match any name."""
    places = list(range(len(names)))
    if table.columns is None:
        return places if not table.rows or len(table.rows[0]) == len(names) else None
    if len(names) != len(table.columns):
        return None
    wanted, stripped = [name.strip() for name in table.columns], [name.strip() for name in names]
    folded = Counter(name.casefold() for name in wanted)
    fixed = [bool(name) and folded[name.casefold()] == 1 for name in wanted]
    if all(fixed):
        # The keys of JSON objects have no order.
        return [stripped.index(name) for name in wanted] if set(stripped) == set(wanted) else None
    return (
        places if all(not fix or name == own for name, own, fix in zip(wanted, stripped, fixed, strict=True)) else None
    )


def _canonical_columns(
    kind: str, cells: Sequence[str | None], source: Sequence[Any]
) -> tuple[list[Canonical], list[Canonical]]:
    known = {cell: None if cell is None else _canonical(kind, cell) for cell in set(cells)}
    there = [known[cell] for cell in cells]
    # Equal cells are examined once.
    keys = [(type(cell), cell if isinstance(cell, str) else id(cell)) for cell in source]
    distinct = dict(zip(keys, source, strict=True))
    plain: list[Canonical] | None = None
    for form in _forms(kind):
        examined = {key: _of_source(kind, cell, form) for key, cell in distinct.items()}
        expected = [examined[key] for key in keys]
        if kind == "VARCHAR" and ("text", "") not in expected:
            # A CSV file does not distinguish null from an empty text.
            there = [None if cell == ("text", "") else cell for cell in there]
        if Counter(there) == Counter(expected):
            return there, expected
        plain = plain or expected
    return there, plain or []


def _forms(kind: str) -> Iterator[str | None]:
    yield None
    if kind == "DATE":
        yield from _DAY_FORMS
    elif kind.startswith("TIMESTAMP"):
        yield from (f"{day}{later}" for day in _DAY_FORMS for later in _LATER_FORMS)


def _of_source(kind: str, cell: Any, form: str | None) -> Canonical:
    if cell is None:
        return None
    if isinstance(cell, bool):
        cell = Number("true" if cell else "false")
    if _NESTED_TYPE.match(kind):
        return _frozen(json_value(cell) if isinstance(cell, Number) else cell, is_typed=kind != "JSON")
    if isinstance(cell, (dict, list)):
        return ("json", _frozen(cell, is_typed=False)) if kind == "VARCHAR" else Unfit((repr(cell),))
    return _canonical(kind, cell) if form is None else _in_form(kind, cell, form)


def _in_form(kind: str, text: str, form: str) -> Canonical:
    with suppress(ValueError):
        moment = datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the cell has no zone
        return _moment(moment.isoformat()) if kind != "DATE" else _day(moment.date().isoformat())
    return Unfit((text,))


def _canonical(kind: str, text: str) -> Canonical:
    if _NESTED_TYPE.match(kind):
        return _frozen(json_value(text), is_typed=kind != "JSON")
    canonical = _BY_TYPE.get(kind)
    if canonical is None:
        canonical = _exact if _INTEGER_TYPE.fullmatch(kind) else _moment if kind.startswith("TIMESTAMP") else _text
    return canonical(text)


def _text(text: str) -> Canonical:
    # A text column may contain JSON values of other types.
    if text[:1] in ("{", "["):
        with suppress(MalformedError):
            return "json", _frozen(json_value(text), is_typed=False)
    return "text", text


def _exact(text: str) -> Canonical:
    return int(text) if _PLAIN_INTEGER.fullmatch(text) else Unfit((text,))


def _floating(text: str) -> Canonical:
    if not _NUMBER.fullmatch(text):
        word = text.strip().lower().lstrip("+")
        return {"nan": "nan", "inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}.get(
            word, Unfit((text,))
        )
    exact, value = Decimal(text.strip()), float(text)
    if math.isinf(value):
        return Unfit((text,))
    # A float is exact for up to 15 digits. Integers must keep all digits.
    return exact if _INTEGER.fullmatch(text) else Decimal(repr(value))


def _truth(text: str) -> Canonical:
    word = text.strip().lower()
    return word if word in ("true", "false") else Unfit((text,))


def _day(text: str) -> Canonical:
    found = _DAY.fullmatch(text)
    return ("day", int(found[1]), int(found[3]), int(found[4])) if found else Unfit((text,))


def _moment(text: str) -> Canonical:
    found = _MOMENT.fullmatch(text)
    if not found:
        return Unfit((text,))
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = (found[7] or "").rstrip("0")
    if found[9]:
        offset = int(found[9]) * 60 + int(f"{found[9][0]}{found[10] or 0}")
        with suppress(ValueError, OverflowError):
            moved = datetime(year, month, day, hour, minute, second) - timedelta(minutes=offset)  # noqa: DTZ001 - in UTC
            year, month, day, hour, minute, second = moved.timetuple()[:6]
    return "moment", year, month, day, hour, minute, second, fraction


def _clock(text: str) -> Canonical:
    found = _CLOCK.fullmatch(text)
    if not found:
        return Unfit((text,))
    return "clock", int(found[1]), int(found[2]), int(found[3] or 0), (found[4] or "").rstrip("0")


_BY_TYPE: dict[str, Callable[[str], Canonical]] = {
    "BOOLEAN": _truth,
    "DATE": _day,
    "DOUBLE": _floating,
    "FLOAT": _floating,
    "TIME": _clock,
    "UUID": lambda text: ("uuid", text.lower()),
}


def _frozen(value: Any, *, is_typed: bool) -> Canonical:
    """Return a JSON value that can be compared and hashed. A field that is null equals one that is absent."""
    if isinstance(value, dict):
        fields = ((key, _frozen(each, is_typed=is_typed)) for key, each in value.items() if each is not None)
        return "object", frozenset(fields)
    if isinstance(value, list):
        return "array", tuple(_frozen(each, is_typed=is_typed) for each in value)
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, Number):
        return "number", _floating(value) if not _INTEGER.fullmatch(value) else int(value)
    if isinstance(value, str) and is_typed:
        # Days and times within typed structures.
        moment = _moment(value)
        return ("text", value) if isinstance(moment, Unfit) else moment
    return "text", value
