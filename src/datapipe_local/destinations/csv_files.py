"""CSV files: the same as JSON Lines, but for how they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from datapipe_local.destinations.csv_form import MARK, as_object, as_row, columns_of, raw_rows, text_of
from datapipe_local.destinations.jsonl import WRITING, Log, unwritable
from datapipe_local.destinations.jsonl_table import JsonLinesTable
from datapipe_local.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from datapipe_local.destinations.base import Outcome, Progress, Record
    from datapipe_local.destinations.changes import Changes

Json = dict[str, Any]


class CsvLog:
    """
    A file to which each record is appended as a row, whatever stands there.

    Its columns are those of its first line; of a new file those of the first record.

    :param path: The file.
    :param progress: How far one got.
    :raises RunError: the file cannot be written.
    """

    batch_size = 1_000

    def __init__(self, path: Path, progress: Progress) -> None:
        self._log = Log(path, progress)
        self.unanswered = self._log.unanswered
        self.checkpoint = self._log.checkpoint

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Append records.

        :raises RunError: the file cannot be written, or has no column for a property.
        """
        with WRITING:
            # First: what was being written may be the first line.
            if not self._log.finish(records):
                self._log.append(records, b"".join(self._rows(records)))
        return [None] * len(records)

    def _rows(self, records: Sequence[Record]) -> Iterator[bytes]:
        columns = columns_of(_first_line(self._log.path))
        if not columns:
            columns = list(records[0].properties)
            yield as_row(columns)
        missing = [name for name in records[0].properties if name not in columns]
        if missing:
            raise RunError(
                f"The destination {self._log.path} has no column {missing[0]!r}: it has {', '.join(columns)}."
                " Correct the mapping, or add the column there."
            )
        for record in records:
            yield as_row(record.properties.get(name) for name in columns)

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """Refuse it: what is only appended to loses nothing."""
        return ["Rows are only appended to this file."] * len(records)

    def close(self) -> None:
        """Nothing is held."""


class CsvTable(JsonLinesTable):
    """
    A file in which each record has one row, told by its key: see :class:`JsonLinesTable`.

    All values are texts, as a file has them. A property that has no column gets one, behind the others.
    """

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Keep what is to be written.

        :raises RunError: it cannot be kept.
        """
        return super().send([_as_text(record) for record in records])

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Keep what is to go.

        :raises RunError: it cannot be kept.
        """
        return super().delete([_as_text(record) for record in records])

    def lines(self) -> Iterator[tuple[bytes, Json | None]]:
        """Give the rows of the file, without its first line."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            rows = raw_rows(file)
            columns = columns_of(next(rows, b""))
            for row in rows:
                yield row, as_object(columns, row)

    def rewritten(self, changes: Changes) -> Iterator[bytes]:
        """Give the file as it is to be."""
        first = _first_line(self.path)
        before = columns_of(first)
        columns = [*before, *(name for name in changes.names if name not in before)]
        if columns == before:
            yield _ended(first)
        else:
            yield (MARK if first.startswith(MARK) else b"") + as_row(columns)
        for text, line in changes.applied_to(self.lines()):
            # One that is no row of these columns stays as it is.
            if text is not None and (columns == before or not line):
                yield _ended(text)
            else:
                yield as_row(line.get(name) for name in columns)


def _ended(text: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return next(raw_rows(file), b"")
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unwritable(path, error) from error


def _as_text(record: Record) -> Record:
    return replace(
        record,
        properties={name: text_of(value) for name, value in record.properties.items()},
        identity={name: text_of(value) for name, value in record.identity.items()},
    )
