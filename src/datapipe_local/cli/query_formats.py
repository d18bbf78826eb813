"""Text forms of query results: a table for terminals, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NULL = "NULL"
#: Longer values are truncated in tables.
_WIDEST = 80
_CUT = "..."


def as_table(rows: Sequence[dict[str, Any]], total: int) -> str:
    """
    Return rows as a table, with the number of rows below it.

    :param rows: The rows.
    :param total: The number of all rows of the query.
    """
    unit = "row" if total == 1 else "rows"
    count = f"({total:,} {unit})" if len(rows) == total else f"({len(rows):,} of {total:,} {unit})"
    if not rows:
        return count
    names = list(rows[0])
    columns = [[_cell(name), *(_cell(row[name]) for row in rows)] for name in names]
    widths = [max(map(len, column)) for column in columns]
    adjust = [str.rjust if _is_numeric(rows, name) else str.ljust for name in names]
    head, *lines = [
        " | ".join(align(cell, width) for align, cell, width in zip(adjust, cells, widths, strict=True)).rstrip()
        for cells in zip(*columns, strict=True)
    ]
    return "\n".join([head, "-+-".join("-" * width for width in widths), *lines, count])


def as_json(rows: Sequence[dict[str, Any]], _total: int) -> str:
    """Return rows as a JSON array of objects."""
    return json.dumps(rows, indent=2, ensure_ascii=False)


def as_csv(rows: Sequence[dict[str, Any]], _total: int) -> str:
    """Return rows as CSV with a header. A null is an empty field, a nested value is JSON. Without rows, it is empty."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(["" if value is None else _text(value) for value in row.values()] for row in rows)
    return text.getvalue().removesuffix("\n")


#: Functions for each format, by the value of the option.
FORMATS: dict[str, Callable[[Sequence[dict[str, Any]], int], str]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> str:
    """Return a value as one line. Control characters are escaped: a terminal could execute them."""
    text = _NULL if value is None else _text(value)
    shown = "".join(character if character.isprintable() else _escaped(character) for character in text[: _WIDEST + 1])
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - len(_CUT)] + _CUT


def _escaped(character: str) -> str:
    return repr(character)[1:-1]


def _is_numeric(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return all(isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows)
