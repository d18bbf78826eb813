"""Tests of all sensors against the local service, in all modes with the same outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow.sdk.execution_time.timeout import timeout as execution_timeout

from airflow_provider_datapipe.api.errors import AuthenticationError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.runs.conditions.base import Check
from airflow_provider_datapipe.runs.errors import LostContactError, RunFailedError, RunVanishedError
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.names import NameLookupError, UnknownNameError
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason
from airflow_provider_datapipe.sensors.run import (
    EltStreamRunSensor,
    EltSyncRunSensor,
    OrchestrationRunSensor,
    ReverseEtlRunSensor,
)
from airflow_provider_datapipe.sensors.state import (
    EltStreamFreshnessSensor,
    EltStreamLastRunSensor,
    EltSyncFreshnessSensor,
    OrchestrationFreshnessSensor,
    OrchestrationLastRunSensor,
    ReverseEtlFailedRecordsSensor,
    ReverseEtlFreshnessSensor,
    ReverseEtlLastRunSensor,
)
from tests.contract.seeds import FILES, NIGHTLY, OUT, ROWS, connect, elt_sync, reverse_etl_sync, send, transform
from tests.contract.sensing import sense
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.tasks import RescheduledMemory, first_event

FROM_TRIGGER = pytest.param("from_trigger", marks=since("3.3", "start_from_trigger"))
MODES = pytest.mark.parametrize("mode", ["poke", "reschedule", "deferred", FROM_TRIGGER])
PATHS = {
    "stream": ("/elt_streams/sync.a", "/elt_stream_runs", "elt_stream_id"),
    "orchestration": ("/orchestrations/nightly", "/orchestration_runs", "orchestration_id"),
    "reverse_etl": ("/reverse_etl_syncs/out", "/reverse_etl_sync_runs", "reverse_etl_sync_id"),
}
SOURCES = {"a.csv": ROWS, "b.csv": ROWS}
SEED = {
    "runs": {"scheduling_delay": 0.02, "minimum_duration": 0.05},
    "connections": [FILES, OUT],
    "elt_syncs": [elt_sync("sync", "a", "b"), elt_sync("broken", "nowhere"), elt_sync("other", "a")],
    "transforms": [transform("view")],
    "orchestrations": [NIGHTLY | {"cron_schedule": "0 2 1 1 *"}],
    "reverse_etl_syncs": [reverse_etl_sync("out", "view")],
}


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a connection with a wrong API key, and one of a host without a service."""
    connect(monkeypatch, service, "datapipe_wrong", key="wrong")
    connect(monkeypatch, service, "datapipe_away", host="http://127.0.0.1:9")


def runs_of(service: LocalService, kind: str = "stream") -> list[dict[str, Any]]:
    """Return the runs of the tested resource of this kind, oldest first."""
    path, listing, owner = PATHS[kind]
    query = {owner: path.rpartition("/")[2], "limit": "100"}
    runs: list[dict[str, Any]] = send(service, "GET", listing, params=query)["data"]
    return runs[::-1]


def request_run(service: LocalService, kind: str = "stream") -> None:
    send(service, "POST", f"{PATHS[kind][0]}/request_run")


def begin_run(service: LocalService, kind: str = "stream") -> None:
    """Request a first run, and wait until the list shows it."""
    request_run(service, kind)
    wait_for(f"an active run of the {kind}", lambda: bool(runs_of(service, kind)), limit=60, interval=0.02)


def await_end(service: LocalService, kind: str = "stream", number: int = 1) -> None:
    """Wait until the resource has this number of runs, and its last run has ended."""

    def over() -> bool:
        runs = runs_of(service, kind)
        return len(runs) >= number and bool(runs[-1].get("finished_at"))

    wait_for(f"the end of a run of the {kind}", over, limit=60, interval=0.02)


def run_resource(service: LocalService, kind: str = "stream", times: int = 1) -> list[dict[str, Any]]:
    """Run the resource a number of times, and return all of its runs."""
    for _ in range(times):
        number = len(runs_of(service, kind)) + 1
        request_run(service, kind)
        await_end(service, kind, number)
    return runs_of(service, kind)


def now() -> str:
    return datetime.now(UTC).isoformat()


def deferrable_sensor(**arguments: Any) -> EltStreamRunSensor:
    return EltStreamRunSensor(task_id="t", stream_id="sync.a", deferrable=True, **arguments)


def deferred_trigger(sensor: EltStreamRunSensor) -> Any:
    """Run a sensor until it defers, and return its trigger."""
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({"ti": RescheduledMemory()})  # type: ignore[typeddict-item]  # the used part of a context
    return deferred.value.trigger


def sense_and_act(
    service: LocalService, path: str, act: Callable[[], Any], mode: str, sensor: type[Any], **arguments: Any
) -> Any:
    """Run a sensor, and act after its second request for a path."""
    with ThreadPoolExecutor(1) as others:
        waiting = others.submit(sense, mode, sensor, **arguments)
        least = len(service.journal_requests(path)) + 2

        def polled() -> bool:
            return waiting.done() or len(service.journal_requests(path)) >= least

        wait_for(f"a poll of {path}", polled, limit=20, interval=0.02)
        if not waiting.done():
            act()
        return waiting.result(60)


SENSORS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "stream": (EltStreamRunSensor, {"sync_id": "sync", "stream_name": "a"}),
    "orchestration": (OrchestrationRunSensor, {"orchestration_name": "Nightly"}),
    "reverse_etl": (ReverseEtlRunSensor, {"reverse_etl_sync_id": "out"}),
}
#: The same sensors for other resources.
OTHERS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "stream": (EltStreamRunSensor, {"stream_id": "other.a"}),
    "orchestration": (OrchestrationRunSensor, {"orchestration_id": "other"}),
    "reverse_etl": (ReverseEtlRunSensor, {"reverse_etl_sync_id": "other"}),
}


@MODES
@pytest.mark.parametrize("kind", SENSORS)
def test_backfill_finds_the_run_of_its_data_interval(kind: str, mode: str, service: LocalService) -> None:
    runs = run_resource(service, kind, times=3)
    found, arguments = SENSORS[kind]
    for before, after in pairwise(runs):
        # Just after the start of a run: by start time, this run is too early and the newest run is too late.
        start = (datetime.fromisoformat(before["started_at"]) + timedelta(milliseconds=1)).isoformat()
        result = sense(mode, found, after=start, **arguments)
        assert result["run_id"] == after["id"]
        assert result["outcome"] == "succeeded"
        assert result["attached"]
        assert sense(mode, found, after=start, moment_of="end", **arguments)["run_id"] == before["id"]
    assert sense(mode, found, after=runs[1]["started_at"], **arguments)["run_id"] == runs[1]["id"]
    assert sense(mode, found, run_id=runs[0]["id"], **arguments)["run_id"] == runs[0]["id"]
    assert sense(mode, found, newest=True, **arguments)["run_id"] == runs[-1]["id"]


@MODES
@pytest.mark.parametrize("kind", SENSORS)
def test_sensor_waits_for_a_later_run(kind: str, mode: str, service: LocalService) -> None:
    before = run_resource(service, kind)
    found, arguments = SENSORS[kind]
    path = PATHS[kind][1]
    result = sense_and_act(service, path, lambda: request_run(service, kind), mode, found, after=now(), **arguments)
    (new,) = runs_of(service, kind)[len(before) :]
    assert result["run_id"] == new["id"]
    assert result["finished_at"]


@MODES
def test_active_run_from_before_does_not_match(mode: str, service: LocalService) -> None:
    service.runs({"minimum_duration": 0.5})
    begin_run(service)

    def start_next_run() -> None:
        # A new run requires the end of the active run.
        await_end(service)
        request_run(service)

    (active,) = runs_of(service)
    start = datetime.fromisoformat(active["started_at"]) + timedelta(milliseconds=1)
    arguments: dict[str, Any] = {"stream_id": "sync.a", "after": start}
    result = sense_and_act(service, "/elt_stream_runs", start_next_run, mode, EltStreamRunSensor, **arguments)
    assert result["run_id"] == runs_of(service)[1]["id"]
    assert sense(mode, EltStreamRunSensor, moment_of="end", **arguments)["run_id"] == active["id"]


@MODES
def test_failed_run_fails_the_sensor_unless_on_failure_next(mode: str, service: LocalService) -> None:
    service.runs({"resources": {"sync.a": {"outcomes": [{"fail": "The source is unavailable."}]}}})
    start = now()
    runs = run_resource(service, times=2)
    arguments: dict[str, Any] = {"stream_id": "sync.a", "after": start}
    with pytest.raises(RunFailedError):
        sense(mode, EltStreamRunSensor, **arguments)
    for flag in ("soft_fail", "never_fail"):
        with pytest.raises(AirflowSkipException):
            sense(mode, EltStreamRunSensor, **arguments, **{flag: True})
    assert sense(mode, EltStreamRunSensor, on_failure="next", **arguments)["run_id"] == runs[1]["id"]


@MODES
def test_failed_run_is_raised_with_its_cause(mode: str, service: LocalService) -> None:
    send(service, "POST", "/elt_streams/broken.nowhere/request_run")
    with pytest.raises(RunFailedError, match=r"nowhere\.csv"):
        sense(mode, EltStreamRunSensor, stream_id="broken.nowhere", newest=True)


@MODES
def test_newest_run_is_awaited_while_it_is_active(mode: str, service: LocalService) -> None:
    service.runs({"minimum_duration": 2})
    for kind in SENSORS:
        begin_run(service, kind)
    for found, arguments in SENSORS.values():
        result = sense(mode, found, newest=True, **arguments)
        assert result["outcome"] == "succeeded"
        assert result["duration"] >= 1.9


@MODES
def test_newest_run_that_stays_active_times_out(mode: str, service: LocalService) -> None:
    service.runs({"minimum_duration": 3_600})
    begin_run(service)
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, EltStreamRunSensor, newest=True, timeout=0.3, **SENSORS["stream"][1])


def test_newest_run_stays_selected_after_a_deferral(service: LocalService) -> None:
    service.runs({"minimum_duration": 15})
    begin_run(service)
    timing: dict[str, Any] = {"timeout": 0.3, "poke_interval": 0.1, "defer_after": 0}
    sensor, again, earlier = (deferrable_sensor(newest=True, **timing) for _ in range(3))
    event = asyncio.run(first_event(deferred_trigger(sensor)))
    assert event["status"] == "timeout"
    await_end(service)
    service.runs({})
    runs = run_resource(service)
    assert again.execute_complete({}, event)["run_id"] == runs[0]["id"]
    # A trigger of an earlier version does not send the fields of the condition.
    del event["fields"]
    assert earlier.execute_complete({}, event)["run_id"] == runs[-1]["id"]


@MODES
def test_load_in_slices_counts_as_one_run(mode: str, service: LocalService) -> None:
    start = now()
    service.runs({"resources": {"sync.a": {"outcomes": [{"chunks": 2}]}}})
    request_run(service)
    wait_for("the load", lambda: [run["status"] for run in runs_of(service)][2:] == ["COMPLETED"], limit=60)
    runs = runs_of(service)
    assert sense(mode, EltStreamRunSensor, stream_id="sync.a", after=start)["run_id"] == runs[2]["id"]
    # The load began before its second slice, so it does not match.
    later = run_resource(service)
    assert sense(mode, EltStreamRunSensor, stream_id="sync.a", after=runs[1]["started_at"])["run_id"] == later[-1]["id"]
    assert sense(mode, EltStreamRunSensor, stream_id="sync.a", run_id=runs[0]["id"])["run_id"] == runs[2]["id"]


@MODES
def test_sync_sensor_waits_for_all_streams(mode: str, service: LocalService) -> None:
    first = now()
    for name in "ab":
        send(service, "POST", f"/elt_streams/sync.{name}/request_run")
    result = sense(mode, EltSyncRunSensor, sync_id="sync", after=first)
    assert result["outcome"] == "succeeded"
    assert {name: each["rows_synced"] for name, each in result["streams"].items()} == {"a": 3, "b": 3}
    second = now()
    run_resource(service)
    assert sense(mode, EltSyncRunSensor, sync_id="sync", streams=["a"], after=second)["streams"].keys() == {"a"}
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, EltSyncRunSensor, sync_id="sync", after=second, timeout=0.5)
    assert sense(mode, EltSyncFreshnessSensor, sync_id="sync", max_age=600)["outcome"] == "succeeded"
    with pytest.raises(UnknownNameError, match="no stream c"):
        sense(mode, EltSyncRunSensor, sync_id="sync", streams=["c"], after=second)


def test_poll_of_a_sync_is_one_request(service: LocalService) -> None:
    start = now()
    run_resource(service)
    with pytest.raises(AirflowSensorTimeout):
        sense("poke", EltSyncRunSensor, sync_id="sync", after=start, timeout=0.6)
    polls = service.journal_requests("/elt_syncs/sync/status")
    paths = [entry["path"] for entry in service.journal_requests(after=polls[0]["seq"])]
    assert len(polls) > 2
    # The first poll also requests the list of streams, and the runs of one stream.
    later = [path for path in paths if "/_local" not in path and path != "/elt_syncs/sync/status"]
    assert sorted(later) == ["/elt_stream_runs", "/elt_streams"] or later == ["/elt_stream_runs"]


FRESH: dict[str, tuple[type[Any], type[Any], dict[str, Any]]] = {
    "stream": (EltStreamFreshnessSensor, EltStreamLastRunSensor, {"stream_id": "sync.a"}),
    "orchestration": (OrchestrationFreshnessSensor, OrchestrationLastRunSensor, {"orchestration_id": "nightly"}),
    "reverse_etl": (ReverseEtlFreshnessSensor, ReverseEtlLastRunSensor, {"reverse_etl_sync_id": "out"}),
}


@MODES
@pytest.mark.parametrize("kind", FRESH)
def test_freshness_and_last_run_sensors(kind: str, mode: str, service: LocalService) -> None:
    fresh, last, arguments = FRESH[kind]
    resource_id = next(iter(arguments.values()))
    (good,) = run_resource(service, kind)
    service.runs({"resources": {resource_id: {"outcomes": [{"fail": "The source is unavailable."}]}}})
    _, bad = run_resource(service, kind)
    assert sense(mode, fresh, max_age=timedelta(hours=1), **arguments)["run_id"] == good["id"]
    late = datetime.fromisoformat(good["finished_at"]) + timedelta(hours=1, milliseconds=1)
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, fresh, max_age=3600, as_of=late, timeout=0.3, **arguments)
    with pytest.raises(RunFailedError, match=bad["id"]):
        sense(mode, last, **arguments)
    with pytest.raises(AirflowSkipException):
        sense(mode, last, soft_fail=True, **arguments)
    runs = run_resource(service, kind)
    assert sense(mode, last, **arguments)["run_id"] == runs[-1]["id"]
    assert sense(mode, fresh, max_age=3600, **arguments)["run_id"] == runs[-1]["id"]


@MODES
@pytest.mark.parametrize("age", [{"max_age": timedelta.max}, {"max_age": 60, "as_of": "0001-01-01T00:00:00Z"}], ids=str)
def test_each_run_is_fresh_before_the_first_date(age: dict[str, Any], mode: str, service: LocalService) -> None:
    (run,) = run_resource(service)
    assert sense(mode, EltStreamFreshnessSensor, stream_id="sync.a", **age)["run_id"] == run["id"]
    result = sense(mode, EltSyncFreshnessSensor, sync_id="sync", streams=["a"], **age)
    assert result["streams"]["a"]["run_id"] == run["id"]


@MODES
def test_freshness_sensor_waits_for_a_run(mode: str, service: LocalService) -> None:
    fresh: dict[str, Any] = {"stream_id": "sync.a", "max_age": 600}
    result = sense_and_act(
        service, "/elt_stream_runs", lambda: request_run(service), mode, EltStreamFreshnessSensor, **fresh
    )
    assert result["run_id"] == runs_of(service)[0]["id"]


@MODES
def test_failed_records_sensor(mode: str, service: LocalService) -> None:
    path, sensor = "/reverse_etl_failed_records/count", ReverseEtlFailedRecordsSensor
    arguments: dict[str, Any] = {"reverse_etl_sync_id": "out"}

    def set_count(count: int) -> None:
        service.faults([{"path": path, "times": "always", "rewrite": {"count": count}}])

    assert sense(mode, sensor, **arguments) == arguments | {"failed_records": 0, "at_most": 0}
    set_count(7)
    assert sense(mode, sensor, at_most=7, **arguments)["failed_records"] == 7
    result = sense_and_act(service, path, lambda: set_count(6), mode, sensor, at_most=6, **arguments)
    assert result["failed_records"] == 6


TIME_OVER = {"": AirflowSensorTimeout, "soft_fail": AirflowSkipException, "never_fail": AirflowSkipException}


@MODES
@pytest.mark.parametrize("flag", TIME_OVER)
@pytest.mark.parametrize("conn_id", ["datapipe_default", "datapipe_away"])
def test_timeout_of_a_sensor(conn_id: str, flag: str, mode: str) -> None:
    arguments: dict[str, Any] = {"stream_id": "sync.a", "after": now(), "timeout": 0.3, "datapipe_conn_id": conn_id}
    with pytest.raises(TIME_OVER[flag]):
        sense(mode, EltStreamRunSensor, **arguments, **({flag: True} if flag else {}))


@pytest.mark.parametrize("mode", ["deferred", FROM_TRIGGER])
def test_execution_timeout_is_distinguished_from_timeout(mode: str) -> None:
    with pytest.raises(AirflowTaskTimeout):
        sense(mode, EltStreamRunSensor, stream_id="sync.a", after=now(), execution_timeout=timedelta(seconds=0.3))


@pytest.mark.parametrize("mode", ["poke", "deferred"])
@pytest.mark.parametrize("flag", TIME_OVER)
@pytest.mark.parametrize("hook", [None, Mock(side_effect=AirflowTaskTimeout("Timeout"))], ids=["between polls", "poll"])
def test_execution_timeout_in_the_worker(
    hook: Mock | None, flag: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hook:
        monkeypatch.setattr(EltStreamRunSensor, "_hook", hook)
    arguments: dict[str, Any] = {"stream_id": "sync.a", "after": now(), "poke_interval": 20, "defer_after": 20}
    with pytest.raises(AirflowSkipException if flag else AirflowTaskTimeout), execution_timeout(1):
        sense(mode, EltStreamRunSensor, **arguments, **({flag: True} if flag else {}))


WRONG_KEY = {"stream_id": "sync.a", "datapipe_conn_id": "datapipe_wrong"}


@MODES
@pytest.mark.parametrize(
    ("arguments", "expected", "message"),
    [
        ({"stream_id": "nowhere"}, NotFoundError, "nowhere"),
        ({"stream_id": "sync.a", "run_id": "nowhere"}, InvalidRequestError, ""),
        ({"sync_id": "sync", "stream_name": "nothing"}, NameLookupError, ""),
        (WRONG_KEY, AuthenticationError, ""),
        # soft_fail applies only to timeouts and failed runs.
        (WRONG_KEY | {"soft_fail": True}, AuthenticationError, ""),
        (WRONG_KEY | {"never_fail": True}, AirflowSkipException, ""),
        ({"stream_id": "sync.a", "after": "2026-01-01"}, ValueError, ""),
        ({"stream_id": "sync.a", "after": "2026-01-01", "never_fail": True}, AirflowSkipException, ""),
        ({"stream_id": "sync.a", "datapipe_conn_id": "nowhere", "never_fail": True}, AirflowSkipException, ""),
        ({"stream_id": "sync.a", "after": "None"}, ValueError, ""),
        ({"stream_id": "None"}, ValueError, ""),
        ({"stream_id": "sync.a", "run_id": ""}, ValueError, "run_id is empty"),
        ({"stream_id": "sync.a", "run_id": "None"}, ValueError, "run_id is empty"),
    ],
)
def test_permanent_errors_end_a_sensor_at_once(
    arguments: dict[str, Any], expected: type[Exception], message: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In mode reschedule, a missing resource is polled over the grace period.
    monkeypatch.setattr("airflow_provider_datapipe.runs.conditions.sensor_backoff.GRACE", 0.5)
    start = {} if "run_id" in arguments else {"after": now()}
    with pytest.raises(expected, match=message or None) as failed:
        sense(mode, EltStreamRunSensor, **(start | arguments))
    assert not isinstance(failed.value, AirflowSensorTimeout | LostContactError)


@MODES
@pytest.mark.parametrize("kind", SENSORS)
def test_run_of_another_resource_is_refused(kind: str, mode: str, service: LocalService) -> None:
    run_id = run_resource(service, kind)[-1]["id"]
    sensor, arguments = OTHERS[kind]
    with pytest.raises(ValueError, match=r"run_id is wrong: .* is a run of .* not of other"):
        sense(mode, sensor, run_id=run_id, **arguments)


@MODES
def test_sensor_survives_a_restart_of_the_service(mode: str, service: LocalService) -> None:
    run_resource(service)

    def restart_service() -> None:
        service.stop()
        service.start()
        request_run(service)

    later: dict[str, Any] = {"stream_id": "sync.a", "after": now()}
    result = sense_and_act(service, "/elt_stream_runs", restart_service, mode, EltStreamRunSensor, **later)
    assert result["run_id"] == runs_of(service)[-1]["id"]


def test_unreadable_connection_in_the_trigger_is_lost_contact(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = deferrable_sensor(after=now(), poke_interval=0.1)
    trigger = deferred_trigger(sensor)
    monkeypatch.delenv("AIRFLOW_CONN_DATAPIPE_DEFAULT")
    event = asyncio.run(first_event(trigger))
    with pytest.raises(LostContactError, match="datapipe_default"):
        sensor.execute_complete({}, event)
    with pytest.raises(AirflowSkipException):
        deferrable_sensor(after=now(), never_fail=True).execute_complete({}, event)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [(WaitOutcomeReason.LOST_CONTACT, LostContactError), (WaitOutcomeReason.VANISHED, RunVanishedError)],
)
def test_unknown_run_outcome_is_skipped_only_by_never_fail(
    reason: WaitOutcomeReason, expected: type[Exception]
) -> None:
    end = WaitOutcome(reason, RunRef("elt_stream", "sync.a", "a", run_id="r"), Outcome.RUNNING, detail="it is missing")
    event = {"status": "success", "check": Check("it is missing", is_met=True, ends=(end,)).as_dict()}
    for flag in TIME_OVER:
        sensor = deferrable_sensor(after=now(), **({flag: True} if flag else {}))
        with pytest.raises(AirflowSkipException if flag == "never_fail" else expected):
            sensor.execute_complete({}, json.loads(json.dumps(event)))


def test_trigger_arguments_are_json_without_secrets(service: LocalService) -> None:
    trigger = deferred_trigger(deferrable_sensor(after=now()))
    path, arguments = trigger.serialize()
    text = json.dumps(arguments)
    assert service.api_key not in text
    assert type(trigger)(**json.loads(text)).serialize() == (path, arguments)
