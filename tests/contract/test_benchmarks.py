"""Tests that the stub of the benchmarks follows the interface, and that the commands of the docs exist."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun
from airflow_provider_datapipe.api.models.elt_syncs import EltSyncStatus
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from tests.benchmarks.__main__ import parser
from tests.benchmarks.adapters.histories import Histories
from tests.benchmarks.adapters.ours import AdaptiveAlone, Orchestrations, Ours, StreamsAlone, StreamsOfSyncs
from tests.benchmarks.report import BEGIN, END
from tests.benchmarks.runs import WARM, Runs
from tests.support.documents import pages

STREAMS = (StreamsOfSyncs, StreamsAlone, AdaptiveAlone)


def answer(adapter: Ours, path: str, runs: Runs) -> Any:
    """Return the response of the stub after a JSON round trip."""
    return json.loads(json.dumps(adapter.answer(path, runs)))


def end_runs(runs: Runs) -> Runs:
    runs.ended_at = 1.0
    return runs


@pytest.mark.parametrize("kind", STREAMS)
def test_stub_response_for_a_run_of_a_stream(kind: type[StreamsOfSyncs]) -> None:
    adapter = kind()
    runs, reference = adapter.runs(7), adapter.reference(6)
    path = f"/elt_stream_runs/{reference['run_id']}"
    active = EltStreamRun.model_validate(answer(adapter, path, runs))
    ended = EltStreamRun.model_validate(answer(adapter, path, end_runs(runs)))
    assert (active.status, active.finished_at, ended.status) == ("RUNNING", None, "COMPLETED")
    assert (active.id, active.elt_stream_id) == (reference["run_id"], reference["resource_id"])
    # The response has all fields of the interface and no others, so it has a realistic size.
    assert ended.model_fields_set == EltStreamRun.model_fields.keys()
    assert runs.checks == 2


def test_stub_response_for_the_status_of_a_sync() -> None:
    adapter = StreamsOfSyncs()
    runs, reference = adapter.runs(150), adapter.reference(120)
    path = f"/elt_syncs/{reference['sync_id']}/status"
    active = EltSyncStatus.model_validate(answer(adapter, path, runs))
    assert len(active.source_streams) == 100
    # Streams without a wait are shown, but not counted.
    assert runs.checks == 50
    (shown,) = [stream for stream in active.source_streams if stream.name == reference["name"]]
    assert shown.active_sync is not None
    assert shown.active_sync.status == "RUNNING"
    assert shown.latest_sync is not None
    assert shown.latest_sync.model_fields_set == type(shown.latest_sync).model_fields.keys() - {"error_message"}
    ended = EltSyncStatus.model_validate(answer(adapter, path, end_runs(runs)))
    assert {stream.active_sync for stream in ended.source_streams} == {None}


def test_stub_responses_for_runs_of_orchestrations() -> None:
    adapter = Orchestrations()
    runs, reference = adapter.runs(150), adapter.reference(149)
    first = Page[OrchestrationRun].model_validate(answer(adapter, "/orchestration_runs?limit=100", runs))
    assert first.has_more
    path = f"/orchestration_runs?limit=100&starting_after={first.next_cursor}"
    second = Page[OrchestrationRun].model_validate(answer(adapter, path, runs))
    assert runs.checks == 150
    assert len({run.id for run in (*first.data, *second.data)}) == 200
    alone = answer(adapter, f"/orchestration_runs/{reference['run_id']}", end_runs(runs))
    ended = OrchestrationRun.model_validate(alone)
    assert (ended.id, ended.orchestration_id) == (reference["run_id"], reference["resource_id"])
    assert ended.model_fields_set == OrchestrationRun.model_fields.keys()


def test_stub_responses_for_runs_with_given_durations() -> None:
    adapter = Histories(typical=60, group=4, ways=((1.0, False), (None, True)))
    runs = adapter.runs(adapter.count)
    references = [adapter.reference(run) for run in range(8)]
    assert [reference["sync_id"] is not None for reference in references] == 4 * [False] + 4 * [True]
    assert [adapter.interval(run, 1.0) for run in (0, 4)] == [1.0, None]
    # The runs are the same for each poll interval.
    assert [adapter.ends(run) for run in range(4)] == [adapter.ends(run) for run in range(4, 8)]
    status = EltSyncStatus.model_validate(answer(adapter, f"/elt_syncs/{references[4]['sync_id']}/status", runs))
    assert [stream.name for stream in status.source_streams] == [reference["name"] for reference in references[4:]]
    # The runs began with the measurement, in 1970, so they have ended.
    EltStreamRun.model_validate(answer(adapter, f"/elt_stream_runs/{references[1]['run_id']}", runs))
    assert runs.asked == {1: 1, 0: 1}


@pytest.mark.parametrize("kind", [*STREAMS, Orchestrations])
def test_stub_does_not_find_unknown_paths(kind: type[Ours]) -> None:
    adapter = kind()
    runs = adapter.runs(1)
    assert adapter.answer("/elt_stream_runs/nonsense", runs) is None
    assert adapter.answer("/transforms/1", runs) is None
    assert runs.is_over(WARM)
    assert runs.checks == 0


def commands() -> list[str]:
    text = pages()["docs/performance.md"] + pages()["CONTRIBUTING.md"]
    return re.findall(r"`python -m tests\.benchmarks( [^`]*)?`", text)


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_docs_are_valid(command: str) -> None:
    parser().parse_args(shlex.split(command))


def test_docs_have_commands_and_markers_for_the_tables() -> None:
    assert len(commands()) > 4
    page = pages()["docs/performance.md"]
    assert page.count(BEGIN) == 1
    assert END in page[page.index(BEGIN) :]
