"""CSV as destinations read and write it: UTF-8, commas, a first line with the names of the columns."""

from __future__ import annotations

import csv
import io
import json
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Json = dict[str, Any]

#: What spreadsheets put before the first line of a file in UTF-8.
MARK = b"\xef\xbb\xbf"


def text_of(value: Any) -> str:
    """Give a value as it stands in a file: nothing for null, and JSON for what is nested."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_row(values: Iterable[Any]) -> bytes:
    """Give values as a row."""
    texts = [text_of(value) for value in values]
    # Not all versions of Python know that a carriage return has to be quoted.
    file, has_return = io.StringIO(newline=""), any("\r" in text for text in texts)
    csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL).writerow(texts)
    return file.getvalue().encode("utf-8", "surrogateescape")


def raw_rows(file: IO[bytes]) -> Iterator[bytes]:
    """Give the rows of a file as they stand there. The last one is torn if it does not end with a line's end."""
    row = b""
    for line in file:
        row += line
        # Within quotes a line's end is a part of the value.
        if row.count(b'"') % 2 == 0:
            yield row
            row = b""
    if row:
        # Torn within quotes: it must not look whole.
        yield row.rstrip(b"\r\n")


def columns_of(row: bytes) -> list[str]:
    """Give the names that a first line has."""
    return values_of(row.removeprefix(MARK))


def values_of(row: bytes) -> list[str]:
    """Give the values of a row; none of one that is no CSV."""
    try:
        return next(csv.reader(io.StringIO(row.decode("utf-8", "surrogateescape"), newline=""), strict=True), [])
    except csv.Error:
        return []


def as_object(columns: Sequence[str], row: bytes) -> Json | None:
    """Give a row by the names of its columns; ``None`` if it has not as many."""
    values = values_of(row)
    return dict(zip(columns, values, strict=True)) if len(values) == len(columns) else None
