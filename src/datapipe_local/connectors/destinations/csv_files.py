"""CSV file destinations. They work as JSON Lines destinations with another format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.csv_form import (
    MARK,
    as_object,
    as_row,
    columns_of,
    raw_rows,
    text_of,
    values_of,
)
from datapipe_local.connectors.destinations.jsonl import AppendOnlyFile, unwritable
from datapipe_local.connectors.destinations.jsonl_table import JsonLinesTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from datapipe_local.connectors.destinations.base import Outcome, Record
    from datapipe_local.connectors.destinations.changes import Changes

Json = dict[str, Any]


class CsvLog(AppendOnlyFile):
    """
    File to which each record is appended as a row.

    The columns are those of its header; in a new file, those of the first record.

    :param path: The file.
    :param progress: The progress of the run.
    :raises RunError: the file cannot be written.
    """

    refusal = "Rows are only appended to this file."

    def lines(self, records: Sequence[Record]) -> Iterator[bytes]:
        """
        Yield the rows of records, in a new file after the header.

        :raises RunError: the file has no column for a property.
        """
        columns = columns_of(_first_line(self.path))
        if not columns:
            columns = list(records[0].properties)
            yield as_row(columns)
        missing = [name for name in records[0].properties if name not in columns]
        if missing:
            raise RunError(
                f"The destination {self.path} has no column {missing[0]!r}: it has {', '.join(columns)}."
                " Correct the mapping, or add the column there."
            )
        for record in records:
            yield as_row(record.properties.get(name) for name in columns)


class CsvTable(JsonLinesTable):
    """
    File with one row per record, identified by its key: see :class:`JsonLinesTable`.

    All values are text. A property without a column gets a new column after the others.
    """

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Store records to write.

        :raises RunError: they cannot be stored.
        """
        return super().send([_as_text(record) for record in records])

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Store records to delete.

        :raises RunError: they cannot be stored.
        """
        return super().delete([_as_text(record) for record in records])

    def lines(self) -> Iterator[tuple[bytes, Json | None]]:
        """Yield the rows of the file, without its header."""
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
        """
        Yield the new content of the file.

        :raises RunError: a property has several columns.
        """
        first = _first_line(self.path)
        before = columns_of(first)
        repeated = next((name for name in (*changes.names, *changes.key_names) if before.count(name) > 1), None)
        if repeated is not None:
            raise RunError(
                f"The destination {self.path} has several columns {repeated!r}: rename all but one of them there, or"
                " correct the mapping."
            )
        columns = [*before, *(name for name in changes.names if name not in before)]
        if columns == before:
            yield _ended(first)
        else:
            yield (MARK if first.startswith(MARK) else b"") + as_row(columns)
        for text, changed in changes.applied_to(self.lines()):
            # A row that does not fit the columns stays unchanged.
            if text is not None and not changed and (columns == before or len(values_of(text)) != len(before)):
                yield _ended(text)
            else:
                values = values_of(text or b"")
                # Other columns keep their values by position: their names can be empty or repeated.
                values += [""] * (len(columns) - len(values))
                yield as_row(changed.get(name, value) for name, value in zip(columns, values, strict=True))


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
