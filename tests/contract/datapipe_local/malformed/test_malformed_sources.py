"""Malformed source files: the rows are right, or the run fails with a reason and leaves everything as it was."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync
from tests.support.local_service import LocalService
from tests.support.source_files.cases import Case
from tests.support.source_files.comparison import Loaded, cell_as_text, difference
from tests.support.source_files.compressed_cases import compressed_cases
from tests.support.source_files.csv_cases import csv_cases
from tests.support.source_files.jsonl_cases import jsonl_cases

pytestmark = pytest.mark.slow

Json = dict[str, Any]

#: Schemas: of streams whose first file is that of the case, and of streams that have loaded a valid file before.
FIRST, LATER = "first", "later"
#: Larger files that may fail are only loaded after a valid file.
_LARGE = 100_000
_LIMIT = 300.0
_LINE = re.compile(r"\blines?\W{0,3}(\d[\d,]*)", re.IGNORECASE)
#: Words that no failure may contain: of internal errors, of paths of unpacked files, and of DuckDB's own options.
_DEFECTS = (
    *("Traceback", "internal", "INTERNAL", 'File "', "<class", "Exception(", "object has no", "itself failed", "\n"),
    *("scratch", "ignore_errors", "store_rejects"),
)
#: Words of a failure about the header as a whole.
_OF_ALL_COLUMNS = "no column of the previous load is left"


class Outcome(NamedTuple):
    """Outcome of a run, and the table after it, None without a table."""

    status: str
    message: str
    table: Loaded | None


class Loads:
    """
    Outcomes of all cases, loaded by one service, by the names of the cases.

    :ivar first: Outcomes of first loads.
    :ivar valid: Outcomes of loads of a valid version of each file that may fail.
    :ivar later: Outcomes of the loads that follow.
    """

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self.cases = {case.name: case for case in cases}
        assert len(self.cases) == len(cases), "the names are unique"
        self._folder = folder
        initial = [case for case in cases if not (case.may_fail and len(case.content) > _LARGE)]
        failing = [case for case in cases if case.may_fail]
        self._write(FIRST, {case: case.content for case in initial})
        self._write(LATER, {case: case.valid for case in failing})
        source = connection("data", "files", path=str(folder))
        seed = {"connections": [source], "elt_syncs": [_sync(FIRST, initial), _sync(LATER, failing)]}
        with LocalService(seed, ready_within=120) as service:
            first, valid = _run(service, FIRST, initial), _run(service, LATER, failing)
            service.stop()
            self.first, self.valid = _outcomes(service, FIRST, first), _outcomes(service, LATER, valid)
            self._write(LATER, {case: case.content for case in failing})
            service.start()
            later = _run(service, LATER, failing)
            service.stop()
            self.later = _outcomes(service, LATER, later)
            self.log = service.log
            with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
                self.tables = {
                    name for (name,) in warehouse.execute("SELECT table_name FROM duckdb_tables()").fetchall()
                }
            self.files = sorted(path for path in service.folder.rglob("*") if path.is_file())

    def _write(self, schema: str, contents: Mapping[Case, bytes]) -> None:
        for case, content in contents.items():
            path = self._folder / _file(schema, case)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def faults(self, outcomes: Mapping[str, Outcome]) -> dict[str, str]:
        """Return the reasons why outcomes are not acceptable."""
        found = {name: _fault_of(self.cases[name], outcome) for name, outcome in outcomes.items()}
        return {name: fault for name, fault in found.items() if fault is not None}


def _file(schema: str, case: Case) -> str:
    return f"{schema}/{case.name}/{case.file}"


def _sync(schema: str, cases: Sequence[Case]) -> Json:
    streams = [
        {
            "id": f"{schema}_{case.name}",
            "name": case.name,
            **case.origin,
            "files" if case.as_pattern else "file": _file(schema, case),
        }
        for case in cases
    ]
    return elt_sync(schema, "data", streams)


def _run(service: LocalService, schema: str, cases: Sequence[Case]) -> dict[str, Json]:
    """Run the streams of the cases at once, and return the latest run of each stream."""
    api = Api(service)
    # The largest first, so that no other run waits for them at the end.
    ordered = sorted(cases, key=lambda case: len(case.content), reverse=True)
    urls = [api.post(f"/elt_streams/{schema}_{case.name}/request_run")["status_url"] for case in ordered]
    deadline = time.monotonic() + _LIMIT
    for url in urls:
        while "finished_at" not in (api.first(url) or {}):
            assert time.monotonic() < deadline, url
            time.sleep(0.05)
    snapshots = api.get(f"/elt_syncs/{schema}/status")["source_streams"]
    api.client.close()
    return {each["name"]: each["latest_sync"] for each in snapshots}


def _outcomes(service: LocalService, schema: str, runs: Mapping[str, Json]) -> dict[str, Outcome]:
    """Return the outcomes of the streams of a stopped service."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        columns: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in warehouse.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = ?"
            " ORDER BY column_index",
            [schema],
        ).fetchall():
            columns.setdefault(table, []).append((column, kind))
        tables = {}
        for name, found in columns.items():
            cells = ", ".join(cell_as_text(column, kind) for column, kind in found)
            rows = warehouse.execute(f'SELECT {cells} FROM "{schema}"."{name}"').fetchall()  # noqa: S608 - quoted names
            tables[name] = Loaded(tuple(found), tuple(rows))
    return {
        name: Outcome(run["status"], run.get("error_message") or "", tables.get(name)) for name, run in runs.items()
    }


def _fault_of(case: Case, outcome: Outcome) -> str | None:
    """Return the reason why an outcome is not acceptable. None if it is."""
    if outcome.status == "FAILED":
        if not case.may_fail:
            return f"it must be loaded, and failed: {outcome.message}"
        return _fault_of_message(case, outcome.message)
    if outcome.status != "COMPLETED":
        return f"the run is {outcome.status}"
    if outcome.table is None:
        return "the run is completed, and there is no table"
    if not case.tables:
        columns = [name for name, _ in outcome.table.columns]
        return f"it must fail, and has loaded {len(outcome.table.rows)} rows of the columns {columns[:8]!r:.200}"
    differences = [difference(outcome.table, table) for table in case.tables]
    return None if None in differences else f"the rows are wrong: {differences[0]}"


def _fault_of_message(case: Case, message: str) -> str | None:
    if case.file not in message:
        return f"the message does not name the file: {message}"
    if any(word in message for word in _DEFECTS):
        return f"the message is not one clear line: {message!r}"
    if case.says not in message:
        return f"the message does not say {case.says!r}: {message}"
    if len(message.replace(case.file, "").split()) < 5:
        return f"the message has no reason: {message}"
    if case.lines and _OF_ALL_COLUMNS not in message:
        named = {int(number.replace(",", "")) for number in _LINE.findall(message)}
        if not named & set(case.lines):
            return f"the message does not name line {' or '.join(map(str, sorted(case.lines)[:4]))}: {message}"
    return None


def _content_of(outcome: Outcome) -> tuple[tuple[tuple[str, str], ...], list[Any]]:
    """Return the columns of the table, and its rows in an order of their own."""
    assert outcome.table is not None
    return outcome.table.columns, sorted(outcome.table.rows, key=str)


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Loads:
    cases = [*csv_cases(), *jsonl_cases(), *compressed_cases()]
    return Loads(cases, tmp_path_factory.mktemp("sources"))


def test_first_load_is_right_or_fails_with_a_reason(loads: Loads) -> None:
    assert loads.faults(loads.first) == {}


def test_failed_first_load_leaves_no_rows(loads: Loads) -> None:
    failed = {name: outcome for name, outcome in loads.first.items() if outcome.status != "COMPLETED"}
    assert failed
    assert [name for name, outcome in failed.items() if outcome.table is not None and outcome.table.rows] == []


def test_later_load_is_right_or_fails_with_a_reason(loads: Loads) -> None:
    assert {name: each.message for name, each in loads.valid.items() if each.status != "COMPLETED"} == {}
    assert loads.later.keys() == loads.valid.keys()
    assert loads.faults(loads.later) == {}


def test_failed_later_load_keeps_the_table(loads: Loads) -> None:
    before = {name: _content_of(outcome) for name, outcome in loads.valid.items()}
    assert all(rows for _, rows in before.values())
    failed = [name for name, outcome in loads.later.items() if outcome.status != "COMPLETED"]
    assert failed
    assert [name for name in failed if _content_of(loads.later[name]) != before[name]] == []


def test_loads_leave_no_other_files_and_tables(loads: Loads) -> None:
    """No other tables, no unpacked files, no files outside of the folders, no tracebacks."""
    assert {name for name in loads.tables if not name.startswith("_")} <= loads.cases.keys()
    assert [path for path in loads.files if "scratch" in path.parts or path.name.startswith("data_")] == []
    assert "Traceback" not in loads.log
