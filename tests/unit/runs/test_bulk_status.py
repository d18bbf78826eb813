"""Bulk status requests: parsing of the responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from airflow_provider_datapipe.runs.models import RunRef, RunState
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.bulk_status import (
    BulkStatusRequest,
    NeedsDirectPoll,
    OrchestrationRuns,
    SyncStatus,
    bulk_status_for,
)

STREAM = RunRef("elt_stream", "s", "orders", run_id="r1", sync_id="y")
RUN = RunRef("orchestration", "o", "nightly", run_id="r1")
ACTIVE = {"status": "RUNNING", "started_at": "2026-01-01T00:00:00Z", "bytes_synced": 1}
LATEST = {"status": "COMPLETED", "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"}


def found(shared: BulkStatusRequest, reference: RunRef, body: Any) -> Any:
    """Find a run in a response that is parsed like in the clients."""
    answer = TypeAdapter(shared.request().endpoint.answer).validate_json(json.dumps(body))
    return shared.find(reference, shared.index(answer))


def status(*streams: dict[str, Any]) -> dict[str, Any]:
    return {"elt_sync_id": "y", "source_streams": list(streams)}


@pytest.mark.parametrize(
    ("reference", "shared"),
    [
        (STREAM, SyncStatus("y")),
        (RUN, OrchestrationRuns("all")),
        (RunRef("elt_stream", "s", "orders", run_id="r1"), None),
        (RunRef("orchestration", "o", "nightly"), None),
        (RunRef("reverse_etl", "r", "customers", run_id="r1"), None),
        (RunRef("transform", "t", "daily"), None),
    ],
)
def test_bulk_status_request_for_a_run(reference: RunRef, shared: BulkStatusRequest | None) -> None:
    assert bulk_status_for(reference) == shared


def test_bulk_requests_are_equal_by_type_and_key() -> None:
    assert len({SyncStatus("y"), SyncStatus("y"), SyncStatus("z"), OrchestrationRuns("y")}) == 3


@pytest.mark.parametrize(
    "streams",
    [
        [],
        [{"name": "customers", "active_sync": ACTIVE}],
        [{"active_sync": ACTIVE}],
        [{"name": "orders"}, {"name": "orders"}, {"name": "orders", "active_sync": ACTIVE}],
    ],
)
def test_stream_without_a_unique_name_is_not_found(streams: list[dict[str, Any]]) -> None:
    assert found(SyncStatus("y"), STREAM, status(*streams)) is None


@pytest.mark.parametrize(
    ("shown", "going"),
    [
        ({"active_sync": ACTIVE}, True),
        ({"active_sync": ACTIVE, "latest_sync": LATEST}, True),
        ({"latest_sync": LATEST}, False),
        ({"active_sync": None, "latest_sync": None}, False),
        # The next run is scheduled.
        ({"active_sync": {"status": "SCHEDULED"}, "latest_sync": LATEST}, False),
        ({}, False),
    ],
)
def test_stream_is_active_according_to_the_status(shown: dict[str, Any], going: bool) -> None:
    shared = SyncStatus("y")
    item = found(shared, STREAM, status({"name": "orders"} | shown))
    assert shared.is_active(item) is going
    # The status of the sync does not contain the outcome of the run.
    assert shared.read(STREAM, item) is NeedsDirectPoll.UNCLEAR


def test_each_change_of_a_run_changes_its_fingerprint() -> None:
    shared = SyncStatus("y")
    life: list[dict[str, Any]] = [
        {},
        {"active_sync": {"status": "SCHEDULED"}},
        {"active_sync": ACTIVE},
        {"latest_sync": LATEST},
        {"latest_sync": LATEST | {"status": "FAILED"}},
        {"latest_sync": LATEST | {"started_at": "2026-01-01T01:00:00Z"}},
        {"latest_sync": LATEST | {"finished_at": "2026-01-01T02:00:00Z"}},
        {"active_sync": ACTIVE | {"started_at": "2026-01-02T00:00:00Z"}, "latest_sync": LATEST},
    ]
    fingerprints = [shared.fingerprint(found(shared, STREAM, status({"name": "orders"} | shown))) for shown in life]
    assert len(set(fingerprints)) == len(life)
    # Progress does not change the fingerprint.
    more = found(shared, STREAM, status({"name": "orders", "active_sync": ACTIVE | {"bytes_synced": 99}}))
    assert shared.fingerprint(more) == fingerprints[2]


def run(run_id: str = "r1", **more: Any) -> dict[str, Any]:
    return {"id": run_id, "orchestration_id": "o", "status": "RUNNING", "due_at": "2026-01-01T00:00:00Z"} | more


def test_list_contains_the_complete_runs() -> None:
    shared = OrchestrationRuns("all")
    body = {"data": [run("r2"), run(status="COMPLETED", finished_at="2026-01-01T00:01:00Z")], "has_more": False}
    seen = shared.read(RUN, found(shared, RUN, body))
    assert isinstance(seen, RunState)
    assert (seen.outcome, seen.reference.run_id) == (Outcome.SUCCEEDED, "r1")
    assert found(shared, RUN, {"data": [run("r2")], "has_more": False}) is None
    assert found(shared, RUN, {}) is None


@pytest.mark.parametrize("fields", [{"due_at": "soon"}, {"status": 7}, {"orchestration_id": None}])
def test_unreadable_run_of_the_list_is_polled_directly(fields: dict[str, Any]) -> None:
    shared = OrchestrationRuns("all")
    item = found(shared, RUN, {"data": [run(**fields)], "has_more": False})
    assert shared.read(RUN, item) is NeedsDirectPoll.UNCLEAR


@pytest.mark.parametrize(
    ("answer", "missing", "pages", "cursor"),
    [
        ({"has_more": True, "next_cursor": "c"}, 2, 1, "c"),
        ({"hasMore": True, "nextCursor": "c"}, 2, 1, "c"),
        ({"has_more": True, "next_cursor": "c"}, 5, 5, "c"),
        # Reading so many pages costs as much as polling each run directly.
        ({"has_more": True, "next_cursor": "c"}, 5, 6, None),
        ({"has_more": True, "next_cursor": "c"}, 1, 1, None),
        ({"has_more": False, "next_cursor": "c"}, 9, 1, None),
        ({"has_more": True, "next_cursor": None}, 9, 1, None),
        ({}, 9, 1, None),
    ],
)
def test_number_of_pages_read_from_the_list(answer: Any, missing: int, pages: int, cursor: str | None) -> None:
    following = OrchestrationRuns("all").following(answer, missing=missing, pages=pages)
    assert (following and dict(following.query).get("starting_after")) == cursor
    if following is not None:
        assert dict(following.query)["limit"] == "100"
        assert following.once
