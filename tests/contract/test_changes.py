"""Tests of every changing operator against the local service: its effect, and that a repetition is safe."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from contextlib import suppress
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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the resources of the examples."""
    with LocalService(seed(tmp_path_factory.mktemp("examples")), control=True) as running:
        yield running


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the service to its seed, and create the connection of the tasks."""
    service.reset()
    extra = {"poll_interval": 0.2, "retry_budget": 0}
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))


def changing() -> dict[str, tuple[str, re.Pattern[str]]]:
    """Return the method and path pattern of each endpoint that changes something."""
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


@ALL
def test_an_operator_does_what_it_says_and_can_do_it_again(example: Example, service: LocalService) -> None:
    fits(run(task_of(example)), example.expected)
    assert called(service) <= set(example.operator.endpoints)
    if example.again is not None:
        fits(run(task_of(example)), example.again)
        assert called(service) <= set(example.operator.endpoints)


def test_every_changing_endpoint_is_called_by_an_operator(service: LocalService) -> None:
    seen: set[str] = set()
    by_operator: dict[type[Any], set[str]] = {}
    for example in [*EXAMPLES, *ALONE]:
        service.reset()
        for _ in range(1 if example.again is None else 2):
            run(task_of(example), Memory())
        by_operator.setdefault(example.operator, set()).update(called(service))
        seen |= called(service)
    assert seen == set(changing())
    # What an operator says that it calls, it calls.
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
    """Return a task with rendered templates, as on a worker."""
    with DAG(
        "d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native
    ) as dag:
        task = example.operator(task_id="t", **arguments)
    context = {"params": example.arguments, "ds": "2026-01-01", "task": task}
    task.render_template_fields(context, dag.get_template_env())
    return task


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


@pytest.mark.parametrize("example", ONE_OF_EACH, ids=lambda example: example.name)
def test_a_text_that_looks_like_a_number_is_one_or_is_refused(example: Example) -> None:
    # A DAG that renders native objects makes a number of it.
    for name in example.arguments.keys() & set(example.operator.template_fields):
        for text in ("2024", "1.5"):
            with suppress(DatapipeError, ValueError):
                task = rendered(example, example.arguments | {name: text}, native=True)
                assert isinstance(run(task).get("id"), str | None)
