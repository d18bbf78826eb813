"""TaskFlow decorators: return values become arguments of the task, and invalid ones are refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_datapipe.get_provider_info import TASK_DECORATORS, get_provider_info
from tests.support.dags import new_dag, stored_dag

NAMES = list(TASK_DECORATORS)
#: Required arguments of decorators.
REQUIRED: dict[str, dict[str, Any]] = {
    "datapipe_query_value_check": {"pass_value": 1},
    "datapipe_query_threshold_check": {"min_threshold": 0, "max_threshold": 9},
}
SQL = "SELECT '{{ ds }}' AS day FROM {{raw.shop.orders}}"
CONTEXT: dict[str, Any] = {"ds": "2026-01-02", "params": {}}


@pytest.fixture
def dag() -> Iterator[DAG]:
    with new_dag() as made:
        yield made


def task_of(output: Any) -> Any:
    """Return the task of a decorated function with this return value."""
    return output.operator


def of(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Create the task of a decorator."""
    return task_of(getattr(task, name)(task_id="t", **REQUIRED.get(name, {}))(function)(*args, **kwargs))


def computed(made: Any) -> Any:
    """Call the function of a task, and return the task before its execution."""
    context = {**CONTEXT, "task": made}
    found = made._read(made._call(context))
    for name, value in found.items():
        setattr(made, name, value)
    made._render_computed(context, found)
    return made


def test_decorators_are_registered_with_airflow() -> None:
    info = get_provider_info()["task-decorators"]
    assert [each["name"] for each in info] == NAMES
    for each in info:
        module, _, name = each["class-name"].rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("name", NAMES)
def test_dag_serialization_round_trip(name: str, dag: DAG) -> None:
    made = of(name, lambda: "x")
    assert made.custom_operator_name == f"@task.{name}"
    assert not made.multiple_outputs
    for field in made.template_fields:
        assert hasattr(made, field)
    assert stored_dag(dag).get_task(made.task_id).operator_name == f"@task.{name}"


@pytest.mark.parametrize("name", NAMES)
def test_decorated_functions_support_override_and_mapping(name: str, dag: DAG) -> None:
    def compute(table: str, day: str) -> str:
        return f"{table} {day}"

    decorated = getattr(task, name)(**REQUIRED.get(name, {}))(compute)
    decorated.override(task_id="other", retries=3)("a", day="b")
    other: Any = dag.get_task("other")
    assert (other.retries, other.op_args) == (3, ("a",))
    decorated.override(task_id="mapped").partial(day="b").expand(table=["x", "y"])
    mapped: Any = dag.get_task("mapped")
    one = mapped.unmap({"op_kwargs": {"table": "x", "day": "b"}})
    assert one.python_callable(**one.op_kwargs) == "x b"
    assert set(stored_dag(dag).task_ids) == {"other", "mapped"}


@pytest.mark.parametrize("name", [each for each in NAMES if each not in REQUIRED])
def test_decorators_work_without_parentheses(name: str, dag: DAG) -> None:
    def compute() -> str:
        return "x"

    getattr(task, name)(compute)()
    assert dag.task_ids == ["compute"]


@pytest.mark.parametrize("name", [each for each in NAMES if "query" in each])
def test_returned_sql_is_rendered_and_arguments_only_once(name: str, dag: DAG) -> None:
    made = of(name, lambda table, other, ds: f"{SQL} WHERE x = '{table}' -- {ds}", "orders", other="{{ ds }}")
    sql = computed(made).sql_template
    assert sql == "SELECT '2026-01-02' AS day FROM {{raw.shop.orders}} WHERE x = 'orders' -- 2026-01-02"
    # Airflow has already rendered the arguments. Text that looks like a template stays as it is.
    assert made.op_kwargs == {"other": "{{ ds }}"}


@pytest.mark.parametrize("name", [each for each in NAMES if "query" in each])
@pytest.mark.usefixtures("dag")
def test_function_arguments_are_no_variables_of_sql(name: str) -> None:
    def compute(model: str, ds: str) -> str:
        return f"{SQL}, {{{{model.sales.{model}}}}} -- {ds}"

    sql = computed(of(name, compute, model="orders", ds="x")).sql_template
    assert sql == "SELECT '2026-01-02' AS day FROM {{raw.shop.orders}}, {{model.sales.orders}} -- x"


def test_function_can_return_several_arguments(dag: DAG) -> None:
    @task.datapipe_query_value_check(tolerance=0.1)
    def value() -> dict[str, Any]:
        return {"sql_template": "SELECT 1", "pass_value": 1}

    made = computed(task_of(value()))
    assert (made.sql_template, made.pass_value, made.tolerance) == ("SELECT 1", 1, 0.1)

    @task.datapipe_query_threshold_check(min_threshold=1)
    def thresholds() -> dict[str, Any]:
        return {"sql_template": "SELECT 1", "max_threshold": "SELECT '{{ ds }}'"}

    made = computed(task_of(thresholds()))
    assert (made.min_threshold, made.max_threshold) == (1, "SELECT '2026-01-02'")


@pytest.mark.parametrize(
    ("name", "arguments", "returned", "problem"),
    [
        ("datapipe_query", {}, None, "must return SQL as text, not nothing"),
        ("datapipe_query", {}, " ", "must return SQL"),
        ("datapipe_query_check", {}, ["SELECT 1"], "not list"),
        ("datapipe_query_check", {}, {"sql_template": "SELECT 1"}, "not dict"),
        ("datapipe_query_value_check", {}, "SELECT 1", "must also return pass_value"),
        ("datapipe_query_value_check", {}, {"pass_value": 1}, "must also return sql_template"),
        ("datapipe_query_value_check", {"pass_value": 1}, {"sql": 1}, "'sql'; allowed are sql_template"),
        ("datapipe", {}, None, "must return the name of an endpoint"),
        ("datapipe", {}, {"arguments": {}}, "must also return endpoint"),
        ("datapipe", {}, ("a", {}, 1), "must return the name"),
        ("datapipe", {"endpoint": "elt_syncs.get"}, "shop", "must return the arguments of elt_syncs.get"),
        ("datapipe_webhook", {}, None, "must return an object or a list"),
        ("datapipe_webhook", {}, "[]", "not str"),
    ],
)
@pytest.mark.usefixtures("dag")
def test_invalid_return_values_are_refused(name: str, arguments: dict[str, Any], returned: Any, problem: str) -> None:
    made = task_of(getattr(task, name)(task_id="t", **arguments)(lambda: returned)())
    with pytest.raises(TypeError, match=problem):
        computed(made)


@pytest.mark.parametrize(
    ("arguments", "returned", "expected"),
    [
        ({"endpoint": "elt_syncs.get"}, {"sync_id": "{{ ds }}"}, ("elt_syncs.get", {"sync_id": "{{ ds }}"})),
        ({"endpoint": "connections.list"}, None, ("connections.list", {})),
        ({}, ("elt_syncs.get", {"sync_id": "s"}), ("elt_syncs.get", {"sync_id": "s"})),
        ({}, {"endpoint": "elt_syncs.get", "arguments": {"sync_id": "s"}}, ("elt_syncs.get", {"sync_id": "s"})),
        ({}, "connections.list", ("connections.list", {})),
        ({"arguments": {"sync_id": "s"}}, "elt_syncs.get", ("elt_syncs.get", {"sync_id": "s"})),
        ({"arguments": {"sync_id": "s"}}, ("elt_syncs.get", {"sync_id": "t"}), ("elt_syncs.get", {"sync_id": "t"})),
        ({"endpoint": "elt_syncs.get", "arguments": {"sync_id": "s"}}, None, ("elt_syncs.get", {"sync_id": "s"})),
        ({"endpoint": "elt_syncs.get", "arguments": {"sync_id": "s"}}, {}, ("elt_syncs.get", {})),
    ],
)
@pytest.mark.usefixtures("dag")
def test_function_returns_endpoint_or_arguments(arguments: dict[str, Any], returned: Any, expected: Any) -> None:
    made = computed(task_of(task.datapipe(task_id="t", **arguments)(lambda: returned)()))
    # Data is not rendered.
    assert (made.endpoint, made.arguments) == expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [([{"a": "{{ ds }}"}], [{"a": "{{ ds }}"}]), ({"a": 1}, {"a": 1}), (iter([{"a": 1}]), [{"a": 1}]), ([], [])],
)
@pytest.mark.usefixtures("dag")
def test_returned_records_are_sent_unchanged(returned: Any, expected: Any) -> None:
    assert computed(task_of(task.datapipe_webhook(task_id="t")(lambda: returned)())).records == expected


@pytest.mark.usefixtures("dag")
def test_coroutine_function_is_refused_at_parsing() -> None:
    async def later() -> str:
        return "SELECT 1"

    with pytest.raises(TypeError, match=r"later must be a plain function: @task\.datapipe_query calls it"):
        task.datapipe_query(later)()


@pytest.mark.usefixtures("dag")
def test_annotation_does_not_enable_multiple_outputs() -> None:
    def compute() -> dict[str, Any]:
        return {"endpoint": "connections.list"}

    assert not task_of(task.datapipe(compute)()).multiple_outputs
    assert task_of(task.datapipe(multiple_outputs=True)(compute)()).multiple_outputs
