"""Tests of tasks of every kind and mode against a hostile service that shares no code with the provider."""

from __future__ import annotations

import ast
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support import hostile
from tests.support.examples import scaled
from tests.support.hostile import Faults, HostileServer, Kind, Plan, Service, Window
from tests.support.hostile_cases import (
    LATENCY,
    OPERATORS,
    OPTIONS,
    TASK_KINDS,
    Attempt,
    Case,
    Played,
    TaskKind,
    play,
    play_together,
    wrong_outcomes,
)
from tests.support.hostile_troubles import TROUBLES, can_be_combined, must_succeed, with_troubles
from tests.support.simulated_time import simulated_time
from tests.system.chaos.hostile import hostile_cases, play_hostile

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
KINDS = pytest.mark.parametrize("kind", TASK_KINDS)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep hours of simulated log lines out of the report."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


# Tasks.


@st.composite
def drawn_tasks(draw: st.DrawFn) -> tuple[TaskKind, bool, bool, int, list[str]]:
    """Draw kind, mode, the option, a seed, and one to three troubles of the service."""
    kind = draw(st.sampled_from(TASK_KINDS))
    fitting = [name for name, trouble in TROUBLES.items() if trouble.fits(Case(kind, deferrable=False))]
    names = draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=3, unique=True).filter(can_be_combined))
    return kind, draw(st.booleans()), kind in OPTIONS and draw(st.booleans()), draw(st.integers(0, 9)), names


@pytest.mark.slow
@settings(max_examples=scaled(80), derandomize=True, database=None, phases=(Phase.generate, Phase.shrink))
@given(drawn_tasks())
def test_service_faults_cause_no_wrong_outcome(drawn: tuple[TaskKind, bool, bool, int, list[str]]) -> None:
    kind, deferrable, option, seed, names = drawn
    played = play(with_troubles(Case(kind, deferrable, option=option, seed=seed), names))
    assert wrong_outcomes(played, must_succeed=must_succeed(names)) == [], f"{names}\n{played}"


@pytest.mark.slow
@KINDS
@MODES
def test_healthy_service_one_run_and_success(kind: Any, deferrable: bool) -> None:
    played = play(Case(kind, deferrable, option=kind in OPTIONS))
    assert wrong_outcomes(played, must_succeed=True) == [], str(played)
    assert {len(played.service.runs_of(each)) for each in played.case.resource_ids} == {1}


@pytest.mark.slow
@KINDS
def test_both_modes_send_the_same_requests(kind: Any) -> None:
    sent = []
    for deferrable in (False, True):
        played = play(Case(kind, deferrable))
        sent.append([(entry.method, entry.target.split("?")[0].split("/")[1]) for entry in played.service.journal])
    # A trigger and a worker may send their last polls at slightly different times.
    # A task in a worker polls up to once per second for the first 15 s, because the run may be short.
    assert abs(len(sent[0]) - len(sent[1])) <= 16
    assert sent[0][:8] == sent[1][:8]


@pytest.mark.slow
@KINDS
@MODES
def test_failed_run_is_reported_and_retry_starts_one(kind: Any, deferrable: bool) -> None:
    plans = (Plan(duration=100.0, outcome="FAILED"), Plan(duration=100.0))
    played = play(Case(kind, deferrable, plans=plans))
    assert [attempt.error is None for attempt in played.attempts] == [False, True], str(played)
    assert wrong_outcomes(played, must_succeed=True) == [], str(played)
    assert len(played.service.runs_of("one")) == 2


@pytest.mark.slow
def test_short_chaos_has_no_wrong_outcome() -> None:
    results = play_hostile(hostile_cases(seed=4, count=60), print)
    assert [(result.of.names, result.wrong) for result in results if result.wrong] == []


def test_chaos_has_all_troubles_kinds_and_modes() -> None:
    cases = hostile_cases(seed=4, count=500)
    assert len(cases) == 500
    assert {name for case in cases for name in case.names} == set(TROUBLES)
    assert {(case.case.kind, case.case.deferrable) for case in cases} == set(product(TASK_KINDS, (False, True)))


# Several waits on one event loop.

#: Faults of one resource. They must not affect the waits for others.
LOCAL_FAULTS: dict[str, Faults] = {
    "zero start times": Faults(zero_started=True),
    "zero for absent times": Faults(absent_times="zero"),
    "lowercase timestamps": Faults(timestamps="lowercase"),
    "404 forever": Faults(broken=Window(30), broken_as="404"),
    "400 forever": Faults(broken=Window(30), broken_as="400"),
    "500 forever": Faults(broken=Window(30), broken_as="500"),
    "malformed forever": Faults(broken=Window(30), broken_as="malformed"),
    "empty forever": Faults(broken=Window(30), broken_as="empty"),
    "dropped connections for 2 min": Faults(broken=Window(30, 150), broken_as="drop"),
}
#: Seconds from the end of a run until its task knows: the longest interval between two polls, and the pause of a
#: connection that seemed to be down.
LATEST = 180.0


def task_of(name: str, kind: Kind) -> Any:
    """Return a deferred task for a resource."""
    operator, argument = OPERATORS["publish" if kind == "transform" else kind]
    return operator(task_id=name, deferrable=True, timeout=7_200.0, **{argument: name})


FAULTY: tuple[Kind, ...] = ("elt_stream", "orchestration", "reverse_etl", "transform")


@pytest.mark.slow
@pytest.mark.parametrize("fault", LOCAL_FAULTS)
@pytest.mark.parametrize("faulty", FAULTY)
def test_faulty_resource_leaves_other_waits_alone(faulty: Kind, fault: str) -> None:
    resources: dict[str, Kind] = {"faulty": faulty}
    resources |= {f"{kind}_{number}": kind for kind in FAULTY for number in (1, 2)}
    servers: list[HostileServer] = []
    with simulated_time(lambda: all(server.is_idle for server in servers)):
        service = Service(latency=LATENCY, most_requests=5_000)
        for number, (name, kind) in enumerate(resources.items()):
            faults = LOCAL_FAULTS[fault] if name == "faulty" else Faults()
            parent = {"parent_id": "sync"} if kind == "elt_stream" else {}
            plan = Plan(duration=100.0 + 20 * number, delay=5.0)
            service.add(kind, name, plans=(plan,), faults=faults, **parent)
        attempts = play_together(service, [task_of(*each) for each in resources.items()], servers)
    for name, attempt in zip(resources, attempts, strict=True):
        (started,) = service.runs_of(name)
        if name != "faulty":
            assert attempt.error is None, f"{name}: {attempt.error!r}"
            assert started.finished_at <= attempt.ended <= started.finished_at + LATEST, name
        elif attempt.error is None:
            assert attempt.ended >= started.finished_at
    for name in resources:
        assert service.busiest(60.0, service.resource(name)) <= 60


# The comparison with the truth.


def played_with(
    result: dict[str, Any] | None, plan: Plan, *, starts: int = 1, error: Exception | None = None
) -> Played:
    """Return a case of an orchestration whose run has finished, and one report of the task."""
    case = Case("orchestration", deferrable=False, plans=(plan,))
    with simulated_time(lambda: True):
        service = case.service()
        began = time.time()
        with HostileServer(service) as server:
            for _ in range(starts):
                post(server, "/orchestrations/one/request_run")
        time.sleep(500.0)
        runs = service.runs_of("one")
        if result is not None:
            result = {"run_id": runs[0].id_in(0), "attached": False, "resource_id": "one", **result}
        return Played(case, service, [Attempt(began, time.time(), result, error)])


def send(method: str, server: HostileServer, path: str) -> httpx.Response:
    return httpx.request(method, f"{server.url}{path}", headers={"x-api-key": server.api_key}, trust_env=False)


get, post = partial(send, "GET"), partial(send, "POST")


GOOD = Plan(duration=100.0)
BAD = replace(GOOD, outcome="FAILED")


def test_true_success_is_no_wrong_outcome() -> None:
    assert wrong_outcomes(played_with({"outcome": "succeeded"}, GOOD), must_succeed=True) == []


@pytest.mark.parametrize(
    ("result", "plan", "starts", "reported"),
    [
        ({"outcome": "succeeded"}, BAD, 1, "which is FAILED"),
        ({"outcome": "succeeded"}, replace(GOOD, duration=900.0), 1, "which is RUNNING"),
        ({"outcome": "succeeded", "run_id": "another"}, GOOD, 1, "does not exist"),
        ({"outcome": "failed"}, GOOD, 1, "reported as failed"),
        ({"outcome": "succeeded"}, GOOD, 2, "was started while"),
        ({"outcome": "succeeded", "error": hostile.API_KEY}, GOOD, 1, "the API key was reported"),
        ({"outcome": "succeeded"}, GOOD, 8, "requests for a run"),
    ],
)
def test_wrong_outcome_is_found(result: dict[str, Any], plan: Plan, starts: int, reported: str) -> None:
    assert reported in " ".join(wrong_outcomes(played_with(result, plan, starts=starts)))


def test_unexpected_error_is_a_wrong_outcome() -> None:
    found = wrong_outcomes(played_with(None, GOOD, error=ValueError("no")))
    assert any("unexpected error" in each for each in found)


# The service itself.


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def test_hostile_service_imports_nothing_of_ours() -> None:
    folder = Path(hostile.__file__).parent
    roots = {name.split(".")[0] for path in folder.glob("*.py") for name in imports_of(path)}
    ours = {name for path in folder.glob("*.py") for name in imports_of(path) if name.startswith("tests")}
    assert not roots & {"airflow_provider_datapipe", "datapipe_local", "airflow", "fastapi", "pydantic", "httpx"}
    assert all(name.startswith("tests.support.hostile.") for name in ours)


def test_orchestration_runs_are_ordered_by_due_date() -> None:
    service = Service()
    nightly = service.add("orchestration", "nightly", faults=Faults(planned=1))
    service.add_history(nightly, 3_600.0)
    with HostileServer(service) as server:
        post(server, "/orchestrations/nightly/request_run")
        runs = get(server, "/orchestration_runs?orchestration_id=nightly").json()["data"]
    assert [run["status"] for run in runs] == ["NOT_STARTED", "RUNNING", "COMPLETED"]
    assert sorted((run["due_at"] for run in runs), reverse=True) == [run["due_at"] for run in runs]


def test_replica_does_not_know_a_new_run() -> None:
    service = Service()
    service.add("orchestration", "nightly", faults=Faults(lags=(30.0,)))
    with HostileServer(service) as server:
        run_id = post(server, "/orchestrations/nightly/request_run").json()["id"]
        assert get(server, f"/orchestration_runs/{run_id}").status_code == 404
        assert get(server, "/orchestration_runs?orchestration_id=nightly").json()["data"] == []


def test_earlier_ids_get_400_after_a_format_change() -> None:
    service = Service(Faults(id_change_at=0.0))
    old = service.add_history(service.add("elt_stream", "orders", parent_id="sync"), 600.0)
    with HostileServer(service) as server:
        (listed,) = get(server, "/elt_stream_runs?elt_stream_id=orders").json()["data"]
        assert get(server, f"/elt_stream_runs/{listed['id']}").status_code == 200
        assert get(server, f"/elt_stream_runs/{old.id_in(0)}").status_code == 400


def test_second_request_for_a_stream_gets_409() -> None:
    service = Service()
    service.add("elt_stream", "orders", parent_id="sync", plans=(Plan(delay=60.0),))
    with HostileServer(service) as server:
        first, second = (post(server, "/elt_streams/orders/request_run") for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 409)
    assert "active_run_id" not in second.json()
    assert json.loads(first.text)["status_url"].startswith("/elt_stream_runs?elt_stream_id=orders&")
    assert len(service.runs_of("orders")) == 1
