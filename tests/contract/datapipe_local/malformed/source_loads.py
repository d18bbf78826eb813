"""Loads of many source files by one service: each as a first load, and after a valid version of the file."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService
from tests.support.source_files.cases import Case
from tests.support.source_files.comparison import Loaded, difference

Json = dict[str, Any]

#: Schemas: of streams whose first file is that of the case, and of streams that have loaded a valid file before.
FIRST, LATER = "first", "later"
_LIMIT = 300.0
_LINE = re.compile(r"\blines?\W{0,3}(\d[\d,]*)", re.IGNORECASE)
_NESTED = re.compile(r"(STRUCT|MAP|UNION)\(|.*\]$|JSON$")
#: Words of a failure that is the service's own.
_DEFECTS = ("Traceback", "internal", "INTERNAL", 'File "', "<class", "Exception(", "object has no", "itself failed")
#: Words of a failure about the header as a whole.
_OF_ALL_COLUMNS = "no column of the previous load is left"
#: Options that the service does not have, in messages of the database.
_MISSING_OPTIONS = ("ignore_errors", "store_rejects")


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run, and the table after it, None without a table."""

    status: str
    message: str
    table: Loaded | None


@dataclass
class Outcomes:
    """
    Outcomes of all cases, and the state of the service after them.

    :param first: Outcome of each first load.
    :param valid: Outcome of the valid version of each file.
    :param later: Outcome of the load that follows.
    :param log: The log of the service.
    :param tables: All tables of the warehouse.
    :param files: All files of the service, at the end.
    """

    first: Mapping[str, Outcome] = field(default_factory=dict)
    valid: Mapping[str, Outcome] = field(default_factory=dict)
    later: Mapping[str, Outcome] = field(default_factory=dict)
    log: str = ""
    tables: Iterable[str] = ()
    files: Iterable[Path] = ()


def load_all(cases: Sequence[Case], folder: Path) -> Outcomes:
    """Load the files of all cases in one service. Those that may fail are loaded after a valid version, too."""
    failing = [case for case in cases if case.may_fail]
    for case in cases:
        _write(folder, FIRST, case, case.content)
    for case in failing:
        _write(folder, LATER, case, case.valid)
    connection = {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(folder)}}
    seed = {"connections": [connection], "elt_syncs": [_sync(FIRST, cases), _sync(LATER, failing)]}
    outcomes = Outcomes()
    with LocalService(seed, ready_within=120) as service:
        first, valid = _run(service, FIRST, cases), _run(service, LATER, failing)
        service.stop()
        outcomes.first = _outcomes(service, FIRST, cases, first)
        outcomes.valid = _outcomes(service, LATER, failing, valid)
        for case in failing:
            _write(folder, LATER, case, case.content)
        service.start()
        later = _run(service, LATER, failing)
        service.stop()
        outcomes.later = _outcomes(service, LATER, failing, later)
        outcomes.log = service.log
        with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
            found = warehouse.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()
            outcomes.tables = [name for (name,) in found]
        outcomes.files = sorted(path for path in service.folder.rglob("*") if path.is_file())
    return outcomes


def content_of(outcome: Outcome) -> tuple[tuple[tuple[str, str], ...], list[Any]]:
    """Return the columns of the table, and its rows in an order of their own."""
    assert outcome.table is not None
    return outcome.table.columns, sorted(outcome.table.rows, key=str)


def fault_of(case: Case, outcome: Outcome) -> str | None:
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
    if any(word in message for word in _DEFECTS) or "\n" in message:
        return f"the message is not one clear line: {message!r}"
    if any(option in message for option in _MISSING_OPTIONS):
        return f"the message names an option that does not exist: {message}"
    reason = message.replace(case.file, "")
    if len(reason.split()) < 5:
        return f"the message has no reason: {message}"
    if case.lines and _OF_ALL_COLUMNS not in message:
        named = {int(number.replace(",", "")) for number in _LINE.findall(message)}
        if not named & set(case.lines):
            wanted = sorted(case.lines)
            return f"the message does not name line {' or '.join(map(str, wanted[:4]))}: {message}"
    return None


def _write(folder: Path, schema: str, case: Case, content: bytes) -> None:
    path = folder / _file(schema, case)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new")
    new.write_bytes(content)
    # As a program replaces a file: a reader has the old or the new one.
    new.replace(path)


def _file(schema: str, case: Case) -> str:
    return f"{schema}/{case.name}/{case.file}"


def _sync(schema: str, cases: Sequence[Case]) -> Json:
    streams = []
    for case in cases:
        path = _file(schema, case)
        origin = {"file": path, **case.origin}
        if "files" in origin:
            origin = {name: value for name, value in origin.items() if name != "file"} | {"files": path}
        streams.append({"id": f"{schema}_{case.name}", "name": case.name, **origin})
    return {"id": schema, "connection_id": "data", "destination_schema_name": schema, "source_streams": streams}


def _run(service: LocalService, schema: str, cases: Sequence[Case]) -> dict[str, Json]:
    """Run the streams of the cases at once, and return the run of each stream."""
    api = Api(service)
    urls = [api.post(f"/elt_streams/{schema}_{case.name}/request_run")["status_url"] for case in cases]
    deadline = time.monotonic() + _LIMIT
    for url in urls:
        while "finished_at" not in (api.first(url) or {}):
            assert time.monotonic() < deadline, url
            time.sleep(0.05)
    snapshots = api.get(f"/elt_syncs/{schema}/status")["source_streams"]
    api.client.close()
    return {each["name"]: each["latest_sync"] for each in snapshots}


def _outcomes(
    service: LocalService, schema: str, cases: Sequence[Case], runs: Mapping[str, Json]
) -> dict[str, Outcome]:
    """Return the outcomes of the streams of a stopped service."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        columns: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in warehouse.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = ?"
            " ORDER BY column_index",
            [schema],
        ).fetchall():
            columns.setdefault(table, []).append((column, kind))
        tables = {case.name: _read(warehouse, schema, case.name, columns.get(case.name)) for case in cases}
    return {
        case.name: Outcome(runs[case.name]["status"], runs[case.name].get("error_message") or "", tables[case.name])
        for case in cases
    }


def _read(
    warehouse: duckdb.DuckDBPyConnection, schema: str, name: str, columns: Sequence[tuple[str, str]] | None
) -> Loaded | None:
    """Return a table with its cells as text. None without a table."""
    if columns is None:
        return None
    shown = []
    for column, kind in columns:
        quoted = '"' + column.replace('"', '""') + '"'
        shown.append(f"to_json({quoted})::VARCHAR" if _NESTED.match(kind) else f"{quoted}::VARCHAR")
    rows = warehouse.execute(f'SELECT {", ".join(shown)} FROM "{schema}"."{name}"').fetchall()  # noqa: S608 - quoted
    return Loaded(tuple(columns), tuple(rows))
