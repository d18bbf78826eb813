"""Checks, output and partner of the demo."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from tests.system.airflow_api import TaskInstance
from tests.system.demo import SEED
from tests.system.demo_checks import (
    SOURCES,
    Check,
    check_deferral,
    check_partner,
    check_secret,
    check_table,
    check_warehouse,
    mappings,
    transform_rows,
)
from tests.system.demo_progress import Display, rows_of
from tests.system.partner_api import Partner, PartnerApi

ROWS = "id,name,weight,seen\n1,a,0.5,2013-01-01T10:00:00Z\n2,NA,NA,2013-01-01T11:00:00Z\n2,NA,NA,2013-01-01T11:00:00Z\n"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


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
        # Rows in another order, and an additional column of the service.
        connection.read_csv(str(source), na_values="NA").create_view("file")
        connection.execute("CREATE TABLE nycflights.things AS SELECT *, 7 AS loaded FROM file ORDER BY id DESC")
        yield connection


@pytest.mark.parametrize("packed", [False, True])
def test_check_of_a_table_that_equals_its_file(
    warehouse: duckdb.DuckDBPyConnection, source: Path, tmp_path: Path, *, packed: bool
) -> None:
    file = source
    if packed:
        file = tmp_path / "things.csv.zip"
        with zipfile.ZipFile(file, "w") as archive:
            archive.write(source, "things.csv")
    before = set(tmp_path.iterdir())
    check = check_table(warehouse, "things", file, tmp_path)
    assert check.holds, check
    assert check.found.startswith("3 rows, ")
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
def test_check_detects_changes_of_a_table(
    warehouse: duckdb.DuckDBPyConnection, source: Path, tmp_path: Path, damage: str
) -> None:
    warehouse.execute(damage)
    assert not check_table(warehouse, "things", source, tmp_path).holds


@pytest.mark.parametrize("there", [True, False])
def test_check_of_a_missing_warehouse_or_table_fails(tmp_path: Path, *, there: bool) -> None:
    file = tmp_path / "warehouse.duckdb"
    if there:
        duckdb.connect(str(file)).close()
    for source in SOURCES.values():
        (tmp_path / source).write_text(ROWS)
    with zipfile.ZipFile(tmp_path / SOURCES["flights"], "w") as archive:
        archive.writestr("flights.csv", ROWS)
    checks = check_warehouse(
        file, tmp_path, tmp_path, accepted=[], columns={"carrier": "carrier"}, progress=lambda _: None
    )
    found = [f"table {table}" for table in SOURCES] + ["partner"] if there else ["warehouse"]
    assert [check.what for check in checks] == found
    assert not any(check.holds for check in checks)


def delay(carrier: str, flights: int, mean: float = 1.0, month: int = 1) -> dict[str, Any]:
    return {"carrier": carrier, "month": month, "flights": flights, "mean": mean}


@pytest.mark.parametrize(
    ("accepted", "found"),
    [
        ([delay("HA", 30), delay("UA", 10)], "2 records, all but 1 with too few flights"),
        ([delay("UA", 10)], "1 missing, 0 too many, 0 different"),
        ([delay("UA", 10), delay("HA", 30), delay("OO", 9)], "0 missing, 1 too many, 0 different"),
        ([delay("UA", 10), delay("HA", 30, mean=1.1)], "0 missing, 0 too many, 1 different"),
    ],
)
def test_check_of_the_records_at_the_partner(accepted: list[dict[str, Any]], found: str) -> None:
    check = check_partner([delay("UA", 10), delay("HA", 30), delay("OO", 9)], accepted)
    assert check.holds == found.startswith("2 records")
    assert found in check.found


def instance(task_id: str, operator: str) -> TaskInstance:
    return TaskInstance(task_id, -1, "success", 1, operator, None, None)


@pytest.mark.parametrize(
    ("count", "deferred", "found"),
    [
        (3, "load", None),
        (3, "send", "load held a worker slot"),
        # No task with a run.
        (0, "load", "none"),
    ],
)
def test_check_that_tasks_with_long_runs_deferred(count: int, deferred: str, found: str | None) -> None:
    results: dict[str, Any] = {
        "load": {"streams": {"a": {"duration": 2.0}, "b": {"duration": 75.0}}},
        "send": {"duration": 0.5},
    }
    waiting = [instance("load", "EltSyncRunOperator"), instance("send", "ReverseEtlRunOperator")]
    tasks = [*waiting[:count], instance("look", "_PythonDecoratedOperator")]
    check = check_deferral(tasks, lambda task_id: task_id == deferred, results.__getitem__)
    assert check.holds == (found is None)
    assert found in (None, check.found)


def test_check_detects_a_secret_in_a_log(tmp_path: Path) -> None:
    clean, leaky = tmp_path / "clean.log", tmp_path / "leaky.log"
    clean.write_text("connected with ***")
    leaky.write_bytes(b"\xff key=s3cret")
    assert check_secret("s3cret", [clean]).holds
    check = check_secret("s3cret", [clean, leaky])
    assert (check.holds, check.found) == (False, "in leaky.log")


def test_mapped_columns_of_the_seed(tmp_path: Path) -> None:
    assert {"carrier", "month", "flights"} <= set(mappings(SEED).values())
    seed = tmp_path / "seed.yaml"
    columns = "{source_property_id: a, destination_property_id: b}"
    seed.write_text(f"reverse_etl_syncs: [{{operation: {{mappings: [{columns}]}}}}]")
    with duckdb.connect() as warehouse:
        warehouse.execute("CREATE TABLE carrier_month_delays AS SELECT 1.5::DECIMAL(3, 1) AS a, 2 AS not_sent")
        assert transform_rows(warehouse, mappings(seed)) == [{"b": 1.5}]


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        ({"rows_synced": 12.0, "rows_failed": 3}, 12),
        ({"rows_synced": None}, None),
        ([{"rows_synced": 1}, {"rows_synced": 2}], 3),
        ({"streams": {"a": {"rows_synced": 1}, "b": {"rows_synced": None}}, "sync": "x"}, 1),
        ("text", None),
    ],
)
def test_number_of_rows_in_results(result: object, rows: int | None) -> None:
    assert rows_of(result) == rows


def test_display_prints_state_changes(capsys: pytest.CaptureFixture[str]) -> None:
    load = replace(instance("load", "EltSyncRunOperator"), state="deferred", start_date=NOON)
    # The duration includes the deferral.
    ended = replace(
        load, state="success", start_date=NOON + timedelta(seconds=8), end_date=NOON + timedelta(seconds=10)
    )
    show = Display()
    for one in (load, load, ended, ended):
        show.tasks([one], lambda task: {"rows_synced": 1234})
    show.summary([Check("a", "1", "1"), Check("b", "1", "2")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[2:4] for line in lines[:2]] == [["load", "deferred"], ["load", "success"]]
    assert lines[1][4:] == ["10.0", "s", "1,234", "rows"]
    assert lines[3:] == [["ok", "a", "1"], ["FAILED", "b", "2;", "expected:", "1"]]


def received(partner: Partner, **record: Any) -> int:
    return partner.receive(json.dumps(record).encode())[0]


def test_rules_of_the_partner() -> None:
    partner = Partner()
    for record in (delay("UA", 100, month=2), delay("AA", 100), delay("UA", 99, month=2)):
        assert received(partner, **record) == 200
    assert partner.accepted() == [delay("AA", 100), delay("UA", 99, month=2)]
    # Records with too few flights are never accepted. Records of an unknown carrier are accepted in the second run.
    assert [received(partner, **delay("OO", 4)) for _ in range(2)] == [422, 422]
    months = [delay("HA", 30, month=month) for month in range(1, 13)]
    assert {received(partner, **month) for month in months} == {409}
    assert {received(partner, **month) for month in months} == {200}
    assert received(partner, **delay("9E", 30)) == 409
    for body in (b"", b"no json", b"[]", b'{"carrier": "UA"}', b'{"carrier":"UA","month":1,"flights":"x"}'):
        assert partner.receive(body)[0] == 400


def test_partner_has_no_other_paths() -> None:
    with PartnerApi() as api, httpx.Client(base_url=api.address, trust_env=False) as client:
        assert client.post("/other", json=delay("UA", 100)).status_code == 404
        assert client.get("/other").status_code == 404
        assert client.post("/delays", json=delay("UA", 100)).status_code == 200
        assert client.get("/delays").json() == {"accepted": [delay("UA", 100)], "requests": 1}
