"""Tests of run starts against a service that lags, loses responses and refuses requests, in simulated time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.runs.errors import LostContactError, RunConflictError, RunNotScheduledError
from tests.support.hostile import Faults, HostileServer, Plan, Service, Window
from tests.support.hostile_cases import LATENCY, Case, Played, TaskKind, connected, play, wrong_outcomes
from tests.support.simulated_time import SimulatedClock, simulated_time
from tests.support.tasks import Memory, run

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
LISTED: tuple[TaskKind, ...] = ("elt_stream", "elt_sync", "reverse_etl", "orchestration")
REFUSING: tuple[TaskKind, ...] = ("elt_stream", "elt_sync", "reverse_etl")


def played(case: Case) -> Played:
    """Play a case, and compare it with the truth."""
    done = play(case)
    assert wrong_outcomes(done) == [], str(done)
    return done


@contextmanager
def simulated(new_service: Callable[[], Service]) -> Iterator[tuple[Service, SimulatedClock]]:
    """Start a service in simulated time, and create the default connection to it."""
    servers: list[HostileServer] = []
    with simulated_time(lambda: all(server.is_idle for server in servers)) as clock:
        service = new_service()
        with connected(service) as server:
            servers.append(server)
            yield service, clock


def result_of(done: Played) -> Any:
    """Return the result of the last try."""
    result = done.attempts[-1].result
    return result["streams"]["one"] if done.case.kind == "elt_sync" else result


def starts(done: Played, resource_id: str = "one") -> list[float]:
    """Return the times of the requests for a run."""
    return [entry.at for entry in done.service.journal if entry.is_start and entry.resource.id == resource_id]  # type: ignore[union-attr]  # a start has a resource


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", LISTED)
@pytest.mark.parametrize("seed", range(3))
def test_lost_response_and_lagging_list_adopt_no_earlier_run(kind: TaskKind, seed: int, *, deferrable: bool) -> None:
    faults = Faults(losses=("executed_drop",), lags=(0.0, 5_000.0))
    done = played(Case(kind, deferrable, faults=faults, seed=seed))
    assert result_of(done)["run_id"] == done.service.runs_of("one")[0].id_in(0)


@MODES
@pytest.mark.parametrize("kind", LISTED)
def test_lost_response_and_changed_run_ids_adopt_no_earlier_run(kind: TaskKind, *, deferrable: bool) -> None:
    case = Case(kind, deferrable, faults=Faults(losses=("executed_502",)), account=Faults(id_change_at=0.05))
    done = played(case)
    assert result_of(done)["run_id"] == done.service.runs_of("one")[0].id_in(1)


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", LISTED)
@pytest.mark.parametrize("seed", range(3))
def test_request_that_was_not_executed_adopts_no_earlier_run(kind: TaskKind, seed: int, *, deferrable: bool) -> None:
    faults = Faults(losses=("502",), lags=(0.0, 5_000.0))
    done = played(Case(kind, deferrable, faults=faults, seed=seed))
    assert len(starts(done)) == 2


@MODES
@pytest.mark.parametrize("canceled", [False, True])
def test_planned_runs_do_not_cause_a_second_request(*, deferrable: bool, canceled: bool) -> None:
    faults = Faults(losses=("executed_drop",), planned=3, planned_canceled=canceled)
    done = played(Case("orchestration", deferrable, faults=faults))
    assert len(starts(done)) == 1


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", LISTED)
def test_run_found_after_a_lost_response_is_reported_as_attached(kind: TaskKind, *, deferrable: bool) -> None:
    done = played(Case(kind, deferrable, faults=Faults(losses=("drop",), stranger=True)))
    assert result_of(done)["attached"] is True


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("hours", [-2, -1, 1])
@pytest.mark.parametrize("kind", LISTED)
def test_timestamps_off_by_hours_cause_no_second_run(kind: TaskKind, hours: int, *, deferrable: bool) -> None:
    with mock.patch("tests.support.hostile.dto.iso", shifted_by(hours)):
        done = play(Case(kind, deferrable, faults=Faults(losses=("executed_drop",))))
    assert len(done.service.runs_of("one")) == 1
    assert done.attempts[-1].error is None


def shifted_by(hours: int) -> Callable[..., str]:
    """Return a time format that is off by some hours, as of a service that ignores its time zone."""
    from tests.support.hostile.state import iso

    return lambda at, form="milliseconds": iso(at + 3600 * hours, form)


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", LISTED)
@pytest.mark.parametrize("status", ["404", "400"])
@pytest.mark.parametrize("seconds", [0.5, 30])
def test_temporarily_missing_run_is_not_started_again(
    kind: TaskKind, status: str, seconds: float, *, deferrable: bool
) -> None:
    # A retry begins 300 s after the first try has failed.
    window = Window(0, 400 + seconds)
    denied = Faults(not_found=window) if status == "404" else Faults(bad_request=window)
    done = played(Case(kind, deferrable, faults=denied, plans=(Plan(duration=800.0),)))
    assert len(starts(done)) == 1
    assert done.attempts[-1].error is None


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", [*LISTED, "publish"])
@pytest.mark.parametrize("status", [404, 401])
def test_another_account_for_seconds_causes_no_second_run(kind: TaskKind, status: int, *, deferrable: bool) -> None:
    account = Faults(other_account=Window(60, 80), other_account_status=status)
    done = played(Case(kind, deferrable, account=account))
    assert len(starts(done)) == 1
    assert done.attempts[-1].error is None


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", REFUSING)
@pytest.mark.parametrize(("policy", "option"), [("wait", False), ("attach", True)], ids=["wait", "attach, own run"])
@pytest.mark.parametrize("names", ["finished", "missing", "unnamed"])
def test_refusals_because_of_no_active_run_end_with_an_error(
    kind: TaskKind, policy: Any, names: Any, *, option: bool, deferrable: bool
) -> None:
    faults = Faults(conflict=names, stuck_conflict=Window())
    case = Case(kind, deferrable, faults=faults, if_running=policy, option=option, tries=1)
    done = played(case)
    (attempt,) = done.attempts
    if names == "unnamed":
        # An invisible scheduled run cannot be distinguished from no run, so the task waits for the scheduling limit.
        assert attempt.error is not None
    else:
        assert isinstance(attempt.error, RunConflictError if kind != "elt_sync" else Exception)
        assert "not active" in str(attempt.error)
        assert attempt.ended - attempt.began < 400
    assert len(starts(done)) < 12


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", REFUSING)
@pytest.mark.parametrize("names", ["finished", "missing"])
def test_attach_ignores_the_result_of_a_finished_run(kind: TaskKind, names: Any, *, deferrable: bool) -> None:
    faults = Faults(conflict=names, stuck_conflict=Window(0, 30))
    done = played(Case(kind, deferrable, faults=faults))
    assert done.attempts[-1].error is None
    assert len(done.service.runs_of("one")) == 1


@MODES
@pytest.mark.parametrize("kind", ["elt_stream", "elt_sync"])
@pytest.mark.parametrize("policy", ["skip", "fail"])
@pytest.mark.parametrize("lag", [0.0, 1_000.0], ids=["current list", "lagging list"])
def test_refused_full_refresh_does_not_remain_requested(
    kind: TaskKind, policy: Any, lag: float, *, deferrable: bool
) -> None:
    faults = Faults(lags=(lag,))
    case = Case(kind, deferrable, faults=faults, if_running=policy, option=True, rival=500.0, tries=1)
    done = played(case)
    assert done.service.resource("one").full_refresh is False
    assert done.service.runs_of("one") == []


@MODES
@pytest.mark.parametrize("option", [False, True], ids=["any run", "own run"])
@pytest.mark.parametrize("rival", [None, 300.0], ids=["no active run", "active run"])
def test_start_does_not_wait_for_a_planned_run(rival: float | None, *, option: bool, deferrable: bool) -> None:
    faults = Faults(planned=2, conflict="unnamed")
    done = played(Case("reverse_etl", deferrable, faults=faults, rival=rival, option=option, tries=1))
    (attempt,) = done.attempts
    assert attempt.error is None
    assert attempt.ended - attempt.began < 1_000


@MODES
@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_refused_retry_of_failed_records_is_not_requested(policy: Any, *, deferrable: bool) -> None:
    done = played(Case("reverse_etl", deferrable, if_running=policy, option=True, rival=500.0, tries=1))
    assert done.service.resource("one").to_retry == []


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", ["elt_stream", "elt_sync"])
def test_run_that_was_never_scheduled_is_requested_again(kind: TaskKind, *, deferrable: bool) -> None:
    with mock.patch("tests.support.hostile_cases.TIMEOUT", 100_000.0):
        done = play(Case(kind, deferrable, plans=(Plan(delay=1e9),), tries=1))
        assert isinstance(done.attempts[0].error, RunNotScheduledError)
        again = tried_after_recovery(done)
    assert again["outcome"] == "succeeded"
    assert len(starts(done)) == 2


@MODES
@pytest.mark.parametrize("kind", REFUSING)
def test_options_changed_after_a_timeout_apply_to_a_new_run(kind: TaskKind, *, deferrable: bool) -> None:
    case = Case(kind, deferrable, plans=(Plan(duration=250.0), Plan(duration=20.0)))
    memory = Memory()
    with simulated(case.service) as (service, clock):
        with pytest.raises(DatapipeError), mock.patch("tests.support.hostile_cases.TIMEOUT", 200.0):
            run(case.task(), memory)
        clock.sleep(100)
        # The run of the first try has succeeded, but it is no full refresh, or has retried no records.
        run(replace(case, option=True).task(), memory)
    for resource_id in case.resource_ids:
        first, second = service.runs_of(resource_id)
        assert [bool(each.full_refresh or each.retried) for each in (first, second)] == [False, True]


def tried_after_recovery(done: Played) -> Any:
    """Retry a task on a service that has dropped its unstarted run, and return the result."""
    with simulated(lambda: done.service) as (service, clock):
        clock.sleep(done.attempts[-1].ended + 300 - time.time())
        resource = service.resource("one")
        resource.runs = [each for each in resource.runs if each.started_at < time.time()]
        resource.plans = (Plan(duration=20.0),)
        result = run(done.case.task(), done.memory)
    return result if done.case.kind == "elt_stream" else result["streams"]["one"]


@MODES
def test_failed_rebuild_with_unchanged_updated_at_is_reported(*, deferrable: bool) -> None:
    faults = Faults(fixed_updated_at=True, lags=(0.0, 5.0))
    plans = (Plan(duration=120.0, outcome="FAILED"),)
    done = played(Case("rematerialize", deferrable, faults=faults, plans=plans, tries=1))
    assert done.attempts[0].error is not None


@MODES
def test_lost_response_of_a_rebuild_without_updated_at_sends_one(*, deferrable: bool) -> None:
    faults = Faults(fixed_updated_at=True, losses=("executed_drop",))
    done = played(Case("rematerialize", deferrable, faults=faults))
    assert len(starts(done)) == 1


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", LISTED)
def test_intent_of_a_worker_with_a_fast_clock_blocks_no_longer(kind: TaskKind, *, deferrable: bool) -> None:
    case, memory = Case(kind, deferrable, faults=Faults(losses=("502",) * 3)), Memory()
    with simulated(case.service) as (service, _):
        with pytest.raises(Exception, match="502"):
            run(case.task(), memory)
        for kept in memory.kept.values():
            kept["record"]["intended_at"] += 7_200
        began = time.time()
        run(case.task(), memory)
    assert service.runs_of("one")[0].requested_at - began < 300


@pytest.mark.slow
def test_stored_cursor_of_an_old_id_format_does_not_fail_retries() -> None:
    for kind in LISTED:
        faults, account = Faults(losses=("502",) * 3), Faults(id_change_at=400.0)
        done = played(Case(kind, deferrable=False, faults=faults, account=account, plans=(Plan(duration=100.0),)))
        assert done.attempts[-1].error is None, str(done)


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("policy", ["skip", "fail", "attach", "wait"])
@pytest.mark.parametrize("names", ["missing", "unnamed"])
def test_if_running_ignores_an_unlisted_run_of_the_task(names: Any, policy: Any, *, deferrable: bool) -> None:
    faults = Faults(conflict=names, losses=("executed_502",))
    plans = (Plan(duration=200.0, delay=900.0),)
    done = played(Case("elt_stream", deferrable, faults=faults, plans=plans, if_running=policy))
    assert done.attempts[-1].error is None
    assert len(done.service.runs_of("one")) == 1


@MODES
def test_full_refresh_is_requested_once_for_a_run(*, deferrable: bool) -> None:
    plans = (Plan(duration=200.0, delay=900.0),)
    done = played(Case("elt_stream", deferrable, killed=("before", 2), plans=plans, option=True))
    assert done.attempts[-1].error is None
    assert done.service.resource("one").full_refresh is False


@MODES
@pytest.mark.parametrize("hours", [-2, 2])
def test_attach_ignores_earlier_results_despite_wrong_times(hours: int, *, deferrable: bool) -> None:
    faults = Faults(conflict="finished", stuck_conflict=Window(0, 20))
    with mock.patch("tests.support.hostile.dto.iso", shifted_by(hours)):
        played(Case("elt_stream", deferrable, faults=faults, tries=2))


@MODES
@pytest.mark.parametrize("most", [1, 2])
def test_unreadable_run_keeps_only_its_place_in_a_sync(most: int, *, deferrable: bool) -> None:
    with simulated(lambda: Service(latency=LATENCY)) as (service, _):
        unreadable = Faults(broken=Window(30), broken_as="500")
        service.add("elt_stream", "one", parent_id="sync", plans=(Plan(duration=100.0),), faults=unreadable)
        for name, duration in (("two", 2_500.0), ("three", 100.0), ("four", 100.0)):
            service.add("elt_stream", name, parent_id="sync", plans=(Plan(duration=duration),))
        task = EltSyncRunOperator(task_id="task", sync_id="sync", max_active_streams=most, deferrable=deferrable)
        with pytest.raises(LostContactError, match=f"{1 if most > 1 else 4} of 4 streams"):
            run(task)
    begun = [run for name in ("two", "three", "four") for run in service.runs_of(name)]
    assert len(begun) == (3 if most > 1 else 0)
    for earlier, later in pairwise(begun):
        assert earlier.finished_at <= later.requested_at
