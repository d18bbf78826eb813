"""Tests of orchestration runs: each part waits for its dependencies only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.clock import as_datetime
from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

ATTACHED = {"orchestration_workflow_id": "nightly"}
#: What needs what.
NEEDS = {
    "of_slow": "slow",
    "slow_out": "of_slow",
    "of_fast": "fast",
    "fast_out": "of_fast",
    "alone_out": "alone",
}
Interval = tuple[float, float]


def seed(folder: Path) -> dict[str, Any]:
    (folder / "rows.csv").write_text("n\n1\n")

    def sync(name: str) -> dict[str, Any]:
        return {
            "id": f"{name}_sync",
            "connection_id": "data",
            "destination_schema_name": name,
            "source_streams": [{"id": name, "name": "all_rows", "file": "rows.csv"}],
            **ATTACHED,
        }

    def table(name: str, sql: str) -> dict[str, Any]:
        return {"id": name, "name": name, "materialization": "table", "sql_template": sql, **ATTACHED}

    def export(name: str, source_id: str) -> dict[str, Any]:
        mapping = {"source_property_id": "n", "destination_property_id": "n", "primary_key": True}
        return {
            "id": name,
            "source_id": source_id,
            "destination_connection_id": "out",
            "object_type_id": name,
            "operation": {"mode": "upsert", "mappings": [mapping]},
            **ATTACHED,
        }

    return {
        "connections": [
            {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(folder)}},
            {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": str(folder / "out")}},
        ],
        "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [sync("slow"), sync("fast")],
        "transforms": [
            table("of_slow", "SELECT n FROM {{raw.slow.all_rows}}"),
            table("of_fast", "SELECT n FROM {{raw.fast.all_rows}}"),
            table("alone", "SELECT 1 AS n"),
        ],
        "reverse_etl_syncs": [
            export("slow_out", "of_slow"),
            export("fast_out", "of_fast"),
            export("alone_out", "alone"),
        ],
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    with LocalService(seed(tmp_path_factory.mktemp("order")), control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture
def service(running: LocalService) -> LocalService:
    """Reset the service, run all streams and publish all transforms once."""
    running.reset()
    api = Api(running)
    for stream in ("slow", "fast"):
        api.run_stream(stream)
    for transform in ("of_slow", "of_fast", "alone"):
        api.post(f"/transforms/{transform}/publish", {"wait_for_completion": True})
    return running


def parts(service: LocalService, run_id: str) -> dict[str, Interval]:
    """Return the start and end of each part of a run, in seconds after the first start."""
    runs = [run for run in service.journal_runs() if run["orchestration_run_id"] == run_id]
    first = min(as_datetime(run["started_at"]) for run in runs)
    return {
        run["resource_id"]: (
            (as_datetime(run["started_at"]) - first).total_seconds(),
            (as_datetime(run["finished_at"]) - first).total_seconds(),
        )
        for run in runs
    }


def plot(intervals: dict[str, Interval], width: int = 60) -> str:
    """Return a text chart of the intervals for assertion messages."""
    scale = width / max(end for _, end in intervals.values())
    lines = []
    for name, (begin, end) in sorted(intervals.items(), key=lambda item: item[1]):
        bar = " " * round(begin * scale) + "#" * max(1, round((end - begin) * scale))
        lines.append(f"{name:>10} |{bar}")
    return "\n".join(["", *lines])


def test_nothing_waits_for_what_it_does_not_need(service: LocalService) -> None:
    # Longer than this test can take: whatever ends meanwhile has not waited for it.
    service.runs({"resources": {"slow": {"minimum_duration": 600}}})
    run_id = Api(service).post("/orchestrations/nightly/request_run")["id"]

    def going() -> dict[str, str]:
        runs = [run for run in service.journal_runs() if run["orchestration_run_id"] == run_id]
        return {run["resource_id"]: run["status"].upper() for run in runs}

    done = dict.fromkeys(("fast", "of_fast", "fast_out", "alone", "alone_out"), "COMPLETED")
    wait_for("all but what needs the slow stream", lambda: going() == {**done, "slow": "RUNNING"}, limit=20)


def test_what_needs_something_waits_for_it(service: LocalService) -> None:
    service.runs({"resources": {"slow": {"minimum_duration": 0.5}}})
    run = Api(service).run_orchestration("nightly")
    assert run.status == "COMPLETED"
    seen = parts(service, run.id)
    picture = plot(seen)
    print(picture)
    assert set(seen) == {"slow", "fast", "alone", *NEEDS}
    for part, need in NEEDS.items():
        assert seen[part][0] >= seen[need][1], picture
    # What needs nothing began with the run.
    assert max(seen[part][0] for part in ("slow", "fast", "alone")) <= seen["of_fast"][0], picture


def test_a_failure_stops_what_needs_it_and_nothing_else(service: LocalService) -> None:
    service.runs({"resources": {"fast": {"outcomes": [{"fail": "Told to."}]}}})
    run = Api(service).run_orchestration("nightly")
    assert run.status == "FAILED"
    assert set(parts(service, run.id)) == {"slow", "fast", "alone", *NEEDS} - {"of_fast", "fast_out"}
    assert Api(service).run_orchestration("nightly").status == "COMPLETED"


def test_a_stream_with_a_schedule_of_its_own_is_no_part(service: LocalService) -> None:
    api = Api(service)
    api.post("/elt_streams/fast/set_sync_interval", {"sync_interval": "0 5 * * *"})
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    assert set(parts(service, run.id)) == {"slow", "alone", *NEEDS}
    api.post("/elt_streams/fast/clear_sync_interval", status=204)
    run = api.run_orchestration("nightly")
    assert "fast" in parts(service, run.id)
