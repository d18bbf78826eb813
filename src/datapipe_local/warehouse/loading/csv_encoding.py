"""Position of bytes in CSV files that do not fit the encoding."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.warehouse.loading.csv_lines import chunks

if TYPE_CHECKING:
    from pathlib import Path

_LINE_END = re.compile("\r\n|\n|\r")
_LINE_END_BYTES = re.compile(rb"\r\n|\n|\r")
#: Bytes that are characters in Windows-1252, and control characters in Latin-1, which DuckDB refuses.
_WINDOWS = re.compile(rb"[\x80-\x9f]")
_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
_CHARACTERS = 1 << 20
#: Largest number of UTF-16 characters to search for the line of an error.
_MOST_CHARACTERS = 128 << 20


class Unreadable(NamedTuple):
    """
    Bytes that DuckDB cannot decode.

    :param line: The line, from 1; None if it is unknown.
    :param reason: The reason and the remedy, as text to follow the line.
    """

    line: int | None
    reason: str


def unreadable(path: Path, encoding: str) -> Unreadable:
    """
    Return the first bytes of a file that DuckDB cannot decode.

    :param path: The file.
    :param encoding: The encoding in which DuckDB refuses it.
    """
    match encoding.lower():
        case "utf-16":
            return _in_utf_16(path)
        case "latin-1":
            return Unreadable(
                _first_line(path, _WINDOWS),
                "has a byte from 0x80 to 0x9F, which is not latin-1: save the file as UTF-8",
            )
    line = _first_line_not_utf_8(path)
    if _starts_with_mark(path):
        return Unreadable(line, "is not UTF-8: set the option `encoding: utf-16`, or save the file as UTF-8")
    if _first_line(path, _WINDOWS) is not None:
        return Unreadable(line, "is not UTF-8: save the file as UTF-8")
    return Unreadable(line, "is not UTF-8: set the option `encoding: latin-1`, or save the file as UTF-8")


def _starts_with_mark(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _first_line(path: Path, pattern: re.Pattern[bytes]) -> int | None:
    """Return the first line that matches a one-byte pattern; None if there is none."""
    line = 1
    for chunk in chunks(path):
        if match := pattern.search(chunk):
            return line + _line_ends(chunk[: match.start()])
        line += _line_ends(chunk)
    return None


def _first_line_not_utf_8(path: Path) -> int | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    for chunk in chunks(path):
        begun = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            return line + _line_ends(chunk[: max(0, error.start - begun)])
        line += _line_ends(chunk)
    # The file can end within a character.
    return line if decoder.getstate()[0] else None


def _line_ends(part: bytes) -> int:
    return len(_LINE_END_BYTES.findall(part))


def _in_utf_16(path: Path) -> Unreadable:
    line, searched = 1, 0
    try:
        with path.open(encoding="utf-16", newline="") as file:
            while searched < _MOST_CHARACTERS and (part := file.read(_CHARACTERS)):
                if part.endswith("\r"):
                    part += file.read(1)
                if match := _TWO_UNITS.search(part):
                    return Unreadable(
                        line + len(_LINE_END.findall(part, 0, match.start())),
                        "has a character beyond U+FFFF, such as an emoji, which cannot be read in UTF-16: save the file"
                        " as UTF-8",
                    )
                line += len(_LINE_END.findall(part))
                searched += len(part)
    except UnicodeError:
        pass
    return Unreadable(None, "is not UTF-16: correct the option `encoding`, or save the file as UTF-8")
