"""Search for lines of CSV files that DuckDB accepts by mistake, or refuses without a line number."""

from __future__ import annotations

import csv
import re
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.warehouse.loading.csv_dialect import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path
    from threading import Event

    from datapipe_local.warehouse.loading.csv_dialect import CsvDialect

_CHUNK = 1 << 20
#: Largest number of bytes to search for the line of an error.
_MOST_SEARCHED = 256 << 20
#: Largest number of characters to parse for the line of an error.
_MOST_PARSED = 64 << 20
#: Largest size of a null field, with the spaces around it, in bytes.
_OVERLAP = 1 << 10
#: Largest number of characters of a recognized number.
_LONGEST_NUMBER = 64


class Malformed(NamedTuple):
    """
    Malformed record.

    :param line: Its first line, from 1.
    :param fields: The number of its fields; None if its quotes are malformed.
    """

    line: int
    fields: int | None


class ExtraFields:
    """
    Search for lines that may end with an extra null field, which DuckDB accepts.

    Some of the found lines have no extra field.

    :param dialect: The dialect of the file.
    :param encoding: Its encoding.
    :param nulls: The words for null.
    :param comment: The character that starts a comment.
    """

    def __init__(self, dialect: CsvDialect, encoding: str, nulls: Collection[str], comment: str | None) -> None:
        encode = partial(str.encode, encoding=_bytewise(encoding))
        ends = [encode(dialect.line_end[:1]), *([encode(comment)] if comment else [])]
        self._end = encode(dialect.line_end)
        self._delimiter, self._space = encode(dialect.delimiter), encode(" ")
        self._unquoted = [self._delimiter + encode(null) + end for null in {"", *nulls} for end in ends]
        self._quote = encode(dialect.quote)
        any_end, spaces = b"|".join(map(re.escape, ends)), b"(?:" + re.escape(self._space) + b")*"
        self._quoted = [
            re.compile(re.escape(self._quote + encode(null) + self._quote) + spaces + b"(?:" + any_end + b")")
            for null in {"", *nulls}
            if dialect.quote
        ]

    def occur_in(self, path: Path, stop: Event) -> bool:
        """
        Return True if the file has such a line.

        :param path: The file.
        :param stop: Ends the search; the result is then False.
        """
        kept = b""
        with path.open("rb") as file:
            while not stop.is_set():
                chunk = file.read(_CHUNK)
                # The last line may have no line end.
                part = kept + (chunk or self._end)
                if self._occur_in(part):
                    return True
                if not chunk:
                    break
                # An occurrence can span two parts.
                kept = part[-_OVERLAP:]
        return False

    def _occur_in(self, part: bytes) -> bool:
        if any(text in part for text in self._unquoted):
            return True
        if not self._quoted or self._quote not in part:
            return False
        return any(self._follows_a_delimiter(part, match) for text in self._quoted for match in text.finditer(part))

    def _follows_a_delimiter(self, part: bytes, match: re.Match[bytes]) -> bool:
        end = match.start()
        while part.endswith(self._space, 0, end):
            end -= len(self._space)
        return part.endswith(self._delimiter, 0, end)


def first_other_width(path: Path, dialect: CsvDialect, encoding: str, comment: str | None) -> Malformed | None:
    """
    Return the first record with another number of fields than the header; None if there is none.

    :param path: The file.
    :param dialect: Its dialect.
    :param encoding: Its encoding.
    :param comment: The character that starts a comment.
    """
    records = _records(path, dialect, encoding, comment, strict=False)
    return next((record for record in records if record.fields != len(dialect.names)), None)


def first_of_width(path: Path, dialect: CsvDialect, encoding: str, comment: str | None, width: int) -> Malformed | None:
    """
    Return the first record with a given number of fields; None if there is none. See :func:`first_other_width`.

    :param width: The number of fields.
    """
    records = _records(path, dialect, encoding, comment, strict=False)
    return next((record for record in records if record.fields == width), None)


def first_wrong_quote(path: Path, dialect: CsvDialect, encoding: str, comment: str | None) -> Malformed | None:
    """Return the first record with malformed quotes; None if there is none. See :func:`first_other_width`."""
    records = _records(path, dialect, encoding, comment, strict=True)
    return next((record for record in records if record.fields is None), None)


def first_with_value(
    path: Path,
    dialect: CsvDialect,
    encoding: str,
    comment: str | None,
    nulls: Collection[str],
    *,
    value: str,
    column: str | None,
) -> tuple[int, str] | None:
    """
    Return the line and the column of the first record with a value; None if there is none.

    :param path: The file.
    :param dialect: Its dialect.
    :param encoding: Its encoding.
    :param comment: The character that starts a comment.
    :param nulls: The words for null.
    :param value: The value, regardless of surrounding spaces.
    :param column: The column; None for any column whose first value is a number.
    """
    first_values: dict[str, str] = {}
    records = _parsed(path, dialect, encoding, comment, strict=False)
    for line, record in islice(records, int(dialect.has_header), None):
        for name, text in zip(dialect.names, record or (), strict=False):
            if text.strip() == value.strip():
                is_wanted = name == column if column else _looks_numeric(first_values.get(name, ""))
                if is_wanted:
                    return line, name
            if text.strip() and text not in nulls:
                first_values.setdefault(name, text)
    return None


def _looks_numeric(text: str) -> bool:
    return (
        len(text) <= _LONGEST_NUMBER and re.fullmatch(r"[\d.,'\s+-]*\d[\d.,'\s]*([eE][+-]?\d+)?\s*", text) is not None
    )


def _records(
    path: Path, dialect: CsvDialect, encoding: str, comment: str | None, *, strict: bool
) -> Iterator[Malformed]:
    """Yield the line and the width of each record that is not blank. A malformed record is the last one."""
    for line, record in _parsed(path, dialect, encoding, comment, strict=strict):
        yield Malformed(line, None if record is None else len(record))


def _parsed(
    path: Path, dialect: CsvDialect, encoding: str, comment: str | None, *, strict: bool
) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the first line and the fields of each record that is not blank; at a malformed one, no fields, and end."""
    line, first = 0, None
    delimiter, read = dialect.delimiter, 0

    def lines() -> Iterator[str]:
        nonlocal line, first, read
        for text in file:
            line += 1
            read += len(text)
            if line <= dialect.skip or (comment and text.startswith(comment)):
                continue
            first = first or line
            yield _split_by_one(_uncommented(text, dialect.quote, comment), delimiter)

    csv.field_size_limit(max(csv.field_size_limit(), path.stat().st_size + 1))
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        reader = csv.reader(
            lines(),
            delimiter=delimiter if len(delimiter) == 1 else PRIVATE,
            quotechar=dialect.quote or None,
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            doublequote=dialect.escape == dialect.quote,
            escapechar=dialect.escape if dialect.escape and dialect.escape != dialect.quote else None,
            skipinitialspace=True,
            strict=strict,
        )
        try:
            for record in reader:
                if record and first:
                    yield first, record
                if read > _MOST_PARSED:
                    return
                first = None
        except csv.Error:
            if first:
                yield first, None


def _uncommented(line: str, quote: str, comment: str | None) -> str:
    """Return a line without the comment after its last quote."""
    position = line.find(comment, line.rfind(quote) + 1 if quote else 0) if comment else -1
    return line if position < 0 else line[:position] + "\n"


def _split_by_one(line: str, delimiter: str) -> str:
    # Python's reader accepts only one character.
    return line if len(delimiter) == 1 else line.replace(delimiter, PRIVATE)


def _bytewise(encoding: str) -> str:
    # Without a byte order mark before each text.
    return "utf-16-le" if encoding.lower() == "utf-16" else encoding


def first_other_line_end(path: Path, quote: str) -> int | None:
    """
    Return the first line with another line end than the first line; None if there is none.

    :param path: The file, in an encoding that contains ASCII.
    :param quote: The quote character: line ends in quoted fields do not count.
    """
    mark = quote.encode()
    tokens = re.compile(rb"\r\n|\n|\r" + (rb"|" + re.escape(mark) if mark else b""))
    line, first, is_quoted = 1, None, False
    for token in chain.from_iterable(map(tokens.findall, chunks(path))):
        if token == mark:
            is_quoted = not is_quoted
            continue
        if not is_quoted:
            first = first or token
            if token != first:
                return line
        line += 1
    return None


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, up to a limit. No part ends between CR and LF."""
    searched = 0
    with path.open("rb") as file:
        while searched < _MOST_SEARCHED and (chunk := file.read(_CHUNK)):
            if chunk.endswith(b"\r"):
                chunk += file.read(1)
            searched += len(chunk)
            yield chunk
