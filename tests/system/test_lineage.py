"""OpenLineage events of tasks on real components: the example, failures, and calls of the hook."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

import attr
import jsonschema
import pytest
from openlineage.client import event_v2, facet_v2

import airflow_provider_datapipe.lineage
from airflow_provider_datapipe.lineage.facets import FACET, SCHEMA_URL, DatapipeRunsRunFacet
from tests.support.local_service import LocalService
from tests.system.components import AirflowComponents
from tests.system.demo import DAG
from tests.system.lineage_events import Event, Stage, is_last, picture, picture_of_the_page

ROWS = {"flights": 336_776, "airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115}
FACETS_SCHEMA = json.loads(
    (Path(airflow_provider_datapipe.lineage.__file__).parent / "service_runs.schema.json").read_text()
)


@pytest.fixture(scope="module")
def running(airflow: AirflowComponents, service: LocalService, lineage_folder: Path) -> Stage:
    return Stage(airflow, service, lineage_folder)


@pytest.fixture(scope="module")
def example(running: Stage, example_run: str) -> list[Event]:
    """Return the events of the tasks of the example."""
    assert example_run
    return running.events_of(DAG)


@pytest.fixture(scope="module")
def others(running: Stage, example: list[Event]) -> list[Event]:
    """Run the DAG ``lineage`` on the tables of the example, and return the events of its tasks."""
    assert example
    state, events = running.run("lineage")
    assert state == "failed"
    return events


def last_of(events: list[Event], job: str) -> Event:
    (event,) = [each for each in events if each["job"]["name"] == job and is_last(each)]
    return event


def names(datasets: list[Any]) -> list[str]:
    return sorted(each["name"] for each in datasets)


def test_inputs_and_outputs_of_the_example_tasks(example: list[Event], running: Stage) -> None:
    namespace = f"datapipe://{running.service.base_url.removeprefix('http://')}"
    read_and_written = {
        "load": (
            sorted(f"connections/nyc_files/{name}" for name in ROWS),
            sorted(f"nycflights.{name}" for name in ROWS),
        ),
        "publish_departures": (sorted(f"nycflights.{name}" for name in ROWS), ["flights.departures"]),
        "publish_delays": (["flights.departures"], ["flights.carrier_month_delays"]),
        "report": (["flights.carrier_month_delays"], ["connections/partner/delays"]),
        "report_again": (["flights.carrier_month_delays"], ["connections/partner/delays"]),
    }
    for task, (read, written) in read_and_written.items():
        event = last_of(example, f"{DAG}.{task}")
        assert event["eventType"] == "COMPLETE"
        assert (names(event["inputs"]), names(event["outputs"])) == (read, written)
        assert {each["namespace"] for each in [*event["inputs"], *event["outputs"]]} == {namespace}
        starts = [each for each in example if each["job"]["name"] == f"{DAG}.{task}" and each["eventType"] == "START"]
        assert starts
        assert all(names(each["inputs"]) == read for each in starts)


def test_facets_of_the_example_tasks(example: list[Event]) -> None:
    load = last_of(example, f"{DAG}.load")
    counted = {each["name"]: each["outputFacets"]["outputStatistics"]["rowCount"] for each in load["outputs"]}
    assert counted == {f"nycflights.{name}": count for name, count in ROWS.items()}
    runs = load["run"]["facets"][FACET]["runs"]
    assert {run["resourceId"] for run in runs} == {f"nycflights.{name}" for name in ROWS}
    assert all(run["runId"] and run["outcome"] == "succeeded" for run in runs)

    (delays,) = last_of(example, f"{DAG}.publish_delays")["outputs"]
    types = {field["name"]: field["type"] for field in delays["facets"]["schema"]["fields"]}
    assert list(types) == [
        "carrier",
        "carrier_name",
        "month",
        "flights",
        "cancelled",
        "average_departure_delay",
        "average_arrival_delay",
        "average_wind_speed",
    ]
    assert all(types.values())
    (departures,) = last_of(example, f"{DAG}.publish_departures")["outputs"]
    made_from = departures["facets"]["columnLineage"]["fields"]
    assert made_from["carrier_name"]["inputFields"][0]["name"] == "nycflights.airlines"
    assert made_from["carrier_name"]["inputFields"][0]["field"] == "name"
    # Column lineage through a star.
    assert made_from["dep_delay"]["inputFields"][0]["name"] == "nycflights.flights"
    sql = last_of(example, f"{DAG}.publish_departures")["job"]["facets"]["sql"]["query"]
    assert "FROM nycflights.flights AS flights" in sql

    (partner,) = last_of(example, f"{DAG}.report_again")["outputs"]
    assert partner["outputFacets"]["outputStatistics"]["rowCount"] == 25
    origin = partner["facets"]["columnLineage"]["fields"]["cancelled"]["inputFields"][0]
    assert (origin["name"], origin["field"]) == ("flights.carrier_month_delays", "cancelled")


def test_failed_tasks_have_error_facets(others: list[Event]) -> None:
    for how in ("deferred", "blocking"):
        event = last_of(others, f"lineage.failing_{how}")
        assert event["eventType"] == "FAIL"
        assert "this row is bad" in event["run"]["facets"]["errorMessage"]["message"]
        (run,) = event["run"]["facets"][FACET]["runs"]
        assert (run["outcome"], run["resourceId"]) == ("failed", "failing_table")
        assert "this row is bad" in run["error"]
        assert "this row is bad" in event["job"]["facets"]["sql"]["query"]


def test_query_tasks_have_sql_and_inputs(others: list[Event]) -> None:
    for how in ("deferred", "blocking"):
        event = last_of(others, f"lineage.query_{how}")
        assert event["job"]["facets"]["sql"]["query"] == "SELECT count(*) AS airlines FROM nycflights.airlines"
        assert names(event["inputs"]) == ["nycflights.airlines"]
        (run,) = event["run"]["facets"][FACET]["runs"]
        assert event["run"]["facets"]["externalQuery"]["externalQueryId"] == run["runId"]


def test_hook_calls_of_a_function_have_events(others: list[Event]) -> None:
    event = last_of(others, "lineage.by_hand")
    assert names(event["outputs"]) == ["nycflights.airlines"]
    query = last_of(others, "lineage.by_hand.query.1")
    assert query["job"]["facets"]["sql"]["query"] == "SELECT 1 AS one"
    assert query["run"]["facets"]["parent"]["run"]["runId"] == event["run"]["runId"]


def test_events_match_the_classes_of_the_openlineage_client(
    running: Stage, example: list[Event], others: list[Event]
) -> None:
    events = running.events()
    assert len(events) > len(example) + len(others)
    ours = 0
    for event in events:
        run = event["run"]
        jsonschema.validate({FACET: run["facets"][FACET]}, FACETS_SCHEMA) if FACET in run["facets"] else None
        ours += FACET in run["facets"]
        parsed = event_v2.RunEvent(
            eventType=event_v2.RunState[event["eventType"]],
            eventTime=event["eventTime"],
            run=event_v2.Run(run["runId"], facets_of(run["facets"])),
            job=event_v2.Job(event["job"]["namespace"], event["job"]["name"], facets_of(event["job"]["facets"])),
            inputs=[dataset(event_v2.InputDataset, "inputFacets", each) for each in event["inputs"]],
            outputs=[dataset(event_v2.OutputDataset, "outputFacets", each) for each in event["outputs"]],
            producer=event["producer"],
        )
        assert parsed.schemaURL == event["schemaURL"]
    assert ours


def dataset(kind: Any, of_kind: str, reported: dict[str, Any]) -> Any:
    facets = {name: facets_of(reported.get(name, {})) for name in ("facets", of_kind)}
    return kind(reported["namespace"], reported["name"], **facets)


def facets_of(reported: dict[str, Any]) -> dict[str, Any]:
    """Parse facets with the classes of their schemas. Facets of Airflow itself are omitted."""
    read = {name: (CLASSES.get(facet["_schemaURL"]), facet) for name, facet in reported.items()}
    ours_or_standard = {name: made(found, facet) for name, (found, facet) in read.items() if found is not None}
    left_out = [name for name, (found, _) in read.items() if found is None]
    assert all(name.startswith(("airflow", "unknownSource")) or name == "debug" for name in left_out), left_out
    return ours_or_standard


def made(found: Any, reported: Any) -> Any:
    """Create an object of a class of the client from JSON. An unknown or missing field is an error."""
    if isinstance(reported, list):
        return [made(found, each) for each in reported]
    if not isinstance(reported, dict) or not attr.has(found):
        return reported
    hints = typing.get_type_hints(found)
    fields = {field.name: field for field in attr.fields(found)}
    given = {}
    for name, value in reported.items():
        assert name in fields, (found, name)
        if fields[name].init and name != "_schemaURL":
            given[fields[name].alias] = of_hint(hints.get(name), value)
    thing = found(**given)
    attr.validate(thing)
    return thing


def of_hint(hint: Any, value: Any) -> Any:
    inner = [each for each in typing.get_args(hint) if each is not type(None)]
    if typing.get_origin(hint) is dict:
        return {key: of_hint(inner[1], each) for key, each in value.items()}
    if typing.get_origin(hint) is list:
        return [of_hint(inner[0], each) for each in value]
    if inner:
        return of_hint(inner[0], value)
    return made(hint, value) if isinstance(hint, type) else value


def _classes() -> dict[str, Any]:
    modules = [module for module in vars(facet_v2).values() if type(module).__name__ == "module"]
    classes = {
        found._get_schema(): found
        for module in modules
        for found in vars(module).values()
        # Facets of Airflow use the common schema of all facets.
        if isinstance(found, type) and attr.has(found) and not found.__module__.endswith(".base")
        if hasattr(found, "_get_schema")
    }
    return {**classes, SCHEMA_URL: DatapipeRunsRunFacet}


CLASSES = _classes()


def test_parsing_refuses_unknown_and_missing_facet_fields() -> None:
    schema_url = facet_v2.sql_job.SQLJobFacet._get_schema()
    sql = {"_producer": "https://p.example", "_schemaURL": schema_url, "query": "SELECT 1"}
    assert facets_of({"sql": sql})["sql"].query == "SELECT 1"
    with pytest.raises(AssertionError, match="sqll"):
        facets_of({"sql": {**sql, "sqll": "x"}})
    with pytest.raises(TypeError, match="query"):
        facets_of({"sql": {name: value for name, value in sql.items() if name != "query"}})
    with pytest.raises(AssertionError, match="mine"):
        facets_of({"mine": {**sql, "_schemaURL": "https://elsewhere.example"}})


def test_diagram_of_the_lineage_page_is_up_to_date(example: list[Event]) -> None:
    assert picture_of_the_page() == picture(example)


def test_lineage_logs_contain_only_problems(running: Stage, example: list[Event]) -> None:
    logged = "\n".join(path.read_text(errors="replace") for path in running.airflow.log_files() if DAG in str(path))
    assert "reported incompletely to OpenLineage" not in logged
    assert "to OpenLineage: " not in logged
    assert "OpenLineage method failed" not in logged
    assert running.service.api_key not in "".join(json.dumps(event) for event in running.events())
