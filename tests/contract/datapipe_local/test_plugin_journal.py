"""Tests of the journal of the fixture and its assertion messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.client import RefusedError
from tests.contract.datapipe_local.controlled import seed


@pytest.fixture
def shop(datapipe_local: DatapipeLocal, data: Path) -> DatapipeLocal:
    datapipe_local.seed(seed(data))
    return datapipe_local


def request_run(service: DatapipeLocal, path: str) -> None:
    service.api.post(f"/{path}/request_run").raise_for_status()


def test_exactly_one_run_was_requested(shop: DatapipeLocal) -> None:
    request_run(shop, "elt_streams/orders")
    run = shop.journal.assert_one_run("orders")
    assert run["trigger"] == "request"
    shop.journal.wait_for_runs("orders")
    assert shop.journal.assert_one_run("orders", status="COMPLETED", trigger="request")["seq"] == run["seq"]
    assert shop.journal.assert_runs("people", 0) == []
    assert shop.journal.assert_runs("orders", 0, status="FAILED") == []
    (asked,) = shop.journal.assert_requests("/elt_streams/*/request_run", method="POST")
    assert asked["seq"] == run["request"]


def test_a_failure_shows_what_was_requested(shop: DatapipeLocal) -> None:
    shop.faults({"path": "/elt_streams/people/request_run", "status": 503})
    assert shop.api.post("/elt_streams/people/request_run").status_code == 503
    request_run(shop, "elt_streams/orders")
    shop.journal.wait_for_runs("orders")
    with pytest.raises(AssertionError) as caught:
        shop.journal.assert_one_run("people")
    time = r"[\d:.TZ-]+"
    assert re.fullmatch(
        rf"""Expected exactly 1 run of 'people', and there were none.
Runs:
  transform view: completed, by seed, asked for {time}, ended {time}
  elt_stream orders: COMPLETED, by request (?P<seq>\d+), asked for {time}, ended {time}
Requests:
  \d+: POST /elt_streams/people/request_run: 503 \(fault: status\)
  (?P=seq): POST /elt_streams/orders/request_run: 200""",
        str(caught.value),
    ), caught.value
    with pytest.raises(AssertionError, match=r"Expected 2 runs of 'orders', trigger='request', and there was 1\.\n"):
        shop.journal.assert_runs("orders", 2, trigger="request")
    with pytest.raises(
        AssertionError, match=r"Expected 2 requests of '/elt_streams/\*\*', status=200, and there was 1"
    ):
        shop.journal.assert_requests("/elt_streams/**", 2, status=200)
    with pytest.raises(
        AssertionError, match=r"Expected exactly 1 run of 'people' to end within 0\.1 s, and there were none"
    ):
        shop.journal.wait_for_runs("people", timeout=0.1)
    with pytest.raises(TypeError, match="no entry of the journal has 'triggered': there are seq, kind, "):
        shop.journal.runs(triggered="request")


def test_unknown_ids_and_paths_are_errors_of_journal_assertions(shop: DatapipeLocal) -> None:
    assert shop.journal.assert_runs("people", 0) == []
    with pytest.raises(LookupError, match="Nothing has the id 'poeple'"):
        shop.journal.assert_runs("poeple", 0)
    with pytest.raises(RefusedError, match=r"'/elt_stream/\*/request_run' matches no path of the interface"):
        shop.journal.assert_requests("/elt_stream/*/request_run", 0)
    # What is gone was there.
    shop.api.delete("/transforms/view").raise_for_status()
    assert shop.journal.assert_requests("/transforms/*", method="DELETE")
    assert shop.journal.runs("view")


def test_it_can_be_forgotten(shop: DatapipeLocal) -> None:
    request_run(shop, "elt_streams/orders")
    shop.journal.clear()
    assert shop.journal.runs() == []
    assert str(shop.journal) == "Runs: none.\nRequests: none."


def test_a_run_behaves_as_it_is_told(shop: DatapipeLocal) -> None:
    shop.runs("orders", outcomes=[{"fail": "The source is away."}])
    shop.runs("people", minimum_duration=0.1)
    request_run(shop, "elt_streams/orders")
    (failed,) = shop.journal.wait_for_runs("orders")
    assert failed["status"] == "FAILED"
    said = shop.control.ask("GET", "runs")
    assert said["resources"]["people"] == {"minimum_duration": 0.1}
    shop.runs(minimum_duration=0.2)
    said = shop.control.ask("GET", "runs")
    assert (said["minimum_duration"], said["resources"]["people"]) == (0.2, {"minimum_duration": 0.1})
