"""
Runs that end while their triggerer is killed repeatedly: ``python -m tests.system.events``, or ``make events``.

Exit status: 0 only if the event of every run has reached its DAG.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.local_service import LocalService
from tests.support.processes import ProgramError, Workspace, wait_for
from tests.system import seeds
from tests.system.airflow_api import AirflowApi, AirflowApiError
from tests.system.components import AirflowComponents
from tests.system.conftest import connected
from tests.system.demo import terminated
from tests.system.metadata_database import count_rows

DAG_FILE = Path(__file__).with_name("event_dags") / "watching.py"
CONNECTION = "datapipe_watching"
#: DAGs that start at the end of runs, by the kind of run.
DAGS = {"elt_stream": "watching_streams", "orchestration": "watching_orchestrations", "reverse_etl": "watching_exports"}
WATCHERS = 4
STREAMS, ORCHESTRATIONS = 8, 6
#: Share of triggerers that are stopped after the first one. The others are killed.
ASKED = 0.2


def seed_in(folder: Path) -> dict[str, Any]:
    (folder / "rows.csv").write_text("id,name\n1,one\n2,two\n", encoding="utf-8")
    streams = [seeds.stream(f"s{number}") for number in range(STREAMS)]
    return {
        "connections": [
            seeds.connection("rows", "files", path=str(folder)),
            seeds.connection("exports", "jsonl", path=f"{folder}/out"),
        ],
        "orchestrations": [seeds.orchestration(f"o{number}") for number in range(ORCHESTRATIONS)],
        "elt_syncs": [seeds.elt_sync("sync", "rows", streams, destination_schema_name="raw")],
        "transforms": [seeds.transform("numbers", "SELECT range AS id FROM range(5)", materialization="table")],
        "reverse_etl_syncs": [seeds.reverse_etl_sync("numbers", "numbers", "exports")],
    }


@dataclass(frozen=True)
class Count:
    """
    Events and DAG runs of the runs.

    :param ended: Number of runs that have ended, by kind.
    :param missed: Runs without an event.
    :param waiting: Runs whose event has not started a DAG run yet.
    :param times: Number of runs by their number of events.
    :param dag_runs: Number of DAG runs that the events have started.
    :param stray: Events of runs that must have none.
    """

    ended: Counter[str]
    missed: list[str]
    waiting: list[str]
    times: Counter[int]
    dag_runs: int
    stray: list[str]

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.ended.items()))
        twice = ", ".join(f"{number} came {times} times" for times, number in sorted(self.times.items()) if times > 1)
        return (
            f"{self.ended.total()} ended ({kinds}); {len(self.missed)} missed; {len(self.waiting)} not at their DAG;"
            f" {twice or 'none came twice'}; {len(self.stray)} strays; {self.dag_runs} DAG runs"
        )


class Starter(threading.Thread):
    """Thread that starts random runs."""

    def __init__(self, service: LocalService, runs: int, pause: float, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._pause = pause
        self._chance = chance
        self._over = threading.Event()
        self.left = runs

    def run(self) -> None:
        paths = [
            *(f"/elt_streams/s{number}/request_run" for number in range(STREAMS)),
            *(f"/orchestrations/o{number}/request_run" for number in range(ORCHESTRATIONS)),
            "/reverse_etl_syncs/numbers/request_run",
        ]
        # One run of each kind, and then runs of random kinds.
        first = [paths[-1], paths[STREAMS], paths[0]]
        with self._service.client() as client:
            while self.left and not self._over.wait(self._chance.uniform(0, 2 * self._pause)):
                answer = client.post(first.pop() if first else self._chance.choice(paths))
                # The resource may have an active run.
                self.left -= answer.is_success

    def has_at_most(self, left: float) -> bool:
        """Return True if at most this number of runs remains to be started."""
        return self.left <= left

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def watching(airflow: AirflowComponents, dags: Path, folder: Path) -> Iterator[LocalService]:
    """Add the DAGs with watchers, and return their service as soon as each watcher has stored its cursor."""
    with LocalService(seed_in(folder), control=True) as service, connected(airflow, CONNECTION, service):
        file = dags / DAG_FILE.name
        shutil.copy(DAG_FILE, file)
        try:
            wait_for("each watcher has a cursor", lambda: cursors(airflow) >= WATCHERS, limit=120)
            yield service
        finally:
            # The watchers end when Airflow detects that their file was removed.
            file.unlink()


def cursors(airflow: AirflowComponents) -> int:
    return count_rows(airflow.database_url, "asset_state_store", "datapipe-")


def play(
    airflow: AirflowComponents,
    service: LocalService,
    *,
    runs: int,
    restarts: int,
    pause: float,
    seed: int,
    say: Callable[[str], None] = lambda line: None,
) -> Count:
    """Start runs while the triggerer is stopped repeatedly, and count the events."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    # Failed runs count, too, but slices of a load do not.
    service.runs(
        {
            "minimum_duration": 0.3,
            "resources": {
                f"s{number}": {
                    "minimum_duration": number / 4,
                    "outcomes": [{"fail": "planned failure"}, {"chunks": 2}, {}] if number % 3 == 0 else [],
                }
                for number in range(STREAMS)
            },
        }
    )
    counter = EventCounter(airflow, service)
    starter = Starter(service, runs, pause, chance)
    starter.start()
    try:
        for number in range(restarts):
            # Stops are distributed over the time in which runs start.
            due = runs - (number + 0.5) * runs / restarts
            wait_for("more runs are started", partial(starter.has_at_most, due), limit=600, interval=0.3)
            time.sleep(chance.uniform(0, 1.5))
            if number == 0 or chance.random() >= ASKED:
                airflow.kill("triggerer")
            airflow.restart("triggerer")
            say(f"triggerer restarted {number + 1} times; {starter.left} runs to be started; {counter.count()}")
        wait_for("all runs are started", lambda: not starter.left, limit=600, interval=0.3)
    finally:
        starter.stop()

    def is_over() -> bool:
        going = [run for run in journal(service) if run["finished_at"] is None]
        return not going and not counter.count().missed

    with suppress(ProgramError):
        wait_for("each run has its event", is_over, limit=60, interval=1)
    # A DAG run gets the events up to the one that triggered it. Events that arrived with it wait for the next DAG run,
    # so each DAG needs one more event.
    before = counter.count()
    for path in ("/elt_streams/s1", "/orchestrations/o0", "/reverse_etl_syncs/numbers"):
        service.request("POST", f"{path}/request_run")

    def all_have_reached() -> bool:
        return not set(before.waiting) & set(counter.count().waiting)

    with suppress(ProgramError):
        wait_for("each event has reached its DAG", all_have_reached, limit=60, interval=1)
    after = counter.count()
    return replace(before, waiting=sorted(set(before.waiting) & set(after.waiting)), dag_runs=after.dag_runs)


def journal(service: LocalService) -> list[dict[str, Any]]:
    """Return the watched runs, without those of transforms, which have no IDs."""
    return [run for run in service.journal_runs() if run["kind"] in DAGS]


class EventCounter:
    """Comparison of the journal of the service with the events and DAG runs of Airflow."""

    def __init__(self, airflow: AirflowComponents, service: LocalService) -> None:
        self._airflow = airflow
        self._service = service
        #: Runs whose events have started a DAG run, by DAG run. They do not change afterwards.
        self._reached: dict[str, list[str]] = {}

    def count(self) -> Count:
        # Read the journal first, because a run may end and be reported in between.
        runs = journal(self._service)
        slices = {run["run_id"] for run in runs if run["status"] == "CHUNK_COMPLETED"}
        ended = {
            run["run_id"]: run["kind"] for run in runs if run["finished_at"] is not None and run["run_id"] not in slices
        }
        api = self._airflow.api
        reported = Counter[str]()
        for dag_id in DAGS.values():
            name = dag_id.replace("watching_", "watched_")
            reported.update(_run_ids(_all(api, "/assets/events", "asset_events", name_pattern=name)))
            for run in _all(api, f"/dags/{dag_id}/dagRuns", "dag_runs"):
                path = f"/dags/{dag_id}/dagRuns/{run['dag_run_id']}"
                if path not in self._reached:
                    self._reached[path] = _run_ids(api.request("GET", f"{path}/upstreamAssetEvents")["asset_events"])
        reached = {run_id for run_ids in self._reached.values() for run_id in run_ids}
        return Count(
            Counter(ended.values()),
            sorted(set(ended) - reported.keys()),
            sorted(set(ended) - reached),
            Counter(reported[run_id] for run_id in ended if run_id in reported),
            len(self._reached),
            sorted(slices & reported.keys()),
        )


def _run_ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["extra"]["payload"]["run_id"] for event in events]


def _all(api: AirflowApi, path: str, name: str, **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    order = "timestamp" if "events" in path else "id"
    while True:
        parameters |= {"limit": 100, "offset": len(found), "order_by": order}
        page = api.request("GET", path, params=parameters)
        found += page[name]
        if not page[name] or len(found) >= page["total_entries"]:
            return found


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.events", description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="runs that end (default: %(default)s)")
    parser.add_argument("--restarts", type=int, default=10, help="of the triggerer (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=0.4, help="seconds between two starts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=5, help="chooses what is left to chance (default: %(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s: {line}", flush=True)

    try:
        with ExitStack() as stack:
            workspace = stack.enter_context(Workspace("datapipe-events-"))
            dags, source = workspace.path / "dags", workspace.path / "source"
            dags.mkdir()
            source.mkdir()
            airflow = stack.enter_context(AirflowComponents(dags, progress=say))
            service = stack.enter_context(watching(airflow, dags, source))
            say("each watcher has stored its cursor")
            counted = play(
                airflow,
                service,
                runs=arguments.runs,
                restarts=arguments.restarts,
                pause=arguments.pause,
                seed=arguments.seed,
                say=say,
            )
            asked = Counter(
                request["path"].split("/")[1] for request in service.journal_requests() if request["method"] == "GET"
            )
    except (ProgramError, AirflowApiError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    say(f"requests of the watchers: {dict(asked)}")
    say(f"triggerer restarted {arguments.restarts} times: {counted}")
    return 1 if counted.missed or counted.waiting or counted.stray else 0


if __name__ == "__main__":
    sys.exit(main())
