"""Tests of the parts of orchestration runs: each part waits for its dependencies only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import NIGHTLY, connection, elt_sync, reverse_etl_sync, stream, transform
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

ATTACHED = {"orchestration_workflow_id": "nightly"}
#: The dependency of each part. Between ``top`` and ``of_slow`` is a view that is not attached.
NEEDS = {
    "of_slow": "slow",
    "top": "of_slow",
    "slow_out": "top",
    "of_fast": "fast",
    "fast_out": "of_fast",
    "alone_out": "alone",
}


def seed(folder: Path) -> dict[str, Any]:
    def sync(name: str, **more: Any) -> dict[str, Any]:
        rows = stream("all_rows", "rows.csv", id=name)
        return elt_sync(f"{name}_sync", "data", [rows], destination_schema_name=name, **more)

    table = {"materialization": "table", **ATTACHED}
    return {
        "connections": [connection("data", "files", path=str(folder)), connection("out", "jsonl", path="./out")],
        "orchestrations": [NIGHTLY],
        "elt_syncs": [
            *(sync(name, **ATTACHED) for name in ("slow", "fast")),
            sync("paused", enabled=False, **ATTACHED),
            sync("apart"),
        ],
        # Not in the order of the dependencies.
        "transforms": [
            transform("top", "SELECT n FROM {{model.mid}}", **table),
            transform("mid", "SELECT n FROM {{model.of_slow}}"),
            transform("of_slow", "SELECT count(*) AS n FROM {{raw.slow.all_rows}}", **table),
            transform("of_fast", "SELECT n FROM {{raw.fast.all_rows}}", **table),
            transform("alone", "SELECT 1 AS n", **table),
            transform("draft", "SELECT nope", **ATTACHED),
        ],
        "reverse_etl_syncs": [
            reverse_etl_sync(name, NEEDS[name], "out", name, "n") | ATTACHED
            for name in ("slow_out", "fast_out", "alone_out")
        ],
    }


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[LocalService]:
    with served(seed(folder), control=True) as (service, _):
        yield service


@pytest.fixture
def service(running: LocalService, folder: Path) -> LocalService:
    """Reset the service, run both streams and publish all transforms but the draft once."""
    running.reset()
    (folder / "rows.csv").write_text("n\n1\n")
    api = Api(running)
    for stream_id in ("slow", "fast"):
        api.run_stream(stream_id)
    for transform_id in ("of_slow", "mid", "top", "of_fast", "alone"):
        api.post(f"/transforms/{transform_id}/publish", {"wait_for_completion": True})
    return running


def parts(service: LocalService, run_id: str) -> dict[str, dict[str, Any]]:
    """Return the runs of the parts of an orchestration run by their resource."""
    runs = [run for run in service.journal_runs() if run["orchestration_run_id"] == run_id]
    return {run["resource_id"]: run for run in runs}


def test_independent_parts_do_not_wait(service: LocalService, api: Api) -> None:
    # Longer than this test can take: parts that finish have not waited for this stream.
    service.runs({"resources": {"slow": {"minimum_duration": 600}}})
    run_id = api.post("/orchestrations/nightly/request_run")["id"]
    done = dict.fromkeys(("fast", "of_fast", "fast_out", "alone", "alone_out"), "COMPLETED")

    def independent_parts_are_done() -> bool:
        statuses = {name: run["status"].upper() for name, run in parts(service, run_id).items()}
        return statuses == {**done, "slow": "RUNNING"}

    wait_for("all parts but the dependents of the slow stream", independent_parts_are_done, limit=60)


def test_parts_wait_for_their_dependencies(service: LocalService, api: Api, folder: Path) -> None:
    service.runs({"resources": {"slow": {"minimum_duration": 0.5}}})
    # The new count arrives at the end only if every stage reads the result of the one before it.
    (folder / "rows.csv").write_text("n\n1\n2\n3\n")
    # A run of a part that another caller requested is awaited, and does not replace the run of the part.
    url = api.post("/elt_streams/slow/request_run")["status_url"]
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    assert api.ended(url)["status"] == "COMPLETED"
    seen = parts(service, run.id)
    assert set(seen) == {"slow", "fast", "alone", *NEEDS}
    for part, need in NEEDS.items():
        assert seen[part]["started_at"] >= seen[need]["finished_at"], part
    exported = (service.folder / "out" / "slow_out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in exported] == [{"n": 3}]
    assert len(service.journal_runs("slow")) == 3
    # Streams of a disabled sync and of one that is not attached did not run.
    assert service.journal_runs("paused") == service.journal_runs("apart") == []


def test_failure_stops_only_the_dependents(service: LocalService, api: Api) -> None:
    service.runs({"resources": {"fast": {"outcomes": [{"fail": "Requested by the test."}]}}})
    run = api.run_orchestration("nightly")
    assert run.status == "FAILED"
    assert set(parts(service, run.id)) == {"slow", "fast", "alone", *NEEDS} - {"of_fast", "fast_out"}
    assert api.run_orchestration("nightly").status == "COMPLETED"


def test_stream_with_its_own_schedule_is_not_a_part(service: LocalService, api: Api) -> None:
    api.post("/elt_streams/fast/set_sync_interval", {"sync_interval": "0 5 * * *"})
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    assert set(parts(service, run.id)) == {"slow", "alone", *NEEDS}
    api.post("/elt_streams/fast/clear_sync_interval", status=204)
    run = api.run_orchestration("nightly")
    assert "fast" in parts(service, run.id)
