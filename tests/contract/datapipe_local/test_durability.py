"""Tests of kills and restarts: acknowledged changes persist, and partial changes are invisible."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.partner import Partner
from tests.support.local_service import LocalService

ROWS = 400_000
PEOPLE = 300


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big")
    rows = f"SELECT range AS id, 'name ' || range AS name, random() AS x, random() AS y FROM range({ROWS})"  # noqa: S608
    duckdb.execute(f"COPY ({rows}) TO '{folder / 'big.csv'}'")
    return folder


def seed(folder: Path, partner: Partner | None = None, **runs: float) -> dict[str, Any]:
    url = "http://127.0.0.1:1" if partner is None else partner.url
    mapping = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}

    def reverse(sync_id: str, destination: str) -> dict[str, Any]:
        return {
            "id": sync_id,
            "source_id": "people",
            "destination_connection_id": destination,
            "object_type_id": "people",
            "operation": {"mode": "upsert", "mappings": [mapping]},
        }

    return {
        "runs": runs,
        "connections": [
            {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(folder)}},
            {"id": "partner", "integration_id": "http", "label": "Partner", "settings": {"url": url}},
            {"id": "exports", "integration_id": "jsonl", "label": "Exports", "settings": {"path": "./exports"}},
        ],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "data",
                "destination_schema_name": "shop",
                "orchestration_workflow_id": "nightly",
                "source_streams": [{"id": "big", "name": "big", "file": "big.csv"}],
            }
        ],
        "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "transforms": [
            {
                "id": "people",
                "name": "people",
                "publish": True,
                "sql_template": f"FROM (SELECT range AS id FROM range({PEOPLE}))",  # noqa: S608
            },
            {
                "id": "sums",
                "name": "sums",
                "materialization": "table",
                "sql_template": "SELECT id % 1000 AS k, sum(x) AS x FROM {{raw.shop.big}} GROUP BY ALL",
            },
        ],
        "reverse_etl_syncs": [reverse("to_partner", "partner"), reverse("to_file", "exports")],
    }


def table_rows(service: LocalService, table: str) -> int | None:
    """Count the rows of a table from another process, while the service is stopped."""
    with duckdb.connect(str(service.home / "warehouse.duckdb"), read_only=True) as connection:
        names = {f"{schema}.{name}" for schema, name in connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables()").fetchall()}  # fmt: skip
        if table not in names:
            return None
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - the test's own
        assert row is not None
        return int(row[0])


@pytest.mark.slow
def test_what_was_asked_for_is_done_after_a_restart(big: Path) -> None:
    with LocalService(seed(big, scheduling_delay=0.4)) as service:
        api = Api(service)
        stream_url = api.post("/elt_streams/big/request_run")["status_url"]
        reverse_url = api.post("/reverse_etl_syncs/to_file/request_run")["status_url"]
        orchestration_run = api.post("/orchestrations/nightly/request_run")["id"]
        service.kill()
        service.start()
        assert api.ended(stream_url)["rows_synced"] == ROWS
        assert api.ended(reverse_url)["synced_rows"] == PEOPLE
        assert api.ended(f"/orchestration_runs/{orchestration_run}")["status"] == "COMPLETED"


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "times"), [("kill", 2), ("stop", 1)])
def test_a_load_that_is_cut_off_is_carried_on_as_the_same_run(big: Path, stop: str, times: int) -> None:
    rng = random.Random(stop)  # noqa: S311 - any instants will do, the same in each run of the test
    with LocalService(seed(big)) as service:
        api = Api(service)
        seen = None
        for _ in range(times):
            url = api.post("/elt_streams/big/request_run")["status_url"]
            run = api.until(url, lambda _: True)
            time.sleep(rng.uniform(0, 0.3))
            begin = time.monotonic()
            getattr(service, stop)()
            assert time.monotonic() - begin < 4
            assert table_rows(service, "shop.big") in {seen, ROWS}
            service.start()
            ended = api.ended(url)
            assert (ended["id"], ended["status"], ended["rows_synced"]) == (run["id"], "COMPLETED", ROWS)
            seen = ROWS
        assert len(api.all_pages("/elt_stream_runs", elt_stream_id="big")) == times
        service.stop()
        assert table_rows(service, "shop.big") == ROWS
        assert list((service.home / "scratch").glob("tmp*")) == []


@pytest.mark.slow
def test_a_table_that_is_being_built_is_built_after_a_kill(big: Path) -> None:
    with LocalService(seed(big)) as service:
        api = Api(service)
        api.run_stream("big")
        api.post("/transforms/sums/publish")
        service.kill()
        assert table_rows(service, "models.sums") in {None, 1000}
        service.start()
        deadline = time.monotonic() + 10
        while api.get("/transforms/sums")["materialization_status"] == "running" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert api.get("/transforms/sums")["materialization_status"] == "completed"
        service.stop()
        assert table_rows(service, "models.sums") == 1000


@pytest.fixture
def slow_partner(partner: Partner) -> Iterator[Partner]:
    partner.reset()
    yield partner
    partner.reset()


@pytest.mark.slow
def test_records_are_not_lost_and_hardly_sent_twice(big: Path, slow_partner: Partner) -> None:
    enough = threading.Event()

    def rule(record: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if len(slow_partner.received) == PEOPLE // 3:
            enough.set()
        return (422, {"message": "odd"}) if record["id"] % 2 else (200, {})

    slow_partner.rule = rule
    with LocalService(seed(big, slow_partner)) as service:
        api = Api(service)
        url = api.post("/reverse_etl_syncs/to_partner/request_run")["status_url"]
        assert enough.wait(10)
        service.kill()
        service.start()
        run = api.ended(url)
        assert (run["status"], run["synced_rows"], run["failed_rows"]) == ("COMPLETED", PEOPLE // 2, PEOPLE // 2)
        ids = [record["id"] for record in slow_partner.records]
        assert set(ids) == set(range(PEOPLE))
        # At most the one that was under way.
        assert len(ids) - PEOPLE <= 1


@pytest.mark.slow
def test_lines_are_neither_lost_nor_doubled_nor_torn(big: Path) -> None:
    with LocalService(seed(big)) as service:
        api = Api(service)
        for _ in range(2):
            url = api.client.post("/reverse_etl_syncs/to_file/request_run").json().get("status_url")
            time.sleep(0.02)
            service.kill()
            service.start()
            assert api.ended(url)["status"] == "COMPLETED"
        lines = (service.folder / "exports" / "people.jsonl").read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == list(range(PEOPLE))


def test_runs_take_as_long_as_the_seed_says(big: Path) -> None:
    with LocalService(seed(big, minimum_duration=0.5)) as service:
        api = Api(service)
        url = api.post("/reverse_etl_syncs/to_file/request_run")["status_url"]
        run = api.until(url, lambda run: run["status"] == "RUNNING")
        conflict = api.refused("POST", "/reverse_etl_syncs/to_file/request_run", 409)
        assert conflict["active_run_id"] == run["id"]
        # Also across a kill: the run has begun and is the same.
        service.kill()
        service.start()
        assert api.ended(url)["id"] == run["id"]
