"""
SQL that reads CSV columns without changing a value.

DuckDB converts some values that do not fit the type of their column without an error: in a column of integers, 1.5
becomes 2, and 007 becomes 7; in a column of floating-point numbers, an integer of 17 digits loses its last digits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.warehouse.warehouse import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTEGERS = frozenset({"BIGINT", "HUGEINT", "BIGNUM"})
#: Largest integer up to which a floating-point number represents every integer.
_LARGEST = 2**53 - 1
_NUMBERS = _INTEGERS | {"DOUBLE"}
_ISO_DAY = "%Y-%m-%d"
#: Option with the format of a type.
_FORMAT_OF = {"DATE": "dateformat", "TIMESTAMP": "timestampformat", "TIMESTAMP WITH TIME ZONE": "timestampformat"}
#: Format fields that are letters or can be, and literal letters.
_WITH_LETTERS = re.compile(r"%[aAbBpZ]|(?<!%)[A-Za-z]")
#: Time without a zone other than Z, and without nanoseconds.
_TIME = "[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}([ T][0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,6}})?)?Z?)?"
#: Cheap comparisons come first: DuckDB evaluates the others only for the remaining rows.
_CONDITIONS = {
    # DuckDB also accepts yes, no, t, f and others.
    "BOOLEAN": "lower({text}) NOT IN ('true', 'false')",
    # Nanoseconds, or a time zone.
    "TIME": "NOT regexp_full_match({text}, '[0-9:.]{{1,15}}')",
    # A word such as epoch, a time, or a year of two digits.
    "DATE": "{text} > ':' OR strlen({text}) > 10 OR (strlen({text}) < 9 AND substr({text}, 5, 1) NOT IN ('-', '/'))",
    # A word, nanoseconds, a time zone, or a year of two digits.
    "TIMESTAMP": "{text} > ':' OR (strlen({text}) NOT IN (10, 19) AND NOT regexp_full_match({text}, '" + _TIME + "'))"
    " OR (strlen({text}) = 19 AND substr({text}, 17, 1) <> ':')",
    # A word, nanoseconds, or no time zone.
    "TIMESTAMP WITH TIME ZONE": "{text} > ':' OR regexp_matches({text}, '[.][0-9]{{7}}')"
    " OR NOT regexp_matches({text}, '(Z|[+-][0-9:]+|[A-Za-z])$')",
}


class Marks(NamedTuple):
    """
    Separators in numbers.

    :param decimal: The decimal separator.
    :param thousands: The separator of groups of three digits; empty for none.
    """

    decimal: str = "."
    thousands: str = ""


def changes(
    text: str, kind: str, formats: Mapping[str, str], marks: Marks, *, finds_misfits: bool = False
) -> str | None:
    """
    Return the condition under which a type changes the text of a column; None if it never does.

    :param text: The column, read as text, as an SQL expression. If a value has spaces around it, the condition can be
        true although nothing changes.
    :param kind: The type.
    :param formats: The time formats that DuckDB has detected, or that the user sets.
    :param marks: The separators in numbers.
    :param finds_misfits: The condition is true for text that is not a number, such as 0x10, for which DuckDB detects
        DOUBLE if it precedes a decimal. Otherwise DuckDB raises an error for such text.
    """
    if kind in _INTEGERS:
        # Fractions, leading zeros, signs, exponents, and prefixes such as 0x.
        plain = _plain(text, marks)
        return _or(f"CAST(CAST({plain} AS {kind}) AS VARCHAR) <> {plain}", _ungrouped(text, marks))
    if kind == "DOUBLE":
        plain = _plain(text, marks)
        value = f"{'TRY_CAST' if finds_misfits else 'CAST'}({plain} AS DOUBLE)"
        return _or(
            f"(length({plain}) > 15 AND regexp_full_match({plain}, '[+-]?[0-9]+'))"
            f" OR (isinf({value}) AND NOT contains(lower({text}), 'inf'))",
            f"({plain} IS NOT NULL AND {value} IS NULL)" if finds_misfits else "",
            _ungrouped(text, marks),
        )
    if form := _format(kind, formats):
        return _differs_from(text, form)
    return _CONDITIONS[kind].format(text=text) if kind in _CONDITIONS else None


def _format(kind: str, formats: Mapping[str, str]) -> str | None:
    """Return the format of a type; None for ISO 8601."""
    form = formats.get(_FORMAT_OF.get(kind, ""))
    return None if form == _ISO_DAY else form


def _differs_from(text: str, form: str) -> str:
    """Return the condition under which DuckDB reads a time in another format: a word, or a short year."""
    conditions = []
    if not _WITH_LETTERS.search(form):
        conditions.append(f"regexp_matches({text}, '[A-Za-z]')")
    if "%Y" in form:
        conditions.append(f"NOT regexp_matches({text}, '[0-9]{{4}}')")
    return " OR ".join(conditions) or "false"


def _plain(text: str, marks: Marks) -> str:
    if marks.thousands:
        text = f"replace({text}, {literal(marks.thousands)}, '')"
    return text if marks.decimal == "." else f"replace({text}, {literal(marks.decimal)}, '.')"


def _ungrouped(text: str, marks: Marks) -> str:
    """Return the condition that the digits of a number are not in groups of three; empty without a separator."""
    if not marks.thousands:
        return ""
    grouped = literal(f"[+-]?[0-9]{{1,3}}({re.escape(marks.thousands)}[0-9]{{3}})+([^0-9].*)?")
    return f"(contains({text}, {literal(marks.thousands)}) AND NOT regexp_full_match({text}, {grouped}))"


def _or(*conditions: str) -> str:
    return " OR ".join(filter(None, conditions))


def checked(name: str, kind: str, condition: str, formats: Mapping[str, str], marks: Marks) -> str:
    """
    Return the expression of a column that fails if the type changes a value, or may change it.

    :param name: The column, read with the type that :func:`read_as` returns.
    :param kind: The type.
    :param condition: The result of :func:`changes`.
    :param formats: The time formats that DuckDB has detected, or that the user sets.
    :param marks: The separators in numbers.
    """
    column = quoted(name)
    if read_as(kind, marks) == "DOUBLE":
        # Faster than a check of the text. NaN is greater than all numbers.
        return f"CASE WHEN abs({column}) > {_LARGEST} THEN error('not exact') ELSE {column} END AS {column}"
    value = _plain(column, marks) if kind in _NUMBERS else column
    if form := _format(kind, formats):
        value = f"strptime({column}, {literal(form)})"
    return f"CASE WHEN {condition} THEN error('not exact') ELSE CAST({value} AS {kind}) END AS {column}"


def read_as(kind: str, marks: Marks) -> str:
    """Return the type to read a column with for :func:`checked`."""
    return kind if kind == "DOUBLE" and not marks.thousands else "VARCHAR"
