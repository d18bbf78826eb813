"""Tests that NaN and infinities never reach XCom, task state or trigger events."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import ProtocolError
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.query import QueryPreviewOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger, ReverseEtlRunEventTrigger
from tests.support.responses import elt_stream
from tests.support.routed_server import Route, RoutedServer
from tests.support.scripted_server import Reply, Seen
from tests.support.tasks import Memory, first_event, run

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
NUMBERS = pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400])
TIMES = '"started_at": "2026-03-01T10:00:00.000Z", "finished_at": "2026-03-01T10:00:05.000Z"'
SYNC_RUN = (
    '{"id": "%s", "reverse_etl_sync_id": "s", "status": "COMPLETED", "total_rows": %s, "distinct_rows": %s,'
    f' "new_rows": %s, "synced_rows": %s, "failed_rows": %s, "unknown_field": %s, {TIMES}}}'
)
STREAM_RUN = (
    f'{{"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "status": "COMPLETED", "rows_synced": %s, {TIMES}}}'
)
STREAM = elt_stream()


class Service:
    """Service whose resource `s` has one run, which appears with the first request for it."""

    def __init__(self, run_text: str) -> None:
        self.run = run_text
        self.started = False

    def answer(self, request: Seen) -> Reply | None:
        path = request.path.partition("?")[0]
        runs = "elt_stream_runs" if "stream" in path else "reverse_etl_sync_runs"
        if path.endswith("/request_run"):
            self.started = True
            return Reply(200, {"status_url": f"/{runs}?limit=1&sort_direction=asc"})
        if path == "/elt_streams/s":
            return Reply(200, STREAM)
        if path == f"/{runs}":
            return Reply(200, f'{{"data": [{self.run if self.started else ""}], "hasMore": false}}'.encode())
        return Reply(200, self.run.encode()) if path == f"/{runs}/r1" else None


def connected(route: Route, monkeypatch: pytest.MonkeyPatch) -> RoutedServer:
    server = RoutedServer(route)
    connection = {"conn_type": "datapipe", "host": server.url, "password": "secret-of-the-account"}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    return server


def strict(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


@MODES
@NUMBERS
def test_non_finite_row_counts_of_reverse_etl_runs_are_absent(
    deferrable: bool, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    with connected(Service(SYNC_RUN % ("r1", *[number] * 6)).answer, monkeypatch):
        task = ReverseEtlRunOperator(
            task_id="t", reverse_etl_sync_id="s", poll_interval=0.05, timeout=30, deferrable=deferrable
        )
        result = run(task, memory)
    assert result["outcome"] == "succeeded"
    assert [result[name] for name in ("rows_synced", "rows_failed", "rows_total")] == [None, None, None]
    strict([result, memory.kept, memory.pushed])


@MODES
@NUMBERS
def test_rows_of_a_stream_run_that_are_no_number_are_absent(
    deferrable: bool, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    with connected(Service(STREAM_RUN % number).answer, monkeypatch):
        task = EltStreamRunOperator(task_id="t", stream_id="s", poll_interval=0.05, timeout=30, deferrable=deferrable)
        result = run(task, memory)
    assert (result["outcome"], result["rows_synced"]) == ("succeeded", None)
    strict([result, memory.kept, memory.pushed])


@NUMBERS
async def test_event_of_a_run_has_no_numbers_that_are_none(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    polls = 0

    def answer(_: Seen) -> Reply:
        nonlocal polls
        polls += 1
        # The watcher starts behind the runs that it finds at its first poll.
        runs = [SYNC_RUN % (name, *[number] * 6) for name in (["r2", "r1"] if polls > 1 else ["r1"])]
        return Reply(200, f'{{"data": [{",".join(runs)}], "hasMore": false}}'.encode())

    with connected(answer, monkeypatch):
        trigger = ReverseEtlRunEventTrigger("s", outcomes=["succeeded", "partial"], poll_interval=0.05)
        event = await asyncio.wait_for(first_event(trigger), 30)
    assert event["run_id"] == "r2"
    assert event["rows_failed"] is None


@NUMBERS
def test_required_count_that_is_no_number_is_an_error(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(lambda _: Reply(200, b'{"count": %s}' % number.encode()), monkeypatch):
        task = DatapipeOperator(
            task_id="t", endpoint="reverse_etl_failed_records.count", arguments={"reverse_etl_sync_id": "s"}
        )
        with pytest.raises(ProtocolError, match=r"count: .*finite"):
            run(task)


@MODES
def test_rows_of_a_query_hold_null_in_place_of_nan(deferrable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Seen) -> Reply:
        if request.method == "POST":
            return Reply(200, {"query_execution_id": "q", "dw_sql": "SELECT 1"})
        if request.path.endswith("/status"):
            return Reply(200, {"status": "DONE"})
        return Reply(200, b'{"rows": [{"a": NaN, "b": [1e999, {"c": -Infinity}], "d": 1.5}], "num_rows_total": 1}')

    with connected(answer, monkeypatch):
        result = run(
            QueryPreviewOperator(
                task_id="t", sql_template="SELECT 1", poll_interval=0.05, timeout=30, deferrable=deferrable
            )
        )
    assert result["rows"] == [{"a": None, "b": [None, {"c": None}], "d": 1.5}]
    strict(result)


def test_answer_of_any_endpoint_is_strict_json(monkeypatch: pytest.MonkeyPatch) -> None:
    status = (
        '{"elt_sync_id": "y", "source_streams": [{"name": "a", "latest_sync":'
        ' {"bytes_synced": NaN, "records_synced": Infinity, "retry_attempt": 1e999, "unknown_field": NaN}}]}'
    )
    with connected(lambda _: Reply(200, status.encode()), monkeypatch):
        result = run(DatapipeOperator(task_id="t", endpoint="elt_syncs.status", arguments={"sync_id": "y"}))
    latest = result["source_streams"][0]["latest_sync"]
    assert (latest["bytes_synced"], latest["records_synced"], latest["retry_attempt"]) == (None, None, None)
    strict(result)


@pytest.mark.parametrize("value", [math.inf, math.nan, 0, -1])
@pytest.mark.parametrize("argument", ["timeout", "poll_interval"])
def test_durations_of_operators_have_to_be_finite(argument: str, value: float) -> None:
    wrong: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=f"{argument} must be (a duration|more than 0 seconds)"):
        EltStreamRunOperator(task_id="t", stream_id="s", **wrong)


@pytest.mark.parametrize("value", [math.inf, math.nan, 0, -1])
def test_sensors_and_event_triggers_require_finite_durations(value: float) -> None:
    with pytest.raises(ValueError, match=r"max_age must be (a duration|more than 0 seconds)"):
        EltStreamFreshnessSensor(task_id="t", stream_id="s", max_age=value)
    with pytest.raises(ValueError, match=r"poll_interval:? must be (a duration|more than 0 seconds)"):
        EltStreamRunEventTrigger("s", poll_interval=value)
