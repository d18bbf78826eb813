"""Tests of responses that the interface leaves open, of invalid values in them, and of broken status URLs."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import (
    ENDPOINTS,
    FUNCTIONS,
    connections,
    elt_stream_runs,
    orchestration_runs,
)
from airflow_provider_datapipe.api.errors import InvalidRequestError, ProtocolError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.runs.errors import RunError, RunFailedError
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger, ReverseEtlRunEventTrigger
from tests.contract.calls import arguments
from tests.contract.interface_table import ROWS
from tests.support.scripted_server import Reply, RoutedServer, ScriptedServer, Seen
from tests.support.tasks import Memory, context_of, first_event, recreated_trigger, run
from tests.support.waited_run import KINDS, MODES, OPERATORS, STATUS_URLS, WaitedRun, operator

Serve = Callable[..., Any]


def ask(endpoint: str, **arguments: Any) -> Any:
    return run(DatapipeOperator(task_id="t", endpoint=endpoint, arguments=arguments))


# Success without content.

WITHOUT_CONTENT = {row.name for row in ROWS if row.success == "nothing"}


def test_plain_text_after_an_endpoint_without_content_is_success(serve: Serve) -> None:
    server = serve(ScriptedServer([Reply(200, b"Deleted.", {"content-type": "text/plain"})]))
    for name, endpoint in ENDPOINTS.items():
        if f"{endpoint.method} {endpoint.path}" in WITHOUT_CONTENT:
            assert ask(name, **arguments(FUNCTIONS[name], all_of_them=False, needed=set())) is None
    assert len(server.seen) == len(WITHOUT_CONTENT) == 15


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"\n<!doctype html><title>Log in</title>"),
        Reply(200, b"Please log in.", {"content-type": "Text/HTML; charset=utf-8"}),
        Reply(200, b"\xff\xfe\x00"),
    ],
    ids=["page", "type", "binary"],
)
def test_login_page_is_no_success_of_a_request(reply: Reply, serve: Serve) -> None:
    serve(ScriptedServer([reply]))
    with pytest.raises(ProtocolError, match="does not match the interface"):
        ask("elt_syncs.enable", sync_id="x")


# Formats that the interface leaves open.


@pytest.mark.parametrize(
    ("endpoint", "item"),
    [
        ("connections.list", {"id": "c", "integration_id": "files"}),
        ("connection_bridges.list", {"expires_at": "2026-03-01T10:00:00.000Z"}),
    ],
)
@pytest.mark.parametrize("wrap", [lambda item: [item], lambda item: {"data": [item], "hasMore": False}])
def test_list_without_a_declared_schema_may_be_bare(endpoint: str, item: Any, wrap: Any, serve: Serve) -> None:
    serve(ScriptedServer([Reply(body=wrap(item))]))
    items = run(DatapipeOperator(task_id="t", endpoint=endpoint, all_pages=True))
    assert [{name: each[name] for name in item} for each in items] == [item]


def test_settings_schema_may_have_dependencies_of_any_shape(serve: Serve) -> None:
    shapes = [{"a": ["b"]}, {"a": {"required": ["b"]}}, {"a": "b"}, {"a": [{"field": "b"}]}, [["a"]], "a", {"a": None}]
    schema = {"$schema": "x", "title": "t", "type": "object", "properties": {}}
    serve(ScriptedServer([Reply(body=schema | {"dependencies": shape}) for shape in shapes]))
    assert [ask("connections.settings", connection_id="c")["dependencies"] for _ in shapes] == shapes


class FailingService(WaitedRun):
    """Service whose stream has one failed run. Only the status of its sync has the reason."""

    def __init__(self, started_at: str, snapshot_started_at: str) -> None:
        times = {"started_at": started_at, "finished_at": "2026-03-01T10:05:00.000Z"}
        super().__init__(-1, fields={"status": "FAILED", **times})
        latest = {"bytes_synced": 0, "status": "FAILED", "error_message": "the reason"}
        latest["started_at"] = snapshot_started_at
        self.status = {"elt_sync_id": "y", "source_streams": [{"name": "orders", "latest_sync": latest}]}

    def _answer(self, request: Seen) -> Reply | None:
        return Reply(body=self.status) if request.route == "/elt_syncs/y/status" else super()._answer(request)


@MODES
@pytest.mark.parametrize(
    ("snapshot", "is_same_run"),
    [
        ("2026-03-01T10:00:00Z", True),
        ("2026-03-01T10:00:01Z", True),
        ("2026-03-01T12:00:00+02:00", True),
        ("2026-03-01T10:00:00.7499Z", True),
        ("2026-03-01T10:00:02Z", False),
    ],
    ids=["truncated", "rounded", "offset", "more digits", "another run"],
)
def test_failure_reason_survives_times_of_another_precision(
    snapshot: str, serve: Serve, *, is_same_run: bool, deferrable: bool
) -> None:
    serve(FailingService("2026-03-01T10:00:00.750Z", snapshot))
    with pytest.raises(RunFailedError) as failed:
        run(operator("elt_stream", deferrable=deferrable, timeout=30))
    assert ("the reason" in str(failed.value)) == is_same_run


@MODES
def test_publication_ends_although_its_answer_had_finer_times(serve: Serve, *, deferrable: bool) -> None:
    class FinerTimes(WaitedRun):
        def _answer(self, request: Seen) -> Reply | None:
            reply = super()._answer(request)
            if request.method == "POST" and reply is not None:
                reply.body["updated_at"] = "2026-03-02T10:00:00.966Z"
            return reply

    serve(FinerTimes(-1, changed=("2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z")))
    assert run(operator("transform", deferrable=deferrable, timeout=20))["outcome"] == "succeeded"


# Text with half of a character, as of a service that cuts messages at a number of UTF-16 units.


@MODES
def test_failure_reason_with_half_of_a_character(serve: Serve, *, deferrable: bool) -> None:
    memory = Memory()
    serve(WaitedRun(-1, fields={"status": "FAILED", "error": 'no "\\ud83d": \U0001f600 \ud83d'}))
    with pytest.raises(RunFailedError, match=r'the run failed: no "\\ud83d": \U0001f600 \ufffd'):
        run(operator("reverse_etl", deferrable=deferrable, timeout=30), memory)
    json.dumps([memory.kept, memory.pushed], ensure_ascii=False).encode()


@pytest.mark.parametrize("half", [r"\ud83d", r"\ude00", r"\ud83dx", r"\ude00\ud83d"])
def test_refusal_with_half_of_a_character(half: str, serve: Serve) -> None:
    body = f'{{"error_code": "invalid", "message": "cut {half}"}}'
    serve(ScriptedServer([Reply(400, body.encode())]))
    with pytest.raises(InvalidRequestError, match=r"cut .*\ufffd") as refused:
        ask("elt_syncs.get", sync_id="x")
    assert refused.value.error_code == "invalid"
    str(refused.value).encode()


# Status URLs.


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", STATUS_URLS)
@pytest.mark.parametrize(
    "status_url",
    [
        "https://api.example.com:port/RUNS?limit=1",
        "https://api.example.com:99999/RUNS?limit=1",
        "https://api.example.com:-1/RUNS?limit=1",
        "https://[::1/RUNS",
        "https://\u2603..example/RUNS",
        "https:/RUNS?limit=1",
        "//127.0.0.1:port/RUNS",
        "/RUNS?starting_after=" + "\u2603" * 20_000,
    ],
    ids=["word", "large", "negative", "bracket", "name", "no_host", "no_scheme", "long"],
)
def test_unusable_status_url_is_replaced_by_the_list(
    kind: str, status_url: str, serve: Serve, *, deferrable: bool
) -> None:
    runs = STATUS_URLS[kind].strip("/").partition("?")[0]
    service = serve(WaitedRun(-1, status_url=status_url.replace("RUNS", runs)))
    result = run(operator(kind, deferrable=deferrable, timeout=30))
    assert (result["outcome"], result["run_id"], result["attached"]) == ("succeeded", f"{kind}-run", False)
    assert service.started == [kind]


# NaN and infinities, which must not reach XCom, task state or events.

NUMBERS = pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400], ids=str)
COUNTS = ("total_rows", "distinct_rows", "new_rows", "synced_rows", "failed_rows", "rows_synced", "unknown_field")


def strict(*values: Any) -> str:
    return json.dumps(values, allow_nan=False)


@MODES
@NUMBERS
@pytest.mark.parametrize(
    ("kind", "counts"),
    [("reverse_etl", ("rows_synced", "rows_failed", "rows_total")), ("elt_stream", ("rows_synced",))],
)
def test_non_finite_row_counts_of_runs_are_absent(
    kind: str, counts: tuple[str, ...], number: Any, serve: Serve, *, deferrable: bool
) -> None:
    memory = Memory()
    serve(WaitedRun(-1, fields=dict.fromkeys(COUNTS, number)))
    result = run(operator(kind, deferrable=deferrable, timeout=30), memory)
    assert [result["outcome"], *(result[name] for name in counts)] == ["succeeded", *[None] * len(counts)]
    strict(result, memory.kept, memory.pushed)


@NUMBERS
async def test_event_of_a_run_has_no_invalid_numbers(number: Any, serve: Serve) -> None:
    times = {"started_at": "2026-03-01T10:00:00.000Z", "finished_at": "2026-03-01T10:00:05.000Z"}
    fields = {"reverse_etl_sync_id": "s", "status": "COMPLETED", **times, **dict.fromkeys(COUNTS, number)}
    runs = [fields | {"id": name} for name in ("r2", "r1")]
    # The watcher starts behind the runs that it finds at its first poll.
    serve(ScriptedServer([Reply(body={"data": shown, "hasMore": False}) for shown in (runs[1:], runs)]))
    trigger = ReverseEtlRunEventTrigger("s", outcomes=["succeeded", "partial"], poll_interval=0.05)
    event = await asyncio.wait_for(first_event(trigger), 30)
    assert (event["run_id"], event["rows_failed"]) == ("r2", None)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400])
def test_required_count_must_be_a_number(number: str, serve: Serve) -> None:
    serve(ScriptedServer([Reply(body=b'{"count": %s}' % number.encode())]))
    with pytest.raises(ProtocolError, match=r"count: .*finite"):
        ask("reverse_etl_failed_records.count", reverse_etl_sync_id="s")


@MODES
def test_rows_of_a_query_hold_null_in_place_of_nan(serve: Serve, *, deferrable: bool) -> None:
    def answer(request: Seen) -> Reply:
        if request.method == "POST":
            return Reply(body={"query_execution_id": "q", "dw_sql": "SELECT 1"})
        if request.path.endswith("/status"):
            return Reply(body={"status": "DONE"})
        return Reply(body=b'{"rows": [{"a": NaN, "b": [1e999, {"c": -Infinity}], "d": 1.5}], "num_rows_total": 1}')

    serve(RoutedServer(answer))
    timing: dict[str, Any] = {"poll_interval": 0.05, "timeout": 30, "deferrable": deferrable}
    result = run(QueryPreviewOperator(task_id="t", sql_template="SELECT 1", **timing))
    assert result["rows"] == [{"a": None, "b": [None, {"c": None}], "d": 1.5}]
    strict(result)


def test_answer_of_any_endpoint_is_strict_json(serve: Serve) -> None:
    status = (
        '{"elt_sync_id": "y", "source_streams": [{"name": "a", "latest_sync":'
        ' {"bytes_synced": NaN, "records_synced": Infinity, "retry_attempt": 1e999, "unknown_field": NaN}}]}'
    )
    serve(ScriptedServer([Reply(body=status.encode())]))
    result = ask("elt_syncs.status", sync_id="y")
    latest = result["source_streams"][0]["latest_sync"]
    assert (latest["bytes_synced"], latest["records_synced"], latest["retry_attempt"]) == (None, None, None)
    strict(result)


@pytest.mark.parametrize("value", [math.inf, math.nan, 0, -1])
def test_durations_have_to_be_finite(value: float) -> None:
    with pytest.raises(ValueError, match=r"timeout must be (a duration|more than 0 seconds)"):
        EltStreamRunOperator(task_id="t", stream_id="s", timeout=value)
    with pytest.raises(ValueError, match=r"poll_interval must be (a duration|more than 0 seconds)"):
        EltStreamRunOperator(task_id="t", stream_id="s", poll_interval=value)
    with pytest.raises(ValueError, match=r"max_age must be (a duration|more than 0 seconds)"):
        EltStreamFreshnessSensor(task_id="t", stream_id="s", max_age=value)
    with pytest.raises(ValueError, match=r"poll_interval:? must be (a duration|more than 0 seconds)"):
        EltStreamRunEventTrigger("s", poll_interval=value)


# Timestamps: an invalid one affects its own field, or at worst its own wait.

#: What Go, .NET and others write for no time or for never.
NO_TIME = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00.000+05:00",
    "9999-12-31T23:59:59.9999999Z",
    "9999-12-31T23:59:59-12:00",
]
UNREADABLE = ["", "soon", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+99:99", "P1D", {}, True, 1e300]
NOON = pendulum.datetime(2026, 1, 31, 12)
#: Spellings of noon.
READABLE = [
    "2026-01-31T12:00:00Z",
    "2026-01-31t12:00:00z",
    "2026-01-31 12:00:00",
    "2026-01-31T12:00:00.000000000Z",
    "2026-01-31T12:00Z",
    "2026-01-31T12:00:00 UTC",
    "2026-01-31T13:00:00+01:00",
    "2026-02-01T11:59:00+2359",
    " 2026-01-31T00:00:00-12\n",
    1769860800,
    1769860800000,
]
RUN = {"id": "r", "elt_sync_id": "y", "elt_stream_id": "s", "orchestration_id": "s", "status": "COMPLETED"}
RUN |= {"due_at": "2026-01-31T12:00:00Z", "started_at": "2026-01-31T12:00:00Z"}


def read(request: Any, *bodies: Any) -> list[Any]:
    """Return the parsed responses to a request that is sent for each body."""
    server = ScriptedServer([Reply(body=body) for body in bodies])
    with server, Client(Settings(server.url, "key-of-the-test")) as client:
        return [client.send(request) for _ in bodies]


def test_spellings_of_a_timestamp() -> None:
    times = [*READABLE, "2026-01-30T24:00:00Z"]
    shown = read(elt_stream_runs.get("r"), *(RUN | {"started_at": time, "finished_at": time} for time in times))
    expected = [*[NOON] * len(READABLE), NOON.start_of("day")]
    assert [each.started_at for each in shown] == [each.finished_at for each in shown] == expected


def test_an_optional_timestamp_without_a_time_is_absent() -> None:
    texts = [*NO_TIME, *UNREADABLE, None]
    shown = read(orchestration_runs.get("r"), *(RUN | {"started_at": text, "finished_at": text} for text in texts))
    assert {(each.started_at, each.finished_at, each.status) for each in shown} == {(None, None, "COMPLETED")}
    found = [{"id": "c", "integration_id": "i", "created_at": text} for text in texts]
    pages = read(connections.list_(), *({"data": [each], "has_more": False} for each in found))
    assert {page.data[0].created_at for page in pages} == {None}


@pytest.mark.slow
@MODES
@KINDS
@pytest.mark.parametrize("text", NO_TIME)
def test_a_run_without_a_time_ends_with_its_status(text: str, kind: str, serve: Serve, *, deferrable: bool) -> None:
    times = {"started_at": text, "finished_at": text} | ({"due_at": text} if kind == "orchestration" else {})
    serve(WaitedRun(fields=times, changed=(text, text)))
    result = run(operator(kind, deferrable=deferrable))
    assert result["outcome"] == "succeeded"
    assert (result["started_at"], result["finished_at"], result["duration"]) == (None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("bad", [*NO_TIME, "soon"])
def test_a_bad_timestamp_affects_no_other_wait(bad: str, serve: Serve) -> None:
    """Share one poller of a connection, with an invalid required timestamp in one of the runs."""
    serve(WaitedRun(fields={"started_at": bad}))
    outcomes = asyncio.run(_together([operator(kind, deferrable=True, timeout=3) for kind in OPERATORS]))
    assert outcomes[-1] == "succeeded"
    if bad != "soon":
        assert outcomes == ["succeeded"] * len(outcomes)


async def _together(tasks: list[Any]) -> list[str]:
    """Run the triggers of some tasks in one event loop."""
    triggers = []
    for task in tasks:
        with pytest.raises(TaskDeferred) as deferred:
            await asyncio.to_thread(task.execute, context_of(Memory()))
        triggers.append(recreated_trigger(deferred.value))
    events = await asyncio.gather(*(first_event(trigger) for trigger in triggers))
    outcomes = []
    for task, event in zip(tasks, events, strict=True):
        try:
            outcomes.append(task.execute_complete(context_of(Memory()), event)["outcome"])
        except RunError as error:
            outcomes.append(type(error).__name__)
    return outcomes


@pytest.mark.parametrize("text", NO_TIME)
def test_a_run_without_a_time_does_not_satisfy_a_sensor(text: str, serve: Serve) -> None:
    """Assume that the run may have ended before the start of the sensor's time range."""
    serve(WaitedRun(-1, fields={"started_at": text, "finished_at": text}, started=("elt_stream",)))
    with pytest.raises(AirflowSensorTimeout):
        run(EltStreamRunSensor(task_id="t", stream_id="s", after=NOON, poke_interval=0.1, timeout=0.3))
