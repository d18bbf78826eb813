"""
Dialect of a CSV file, determined from its first records.

DuckDB's own detection is not used: to find a dialect that fits every sampled row, it skips rows, drops quotes, or reads
whole lines as one column. Here the first record determines the dialect, and DuckDB then refuses each row that does not
fit.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Delimiters that are recognized without the option ``delim``.
DELIMITERS = (",", ";", "\t", "|")
_QUOTE = '"'
#: Private-use character that replaces a delimiter of several characters.
PRIVATE = "\ue000"
_MOST_RECORDS = 1_000
#: The share of the records that must have as many fields as the header, if two delimiters occur in it.
_AGREEMENT = 0.5
_VALUE = re.compile(
    r"""[+-]?(\d+([.,]\d*)*|\.\d+)([eE][+-]?\d+)?%?  # a number
    | \d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}.*)?  # a date, perhaps with a time
    | \d{1,2}:\d{2}(:\d{2}.*)?  # a time
    | true | false""",
    re.VERBOSE | re.IGNORECASE,
)
_LINE_END = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r".*?(?:\r\n|\n|\r|$)")


class DialectError(Exception):
    """
    Error for a file whose structure cannot be determined. The message has the reason and the remedy, not the file.

    :param line: The line, from 1.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class CsvDialect:
    """
    Structure of a CSV file.

    :param delimiter: The delimiter between fields.
    :param quote: The quote character around fields; empty for none.
    :param escape: The character before a quote in a quoted field; empty for none.
    :param has_header: The first record contains the names of the columns.
    :param skip: The number of lines before the first record.
    :param skipped_comments: The number of comments among them.
    :param names: The columns.
    :param line_end: The line end of the first record.
    """

    delimiter: str
    quote: str
    escape: str
    has_header: bool
    skip: int
    names: tuple[str, ...]
    line_end: str = "\n"
    skipped_comments: int = 0


class _Preamble(NamedTuple):
    """
    Lines before the first record.

    :param lines: Their number.
    :param comments: The number of comments among them.
    :param rest: The text after them.
    """

    lines: int
    comments: int
    rest: str


class _Parsed(NamedTuple):
    """First records as split by one delimiter."""

    delimiter: str
    records: Sequence[Sequence[str]]

    @property
    def width(self) -> int:
        return len(self.records[0])

    @property
    def agreement(self) -> float:
        following = self.records[1:]
        return sum(len(record) == self.width for record in following) / len(following) if following else 1.0


def detect(text: str, options: Mapping[str, Any], *, is_whole: bool) -> CsvDialect:
    """
    Return the dialect of a file.

    :param text: The beginning of the file.
    :param options: The reader's options that the user set.
    :param is_whole: The text is the whole file, not only its beginning.
    :raises DialectError: The structure cannot be determined.
    """
    comment = options.get("comment") or None
    quote = options.get("quote", _QUOTE)
    skip, comments, rest = _preamble(text, options.get("skip", 0), comment, quote)
    if not rest:
        raise DialectError(1, "the file has no columns: it contains only blank or skipped lines")
    escape = options.get("escape", quote)
    given = options.get("delim")
    found = [
        parsed
        for delimiter in ([given] if given else DELIMITERS)
        if (parsed := _parse(rest, delimiter, quote, escape, comment, is_whole=is_whole))
    ]
    if not found:
        raise DialectError(
            skip + 1,
            f"the first record is not complete{'' if is_whole else ' within 1 MB'}, or text follows a closing quote:"
            " close the quote, or set the option `quote`",
        )
    parsed = found[0] if given else _chosen(found, skip + 1)
    first = parsed.records[0]
    if any("\0" in field for field in first):
        raise DialectError(skip + 1, "the first record contains NUL bytes: set the option `encoding`, such as utf-16")
    has_header = options["header"] if "header" in options else _is_header(parsed)
    names = _names(first, skip + 1) if has_header else _numbered(len(first))
    return CsvDialect(given or parsed.delimiter, quote, escape, has_header, skip, names, _line_end(rest), comments)


def _preamble(text: str, skipped: int, comment: str | None, quote: str) -> _Preamble:
    """
    Return the lines before the first record.

    :raises DialectError: A line has another line end than the first record: DuckDB would use its line end for all
        lines. Or a line has an unclosed quote: DuckDB would join the next line to it.
    """
    position = comments = 0
    ends: list[str] = []
    while position < len(text):
        match = _LINE.match(text, position)
        line = match.group() if match else ""
        end = line[len(line.rstrip("\r\n")) :]
        is_comment = comment is not None and line.startswith(comment)
        if len(ends) >= skipped and line.strip("\r\n") and not is_comment:
            if end and any(other != end for other in ends):
                raise DialectError(
                    1, f"the line has another line end (LF, CRLF, CR) than line {len(ends) + 1}: use one for all"
                )
            break
        if quote and not is_comment and line.count(quote) % 2:
            raise DialectError(len(ends) + 1, "the skipped line has a quote that is not closed: remove the quote")
        position += len(line)
        comments += is_comment
        ends.append(end)
    return _Preamble(len(ends), comments, text[position:])


def _line_end(text: str) -> str:
    match = _LINE_END.search(text)
    return match.group() if match else "\n"


def _parse(
    text: str, delimiter: str, quote: str, escape: str, comment: str | None, *, is_whole: bool
) -> _Parsed | None:
    """Return the first records; None if the first one is malformed or incomplete."""
    if len(delimiter) > 1:
        # Python's reader accepts only one character.
        text, delimiter = text.replace(delimiter, PRIVATE), PRIVATE
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    reader = csv.reader(
        _uncommented(text, comment),
        delimiter=delimiter,
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        doublequote=escape == quote,
        escapechar=escape if escape and escape != quote else None,
        strict=True,
    )
    records: list[list[str]] = []
    is_cut = not is_whole
    try:
        for record in reader:
            if record:
                records.append(record)
            if len(records) > _MOST_RECORDS:
                is_cut = False
                break
    except csv.Error:
        # The last record of a partial file is incomplete. DuckDB reports any other malformed record, with its line.
        is_cut = False
    if is_cut and len(records) > 1:
        records.pop()
    elif is_cut and not text.endswith(("\n", "\r")):
        return None
    return _Parsed(delimiter, records) if records else None


def _uncommented(text: str, comment: str | None) -> Sequence[str] | io.StringIO:
    lines = io.StringIO(text, newline="")
    return lines if comment is None else [line for line in lines if not line.startswith(comment)]


def _chosen(found: Sequence[_Parsed], line: int) -> _Parsed:
    """Return the records split by the delimiter of the header."""
    wide = [parsed for parsed in found if parsed.width > 1]
    if not wide:
        (name,) = found[0].records[0]
        if any(delimiter in name for delimiter in DELIMITERS):
            raise DialectError(
                line, "the only column has a delimiter in its name: remove the quotes, or set the option `delim`"
            )
        return found[0]
    likely = [parsed for parsed in wide if parsed.agreement >= _AGREEMENT] or wide
    best = max(likely, key=lambda parsed: (parsed.agreement, parsed.width))
    if any(each is not best and each.width >= best.width and each.agreement >= best.agreement for each in likely):
        marks = " and ".join(repr(each.delimiter) for each in likely)
        raise DialectError(line, f"each of {marks} can be the delimiter: set the option `delim`")
    return best


def _is_header(parsed: _Parsed) -> bool:
    """Return False if the first record has values in columns in which the following records have values, too."""
    first, following = parsed.records[0], [record for record in parsed.records[1:] if len(record) == parsed.width]
    for position, field in enumerate(first):
        if _VALUE.fullmatch(field.strip()):
            column = [record[position].strip() for record in following]
            if all(not value or _VALUE.fullmatch(value) for value in column):
                return False
    return True


def _names(header: Sequence[str], line: int) -> tuple[str, ...]:
    names = [field.strip() or number for field, number in zip(header, _numbered(len(header)), strict=True)]
    positions: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        before = positions.setdefault(name.casefold(), position)
        if before != position:
            # Without the name: if the file has no header, it is a value.
            raise DialectError(
                line, f"columns {before} and {position} have the same name, without regard to case: rename one of them"
            )
    return tuple(names)


def _numbered(width: int) -> tuple[str, ...]:
    digits = len(str(width - 1))
    return tuple(f"column{position:0{digits}}" for position in range(width))
