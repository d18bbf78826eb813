"""Checks of the data that the example pipeline has written."""

from __future__ import annotations

import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import yaml

from tests.system.partner_api import key_of, too_few_flights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.system.airflow_api import TaskInstance
    from tests.system.components import AirflowComponents

    Record = dict[str, Any]

SCHEMA = "nycflights"
TRANSFORM = "carrier_month_delays"
SOURCES = {
    "flights": "flights.csv.zip",
    "airlines": "airlines.csv",
    "airports": "airports.csv",
    "planes": "planes.csv",
    "weather": "weather.csv",
}
# Operators whose runs take time. The publication of a view ends with the request.
WAITING_OPERATORS = frozenset(
    {"EltStreamRunOperator", "EltSyncRunOperator", "OrchestrationRunOperator", "ReverseEtlRunOperator"}
)
# Duration of a run in seconds above which a deferrable task must defer, on any machine.
LONG_RUN = 60


@dataclass(frozen=True)
class Check:
    """Check in the summary."""

    what: str
    expected: str
    found: str

    @property
    def holds(self) -> bool:
        """True if the actual value is the expected one."""
        return self.expected == self.found


def check_run(airflow: AirflowComponents, dag_id: str, run_id: str, state: str) -> list[Check]:
    """Check the state of the run of the example DAG, and the deferral of its tasks."""
    return [
        Check("DAG run", "success", state),
        check_deferral(
            airflow.api.task_instances(dag_id, run_id),
            lambda task_id: airflow.was_deferred(dag_id, run_id, task_id),
            lambda task_id: airflow.api.xcom(dag_id, run_id, task_id),
        ),
    ]


@contextmanager
def plain_file(source: Path, scratch: Path) -> Iterator[Path]:
    """Return a source file as plain CSV, because DuckDB reads no zip archives."""
    if source.suffix != ".zip":
        yield source
        return
    with zipfile.ZipFile(source) as archive:
        copy = scratch / "unzipped.csv"
        with archive.open(archive.namelist()[0]) as packed, copy.open("wb") as plain:
            while block := packed.read(1 << 20):
                plain.write(block)
    try:
        yield copy
    finally:
        copy.unlink()


def fingerprint(rows: duckdb.DuckDBPyRelation) -> str:
    """
    Return the number and the checksum of rows, in any order.

    The checksum is the sum of the hashes: with an exclusive or, duplicate rows would cancel out.
    """
    columns = ", ".join(f'"{column}"' for column in rows.columns)
    hashed = f"sum(hash({columns})::HUGEINT)"
    (found,) = rows.aggregate(f"count(*), coalesce({hashed}, 0)").fetchall()
    return f"{found[0]:,} rows, {int(found[1]) % (1 << 64):016x}"


def check_table(warehouse: duckdb.DuckDBPyConnection, table: str, source: Path, scratch: Path) -> Check:
    """
    Compare a table of the warehouse with its source file.

    The file is read with the types of the table. A changed value cannot be parsed, or has another hash.
    """
    what = f"table {table}"
    loaded = warehouse.table(f"{SCHEMA}.{table}")
    types = dict(zip(loaded.columns, map(str, loaded.types), strict=True))
    with plain_file(source, scratch) as csv:
        columns = warehouse.read_csv(str(csv), header=True, all_varchar=True).columns
        if missing := [column for column in columns if column not in types]:
            return Check(what, "all columns", f"without {', '.join(missing)}")
        typed = {column: types[column] for column in columns}
        try:
            expected = fingerprint(warehouse.read_csv(str(csv), header=True, na_values=["NA", ""], dtype=typed))
        except duckdb.Error as error:
            # For example 39.02 in a column that the loader treated as whole numbers.
            return Check(what, "values of the source's types", str(error).splitlines()[0])
        return Check(what, expected, fingerprint(loaded.select(*columns)))


def checked(what: str, check: Callable[[], Check]) -> Check:
    """Run a check. An error of its query is a failed check."""
    try:
        return check()
    except duckdb.Error as error:
        return Check(what, "can be read", str(error).splitlines()[0])


def comparable(value: Any) -> Any:
    """Return a value of DuckDB after a JSON round trip."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return value


def transform_rows(warehouse: duckdb.DuckDBPyConnection, columns: dict[str, str]) -> list[Record]:
    """Return the rows of the published transform, in any schema."""
    found = warehouse.execute(
        "SELECT table_schema FROM information_schema.tables WHERE table_name = ?", [TRANSFORM]
    ).fetchall()
    if len(found) != 1:
        raise duckdb.CatalogException(f"{len(found)} tables or views are named {TRANSFORM}")
    rows = warehouse.table(f"{found[0][0]}.{TRANSFORM}").select(*columns)
    return [dict(zip(columns.values(), map(comparable, row), strict=True)) for row in rows.fetchall()]


def mappings(seed: Path) -> dict[str, str]:
    """Return the columns of the transform that the partner receives, with their names at the partner."""
    (sync,) = yaml.safe_load(seed.read_text(encoding="utf-8"))["reverse_etl_syncs"]
    pairs = sync["operation"]["mappings"]
    return {pair["source_property_id"]: pair["destination_property_id"] for pair in pairs}


def check_partner(rows: list[Record], accepted: list[Record]) -> Check:
    """Compare the accepted records with the rows of the transform, except those that the partner always refuses."""
    refused = sum(map(too_few_flights, rows))
    due = {key_of(row): row for row in rows if not too_few_flights(row)}
    have = {key_of(record): record for record in accepted}
    expected = f"{len(due)} records, all but {refused} with too few flights"
    if have == due:
        return Check("partner", expected, expected)
    missing, strange = due.keys() - have.keys(), have.keys() - due.keys()
    other = sorted(key for key in due.keys() & have.keys() if due[key] != have[key])
    example = f", such as {have[other[0]]} for {due[other[0]]}" if other else ""
    found = f"{len(have)} records: {len(missing)} missing, {len(strange)} too many, {len(other)} different{example}"
    return Check("partner", expected, found)


def check_warehouse(
    file: Path,
    sources: Path,
    scratch: Path,
    *,
    accepted: list[Record],
    columns: dict[str, str],
    progress: Callable[[str], None],
) -> list[Check]:
    """Compare the warehouse with the source files and with the partner's records."""
    try:
        opened = duckdb.connect(str(file), read_only=True)
    except duckdb.Error as error:
        # The file does not exist if no run has written to it.
        return [Check("warehouse", "can be opened", str(error).splitlines()[0])]
    with opened as warehouse:
        # By default, DuckDB would use the time zone of the machine.
        warehouse.execute("SET TimeZone = 'UTC'")
        checks = []
        for table, source in SOURCES.items():
            progress(f"comparing {table} with {source}")

            def compare(table: str = table, source: str = source) -> Check:
                return check_table(warehouse, table, sources / source, scratch)

            checks.append(checked(f"table {table}", compare))
        progress("comparing the partner's records with the transform")
        checks.append(checked("partner", lambda: check_partner(transform_rows(warehouse, columns), accepted)))
        return checks


def check_deferral(
    instances: Iterable[TaskInstance], was_deferred: Callable[[str], bool], result_of: Callable[[str], Any]
) -> Check:
    """Return the check that each task with a long run waited in the triggerer."""
    waiting = sorted({one.task_id for one in instances if one.operator in WAITING_OPERATORS})
    expected = f"{len(waiting)} waiting tasks, none held a worker slot for a run of {LONG_RUN} s"
    if not waiting:
        return Check("deferral", "tasks that wait for a run", "none")
    blocking = [task for task in waiting if not was_deferred(task) and longest_run(result_of(task)) >= LONG_RUN]
    return Check("deferral", expected, f"{', '.join(blocking)} held a worker slot" if blocking else expected)


def longest_run(result: Any) -> float:
    """Return the duration of the longest run of a task in seconds."""
    runs = result["streams"].values() if "streams" in result else [result]
    return max(float(run["duration"]) for run in runs)


def check_secret(secret: str, logs: Iterable[Path]) -> Check:
    """Return the check that no log file contains a secret."""
    files = list(logs)
    leaks = [path.name for path in files if secret.encode() in path.read_bytes()]
    expected = f"in none of {len(files)} log files"
    return Check("API key", expected, f"in {', '.join(leaks)}" if leaks else expected)
