from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.system.airflow_api import TaskInstance
from tests.system.demo import SEED
from tests.system.demo_checks import (
    SOURCES,
    check_deferral,
    check_partner,
    check_secret,
    check_table,
    check_warehouse,
    mappings,
    transform_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = "id,name,weight,seen\n1,a,0.5,2013-01-01T10:00:00Z\n2,NA,NA,2013-01-01T11:00:00Z\n2,NA,NA,2013-01-01T11:00:00Z\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "things.csv"
    file.write_text(ROWS)
    return file


@pytest.fixture
def warehouse(source: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE SCHEMA nycflights")
        # Another order, and a column of the service's own.
        connection.read_csv(str(source), na_values="NA").create_view("file")
        connection.execute("CREATE TABLE nycflights.things AS SELECT *, 7 AS loaded FROM file ORDER BY id DESC")
        yield connection


def test_a_table_equals_its_file(warehouse: duckdb.DuckDBPyConnection, source: Path, tmp_path: Path) -> None:
    check = check_table(warehouse, "things", source, tmp_path)
    assert check.holds, check
    assert check.found.startswith("3 rows, ")


def test_a_zipped_file_is_read_and_leaves_nothing(
    warehouse: duckdb.DuckDBPyConnection, source: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "things.csv.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(source, "things.csv")
    before = set(tmp_path.iterdir())
    assert check_table(warehouse, "things", packed, tmp_path).holds
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM nycflights.things WHERE id = 1",
        "INSERT INTO nycflights.things SELECT * FROM nycflights.things WHERE id = 1",
        "UPDATE nycflights.things SET weight = 0 WHERE weight IS NULL",
        "UPDATE nycflights.things SET seen = seen + INTERVAL 1 SECOND WHERE id = 1",
        "ALTER TABLE nycflights.things ALTER weight TYPE INTEGER",
        "ALTER TABLE nycflights.things DROP name",
    ],
)
def test_damage_is_seen(warehouse: duckdb.DuckDBPyConnection, source: Path, tmp_path: Path, damage: str) -> None:
    warehouse.execute(damage)
    assert not check_table(warehouse, "things", source, tmp_path).holds


def test_a_missing_table_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "warehouse.duckdb"
    duckdb.connect(str(file)).close()
    for source in SOURCES.values():
        (tmp_path / source).write_text(ROWS)
    (tmp_path / SOURCES["flights"]).unlink()
    with zipfile.ZipFile(tmp_path / SOURCES["flights"], "w") as archive:
        archive.writestr("flights.csv", ROWS)
    checks = check_warehouse(
        file, tmp_path, tmp_path, accepted=[], columns={"carrier": "carrier"}, progress=lambda text: None
    )
    assert [check.what for check in checks] == [*(f"table {table}" for table in SOURCES), "partner"]
    assert not any(check.holds for check in checks)
    assert "0 tables or views" in checks[-1].found


def delay(carrier: str, flights: int, mean: float = 1.0) -> dict[str, Any]:
    return {"carrier": carrier, "month": 1, "flights": flights, "mean": mean}


def test_the_partner_has_all_but_what_it_refuses_for_good() -> None:
    rows = [delay("UA", 10), delay("HA", 30), delay("OO", 9)]
    check = check_partner(rows, [delay("HA", 30), delay("UA", 10)])
    assert check.holds
    assert check.found == "2 records, all but 1 with too few flights"


@pytest.mark.parametrize(
    ("accepted", "found"),
    [
        ([delay("UA", 10)], "1 missing, 0 too many, 0 different"),
        ([delay("UA", 10), delay("HA", 30), delay("OO", 9)], "0 missing, 1 too many, 0 different"),
        ([delay("UA", 10), delay("HA", 30, mean=1.1)], "0 missing, 0 too many, 1 different"),
    ],
)
def test_what_the_partner_should_not_have_is_seen(accepted: list[dict[str, Any]], found: str) -> None:
    check = check_partner([delay("UA", 10), delay("HA", 30), delay("OO", 9)], accepted)
    assert not check.holds
    assert found in check.found


def instance(task_id: str, operator: str) -> TaskInstance:
    return TaskInstance(task_id, -1, "success", 1, operator, None, None)


RESULTS: dict[str, Any] = {
    "load": {"streams": {"a": {"duration": 2.0}, "b": {"duration": 75.0}}},
    "send": {"duration": 0.5},
}
WAITING = [
    instance("load", "EltSyncRunOperator"),
    instance("send", "ReverseEtlRunOperator"),
    instance("look", "_PythonDecoratedOperator"),
]


def test_short_run_need_not_be_deferred() -> None:
    assert check_deferral(WAITING, {"load"}.__contains__, RESULTS.__getitem__).holds


def test_long_run_in_a_worker_slot_is_named() -> None:
    check = check_deferral(WAITING, {"send"}.__contains__, RESULTS.__getitem__)
    assert not check.holds
    assert check.found == "load held a worker slot"


def test_demo_without_a_waiting_task_fails_its_check() -> None:
    assert not check_deferral(WAITING[2:], lambda task_id: True, RESULTS.__getitem__).holds


def test_a_secret_in_a_log_is_found(tmp_path: Path) -> None:
    clean, leaky = tmp_path / "clean.log", tmp_path / "leaky.log"
    clean.write_text("connected with ***")
    leaky.write_bytes(b"\xff key=s3cret")
    assert check_secret("s3cret", [clean]).holds
    check = check_secret("s3cret", [clean, leaky])
    assert not check.holds
    assert check.found == "in leaky.log"


def test_the_partner_gets_the_columns_of_the_seed_by_its_names(tmp_path: Path) -> None:
    columns = mappings(SEED)
    assert {"carrier", "month", "flights"} <= set(columns.values())
    seed = tmp_path / "seed.yaml"
    seed.write_text(
        "reverse_etl_syncs: [{operation: {mappings: [{source_property_id: a, destination_property_id: b}]}}]"
    )
    with duckdb.connect() as warehouse:
        warehouse.execute("CREATE TABLE carrier_month_delays AS SELECT 1.5::DECIMAL(3, 1) AS a, 2 AS not_sent")
        assert transform_rows(warehouse, mappings(seed)) == [{"b": 1.5}]


def test_a_missing_warehouse_is_a_finding(tmp_path: Path) -> None:
    (check,) = check_warehouse(
        tmp_path / "no.duckdb", tmp_path, tmp_path, accepted=[], columns={}, progress=lambda text: None
    )
    assert not check.holds
    assert "no.duckdb" in check.found
