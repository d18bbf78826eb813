"""Tests of runs that are temporarily missing, and of deleted runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.runs import missing
from airflow_provider_datapipe.runs.errors import RunVanishedError
from airflow_provider_datapipe.runs.wait import WaitPolicy
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from tests.support.scripted_server import Reply
from tests.support.tasks import Memory, context_of, run
from tests.support.waited_run import NOT_FOUND, OPERATORS, WaitedRun, connection, operator

pytestmark = pytest.mark.slow


MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
KINDS = pytest.mark.parametrize("kind", list(OPERATORS))
STATUSES = pytest.mark.parametrize("status", [400, 404, 410])


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the grace period from a minute to 0.6 s."""
    defaults = WaitPolicy.__init__.__defaults__
    assert defaults is not None
    assert defaults[-1] == missing.GRACE
    monkeypatch.setattr(WaitPolicy.__init__, "__defaults__", (*defaults[:-1], 0.6))
    for module in ("missing", "patience"):
        monkeypatch.setattr(f"airflow_provider_datapipe.runs.{module}.GRACE", 0.6)


def missing_at(polls: range, status: int = 404) -> Callable[[int], Reply | None]:
    """Return responses which say at some polls that the run does not exist."""
    return lambda poll: Reply(status, NOT_FOUND) if poll in polls else None


@MODES
@KINDS
@STATUSES
def test_one_answer_that_a_run_is_missing(
    kind: str, status: int, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    with WaitedRun(disturb=missing_at(range(2, 3), status)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        result = run(operator(kind, deferrable=deferrable))
    assert result["outcome"] == "succeeded"
    assert service.started == [kind]


@MODES
@KINDS
def test_the_first_poll_after_the_start_finds_no_run(
    kind: str, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    """Simulate a connection that points to another account during the first polls."""
    with WaitedRun(disturb=missing_at(range(1, 4)), disturb_lists=True) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        result = run(operator(kind, deferrable=deferrable))
    assert result["outcome"] == "succeeded"
    assert service.started == [kind]


@MODES
@KINDS
def test_a_deleted_run_ends_the_wait_after_the_grace_period(
    kind: str, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    with WaitedRun(disturb=missing_at(range(2, 1000))) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        with pytest.raises(RunVanishedError, match=r"(?s)no longer knows .* answers in .* the last: .*answered 404"):
            run(operator(kind, deferrable=deferrable))
    # The pauses double, so the number of polls is bounded.
    assert 4 <= len([seen for seen in service.seen if seen.method == "GET"]) <= 25


@MODES
def test_answers_that_show_the_run_end_the_grace_period(monkeypatch: pytest.MonkeyPatch, *, deferrable: bool) -> None:
    """Show the run in every third response, for longer than the grace period."""
    with WaitedRun(30, lambda poll: None if poll % 3 == 0 else Reply(404, NOT_FOUND)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        result = run(operator("elt_stream", deferrable=deferrable))
    assert result["outcome"] == "succeeded"


def test_a_stopped_task_whose_run_is_missing_once_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the run from the last poll of a stopped task. The run may still be active."""
    with WaitedRun(disturb=missing_at(range(1, 1000)), disturb_lists=True) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        task = operator("reverse_etl", deferrable=True, on_kill="disable")
        with pytest.raises(TaskDeferred) as deferred:
            task.execute(context_of(Memory()))
        asyncio.run(deferred.value.trigger.on_kill())
    assert "/reverse_etl_syncs/s/deactivate" in [seen.path for seen in service.seen]


def stream_service(missing_polls: range) -> WaitedRun:
    service = WaitedRun(8, missing_at(missing_polls))
    service.started.append("elt_stream")
    return service


@MODES
def test_a_sensor_survives_one_answer_that_its_run_is_missing(
    monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    with stream_service(range(3, 5)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        result = run(sensor(deferrable=deferrable))
    assert result["outcome"] == "succeeded"


@pytest.mark.parametrize("missing_polls", [range(1, 2), range(1, 3)])
def test_a_poke_in_mode_reschedule_survives_a_missing_run(
    missing_polls: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run each poke in its own process, so that it has no earlier response."""
    with stream_service(missing_polls) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        assert sensor(deferrable=False, mode="reschedule").poke(context_of(Memory())) is False


def test_a_poke_in_mode_reschedule_fails_if_the_run_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    with stream_service(range(1, 1000)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        with pytest.raises(NotFoundError):
            sensor(deferrable=False, mode="reschedule").poke(context_of(Memory()))


@MODES
def test_a_sensor_whose_run_was_deleted_fails(monkeypatch: pytest.MonkeyPatch, *, deferrable: bool) -> None:
    with stream_service(range(3, 1000)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        with pytest.raises((NotFoundError, RunVanishedError), match="404"):
            run(sensor(deferrable=deferrable))


def sensor(*, deferrable: bool, mode: str = "poke") -> Any:
    return EltStreamRunSensor(
        task_id="t",
        stream_id="s",
        run_id="elt_stream-run",
        deferrable=deferrable,
        mode=mode,
        poke_interval=0.1,
        timeout=60,
    )
