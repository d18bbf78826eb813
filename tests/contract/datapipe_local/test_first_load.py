"""Tests of a first load in slices: rows are visible while it grows, and exact after every kill."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream, transform
from tests.contract.datapipe_local.warehouses import rows_in, tables_in
from tests.support.processes import wait_for

ROWS, SLICE = 230_000, 50_000
SIZES = [SLICE] * 4 + [ROWS - 4 * SLICE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    duckdb.execute(f"COPY (SELECT range AS id, 'n' || range AS name FROM range({ROWS})) TO '{tmp_path / 'big.csv'}'")  # noqa: S608 - a number, and a path of the test
    (tmp_path / "small.csv").write_text("a\n1\n2\n")
    return tmp_path


def seed(folder: Path, rows: int | None, **runs: float) -> dict[str, Any]:
    return {
        "runs": {"first_load_slice_rows": rows, **runs},
        "connections": [connection("data", "files", path=str(folder))],
        "elt_syncs": [elt_sync("shop", "data", [stream("big"), stream("small")])],
        "transforms": [transform("n", "SELECT count(*) AS n FROM {{raw.shop.big}}")],
    }


def runs_of(api: Api, stream: str = "big") -> list[dict[str, Any]]:
    return api.all_pages("/elt_stream_runs", elt_stream_id=stream, sort_direction="asc")


def wait_for_the_whole(api: Api, earlier: int = 0) -> list[dict[str, Any]]:
    """Wait until a load is over, and return its runs without the runs of earlier loads."""

    def is_over() -> bool:
        return any(run.get("status") in {"COMPLETED", "FAILED"} for run in runs_of(api)[earlier:])

    wait_for("the end of the load", is_over, limit=30, interval=0.01)
    return runs_of(api)[earlier:]


def check_whole(runs: list[dict[str, Any]]) -> None:
    assert [run["status"] for run in runs] == ["CHUNK_COMPLETED"] * 4 + ["COMPLETED"]
    assert [run["rows_synced"] for run in runs] == SIZES
    assert all(run["finished_at"] <= following["started_at"] for run, following in pairwise(runs))


@pytest.mark.slow
def test_slices_are_consecutive_runs(folder: Path) -> None:
    with served(seed(folder, SLICE, minimum_duration=0.15), control=True) as (service, api):
        url = api.post("/elt_streams/big/request_run")["status_url"]
        first = api.until(url, lambda run: run["status"] == "CHUNK_COMPLETED")
        # The table exists during the load. Another run of the stream cannot be requested.
        api.post("/transforms/n/publish")
        api.refused("POST", "/elt_streams/big/request_run", 409)
        api.post("/elt_streams/big/request_full_refresh", status=204)
        # The load continues with the previous content of the source.
        (folder / "big.csv").write_text("id,name\n" + "1,other\n" * (SLICE + 1))
        runs = wait_for_the_whole(api)
        check_whole(runs)
        assert runs[0] == first
        assert {run["trigger"] for run in service.journal_runs("big")} == {"request", "continuation"}
        latest = api.get("/elt_syncs/shop/status")["source_streams"][0]["latest_sync"]
        assert (latest["status"], latest["full_sync_trigger"]) == ("COMPLETED", "INITIAL_SYNC")
        # The next run does the requested full refresh. It is not a first load, and therefore has no slices.
        run = api.run_stream("big")
        assert (run.status, run.rows_synced) == ("COMPLETED", SLICE + 1)
        latest = api.get("/elt_syncs/shop/status")["source_streams"][0]["latest_sync"]
        assert latest["full_sync_trigger"] == "USER"
        assert api.run_stream("small").status == "COMPLETED"
        assert len(runs_of(api, "small")) == 1
        service.stop()
        assert tables_in(service) == {"shop.big": SLICE + 1, "shop.small": 2}


@pytest.mark.slow
def test_a_load_in_slices_is_exact_after_every_kill(folder: Path) -> None:
    rng = random.Random(6)  # noqa: S311 - any instants will do, the same in each run of the test
    with served(seed(folder, SLICE)) as (service, api):
        api.post("/elt_streams/big/request_run")
        seen = set()
        for _ in range(12):
            time.sleep(rng.uniform(0, 0.08))
            noted = sum(run.get("rows_synced", 0) for run in runs_of(api))
            service.kill()
            there = tables_in(service).get("shop.big", 0)
            seen.add(there)
            assert there in {0, *(sum(SIZES[: number + 1]) for number in range(len(SIZES)))}
            # The table has all rows that runs reported.
            assert there >= noted
            service.start()
            if there == ROWS:
                break
        # At least one kill interrupted the load.
        assert len(seen) > 1
        check_whole(wait_for_the_whole(api))
        service.kill()
        assert tables_in(service) == {"shop.big": ROWS}
        assert [row[0] for row in rows_in(service, "shop.big")] == list(range(ROWS))


@pytest.mark.slow
def test_a_load_starts_again_after_a_failed_slice(folder: Path) -> None:
    with served(seed(folder, SLICE), control=True) as (service, api):
        service.runs({"resources": {"big": {"minimum_duration": 0.2}}})
        url = api.post("/elt_streams/big/request_run")["status_url"]
        api.until(url, lambda run: run["status"] == "CHUNK_COMPLETED")
        service.runs({"resources": {"big": {"outcomes": [{"fail": "The line broke."}]}}})
        runs = wait_for_the_whole(api)
        assert runs[-1]["status"] == "FAILED"
        api.refused("POST", "/transforms/n/publish", 400)
        api.post("/elt_streams/big/request_run")
        check_whole(wait_for_the_whole(api, len(runs)))
        service.stop()
        assert tables_in(service) == {"shop.big": ROWS}


@pytest.mark.slow
def test_a_sync_deleted_between_slices_leaves_nothing(folder: Path) -> None:
    with served(seed(folder, SLICE, minimum_duration=0.2)) as (service, api):
        url = api.post("/elt_streams/big/request_run")["status_url"]
        api.until(url, lambda run: run["status"] == "CHUNK_COMPLETED")
        api.delete("/elt_syncs/shop", removeDataReferences="true")
        service.stop()
        assert tables_in(service) == {}


def test_without_the_setting_a_load_is_one_run(folder: Path) -> None:
    with served(seed(folder, None)) as (_, api):
        assert api.run_stream("big").rows_synced == ROWS
        assert [run["status"] for run in runs_of(api)] == ["COMPLETED"]
