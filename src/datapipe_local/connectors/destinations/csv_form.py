"""CSV format of destinations: UTF-8, commas, and a header."""

from __future__ import annotations

import csv
import io
import json
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Json = dict[str, Any]

#: Byte order mark that spreadsheet programs write before UTF-8.
MARK = b"\xef\xbb\xbf"


def text_of(value: Any) -> str:
    """Return the text of a value: empty for null, JSON for nested values."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_row(values: Iterable[Any]) -> bytes:
    """Return a CSV row."""
    texts = [text_of(value) for value in values]
    # Some Python versions do not quote a carriage return.
    file, has_return = io.StringIO(newline=""), any("\r" in text for text in texts)
    csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL).writerow(texts)
    return file.getvalue().encode("utf-8", "surrogateescape")


def raw_rows(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rows of a file unchanged. The last row is incomplete if it does not end with a line end."""
    row = b""
    for line in file:
        row += line
        # Within quotes, a line end is part of the value.
        if row.count(b'"') % 2 == 0:
            yield row
            row = b""
    if row:
        # An incomplete row within quotes must not look complete.
        yield row.rstrip(b"\r\n")


def columns_of(row: bytes) -> list[str]:
    """Return the column names of a header."""
    return values_of(row.removeprefix(MARK))


def values_of(row: bytes) -> list[str]:
    """Return the values of a row; an empty list if it is invalid CSV."""
    try:
        return next(csv.reader(io.StringIO(row.decode("utf-8", "surrogateescape"), newline=""), strict=True), [])
    except csv.Error:
        return []


def as_object(columns: Sequence[str], row: bytes) -> Json | None:
    """Return a row as an object; ``None`` if its number of values differs from the number of columns."""
    values = values_of(row)
    return dict(zip(columns, values, strict=True)) if len(values) == len(columns) else None
