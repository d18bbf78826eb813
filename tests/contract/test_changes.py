"""Every operator that changes something, against the real service: what it does, once and again."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator

from airflow_provider_datapipe.api.endpoints import ENDPOINTS
from airflow_provider_datapipe.api.errors import DatapipeError
from tests.support.local_service import LocalService
from tests.support.operator_examples import ALONE, EXAMPLES, Example, runs, seed
from tests.support.tasks import Memory, run

pytestmark = pytest.mark.slow


ALL = pytest.mark.parametrize("example", [*EXAMPLES, *ALONE], ids=lambda example: example.name)

ONE_OF_EACH = list({example.operator: example for example in EXAMPLES}.values())


@dataclass(frozen=True)
class Execution:
    """
    The executions of an example, one after another.

    :param results: The results, or the exceptions.
    :param calls: The names of the changing endpoints that were called until then.
    """

    results: list[Any]
    calls: list[set[str]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with what the examples need."""
    with LocalService(seed(tmp_path_factory.mktemp("examples")), control=True) as running:
        yield running


@pytest.fixture
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with the seed alone, and make the connection that the tasks use."""
    service.reset()
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection_to(service))


def connection_to(service: LocalService) -> str:
    extra = {"poll_interval": 0.2, "retry_budget": 0}
    return json.dumps({"conn_type": "datapipe", "host": service.base_url, "password": service.api_key, "extra": extra})


def changing() -> dict[str, tuple[str, re.Pattern[str]]]:
    """Return the endpoints that change something: the method, and a pattern of the path."""
    found = {}
    for name, endpoint in ENDPOINTS.items():
        if endpoint.method == "GET" or name == "reverse_etl_syncs.settings_schema":
            continue
        found[name] = (endpoint.method, re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(endpoint.path))))
    return found


def called(service: LocalService) -> set[str]:
    """Return the names of the changing endpoints that were called."""
    requests = [(each["method"], each["path"]) for each in service.journal_requests()]
    fixed_first = sorted(changing().items(), key=lambda item: ENDPOINTS[item[0]].path.count("{"))
    names = set()
    for method, path in requests:
        for name, (wanted, pattern) in fixed_first:
            if method == wanted and pattern.fullmatch(path):
                names.add(name)
                break
    return names


def task_of(example: Example) -> Any:
    task: BaseOperator = example.operator(task_id=example.name, **example.arguments)
    return task


def fits(result: Any, expected: dict[str, Any]) -> None:
    assert json.loads(json.dumps(result)) == result
    assert {key: result[key] for key in expected} == expected


def execution_of(example: Example, service: LocalService) -> Execution:
    service.reset()
    results: list[Any] = []
    calls: list[set[str]] = []
    for _ in range(1 if example.again is None else 2):
        try:
            results.append(run(task_of(example), Memory()))
        except Exception as error:  # noqa: BLE001 - the test of this example reports it
            results.append(error)
        calls.append(called(service))
    return Execution(results, calls)


@pytest.fixture(scope="module")
def executions(service: LocalService) -> dict[str, Execution]:
    """Execute all examples, each twice if that is possible."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection_to(service))
        return {example.name: execution_of(example, service) for example in [*EXAMPLES, *ALONE]}


@ALL
def test_an_operator_does_what_it_says_and_can_do_it_again(example: Example, executions: dict[str, Execution]) -> None:
    execution = executions[example.name]
    expected = [example.expected] if example.again is None else [example.expected, example.again]
    for result, wanted in zip(execution.results, expected, strict=True):
        if isinstance(result, Exception):
            raise result
        fits(result, wanted)
    assert all(calls <= set(example.operator.endpoints) for calls in execution.calls)


def test_operators_call_the_endpoints_that_they_declare(executions: dict[str, Execution]) -> None:
    by_operator: dict[type[Any], set[str]] = {}
    for example in [*EXAMPLES, *ALONE]:
        by_operator.setdefault(example.operator, set()).update(*executions[example.name].calls)
    assert set().union(*by_operator.values()) == set(changing())
    assert by_operator == {operator: set(operator.endpoints) for operator in by_operator}


@pytest.mark.parametrize(
    "operator",
    # How long to wait, and what counts as failed, is said when a DAG is written.
    sorted({example.operator for example in EXAMPLES} - {example.operator for example in runs.EXAMPLES}, key=str),
)
def test_every_argument_is_a_template_field(operator: type[Any]) -> None:
    init = next(vars(base)["__init__"] for base in operator.__mro__ if "__init__" in vars(base))
    parameters = inspect.signature(init).parameters.values()
    own = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    # Notifiers have templates of their own, for what is not there before the operator has run.
    assert own - {"notifiers"} <= set(operator.template_fields)


def rendered(example: Example, arguments: dict[str, Any], *, native: bool) -> Any:
    """Return a task with rendered templates, as in a worker."""
    with DAG(
        "d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native
    ) as dag:
        task = example.operator(task_id="t", **arguments)
    context = {"params": example.arguments, "ds": "2026-01-01", "task": task}
    task.render_template_fields(context, dag.get_template_env())
    return task


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("example", "native"),
    [*((each, False) for each in EXAMPLES), *((each, True) for each in ONE_OF_EACH)],
    ids=lambda value: value.name if isinstance(value, Example) else "as objects" if value else "as text",
)
def test_every_argument_can_be_a_template(example: Example, *, native: bool) -> None:
    arguments = example.arguments | {
        name: f"{{{{ params.{name} }}}}" for name in example.arguments.keys() & set(example.operator.template_fields)
    }
    fits(run(rendered(example, arguments, native=native)), example.expected)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("example", ONE_OF_EACH, ids=lambda example: example.name)
def test_a_text_that_looks_like_a_number_is_one_or_is_refused(example: Example) -> None:
    # A DAG that renders native objects makes a number of it.
    for name in example.arguments.keys() & set(example.operator.template_fields):
        for text in ("2024", "1.5"):
            with suppress(DatapipeError, ValueError):
                task = rendered(example, example.arguments | {name: text}, native=True)
                assert isinstance(run(task).get("id"), str | None)
