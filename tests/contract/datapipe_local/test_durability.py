"""Tests of kills and restarts. tests/system/test_kills.py kills the service under load, and compares its data."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.seeds import NIGHTLY, connection, elt_sync, reverse_etl_sync, stream, transform
from tests.contract.datapipe_local.warehouses import tables_in

ROWS = 400_000
PEOPLE = 300


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big")
    rows = f"SELECT range AS id, 'name ' || range AS name, random() AS x, random() AS y FROM range({ROWS})"  # noqa: S608 - a number
    duckdb.execute(f"COPY ({rows}) TO '{folder / 'big.csv'}'")
    return folder


def seed(folder: Path, partner: Partner | None = None, **runs: float) -> dict[str, Any]:
    url = "http://127.0.0.1:1" if partner is None else partner.url
    numbers = f"FROM (SELECT range AS id FROM range({PEOPLE}))"  # noqa: S608 - a number
    return {
        "runs": runs,
        "connections": [
            connection("data", "files", path=str(folder)),
            connection("partner", "http", url=url),
            connection("file", "jsonl", path="./exports"),
        ],
        "elt_syncs": [elt_sync("shop", "data", [stream("big")], orchestration_workflow_id="nightly")],
        "orchestrations": [NIGHTLY],
        "transforms": [transform("people", numbers, publish=True)],
        "reverse_etl_syncs": [
            reverse_etl_sync(f"to_{one}", "people", one, "people", "id") for one in ("partner", "file")
        ],
    }


@pytest.mark.slow
def test_requested_runs_complete_after_a_kill(big: Path) -> None:
    with served(seed(big, scheduling_delay=0.4)) as (service, api):
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
def test_an_interrupted_load_continues_as_the_same_run(big: Path, stop: str, times: int) -> None:
    rng = random.Random(stop)  # noqa: S311 - any instants will do, the same in each run of the test
    with served(seed(big)) as (service, api):
        seen = None
        for _ in range(times):
            url = api.post("/elt_streams/big/request_run")["status_url"]
            run = api.until(url, lambda _: True)
            time.sleep(rng.uniform(0, 0.3))
            getattr(service, stop)()
            assert tables_in(service).get("shop.big") in {seen, ROWS}
            service.start()
            ended = api.ended(url)
            assert (ended["id"], ended["status"], ended["rows_synced"]) == (run["id"], "COMPLETED", ROWS)
            seen = ROWS
        assert len(api.all_pages("/elt_stream_runs", elt_stream_id="big")) == times
        service.stop()
        assert tables_in(service)["shop.big"] == ROWS
        assert list((service.home / "scratch").glob("tmp*")) == []


@pytest.mark.slow
def test_a_kill_resends_at_most_one_record(big: Path, partner: Partner) -> None:
    enough = threading.Event()

    def rule(record: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if len(partner.received) == PEOPLE // 3:
            enough.set()
        return (422, {"message": "odd"}) if record["id"] % 2 else (200, {})

    partner.rule = rule
    with served(seed(big, partner)) as (service, api):
        url = api.post("/reverse_etl_syncs/to_partner/request_run")["status_url"]
        assert enough.wait(10)
        service.kill()
        service.start()
        run = api.ended(url)
        assert (run["status"], run["synced_rows"], run["failed_rows"]) == ("COMPLETED", PEOPLE // 2, PEOPLE // 2)
        ids = [record["id"] for record in partner.records]
        assert set(ids) == set(range(PEOPLE))
        # At most the record that was being sent was sent twice.
        assert len(ids) - PEOPLE <= 1


def test_an_active_run_continues_after_a_kill(big: Path) -> None:
    with served(seed(big, minimum_duration=0.5)) as (service, api):
        url = api.post("/reverse_etl_syncs/to_file/request_run")["status_url"]
        run = api.until(url, lambda run: run["status"] == "RUNNING")
        conflict = api.refused("POST", "/reverse_etl_syncs/to_file/request_run", 409)
        assert conflict["active_run_id"] == run["id"]
        # Also across a kill: the run has begun and is the same.
        service.kill()
        service.start()
        assert api.ended(url)["id"] == run["id"]
