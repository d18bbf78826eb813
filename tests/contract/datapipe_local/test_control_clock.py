"""Tests of schedules with a clock that tests set."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.storage.clock import as_datetime
from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.client import RefusedError
from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.controlled import seed
from tests.contract.datapipe_local.seeds import elt_sync, stream

NEW_YEAR = "2030-01-01T00:00:00.000Z"


@pytest.fixture
def shop(datapipe_local: DatapipeLocal, data: Path) -> DatapipeLocal:
    """Return a service with an hourly schedule, and an orchestration that loads streams each night at two."""
    wanted = seed(data)
    hours = stream("hours", "people.csv")
    wanted["elt_syncs"].append(elt_sync("hourly", "data", [hours], sync_interval="0 * * * *"))
    datapipe_local.seed(wanted)
    return datapipe_local


def by_schedule(service: DatapipeLocal, resource_id: str) -> list[dict[str, Any]]:
    return service.journal.runs(resource_id, trigger="schedule")


def test_a_set_clock_stands_still(shop: DatapipeLocal) -> None:
    assert shop.control.request("GET", "clock")["set"] is False
    assert shop.clock.set(NEW_YEAR) == shop.clock.now() == as_datetime(NEW_YEAR)
    assert shop.control.request("GET", "clock") == {"now": NEW_YEAR, "set": True}
    moment = dt.datetime(2031, 5, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert shop.clock.set(moment) == moment
    shop.api.post("/elt_streams/orders/request_run").raise_for_status()
    (run,) = shop.journal.wait_for_runs("orders")
    assert run["requested_at"] == run["started_at"] == run["finished_at"] == "2031-05-01T12:00:00.000Z"
    with pytest.raises(ValueError, match="no time zone"):
        shop.clock.set(dt.datetime(2031, 5, 1))  # noqa: DTZ001 - the test expects a refusal


def test_schedules_run_while_the_clock_advances(shop: DatapipeLocal) -> None:
    shop.clock.set(NEW_YEAR)
    assert shop.clock.advance(hours=26, minutes=30) == as_datetime("2030-01-02T02:30:00.000Z")
    hours = by_schedule(shop, "hours")
    first = as_datetime(NEW_YEAR)
    assert [as_datetime(run["requested_at"]) for run in hours] == [first + dt.timedelta(hours=n) for n in range(1, 27)]
    assert {run["status"] for run in hours} == {"COMPLETED"}
    nights = by_schedule(shop, "nightly")
    assert [run["finished_at"] for run in nights] == ["2030-01-01T02:00:00.000Z", "2030-01-02T02:00:00.000Z"]
    assert [run["trigger"] for run in shop.journal.runs("orders")] == ["orchestration"] * 2


def test_durations_of_runs_are_those_of_the_clock(shop: DatapipeLocal) -> None:
    shop.clock.set(NEW_YEAR)
    shop.runs("hours", minimum_duration=3600)
    shop.clock.advance(minutes=119)
    (run,) = by_schedule(shop, "hours")
    assert (run["started_at"], run["finished_at"]) == ("2030-01-01T01:00:00.000Z", None)
    shop.clock.advance(minutes=1)
    # Whether another run starts at two is undefined.
    assert by_schedule(shop, "hours")[0]["finished_at"] == "2030-01-01T02:00:00.000Z"


def test_builds_of_tables_last_for_the_minimum_duration(shop: DatapipeLocal) -> None:
    table = {"sql_template": "SELECT 1 AS x", "materialization": "table", "publish": True}
    own = {"id": "own", "name": "own", "cron_expression": "0 1 * * *", **table}
    part = {"id": "part", "name": "part", "orchestration_workflow_id": "nightly", **table}
    shop.seed({"transforms": [own, part]})
    for transform_id in ("own", "part"):
        shop.journal.wait_for_runs(transform_id)
        shop.runs(transform_id, minimum_duration=3600)
    shop.clock.set(NEW_YEAR)
    shop.clock.advance(hours=3)
    for transform_id, trigger in (("own", "schedule"), ("part", "orchestration")):
        build = shop.journal.assert_one_run(transform_id, trigger=trigger)
        assert as_datetime(build["finished_at"]) - as_datetime(build["started_at"]) == dt.timedelta(hours=1)


def test_schedules_before_a_set_time_are_missed(shop: DatapipeLocal) -> None:
    shop.clock.set(NEW_YEAR)
    shop.clock.advance(seconds=0)
    shop.clock.set("2030-01-05T00:30:00Z")
    shop.clock.advance(minutes=20)
    assert by_schedule(shop, "hours") == []
    shop.clock.set(NEW_YEAR)
    shop.clock.advance(hours=1)
    assert len(by_schedule(shop, "hours")) == 1


def test_resets_of_the_clock(shop: DatapipeLocal) -> None:
    for reset in (shop.clock.reset, shop.reset):
        shop.clock.set(NEW_YEAR)
        reset()
        assert shop.control.request("GET", "clock")["set"] is False
        assert abs(shop.clock.now() - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
        assert shop.control.request("GET", "journal", kind="runs", resource_id="hours")["total"] == 0


def test_invalid_times_are_refused(shop: DatapipeLocal) -> None:
    shop.clock.set(NEW_YEAR)
    for wrong in ("tomorrow", "2030-01-01T00:00:00", "2201-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", 5):
        with pytest.raises(RefusedError, match="400"):
            shop.control.request("PUT", "clock", {"now": wrong})
    for seconds in (-1, 1e12, "1"):
        with pytest.raises(RefusedError, match=r"400: .*seconds"):
            shop.control.request("POST", "clock/advance", {"seconds": seconds})
    assert shop.clock.now() == as_datetime(NEW_YEAR)


@pytest.mark.slow
def test_a_restart_keeps_the_clock(data: Path) -> None:
    with served(seed(data), control=True) as (service, api):
        api.client.put("/_local/clock", json={"now": NEW_YEAR}).raise_for_status()
        service.restart()
        assert api.get("/_local/clock") == {"now": NEW_YEAR, "set": True}
        api.post("/_local/clock/advance", {"seconds": 2 * 3600})
        assert [run["trigger"] for run in service.journal_runs("nightly")] == ["schedule"]
