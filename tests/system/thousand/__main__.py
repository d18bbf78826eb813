"""
Test with 1,000 deferred tasks in one triggerer, whose runs end together: ``python -m tests.system.thousand``.

Half of the tasks wait for streams, with a hundred streams per sync, and half for orchestrations. The tasks use
``start_from_trigger``, for which Airflow loads the whole DAG on the triggerer's event loop, once per trigger. So each
DAG has ten tasks. Blockages of the event loop by Airflow during the creation of the triggers are reported, but do not
count. Exit status: 0 only if all tasks succeeded, and the event loop was not blocked afterwards.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.local_service import LocalService
from tests.support.processes import Workspace, wait_for
from tests.system import seeds
from tests.system.components import AirflowComponents

DAG_FILE = Path(__file__).with_name("dag.py")
#: Streams per sync, and orchestrations with the same name prefix.
PART = 100
#: Tasks of one DAG.
DAG_PART = 10
#: Seconds within which all tasks must be deferred, before their runs end.
DEFERRING = 180
#: Seconds without a warning after which all triggers count as created.
QUIET = 20
BLOCKED = r"async thread was blocked"
CONFIG = {
    "core.max_active_tasks_per_dag": str(DAG_PART),
    "scheduler.max_tis_per_query": "200",
    "core.parallelism": "4",
    # A scheduler under this load sends late heartbeats.
    "scheduler.scheduler_health_check_threshold": "120",
    "triggerer.triggerer_health_check_threshold": "60",
}


def seed_of(parts: list[tuple[str, list[str]]], folder: Path) -> dict[str, Any]:
    """Return a seed with streams in syncs of a hundred, and empty orchestrations."""
    (folder / "rows.csv").write_text("id\n1\n", encoding="utf-8")
    return {
        "connections": [seeds.connection("rows", "files", path=str(folder))],
        "elt_syncs": [
            seeds.elt_sync(f"sync_{number}", "rows", map(seeds.stream, ids))
            for number, (kind, ids) in enumerate(parts)
            if kind == "elt_stream"
        ],
        "orchestrations": [
            seeds.orchestration(each, cron_schedule="0 0 1 1 *")
            for kind, ids in parts
            if kind == "orchestration"
            for each in ids
        ],
    }


def parts_of(tasks: int) -> list[tuple[str, list[str]]]:
    kinds = ("elt_stream", "orchestration")
    return [
        (kinds[number % 2], [f"{kinds[number % 2]}_{number}_{each:02}" for each in range(PART)])
        for number in range(tasks // PART)
    ]


def request_runs(service: LocalService, parts: list[tuple[str, list[str]]], over_at: float) -> list[dict[str, Any]]:
    """Request a run of each resource, all with the same end time. Return references like those of an operator."""
    plan = []
    with service.client() as client:
        for number, (kind, ids) in enumerate(parts):
            rest = over_at - time.time()
            service.runs({"resources": {each: {"minimum_duration": rest} for each in ids}})
            references = []
            for each in ids:
                path = f"/elt_streams/{each}" if kind == "elt_stream" else f"/orchestrations/{each}"
                answer = client.post(f"{path}/request_run").raise_for_status().json()
                reference = {"kind": kind, "resource_id": each, "name": each}
                if kind == "elt_stream":
                    reference |= {"status_url": answer["status_url"], "sync_id": f"sync_{number}"}
                else:
                    reference |= {"run_id": answer["id"]}
                references.append(reference)
            plan += [
                {"kind": kind, "references": references[begin : begin + DAG_PART]}
                for begin in range(0, len(references), DAG_PART)
            ]
    return plan


def lines_about(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the lines of all logs in a folder that match a pattern."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix in (".log", ""):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                if re.search(pattern, line):
                    yield line


def warnings_until_quiet(folder: Path, *, limit: float) -> int:
    """
    Wait until Airflow has created all triggers, which can be later than the state "deferred", and count the warnings.
    """
    count, since = 0, time.time()
    while time.time() < min(since + QUIET, limit):
        now = len(list(lines_about(folder, BLOCKED)))
        if now != count:
            count, since = now, time.time()
        time.sleep(1)
    return count


def states_of(airflow: AirflowComponents, runs: dict[str, str]) -> Counter[str]:
    """Count the tasks of all DAG runs by their state."""
    return Counter(
        str(one.state) for dag_id, run_id in runs.items() for one in airflow.api.task_instances(dag_id, run_id)
    )


def play(tasks: int, interval: float | None, *, control: bool) -> bool:
    """Run the test, and print its costs. Return True if it succeeded."""
    parts = parts_of(tasks)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-thousand-"))
        dags = workspace.path / "dags"
        dags.mkdir()
        service = stack.enter_context(
            LocalService(seed_of(parts, workspace.path), workspace=workspace, control=True, ready_within=120)
        )
        (dags / "thousand.json").write_text(json.dumps({"parts": [], "interval": interval, "asleep_until": None}))
        env = {"AIRFLOW_CONN_DATAPIPE_DEFAULT": service.connection()}
        airflow = stack.enter_context(AirflowComponents(dags, env=env, config=CONFIG, progress=say))
        over_at = time.time() + DEFERRING + tasks * 0.05
        plan = request_runs(service, parts, over_at)
        say(f"{tasks} runs were requested; they end in {over_at - time.time():.0f} s")
        requested = max(entry["seq"] for entry in service.journal_requests())
        asleep_until = datetime.fromtimestamp(over_at, UTC).isoformat() if control else None
        planned = {"parts": plan, "interval": interval, "asleep_until": asleep_until}
        (dags / "thousand.json").write_text(json.dumps(planned))
        shutil.copy(DAG_FILE, dags / "thousand.py")
        begun = time.monotonic()
        runs = {dag_id: airflow.trigger(dag_id, limit=120) for dag_id in (f"thousand_{n}" for n in range(len(plan)))}
        wait_for("all are deferred", lambda: states_of(airflow, runs)["deferred"] == tasks, limit=DEFERRING)
        say(f"all are deferred after {time.monotonic() - begun:.0f} s, {over_at - time.time():.0f} s before the end")
        before = max(entry["seq"] for entry in service.journal_requests())
        created = warnings_until_quiet(airflow.home, limit=over_at - 60)
        time.sleep(max(over_at - time.time() - 1, 0))
        waited = [entry for entry in service.journal_requests(after=before) if entry["method"] == "GET"]
        say(f"waiting took {len(waited)} requests: {requests_by_path(waited)}")
        wait_for("none is deferred any more", lambda: not states_of(airflow, runs)["deferred"], limit=300)
        say(f"none is deferred {time.time() - over_at:.0f} s after the end of the runs")
        asked = [entry for entry in service.journal_requests(after=requested) if entry["method"] == "GET"]
        for dag_id, run_id in runs.items():
            airflow.wait(dag_id, run_id, limit=60 + 3 * tasks)
        states = states_of(airflow, runs)
        blocked = list(lines_about(airflow.home, BLOCKED))[created:]
        say(f"all in all {len(asked)} requests while they were deferred: {requests_by_path(asked)}")
        say(
            f"tasks: {dict(states)}; warnings of a blocked event loop: {created} while triggers were created, "
            f"{len(blocked)} while they waited and ended"
        )
        for line in blocked:
            say(f"  {line[:300]}")
    return states == {"success": tasks} and not blocked


def requests_by_path(entries: list[dict[str, Any]]) -> dict[str, int]:
    """Count requests by path."""
    return dict(Counter(re.sub(r"/sync_\d+|(?<=_runs)/[^/?]+", "/*", entry["path"]) for entry in entries))


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.thousand", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000, help="a multiple of 200 (default: %(default)s)")
    parser.add_argument("--interval", type=float, help="seconds between two polls (default: adaptive)")
    parser.add_argument("--control", action="store_true", help="only sleep: what Airflow itself does")
    given = parser.parse_args()
    return 0 if play(given.tasks, given.interval, control=given.control) else 1


if __name__ == "__main__":
    sys.exit(main())
