"""Tests of mutated source files: the rows equal those of Python's csv and json modules, or the run fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.contract.datapipe_local.api import Api
from tests.support.examples import scaled
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.source_files.cases import Table
from tests.support.source_files.comparison import Loaded, difference
from tests.support.source_files.mutations import (
    DELIMITERS,
    CsvFile,
    Mutation,
    csv_files,
    jsonl_files,
    mutated,
    mutations,
)
from tests.support.source_files.references import MalformedError, csv_table, jsonl_table

_LIMIT = 60.0
#: RFC 4180 does not allow spaces around quotes. Dialects differ on them, and Python's strict mode is one.
_SPACE_BY_A_QUOTE = re.compile(rb'"[ \t]+|[ \t]+"')
_DETECTED = "detected"


class Sheets:
    """Streams of a service, one for each delimiter, one that detects it, and one of JSON Lines."""

    def __init__(self, service: LocalService, folder: Path) -> None:
        self.service = service
        self.api = Api(service)
        self._folder = folder

    def load(self, stream: str, content: bytes) -> tuple[str, str]:
        """Replace the file of a stream and run it. Return the status and the error message."""
        new = self._folder / "new"
        new.write_bytes(content)
        new.replace(self._folder / file_of(stream))
        url = self.api.post(f"/elt_streams/{stream}/request_run")["status_url"]
        run: dict[str, Any] = {}

        def is_over() -> bool:
            run.update(self.api.first(url) or {})
            return "finished_at" in run

        wait_for("the run is over", is_over, limit=_LIMIT, interval=0.01)
        if run["status"] == "COMPLETED":
            return "COMPLETED", ""
        snapshots = self.api.get("/elt_syncs/sheets/status")["source_streams"]
        return run["status"], next(each["latest_sync"]["error_message"] for each in snapshots if each["name"] == stream)

    def load_valid(self, stream: str, content: bytes) -> tuple[str, str]:
        """Load a valid file, also if the previous file had other columns."""
        self.api.post(f"/elt_streams/{stream}/request_full_refresh", status=204)
        return self.load(stream, content)

    def table(self, stream: str) -> Loaded | None:
        """Return the table of a stream. None if it has no rows, and so no types."""
        kinds = self._ask(f"SELECT typeof(COLUMNS(*)) FROM sheets.{stream} LIMIT 1")  # noqa: S608 - our own name
        if not kinds:
            return None
        cells = []
        for number, (name, kind) in enumerate(kinds[0].items()):
            quoted = '"' + name.replace('"', '""') + '"'
            shown = f"to_json({quoted})" if re.match(r"(STRUCT|MAP)|JSON$|.*]$", kind) else quoted
            cells.append(f"{shown}::VARCHAR AS c{number}")
        found = self._ask(f"SELECT {', '.join(cells)} FROM sheets.{stream}")  # noqa: S608 - quoted
        return Loaded(tuple(kinds[0].items()), tuple(sorted((tuple(row.values()) for row in found), key=str)))

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.post("/_local/query", {"sql": sql})["data"]
        return found


def file_of(stream: str) -> str:
    return f"{stream}.{'jsonl' if stream == 'records' else 'csv'}"


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sheets]:
    folder = tmp_path_factory.mktemp("sheets")
    options = {name: {"options": {"delim": delimiter}} for name, delimiter in DELIMITERS.items()}
    streams = [
        {"id": name, "name": name, "file": file_of(name), **options.get(name, {})}
        for name in (*DELIMITERS, _DETECTED, "records")
    ]
    sync = {"id": "sheets", "connection_id": "data", "destination_schema_name": "sheets", "source_streams": streams}
    connection = {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(folder)}}
    with LocalService({"connections": [connection], "elt_syncs": [sync]}, control=True) as service:
        yield Sheets(service, folder)
        assert "Traceback" not in service.log


@pytest.mark.slow
def test_valid_csv_file_is_loaded(sheets: Sheets) -> None:
    @settings(max_examples=scaled(50), print_blob=True)
    @given(file=csv_files())
    def loads(file: CsvFile) -> None:
        status, message = sheets.load_valid(file.delimiter, file.content)
        assert status == "COMPLETED", message
        wanted = csv_table(file.content, delimiter=DELIMITERS[file.delimiter])
        check_rows(sheets, file.delimiter, [wanted])

    loads()


@pytest.mark.slow
def test_mutated_csv_file_is_right_or_fails(sheets: Sheets) -> None:
    @settings(max_examples=scaled(50), print_blob=True)
    @given(file=csv_files(), changes=mutations())
    def loads(file: CsvFile, changes: list[Mutation]) -> None:
        content = mutated(file.content, changes)
        check_load(sheets, file.delimiter, file.content, content, csv_tables(content, DELIMITERS[file.delimiter]))

    loads()


@pytest.mark.slow
def test_mutated_csv_file_without_options(sheets: Sheets) -> None:
    @settings(max_examples=scaled(50), print_blob=True)
    @given(file=csv_files(), changes=mutations())
    def loads(file: CsvFile, changes: list[Mutation]) -> None:
        content = mutated(file.content, changes)
        found = [csv_tables(content, delimiter) for delimiter in DELIMITERS.values()]
        # One column whose name has a delimiter is the sign of a wrong delimiter.
        tables = [table for each in found if each is not None for table in each if not is_one_of_several(table)]
        check_load(sheets, _DETECTED, file.content, content, None if None in found else tables)

    loads()


@pytest.mark.slow
def test_valid_jsonl_file_is_loaded(sheets: Sheets) -> None:
    @settings(max_examples=scaled(50), print_blob=True)
    @given(content=jsonl_files())
    def loads(content: bytes) -> None:
        status, message = sheets.load_valid("records", content)
        assert status == "COMPLETED", message
        check_rows(sheets, "records", [jsonl_table(content)])

    loads()


@pytest.mark.slow
def test_mutated_jsonl_file_is_right_or_fails(sheets: Sheets) -> None:
    @settings(max_examples=scaled(50), print_blob=True)
    @given(content=jsonl_files(), changes=mutations())
    def loads(content: bytes, changes: list[Mutation]) -> None:
        changed = mutated(content, changes)
        try:
            tables = [jsonl_table(changed, skip_blank=True)]
        except MalformedError:
            tables = []
        check_load(sheets, "records", content, changed, tables)

    loads()


def check_load(sheets: Sheets, stream: str, content: bytes, changed: bytes, tables: Sequence[Table] | None) -> None:
    """
    Load a valid file, then a changed one, which must become one of these tables, or fail and change nothing.

    :param tables: None for any table.
    """
    status, message = sheets.load_valid(stream, content)
    if status != "COMPLETED":
        assert stream == _DETECTED, message
    before = sheets.table(stream) if status == "COMPLETED" else None
    status, message = sheets.load(stream, changed)
    if status == "COMPLETED":
        if tables is not None:
            assert tables, f"it must fail: {changed!r} has become {sheets.table(stream)}"
            check_rows(sheets, stream, tables)
        return
    assert file_of(stream) in message
    assert "itself failed" not in message, message
    if before is not None:
        assert sheets.table(stream) == before


def check_rows(sheets: Sheets, stream: str, tables: Sequence[Table]) -> None:
    loaded = sheets.table(stream)
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
