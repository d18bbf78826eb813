"""Generated task group of the docs with the flights example, on real components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.shell import bash, user_environment
from tests.system.components import AirflowComponents
from tests.system.conftest import connected
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
class Snapshot:
    """State of a DAG run and of the service."""

    state: str
    states: dict[str, str | None]
    tries: dict[str, int]
    runs: Counter[str]
    published: Counter[str]


class Scenario:
    """Runs of the DAGs (failed, cleared and rebuilt), and the graph of the command of the page."""

    def __init__(self, airflow: AirflowComponents, service: LocalService, dags: Path) -> None:
        self._airflow = airflow
        self._service = service
        page = [block for block in blocks() if block.page == PAGE]
        (code,) = [block.text for block in page if block.language == "python"]
        snapshot, graph = [block.text for block in page if block.language == "sh"]
        env = user_environment() | {"AIRFLOW_CONN_FLIGHTS": service.connection()}

        bash(snapshot, dags.parent, env)
        changed = code.replace(f'"{DAG}"', f'"{FIRST}"').replace(
            'snapshot="pipelines.json",', 'snapshot="pipelines.json",\n        transforms="publish",'
        )
        (dags / f"{FIRST}.py").write_text(changed)
        service.runs({"resources": {TABLE: {"outcomes": [{"fail": "The warehouse is full."}]}}})
        run_id = airflow.trigger(FIRST)
        self.failed = self._snapshot(FIRST, run_id)
        airflow.api.clear(FIRST, run_id, only_failed=True)
        self.cleared = self._snapshot(FIRST, run_id)

        # All transforms are published now.
        bash(snapshot, dags.parent, env)
        (dags / f"{DAG}.py").write_text(code)
        self.rebuilt = self._snapshot(DAG, airflow.trigger(DAG))
        self.drawn = bash(graph, dags.parent, env)

    def _snapshot(self, dag_id: str, run_id: str) -> Snapshot:
        state = self._airflow.wait(dag_id, run_id)
        tasks = self._airflow.api.task_instances(dag_id, run_id)
        changing = [each for each in self._service.journal_requests("/transforms/*/*") if each["committed"]]
        return Snapshot(
            state,
            {task.task_id: task.state for task in tasks},
            {task.task_id: task.try_number for task in tasks},
            Counter(run["resource_id"] for run in self._service.journal_runs() if run["kind"] != "transform"),
            Counter("/".join(each["path"].split("/")[-2:]) for each in changing),
        )


@pytest.fixture(scope="module")
def scenario(airflow: AirflowComponents, dags_folder: Path) -> Iterator[Scenario]:
    with ExitStack() as stack:
        partner = stack.enter_context(PartnerApi())
        variables = {"NYCFLIGHTS13_DATA": str(source_folder()), "PARTNER_URL": partner.address}
        service = stack.enter_context(LocalService(SEED, environment=variables, control=True))
        stack.enter_context(connected(airflow, "flights", service))
        try:
            yield Scenario(airflow, service, dags_folder)
        finally:
            # Other tests use the folder, too, and their DAGs do not have this snapshot.
            for dag_id in (FIRST, DAG):
                (dags_folder / f"{dag_id}.py").unlink(missing_ok=True)


def test_failed_transform_blocks_only_its_downstream_tasks(scenario: Scenario) -> None:
    assert scenario.failed.state == "failed"
    assert scenario.failed.states == dict.fromkeys([*LOADS, JOINED], "success") | {
        BUILT: "failed",
        REPORT: "upstream_failed",
    }
    assert scenario.failed.runs == Counter(STREAMS)
    assert scenario.failed.published == Counter([f"{VIEW}/publish", f"{TABLE}/publish"])


def test_clearing_failed_tasks_reruns_only_them(scenario: Scenario) -> None:
    assert scenario.cleared.state == "success"
    assert set(scenario.cleared.states.values()) == {"success"}
    # No stream was loaded again, and the view was not published again.
    assert scenario.cleared.runs == Counter({*STREAMS, SENT})
    assert scenario.cleared.published - scenario.failed.published == Counter([f"{TABLE}/publish"])
    again = {task for task, tries in scenario.cleared.tries.items() if tries > scenario.failed.tries[task]}
    assert BUILT in again
    assert again <= {BUILT, REPORT}


def test_published_transforms_are_rebuilt_in_reference_order(scenario: Scenario) -> None:
    assert scenario.rebuilt.state == "success"
    assert set(scenario.rebuilt.states) == {*LOADS, JOINED, BUILT, REPORT}
    assert scenario.rebuilt.runs - scenario.cleared.runs == Counter({*STREAMS, SENT})
    asked = scenario.rebuilt.published - scenario.cleared.published
    assert asked == Counter([f"{VIEW}/rematerialize", f"{TABLE}/rematerialize"])


def test_diagram_of_the_page_is_up_to_date(scenario: Scenario) -> None:
    (shown,) = [block.text for block in blocks() if block.page == PAGE and block.language == "mermaid"]
    assert scenario.drawn == shown
