"""Tests of waits for runs that are missing, absurd delays in ``Retry-After``, and a hanging secrets backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_datapipe.api import retry
from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.runs import missing_runs as missing
from airflow_provider_datapipe.runs.errors import LostContactError, RunVanishedError
from airflow_provider_datapipe.runs.polling import shared_client as clients
from airflow_provider_datapipe.runs.wait import WaitPolicy
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger
from tests.support.scripted_server import Reply
from tests.support.tasks import Memory, context_of, run
from tests.support.waited_run import KINDS, MODES, NOT_FOUND, OPERATORS, WaitedRun, operator

Serve = Callable[..., Any]


def missing_at(polls: range, status: int = 404) -> Callable[[int], Reply | None]:
    """Return responses which say at some polls that the run does not exist."""
    return lambda poll: Reply(status, NOT_FOUND) if poll in polls else None


def sensor(*, deferrable: bool, mode: str = "poke") -> Any:
    timing: dict[str, Any] = {"mode": mode, "poke_interval": 0.1, "timeout": 60}
    return EltStreamRunSensor(task_id="t", stream_id="s", run_id="elt_stream-run", deferrable=deferrable, **timing)


# Missing runs.


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the grace period from a minute to 0.6 s."""
    defaults = WaitPolicy.__init__.__defaults__
    assert defaults is not None
    assert defaults[-1] == missing.GRACE
    monkeypatch.setattr(WaitPolicy.__init__, "__defaults__", (*defaults[:-1], 0.6))
    for module in ("missing_runs", "conditions.sensor_backoff"):
        monkeypatch.setattr(f"airflow_provider_datapipe.runs.{module}.GRACE", 0.6)


MISSING: dict[str, dict[str, Any]] = {
    **{f"one {status}": {"disturb": missing_at(range(2, 3), status)} for status in (400, 404, 410)},
    # As if the connection pointed to another account during the first polls.
    "not found at first": {"disturb": missing_at(range(1, 4)), "disturb_lists": True},
}


@pytest.mark.slow
@MODES
@KINDS
@pytest.mark.parametrize("missing_run", MISSING)
def test_wait_survives_missing_run_responses(kind: str, missing_run: str, serve: Serve, *, deferrable: bool) -> None:
    service = serve(WaitedRun(**MISSING[missing_run]))
    assert run(operator(kind, deferrable=deferrable))["outcome"] == "succeeded"
    assert service.started == [kind]


@pytest.mark.slow
@MODES
@KINDS
def test_a_deleted_run_ends_the_wait_after_the_grace_period(kind: str, serve: Serve, *, deferrable: bool) -> None:
    service = serve(WaitedRun(disturb=missing_at(range(2, 1000))))
    with pytest.raises(RunVanishedError, match=r"(?s)no longer knows .* answers in .* the last: .*answered 404"):
        run(operator(kind, deferrable=deferrable))
    # The pauses double, so the number of polls is bounded.
    assert 4 <= len([seen for seen in service.seen if seen.method == "GET"]) <= 25


@pytest.mark.slow
@MODES
def test_answers_that_show_the_run_end_the_grace_period(serve: Serve, *, deferrable: bool) -> None:
    """Show the run in every third response, for longer than the grace period."""
    serve(WaitedRun(30, lambda poll: None if poll % 3 == 0 else Reply(404, NOT_FOUND)))
    assert run(operator("elt_stream", deferrable=deferrable))["outcome"] == "succeeded"


@pytest.mark.slow
def test_on_kill_disables_the_sync_despite_a_missing_run(serve: Serve) -> None:
    """Hide the run from the last poll of a stopped task. The run may still be active."""
    service = serve(WaitedRun(disturb=missing_at(range(1, 1000)), disturb_lists=True))
    with pytest.raises(TaskDeferred) as deferred:
        operator("reverse_etl", deferrable=True, on_kill="disable").execute(context_of(Memory()))
    asyncio.run(deferred.value.trigger.on_kill())
    assert "/reverse_etl_syncs/s/deactivate" in [seen.path for seen in service.seen]


@pytest.mark.slow
@MODES
def test_a_sensor_survives_one_answer_that_its_run_is_missing(serve: Serve, *, deferrable: bool) -> None:
    serve(WaitedRun(8, missing_at(range(3, 5)), started=("elt_stream",)))
    assert run(sensor(deferrable=deferrable))["outcome"] == "succeeded"


@pytest.mark.slow
@MODES
def test_a_sensor_whose_run_was_deleted_fails(serve: Serve, *, deferrable: bool) -> None:
    serve(WaitedRun(8, missing_at(range(3, 1000)), started=("elt_stream",)))
    with pytest.raises((NotFoundError, RunVanishedError), match="404"):
        run(sensor(deferrable=deferrable))


@pytest.mark.slow
@pytest.mark.parametrize("missing_polls", [range(1, 2), range(1, 3)])
def test_a_poke_in_mode_reschedule_survives_a_missing_run(missing_polls: range, serve: Serve) -> None:
    """Run each poke in its own process, so that it has no earlier response."""
    serve(WaitedRun(8, missing_at(missing_polls), started=("elt_stream",)))
    assert sensor(deferrable=False, mode="reschedule").poke(context_of(Memory())) is False


@pytest.mark.slow
def test_a_poke_in_mode_reschedule_fails_if_the_run_was_deleted(serve: Serve) -> None:
    serve(WaitedRun(8, missing_at(range(1, 1000)), started=("elt_stream",)))
    with pytest.raises(NotFoundError):
        sensor(deferrable=False, mode="reschedule").poke(context_of(Memory()))


# Absurd delays.

DELAYS = {
    "now in Unix seconds": str(int(time.time())),
    "2100 in Unix seconds": "4102444800",
    "31 years": "999999999",
    "400 digits": "9" * 400,
    "half an hour": "1800",
    "2100": "Fri, 01 Jan 2100 00:00:00 GMT",
    "a word": "soon",
}
ABSURD_DELAYS = [
    *(("elt_stream", 429, name) for name in DELAYS),
    *((kind, status, "half an hour") for kind in OPERATORS for status in (429, 503)),
]


@pytest.mark.slow
@MODES
@pytest.mark.parametrize(("kind", "status", "delay"), ABSURD_DELAYS)
def test_absurd_retry_after_does_not_delay_a_wait(
    kind: str, status: int, delay: str, serve: Serve, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    """Shorten the longest accepted delay for the test."""
    monkeypatch.setattr(retry, "LONGEST_RETRY_AFTER", 0.2)
    refused = Reply(status, {"error_code": "busy", "message": "Come back later."}, {"Retry-After": DELAYS[delay]})
    service = serve(WaitedRun(disturb=lambda poll: refused if poll == 2 else None))
    assert run(operator(kind, deferrable=deferrable, timeout=60))["outcome"] == "succeeded"
    assert service.started == [kind]


# A secrets backend that hangs when a trigger reads the connection.


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let the secrets backend hang once for each item of this list. Each read may take 0.2 s."""
    left: list[bool] = []
    read = DatapipeHook.aget_connection

    async def reading(self: DatapipeHook, conn_id: str) -> Any:
        if left:
            left.pop()
            await asyncio.sleep(3600)
        return await read(conn_id)

    monkeypatch.setattr(DatapipeHook, "aget_connection", reading)
    monkeypatch.setattr(clients, "_READ_LIMIT", 0.2)
    monkeypatch.setattr(clients, "_FIRST_PAUSE", 0.05)
    return left


@pytest.mark.slow
@KINDS
def test_a_wait_survives_a_backend_that_hangs_for_a_while(kind: str, hangs: list[bool], serve: Serve) -> None:
    hangs += [True] * 3
    serve(WaitedRun())
    assert run(operator(kind, deferrable=True))["outcome"] == "succeeded"
    assert hangs == []


def test_a_backend_that_hangs_ends_a_wait_at_its_deadline(hangs: list[bool], serve: Serve) -> None:
    hangs += [True] * 1000
    serve(WaitedRun())
    with pytest.raises(LostContactError, match="The Airflow connection `datapipe_default` could not be read within"):
        run(operator("elt_stream", deferrable=True, timeout=1))
    assert len(hangs) > 900


def test_a_backend_that_hangs_ends_a_sensor_at_its_timeout(hangs: list[bool], serve: Serve) -> None:
    hangs += [True] * 1000
    serve(WaitedRun(1000, started=("elt_stream",)))
    newest = EltStreamRunSensor(task_id="t", stream_id="s", newest=True, deferrable=True, poke_interval=0.1, timeout=1)
    with pytest.raises(AirflowSensorTimeout):
        run(newest)


async def test_a_watcher_survives_a_backend_that_hangs_for_a_while(hangs: list[bool], serve: Serve) -> None:
    hangs += [True] * 3
    service = serve(WaitedRun(-1))
    waiting: asyncio.Future[Any] = asyncio.ensure_future(anext(EltStreamRunEventTrigger("s", poll_interval=0.1).run()))
    async with asyncio.timeout(60):
        while len(service.seen) < 2:  # noqa: ASYNC110 - the service runs in a separate thread
            await asyncio.sleep(0.01)
        # A run starts and ends.
        service.started.append("elt_stream")
        assert (await waiting).payload["run_id"] == "elt_stream-run"
