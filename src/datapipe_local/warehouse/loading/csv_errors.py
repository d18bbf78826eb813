"""Messages of errors about the structure of CSV files: the line, the reason and the remedy, and no values."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from datapipe_local.warehouse.loading import csv_encoding, csv_lines
from datapipe_local.warehouse.loading.csv_files import comment_of, dialect_of, encoding_of, is_csv, nulls_of
from datapipe_local.warehouse.warehouse import Scan

_STRUCTURE = re.compile(
    r"CSV Error on Line|The CSV Parser state machine|Error when sniffing file|Maximum line size"
    r"|not (?:utf-16|latin-1) encoded"
)
_WIDTH = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_OPEN_QUOTE = "unterminated quote"
_LINE = re.compile(r"CSV Error on Line: (\d+)")
_ENCODING = re.compile(r"Invalid unicode|not (?:utf-16|latin-1) encoded")
_VALUE = re.compile(r"""Could not convert string (['"])(.*)\1 to """, re.DOTALL)
_FILE = re.compile(r"^\s*file = (.*)$", re.MULTILINE)
_COLUMN = re.compile(r'Error when converting column "(.*?)"\. ')
#: Up to this size, DuckDB reports malformed records correctly.
_PARALLEL_BYTES = 1 << 20


class MisreadError(Exception):
    """
    Error of a malformed record that another reader does not find.

    DuckDB reads parts of large files in parallel. It can then mistake a newline in quotes for the end of a record.
    """


def explain(error: duckdb.Error, readable: object) -> str | None:
    """
    Return the message of an error about the structure of a CSV file; None for any other error.

    The message contains no values.

    :param error: The error.
    :param readable: The source.
    """
    message = str(error)
    if not isinstance(readable, Scan) or not is_csv(readable):
        return None
    if isinstance(error, duckdb.ConversionException):
        return _explain_type(message, readable)
    if not isinstance(error, duckdb.InvalidInputException) or not _STRUCTURE.search(message):
        return None
    if _ENCODING.search(message):
        return _explain_encoding(message, readable)
    if width := _WIDTH.search(message):
        expected, found = int(width[1]), int(width[2])
        remedy = " or set the option `null_padding`" if found < expected else ""
        reason = f"has {found} fields instead of {expected}: correct the line{remedy}"
    elif _OPEN_QUOTE in message:
        reason = "has a quote that is not closed, or text after a closing quote: correct the line, or set `quote`"
    elif "Maximum line size" in message:
        reason = "is longer than `max_line_size`: raise this option, or look for a quote that is not closed"
    elif "state machine" in message:
        reason = (
            "has another line end (LF, CRLF, CR) than the lines before, or characters after a closing quote: correct it"
        )
    else:
        reason = "cannot be parsed"
    return f"{_place(message, readable)} {reason}"


def explain_value(error: duckdb.Error, readable: object) -> str | None:
    """
    Return the message of an error about a value that does not fit the type of the first rows, None for other errors.

    This occurs if the user sets the option ``sample_size``. The message does not contain the value.

    :param error: The error of the most careful attempt.
    :param readable: The source.
    """
    if not isinstance(readable, Scan) or not is_csv(readable) or "sample_size" not in readable.options:
        return None
    message = str(error)
    value, column = _VALUE.search(message), _COLUMN.search(message)
    if not isinstance(error, duckdb.ConversionException) or value is None:
        return None
    place = "the file has a value"
    for path in readable.paths:
        arguments = path, dialect_of(readable, path), encoding_of(readable), comment_of(readable)
        found = csv_lines.first_with_value(
            *arguments, nulls_of(readable), value=value[2], column=column[1] if column else None
        )
        if found is not None:
            place = f"{readable.prefix_of(path)}line {found[0]} has a value in column {found[1][:100]!r}"
            break
    return f"{place} that does not fit the first rows: raise or remove the option `sample_size`, or set `types`"


def is_misread(error: duckdb.Error, readable: object) -> bool:
    """
    Return True if the error is a :class:`MisreadError`.

    :param error: The error.
    :param readable: The source.
    """
    message = str(error)
    file = _FILE.search(message)
    if not isinstance(readable, Scan) or file is None or not (_OPEN_QUOTE in message or _WIDTH.search(message)):
        return False
    path = Path(file[1])
    return path.stat().st_size > _PARALLEL_BYTES and _line_of(message, readable, path) is None


def _explain_type(message: str, scan: Scan) -> str | None:
    """Return the message of an error about a type that the user sets. Detected types are retried instead."""
    column = _COLUMN.search(message)
    given = {name.lower(): kind for name, kind in scan.options.get("types", {}).items()}
    if column is None or column[1].lower() not in given:
        return None
    return (
        f"{_place(message, scan)} has a value in column {column[1][:100]!r} that is not {given[column[1].lower()]}:"
        " correct the value, or the option `types`"
    )


def _explain_encoding(message: str, scan: Scan) -> str:
    file = _FILE.search(message)
    # Some errors do not name the file.
    for path in [Path(file[1])] if file else scan.paths:
        found = csv_encoding.unreadable(path, encoding_of(scan))
        if found.line is not None or file or len(scan.paths) == 1:
            place = "the file" if found.line is None else f"line {found.line}"
            return f"{scan.prefix_of(path)}{place} {found.reason}"
    return "a file has another encoding than the option `encoding`: save it as UTF-8"


def _place(message: str, scan: Scan) -> str:
    """Return the file and the line of an error of DuckDB."""
    file, line = _FILE.search(message), _LINE.search(message)
    path = Path(file[1]) if file else None
    name = scan.prefix_of(path) if path else ""
    if "state machine" in message:
        # The search is bytewise.
        quote = str(scan.options.get("quote", '"'))
        found = csv_lines.first_other_line_end(path, quote) if path and encoding_of(scan).lower() != "utf-16" else None
        return name + (f"line {found}" if found else "the file")
    if line is None:
        return f"{name}the file"
    counted = int(line[1])
    return f"{name}line {(_line_of(message, scan, path) if path else None) or counted}"


def _line_of(message: str, scan: Scan, path: Path) -> int | None:
    """Return the line of a malformed record. DuckDB counts records, and ignores newlines in quotes."""
    arguments = path, dialect_of(scan, path), encoding_of(scan), comment_of(scan)
    if width := _WIDTH.search(message):
        found = csv_lines.first_of_width(*arguments, int(width[2]))
    elif _OPEN_QUOTE in message:
        found = csv_lines.first_wrong_quote(*arguments)
    else:
        return None
    return found.line if found else None
