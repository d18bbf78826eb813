"""Log lines of a wait: their text and frequency. They cause no requests."""

from __future__ import annotations

import asyncio
import contextvars
from itertools import pairwise
from typing import Any
from unittest.mock import AsyncMock

import pytest

from airflow_provider_datapipe.api.errors import TransportError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.batch_wait import BatchWait, wait_for_some
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.log_lines import progress as progress_module
from airflow_provider_datapipe.runs.log_lines.labels import span
from airflow_provider_datapipe.runs.log_lines.progress import ProgressLines, ReportLine
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.polling.run_poller import RunPoller
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason, WaitPolicy
from tests.support.scripted_server import Reply, ScriptedServer
from tests.unit.runs.model_service import ModelService, run_of, stream_run

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z
EVERY_10_S = WaitPolicy(poll_interval=10)


def waiting(*, durations: list[float] | None = None, names: tuple[str, ...] = ("orders",)) -> Batch:
    references = [RunRef("elt_stream", name, name, run_id=f"run-{name}", durations=durations or []) for name in names]
    return Batch("elt_stream", waiting=references)


def after_poll(batch: Batch, at: float, **known: Any) -> tuple[BatchWait, ProgressLines]:
    wait = BatchWait(batch, EVERY_10_S, at)
    for watch in wait.run_waits:
        answer = stream_run("RUNNING", str(watch.reference.run_id), **known)
        watch.seen(KINDS["elt_stream"].read(watch.reference, answer), at)
    return wait, ProgressLines(wait, at, 0.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.6, "60 s"), (119, "119 s"), (600, "10 min"), (7200, "2 h 0 min"), (9000, "2 h 30 min")],
)
def test_durations_are_formatted_for_readers(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("durations", "known", "line"),
    [
        (
            [500, 600, 9000],
            {"rows_synced": 1200},
            "1,200 rows so far, expected to end about 00:10 UTC, as earlier runs took about 10 min.",
        ),
        ([30], {}, "longer than usual (earlier runs took about 30 s)."),
    ],
)
def test_duration_rows_and_expected_end_are_logged(durations: list[float], known: dict[str, Any], line: str) -> None:
    _, progress = after_poll(waiting(durations=durations), START + 60, **known)
    assert progress.line(START + 65) == f"ELT stream orders, run run-orders: running for 65 s, {line}"


def test_a_run_before_its_first_poll_is_logged_as_not_begun() -> None:
    wait = BatchWait(waiting(), EVERY_10_S, START)
    assert (
        ProgressLines(wait, START, 0.0).line(START + 61)
        == "ELT stream orders, run run-orders: has not started for 61 s."
    )


def test_reverse_etl_line_contains_the_total_rows() -> None:
    batch = Batch("reverse_etl", waiting=[RunRef("reverse_etl", "crm", "crm", run_id="r")])
    wait = BatchWait(batch, EVERY_10_S, START)
    answer = run_of("reverse_etl", "r", "RUNNING", synced_rows=5, failed_rows=0, total_rows=10)
    (watch,) = wait.run_waits
    watch.seen(KINDS["reverse_etl"].read(watch.reference, answer), START)
    assert "5 of 10 rows so far" in ProgressLines(wait, START, 0.0).line(START + 60)


def test_line_of_many_runs_names_some_and_counts_all() -> None:
    names = tuple(f"s{number}" for number in range(7))
    batch = waiting(names=names)
    batch.queued = [RunTarget("late", "late")]
    outcome = KINDS["elt_stream"].read(batch.waiting[0], stream_run("COMPLETED")).outcome
    batch.ended = [WaitOutcome(WaitOutcomeReason.RUN_OVER, batch.waiting[0], outcome)]
    _, progress = after_poll(batch, START + 60)
    line = progress.line(START + 60)
    assert line.startswith("1 of 9 runs have ended, 1 are queued; waiting for 7: s0 running for 60 s; s1 ")
    assert line.endswith("s4 running for 60 s; and 2 more.")


def test_loss_of_contact_is_logged_after_three_minutes() -> None:
    wait, progress = after_poll(waiting(), START)
    (watch,) = wait.run_waits
    # A single failure soon after an answer is no loss of contact.
    watch.failed(TransportError("no answer", sent=True), START + 5)
    assert "no answer" not in progress.line(START + 100)
    assert "no answer from the service for 3 min" in progress.line(START + 180)


def test_interval_between_lines_grows() -> None:
    wait = BatchWait(waiting(), EVERY_10_S, START)
    for jitter, most in ((0.0, 12), (1.0, 9)):
        progress, lines = ProgressLines(wait, START, jitter), []
        while progress.due < START + 3600:
            lines.append(progress.due - START)
            progress.line(progress.due)
        assert lines[0] >= 60
        assert all(later - earlier >= 60 for earlier, later in pairwise(lines))
        assert len(lines) <= most


def test_log_lines_of_a_blocking_wait_cause_no_requests() -> None:
    def poll(_: Any) -> Any:
        rows = (service.now - 1_000_000) * 10
        if rows <= 6_000:
            return stream_run("RUNNING", rows_synced=rows)
        return stream_run("COMPLETED", rows_synced=rows, finished_at="2026-01-01T01:00:00Z")

    asked: list[int] = []
    reported: list[str] = []
    reports: list[ReportLine | None] = [None, lambda _, line: reported.append(line)]
    for report in reports:
        service = ModelService(elt_stream_runs__get=[poll])
        service.run(wait_for_some(waiting(), EVERY_10_S, service.clock, report))
        asked.append(len(service.asked))
    assert asked[0] == asked[1]
    assert len(reported) == 6
    assert ", 500 rows so far" in reported[0]


RUN = {"id": "run-orders", "elt_sync_id": "y", "elt_stream_id": "orders", "started_at": "2026-01-01T00:00:00.000Z"}
TASK = contextvars.ContextVar("TASK", default="none")


async def test_a_wait_in_the_triggerer_logs_in_the_context_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_SHORTEST_GAP", 0.01)
    reported: list[tuple[str, str]] = []

    async def wait(poller: RunPoller, name: str) -> None:
        TASK.set(name)
        await poller.wait(waiting(), WaitPolicy(poll_interval=0.3), lambda _, line: reported.append((TASK.get(), line)))

    active = Reply(body=RUN | {"status": "RUNNING", "rows_synced": 3})
    done = Reply(body=RUN | {"status": "COMPLETED", "finished_at": "2026-01-01T00:00:09.000Z"})
    with ScriptedServer([active, active, active, done]) as server:
        poller = RunPoller(AsyncMock(return_value=Settings(server.url, "key")))
        await asyncio.gather(wait(poller, "one"), wait(poller, "two"))
        before = len(reported)
        # A leaked timer would log again.
        await asyncio.sleep(0.1)
        assert len(reported) == before
        await poller.close()
        assert len(server.seen) == 4
    assert {name for name, _ in reported} == {"one", "two"}
    assert any("3 rows so far" in line for _, line in reported)
