"""Pure parts of the distributed tests: cases, verdicts, trends, and the service that holds requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.hostile import Plan, Resource, Run, Service
from tests.system.distributed.blocked_loop import LOGGER, Pause, collections_of, unexplained, warnings_of
from tests.system.distributed.cases import KINDS, RETRIES, RUN_KINDS, SENSOR_KINDS, Case, cases, waves_of
from tests.system.distributed.deferred import percentile
from tests.system.distributed.held_service import HeldService, Moment, Rival, held_server
from tests.system.distributed.kills import path_down
from tests.system.distributed.plot import PANELS, plot
from tests.system.distributed.trend import slope, trends
from tests.system.distributed.verdict import LOST, RUN_FAILED, Observed, Verdict, cause_of, judge

ENDED_AT = 1_000.0
STREAM = Case(1, "elt_stream", "blocking", 0)
RESOURCE = Resource("elt_stream", STREAM.task_id)


def run_of(number: int, *, outcome: Any = "COMPLETED", started_at: float = 900.0, own: bool = True) -> Run:
    return Run(number, RESOURCE, 900.0, started_at, Plan(duration=50.0, outcome=outcome), 5 if own else None)


def verdict_of(
    case: Case,
    runs: Sequence[Run],
    *,
    state: str = "success",
    result: Any = None,
    tries: int = 1,
    causes: Mapping[int, str] | None = None,
) -> Verdict:
    end_date = datetime.fromtimestamp(ENDED_AT, UTC)
    return judge(case, Observed(state, tries, end_date, result, causes or {}, {case.task_id: runs}))


FIRST, SECOND, RIVAL = run_of(1), run_of(2), run_of(1, own=False)
FAILED, LATE = run_of(1, outcome="FAILED"), run_of(1, started_at=ENDED_AT)
ATTACH = Case(1, "elt_stream", "blocking", 0, has_rival=True)
SENSOR = Case(1, "stream_sensor", "deferred", 0)


@pytest.mark.parametrize(
    ("case", "runs", "named", "fault"),
    [
        pytest.param(STREAM, [FIRST], FIRST, None, id="one run"),
        pytest.param(STREAM, [FIRST, SECOND], SECOND, "duplicate", id="second run"),
        pytest.param(replace(STREAM, first_fails=True), [FAILED, SECOND], SECOND, None, id="after a planned failure"),
        pytest.param(STREAM, [FIRST], SECOND, "which the service does not have", id="another run"),
        pytest.param(STREAM, [FIRST], None, "which the service does not have", id="no result"),
        pytest.param(STREAM, [LATE], LATE, "ended before the run", id="active run"),
        pytest.param(ATTACH, [RIVAL], RIVAL, None, id="run of a rival"),
        pytest.param(replace(ATTACH, if_running="wait"), [RIVAL], RIVAL, "of a rival", id="wait, run of a rival"),
        pytest.param(STREAM, [RIVAL], RIVAL, "of a rival", id="unplanned rival"),
        pytest.param(ATTACH, [RIVAL, SECOND], RIVAL, "duplicate", id="own run beside that of a rival"),
        pytest.param(SENSOR, [RIVAL], RIVAL, None, id="sensor"),
        pytest.param(SENSOR, [RIVAL, SECOND], RIVAL, "duplicate", id="sensor with an own run"),
    ],
)
def test_verdict_on_a_successful_task(case: Case, runs: list[Run], named: Run | None, fault: str | None) -> None:
    result = named and {"run_id": named.id_in(0), "outcome": "succeeded"}
    verdict = verdict_of(case, runs, result=result)
    assert verdict.is_duplicate == (fault == "duplicate")
    if fault is None:
        assert verdict.faults == []
    elif not verdict.is_duplicate:
        (only,) = verdict.faults
        assert fault in only
    assert verdict.own_runs == sum(run is not RIVAL for run in runs)


@pytest.mark.parametrize(
    ("retries", "tries", "causes", "is_right"),
    [
        (0, 1, {1: f"{LOST} by a kill"}, True),
        (0, 1, {1: "RunConflictError: refused"}, False),
        (0, 1, {1: RUN_FAILED}, False),
        (2, 1, {1: LOST}, False),
        (2, 3, {1: LOST, 2: LOST, 3: LOST}, True),
        (2, 3, {1: LOST, 2: "TypeError: x", 3: LOST}, False),
    ],
)
def test_a_failure_needs_a_cause_for_each_try(
    retries: int, tries: int, causes: Mapping[int, str], is_right: bool
) -> None:
    case = Case(1, "elt_stream", "blocking", retries)
    verdict = verdict_of(case, [FIRST], state="failed", tries=tries, causes=causes)
    assert (verdict.faults == []) is is_right


def test_a_task_that_has_not_ended_is_wrong() -> None:
    assert verdict_of(STREAM, [], state="deferred").faults == ["the task is deferred"]


def test_causes_are_read_from_task_logs() -> None:
    def logged(level: str, *names: str) -> str:
        errors = [{"exc_type": name, "exc_value": "x"} for name in names]
        return json.dumps({"level": level, "event": "Task failed", "error_detail": errors})

    assert cause_of([logged("info"), "no JSON"]) == f"{LOST} without an error in its log"
    unreachable = [logged("error", "ConnectError", "AirflowRuntimeError")]
    assert cause_of(unreachable) == f"{LOST} because of Airflow's AirflowRuntimeError"
    assert cause_of([logged("error", "RunFailedError")]) == RUN_FAILED
    assert cause_of([logged("error", "RunConflictError")]) == "RunConflictError: x"
    assert cause_of([logged("warning", "RunConflictError")]).startswith(LOST)


def test_cases_have_all_kinds_modes_and_retries() -> None:
    found = cases(200, 20, 20, seed=1)
    assert len({case.task_id for case in found}) == 200
    assert {case.kind for case in found} == KINDS.keys()
    assert {case.retries for case in found} == set(RETRIES)
    held = Counter(case.hold for case in found if case.hold)
    assert held == {Moment.REQUEST: 10, Moment.RESPONSE: 10, Moment.CONFLICT: 20}
    assert {(case.kind, case.mode) for case in found if case.kind in RUN_KINDS} == {
        (kind, mode) for kind in RUN_KINDS for mode in ("deferred", "blocking")
    }
    assert {case.mode for case in found if case.kind in SENSOR_KINDS} == {"deferred", "reschedule", "poke"}
    assert sum(map(len, waves_of(found, 30))) == 200


@pytest.mark.parametrize(
    ("parents", "path"),
    [
        ({10: 1, 11: 10, 12: 11, 13: 10}, [10, 11, 12]),
        # The first process has ended, so that its child belongs to an ancestor.
        ({10: 1, 11: 1, 12: 11}, None),
        ({10: 1, 12: 11}, None),
    ],
)
def test_kills_never_leave_the_tree_of_a_worker(parents: dict[int, int], path: list[int] | None) -> None:
    assert path_down(10, 12, parents) == path


def test_more_kills_than_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="3 tasks are not enough for 4 kills"):
        cases(3, 2, 2, seed=1)


def test_percentiles() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([7.0], 0.99) == 7


def test_trends_leave_out_the_warm_up() -> None:
    times = [float(time) for time in range(8)]
    flat = [1.0, 500.0, *[100.0] * 6]
    growing = [100.0 + 10 * time for time in times]
    by_name = {trend.metric: trend for trend in trends(times, {"a_rss_mb": flat, "b_rss_mb": growing})}
    assert by_name["a_rss_mb"].growth == pytest.approx(0)
    assert by_name["b_rss_mb"].growth == pytest.approx(50)
    assert by_name["a_rss_mb"].is_flat
    assert not by_name["b_rss_mb"].is_flat
    assert slope([1.0], [2.0]) == 0
    assert trends([], {}) == []


def test_plot_has_a_panel_for_each_unit() -> None:
    samples = {"triggerer-1_rss_mb": [1.0, 2.0], "triggerer-1_fds": [3.0, 4.0], "trigger_rows": [0.0, 0.0]}
    picture = plot([0.0, 1.0], samples, kills=[0.5])
    assert picture.count("<polyline") == 3
    assert all(title in picture for title in PANELS.values())


def send(url: str, key: str, method: str, path: str, answers: list[int]) -> threading.Thread:
    def ask() -> None:
        answer = httpx.request(method, f"{url}{path}", headers={"x-api-key": key}, timeout=30, trust_env=False)
        answers.append(answer.status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


@pytest.mark.parametrize(("moment", "runs_while_held"), [(Moment.REQUEST, 0), (Moment.RESPONSE, 1)])
def test_a_post_is_held_before_or_after_its_run(moment: Moment, runs_while_held: int) -> None:
    answers: list[int] = []
    with held_server() as (service, server):
        service.add("elt_stream", "one", parent_id="sync")
        service.plan({"one": moment}, {})
        thread = send(server.url, server.api_key, "POST", "/elt_streams/one/request_run", answers)
        held = service.held.get(timeout=10)
        assert (held.resource_id, held.moment) == ("one", moment)
        assert service.open_requests() == [held]
        assert len(service.runs_of("one")) == runs_while_held
        assert answers == []
        held.release()
        thread.join()
        assert service.open_requests() == []
        assert len(service.runs_of("one")) == 1
        # Once only.
        send(server.url, server.api_key, "POST", "/elt_streams/one/request_run", answers).join()
    assert answers == [200, 409]


def test_the_read_after_a_refusal_is_held() -> None:
    answers: list[int] = []
    with held_server() as (service, server):
        service.add("reverse_etl", "one")
        service.plan({"one": Moment.CONFLICT}, {"one": Rival(20.0)})
        url, key = server.url, server.api_key
        send(url, key, "GET", "/reverse_etl_sync_runs?reverse_etl_sync_id=one", answers).join()
        send(url, key, "POST", "/reverse_etl_syncs/one/request_run", answers).join()
        assert answers == [200, 409]
        thread = send(url, key, "GET", "/reverse_etl_sync_runs?reverse_etl_sync_id=one", answers)
        held = service.held.get(timeout=10)
        assert held.moment is Moment.CONFLICT
        held.release()
        thread.join()
    assert answers == [200, 409, 200]
    assert service.runs_of("one") == []


def test_ends_of_runs_can_be_changed() -> None:
    service = HeldService()
    assert isinstance(service, Service)
    with held_server() as (service, server):
        service.add("orchestration", "one", plans=(Plan(duration=1e6),))
        send(server.url, server.api_key, "POST", "/orchestrations/one/request_run", []).join()
        end = time.time()
        service.change_ends({"one": end})
        (run,) = service.runs_of("one")
        assert run.finished_at == pytest.approx(end)


def test_warnings_of_a_blocked_loop_and_their_causes(tmp_path: Path) -> None:
    log = tmp_path / "triggerer.log"
    log.write_text(
        "2026-11-26T08:03:07.853365Z [info] Triggerer's async thread was blocked for 0.36 seconds, exceeding\n"
        "2026-11-26T08:04:00.000000Z [info] 5 triggers currently running\n"
        "2026-11-26T08:05:00.000000Z [info] Triggerer's async thread was blocked for 0.50 seconds, exceeding\n"
    )
    collected = datetime(2026, 11, 26, 8, 3, 7, 847_000, UTC).timestamp()
    (tmp_path / "collections.log").write_text(f"{collected} 0.278\n{collected + 112} 0.1\n")
    first, second = warnings_of([log])
    assert (first.seconds, second.seconds) == (0.36, 0.5)
    # The second collection is shorter than the pause of the loop.
    assert unexplained([first, second], collections_of(tmp_path)) == [second]
    assert unexplained([first], []) == [first]
    assert unexplained([first], [Pause(first.end - 5, 0.3)]) == [first]


def test_full_collections_of_a_triggerer_are_logged(tmp_path: Path) -> None:
    assert collections_of(tmp_path) == []
    env = {**os.environ, "PYTHONPATH": str(LOGGER), "AIRFLOW_HOME": str(tmp_path)}
    for argument, logged in (("scheduler", 0), ("triggerer", 1)):
        command = [sys.executable, "-c", "import gc, os; gc.collect(); os._exit(0)", argument]
        subprocess.run(command, env=env, check=True)  # noqa: S603 - program of this test
        assert len(collections_of(tmp_path)) == logged
    (collection,) = collections_of(tmp_path)
    assert collection.seconds > 0
    assert collection.end <= time.time()
