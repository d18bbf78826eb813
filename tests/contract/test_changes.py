"""Tests of all changing operators against the local service: repeated, with templates, and with lost responses."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from airflow.sdk import DAG

from airflow_provider_datapipe.api.endpoints import ENDPOINTS
from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import (
    EltSyncAddStreamsOperator,
    EltSyncDeleteOperator,
    EltSyncDisableOperator,
)
from tests.contract.seeds import connect
from tests.support.local_service import LocalService
from tests.support.operator_examples import ALONE, EXAMPLES, Example, elt, orchestrations, runs, seed
from tests.support.tasks import Memory, run

pytestmark = pytest.mark.slow

ONE_OF_EACH = list({example.operator: example for example in EXAMPLES}.values())
TEXTS = {name: f"{{{{ params.{name} }}}}" for example in EXAMPLES for name in example.arguments}


def by_name(example: Example) -> str:
    return example.name


class Execution(NamedTuple):
    """
    Executions of an example: with templates, and again without.

    :param results: results or exceptions.
    :param calls: names of the called endpoints that change something.
    """

    results: list[Any]
    calls: set[str]


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[LocalService]:
    """Start a service with the resources of the examples."""
    with LocalService(seed(folder), control=True) as service:
        yield service


#: Changing endpoints with patterns of their paths, without parameters first.
CHANGING = {
    name: re.compile(f"{endpoint.method} " + re.sub(r"\{\w+\}", "[^/]+", endpoint.path))
    for name, endpoint in sorted(ENDPOINTS.items(), key=lambda item: item[1].path.count("{"))
    if endpoint.method != "GET" and name != "reverse_etl_syncs.settings_schema"
}


def called(service: LocalService, after: int) -> set[str]:
    """Return the names of the changing endpoints that were called."""
    requests = [f"{each['method']} {each['path']}" for each in service.journal_requests(after=after)]
    found = (next((name for name, path in CHANGING.items() if path.fullmatch(request)), None) for request in requests)
    return {name for name in found if name}


def rendered(example: Example, arguments: dict[str, Any], *, native: bool) -> Any:
    """Return a task with rendered templates, as in a worker."""
    with DAG(
        "d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native
    ) as dag:
        task = example.operator(task_id="t", **arguments)
    context = {"params": example.arguments, "ds": "2026-01-01", "task": task}
    task.render_template_fields(context, dag.get_template_env())
    return task


def templates_of(example: Example) -> dict[str, Any]:
    """Return the arguments of an example, as templates wherever the operator supports it."""
    fields = example.arguments.keys() & set(example.operator.template_fields)
    return example.arguments | {name: TEXTS[name] for name in fields}


def execution_of(example: Example, service: LocalService) -> Execution:
    begin = max((each["seq"] for each in service.journal_requests()), default=0)
    results: list[Any] = []
    for is_again in (False, True):
        if is_again and example.again is None:
            break
        try:
            if is_again or example in ALONE:
                task = example.operator(task_id=example.name, **example.arguments)
            else:
                task = rendered(example, templates_of(example), native=False)
            results.append(run(task, Memory()))
        except Exception as error:  # noqa: BLE001 - the test of this example reports it
            results.append(error)
    return Execution(results, called(service, begin))


@pytest.fixture(scope="module")
def executions(running: LocalService) -> dict[str, Execution]:
    """Execute all examples. Each has its own resources."""
    done = {}
    with pytest.MonkeyPatch.context() as patch:
        connect(patch, running)
        running.reset()
        for example in [*EXAMPLES, *ALONE]:
            if example in ALONE:
                running.reset()
            done[example.name] = execution_of(example, running)
    return done


def fits(result: Any, expected: Mapping[str, Any]) -> None:
    if isinstance(result, Exception):
        raise result
    assert json.loads(json.dumps(result)) == result
    assert {key: result[key] for key in expected} == expected


@pytest.mark.parametrize("example", [*EXAMPLES, *ALONE], ids=by_name)
def test_operator_with_templates_and_its_repetition(example: Example, executions: dict[str, Execution]) -> None:
    results, calls = executions[example.name]
    expected = [example.expected] if example.again is None else [example.expected, example.again]
    for result, wanted in zip(results, expected, strict=True):
        fits(result, wanted)
    assert calls <= set(example.operator.endpoints)


def test_operators_call_their_declared_endpoints(executions: dict[str, Execution]) -> None:
    by_operator: dict[type[Any], set[str]] = {}
    for example in [*EXAMPLES, *ALONE]:
        by_operator.setdefault(example.operator, set()).update(executions[example.name].calls)
    assert set().union(*by_operator.values()) == set(CHANGING)
    assert by_operator == {operator: set(operator.endpoints) for operator in by_operator}


@pytest.mark.parametrize(
    "operator",
    # Arguments of waits, such as timeouts, are not templated.
    sorted({example.operator for example in EXAMPLES} - {example.operator for example in runs.EXAMPLES}, key=str),
)
def test_all_arguments_are_template_fields(operator: type[Any]) -> None:
    init = next(vars(base)["__init__"] for base in operator.__mro__ if "__init__" in vars(base))
    parameters = inspect.signature(init).parameters.values()
    own = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    # Notifiers have their own templates, with values that exist only after the operator has run.
    assert own - {"notifiers"} <= set(operator.template_fields)


@pytest.mark.parametrize("example", ONE_OF_EACH, ids=by_name)
def test_arguments_can_be_native_objects(example: Example, service: LocalService) -> None:
    fits(run(rendered(example, templates_of(example), native=True)), example.expected)


@pytest.mark.parametrize("example", ONE_OF_EACH, ids=by_name)
def test_numeric_text_is_text_or_refused(example: Example, service: LocalService) -> None:
    # Native rendering turns the text into a number.
    for name in example.arguments.keys() & set(example.operator.template_fields):
        for text in ("2024", "1.5"):
            with suppress(DatapipeError, ValueError):
                task = rendered(example, example.arguments | {name: text}, native=True)
                assert isinstance(run(task).get("id"), str | None)


def retried(task: Any) -> Any:
    """Run a task, and retry it once after a failure."""
    memory = Memory()
    try:
        return run(task, memory)
    except DatapipeError:
        return run(task, memory)


@pytest.mark.parametrize("retry_budget", [10, 0], ids=["request is retried", "task is retried"])
@pytest.mark.parametrize("example", [*elt.EXAMPLES, *orchestrations.EXAMPLES], ids=by_name)
def test_change_with_a_lost_response_is_made_once(
    example: Example, retry_budget: int, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, service, retry_budget=retry_budget)
    lost = {"path": "/**", "drop": True, "when": "after"}
    service.faults([lost | {"method": method} for method in ("POST", "PATCH", "DELETE")])
    result = retried(example.operator(task_id="t", **example.arguments))
    reported = {key: example.expected[key] for key in ("id", "name") if key in example.expected}
    # The result for a deleted resource has no ID if it was found by name.
    if result["id"] is not None:
        assert {key: result[key] for key in reported} == reported
    requests = service.journal_requests()
    lists = ("/elt_syncs", "/orchestrations")
    created = [each for each in requests if each["method"] == "POST" and each["path"] in lists and each["committed"]]
    assert len(created) == example.expected["action"].startswith("created")
    without_response = [each for each in requests if each["fault"] is not None]
    assert len(without_response) == (example.arguments.get("if_exists") != "keep")
    service.faults([])
    assert example.again is not None
    fits(run(example.operator(task_id="t", **example.arguments)), example.again)


def test_streams_added_without_a_response_are_reported_as_added(
    service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, service, retry_budget=10)
    service.faults([{"method": "POST", "path": "/elt_syncs/*/source_streams", "drop": True, "when": "after"}])
    result = run(EltSyncAddStreamsOperator(task_id="t", sync_id="elt.grow", source_streams="rows"))
    assert result["details"]["added"] == ["rows"]
    assert result["details"]["stream_ids"].keys() == {"rows"}


@pytest.mark.parametrize("with_tables", [False, True])
def test_tables_of_a_deleted_sync_are_dropped_only_on_request(service: LocalService, *, with_tables: bool) -> None:
    schema = "elt_grow"
    streams = run(EltSyncAddStreamsOperator(task_id="t", sync_id="elt.grow", source_streams=["rows"]))["details"]
    loaded = run(EltStreamRunOperator(task_id="t", stream_id=streams["stream_ids"]["rows"]))
    assert loaded["rows_synced"] == 3
    arguments: dict[str, Any] = {"remove_data_references": True} if with_tables else {}
    run(EltSyncDeleteOperator(task_id="t", sync_id="elt.grow", **arguments))
    service.stop()
    try:
        with duckdb.connect(str(service.warehouse), read_only=True) as warehouse:
            found = warehouse.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = ?", [schema])
            assert found.fetchall() == ([] if with_tables else [("rows",)])
    finally:
        service.start()


def test_generic_operator_calls_endpoints_and_raises_errors(service: LocalService) -> None:
    call: dict[str, Any] = {"task_id": "t", "endpoint": "elt_syncs.enable"}
    assert run(DatapipeOperator(arguments={"sync_id": "elt.enable"}, **call)) is None
    assert run(EltSyncDisableOperator(task_id="t", sync_id="elt.enable"))["changed"]
    with pytest.raises(NotFoundError, match="nowhere"):
        run(DatapipeOperator(arguments={"sync_id": "nowhere"}, **call))
    listed = run(DatapipeOperator(task_id="t", endpoint="elt_syncs.list", limit=3))
    assert len(listed) == 3
    assert "config" not in listed[0]
