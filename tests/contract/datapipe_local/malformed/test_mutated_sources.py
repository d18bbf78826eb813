"""Tests of mutated source files: the rows equal those of Python's csv and json modules, or the run fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.elt_home import Home
from tests.support.examples import scaled
from tests.support.source_files.cases import MalformedError, Table
from tests.support.source_files.comparison import Loaded, cell_as_text, difference
from tests.support.source_files.mutations import DELIMITERS, CsvFile, csv_files, jsonl_files, mutated
from tests.support.source_files.references import csv_table, jsonl_table

pytestmark = pytest.mark.slow

#: RFC 4180 does not allow spaces around quotes. Dialects differ on them, and Python's strict mode is one.
_SPACE_BY_A_QUOTE = re.compile(rb'"[ \t]+|[ \t]+"')
_DETECTED = "detected"


class Sheets(Home):
    """Streams of a service, one for each delimiter, one that detects it, and one of JSON Lines."""

    def load_file(self, stream: str, content: bytes) -> tuple[str, str]:
        """Replace the file of a stream and run it. Return the status and the error message."""
        (self.folder / file_of(stream)).write_bytes(content)
        status = str(self.api.run_stream(stream).status)
        return status, "" if status == "COMPLETED" else self.latest(stream)["error_message"]

    def load_valid(self, stream: str, content: bytes) -> tuple[str, str]:
        """Load a valid file, also if the previous file had other columns."""
        self.api.post(f"/elt_streams/{stream}/request_full_refresh", status=204)
        return self.load_file(stream, content)

    def table(self, stream: str) -> Loaded | None:
        """Return the table of a stream. None if it has no rows, and so no types."""
        kinds = self._query(f"SELECT typeof(COLUMNS(*)) FROM shop.{stream} LIMIT 1")  # noqa: S608 - fixed names of the test
        if not kinds:
            return None
        cells = ", ".join(f"{cell_as_text(*each)} AS c{place}" for place, each in enumerate(kinds[0].items()))
        found = self._query(f"SELECT {cells} FROM shop.{stream}")  # noqa: S608 - quoted names
        return Loaded(tuple(kinds[0].items()), tuple(sorted((tuple(row.values()) for row in found), key=str)))

    def _query(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.post("/_local/query", {"sql": sql})["data"]
        return found


def file_of(stream: str) -> str:
    return f"{stream}.{'jsonl' if stream == 'records' else 'csv'}"


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sheets]:
    options: dict[str, dict[str, str]] = {name: {"delim": delimiter} for name, delimiter in DELIMITERS.items()}
    options |= {_DETECTED: {}, "records": {}}
    with served({}, control=True) as (service, _):
        sheets = Sheets(service, tmp_path_factory.mktemp("sheets"))
        sheets.seed(*({"name": name, "file": file_of(name), "options": each} for name, each in options.items()))
        yield sheets


def test_mutated_csv_file_is_right_or_fails(sheets: Sheets) -> None:
    @settings(max_examples=scaled(30), print_blob=True)
    @given(file=csv_files(), data=st.data())
    def loads(file: CsvFile, data: st.DataObject) -> None:
        changed, delimiter = data.draw(mutated(file.content)), DELIMITERS[file.delimiter]
        check_valid(sheets, file.delimiter, file.content, csv_table(file.content, delimiter=delimiter))
        check_load(sheets, file.delimiter, changed, csv_tables(changed, delimiter))

    loads()


def test_mutated_csv_file_without_options(sheets: Sheets) -> None:
    @settings(max_examples=scaled(25), print_blob=True)
    @given(file=csv_files(), data=st.data())
    def loads(file: CsvFile, data: st.DataObject) -> None:
        changed = data.draw(mutated(file.content))
        # A reader may refuse a valid file whose delimiter is in doubt.
        sheets.load_valid(_DETECTED, file.content)
        found = [csv_tables(changed, delimiter) for delimiter in DELIMITERS.values()]
        # One column whose name has a delimiter is the sign of a wrong delimiter.
        tables = [table for each in found if each is not None for table in each if not is_one_of_several(table)]
        check_load(sheets, _DETECTED, changed, None if None in found else tables)

    sheets.load_valid(_DETECTED, b"id,name\n1,a\n")
    loads()


def test_mutated_jsonl_file_is_right_or_fails(sheets: Sheets) -> None:
    @settings(max_examples=scaled(30), print_blob=True)
    @given(content=jsonl_files(), data=st.data())
    def loads(content: bytes, data: st.DataObject) -> None:
        changed = data.draw(mutated(content))
        check_valid(sheets, "records", content, jsonl_table(content))
        try:
            tables = [jsonl_table(changed, skip_blank=True)]
        except MalformedError:
            tables = []
        check_load(sheets, "records", changed, tables)

    loads()


def check_valid(sheets: Sheets, stream: str, content: bytes, table: Table) -> None:
    """Load a valid file, which must become this table."""
    status, message = sheets.load_valid(stream, content)
    assert status == "COMPLETED", message
    check_rows(sheets.table(stream), [table])


def check_load(sheets: Sheets, stream: str, changed: bytes, tables: Sequence[Table] | None) -> None:
    """
    Load a changed file, which must become one of these tables, or fail and change nothing.

    :param tables: None for any table.
    """
    before = sheets.table(stream)
    status, message = sheets.load_file(stream, changed)
    if status == "COMPLETED":
        if tables is not None:
            assert tables, f"it must fail: {changed!r} has become {sheets.table(stream)}"
            check_rows(sheets.table(stream), tables)
        return
    assert file_of(stream) in message
    assert "itself failed" not in message, message
    assert sheets.table(stream) == before


def check_rows(loaded: Loaded | None, tables: Sequence[Table]) -> None:
    if loaded is None:
        assert any(not table.rows for table in tables), "no row was loaded"
        return
    differences = [difference(loaded, table) for table in tables]
    assert None in differences, (differences[0], loaded)


def csv_tables(content: bytes, delimiter: str) -> list[Table] | None:
    """Return the tables of a CSV file with and without a header. None if dialects differ on the file."""
    if _SPACE_BY_A_QUOTE.search(content):
        return None
    found = []
    for header in (True, False):
        for skip_blank in (True, False):
            try:
                found.append(csv_table(content, delimiter=delimiter, header=header, skip_blank=skip_blank))
            except MalformedError:
                continue
    return found


def is_one_of_several(table: Table) -> bool:
    names = table.columns or (table.rows[0] if table.rows else ())
    return len(names) == 1 and any(delimiter in (names[0] or "") for delimiter in DELIMITERS.values())
