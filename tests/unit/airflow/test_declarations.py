"""Operators and sensors with declared constructor arguments."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from airflow.sdk import BaseNotifier, BaseOperator

import airflow_provider_datapipe.operators
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamSetIntervalOperator
from airflow_provider_datapipe.operators.elt_syncs import DatapipeEltSyncOperator, EltSyncUpdateOperator
from airflow_provider_datapipe.sensors.run import OrchestrationRunSensor
from tests.support.operator_examples import EXAMPLES

#: Names that operators import for annotations only.
ANNOTATIONS = {"dt": dt, "BaseNotifier": BaseNotifier}


def subclasses(parent: type[Any]) -> Iterator[type[Any]]:
    for child in parent.__subclasses__():
        if child.__module__.startswith(f"{airflow_provider_datapipe.operators.__name__}."):
            yield child
            yield from subclasses(child)


for _module in pkgutil.iter_modules(airflow_provider_datapipe.operators.__path__):
    importlib.import_module(f"{airflow_provider_datapipe.operators.__name__}.{_module.name}")
DECLARED = sorted(
    {found for found in subclasses(DatapipeChangeOperator) if hasattr(found, "flow")}, key=lambda found: found.__name__
)
EXAMPLE = {example.operator: example for example in reversed(EXAMPLES)}


def flow_of(operator: type[DatapipeChangeOperator]) -> Callable[..., Any]:
    module, _, name = operator.flow.partition(".")
    found = getattr(importlib.import_module(f"airflow_provider_datapipe.resources.{module}"), name)
    assert inspect.iscoroutinefunction(found)
    return found  # type: ignore[no-any-return]  # found by its name


def alternatives(annotation: Any) -> set[Any]:
    """Return the types of a union, and the values of literals, without type arguments."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return set().union(*(alternatives(each) for each in get_args(annotation)))
    if origin is Literal:
        return set(get_args(annotation))
    return {origin or annotation}


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(inspect.unwrap(function), localns=ANNOTATIONS)


def test_operators_that_change_a_resource_are_declared() -> None:
    concrete = {found for found in subclasses(DatapipeChangeOperator) if found in EXAMPLE}
    assert {found.__name__ for found in concrete - {*DECLARED}} == {
        "SchedulePauseOperator",
        "ScheduleRestoreOperator",
        "ScheduleSnapshotOperator",
    }


@pytest.mark.parametrize("operator", DECLARED)
def test_a_flow_takes_exactly_the_declared_arguments(operator: type[DatapipeChangeOperator]) -> None:
    task = operator(task_id="t", **EXAMPLE[operator].arguments)
    given = task._arguments()
    assert set(given) == set(inspect.signature(flow_of(operator)).parameters)
    assert set(operator.declared_arguments) >= set(operator.not_in_flow)
    for value in given.values():
        if inspect.iscoroutine(value):
            value.close()


@pytest.mark.parametrize("operator", DECLARED)
def test_a_flow_takes_the_types_of_the_arguments(operator: type[DatapipeChangeOperator]) -> None:
    taken = types_of(flow_of(operator))
    declared: dict[str, Any] = {}
    for base in reversed(operator.__mro__):
        if issubclass(base, DatapipeChangeOperator) and "__init__" in vars(base):
            declared |= types_of(vars(base)["__init__"])
    for name in {*operator.declared_arguments} & taken.keys():
        allowed = alternatives(taken[name])
        # A value of a literal matches its type.
        given = {each for each in alternatives(declared[name]) if type(each) not in allowed}
        assert Any in allowed or given <= allowed, name


def test_arguments_are_attributes_and_template_fields() -> None:
    task = EltStreamSetIntervalOperator(task_id="t", stream_id="s", sync_interval="0 3 * * *")
    declared = ("stream_id", "stream_name", "sync_id", "destination_schema_name", "sync_interval")
    assert [getattr(task, name) for name in declared] == ["s", None, None, None, "0 3 * * *"]
    assert task.declared_arguments == declared
    assert task.template_fields == ("datapipe_conn_id", *declared)


def test_a_class_with_two_bases_has_the_arguments_of_both() -> None:
    assert OrchestrationRunSensor.template_fields == (
        "datapipe_conn_id",
        "after",
        "run_id",
        "orchestration_id",
        "orchestration_name",
    )
    assert set(OrchestrationRunSensor.declared_arguments) >= {"newest", "moment_of", "on_failure"}


class Nightly(EltSyncUpdateOperator):
    """Subclass of a DAG file with an additional argument."""

    template_fields = (*EltSyncUpdateOperator.template_fields, "reason")

    def __init__(self, *, schema: str, reason: str, **kwargs: Any) -> None:
        super().__init__(destination_schema_name=schema, sync_interval="0 3 * * *", **kwargs)
        self.reason = reason


def test_arguments_of_a_class_in_a_dag_file_are_its_own() -> None:
    task = Nightly(task_id="t", schema="shop", reason="why")
    assert not hasattr(task, "schema")
    assert task._arguments() == {
        "sync_id": None,
        "destination_schema_name": "shop",
        "sync_interval": "0 3 * * *",
        "elt_settings": None,
    }


def test_a_class_in_a_dag_file_can_define_its_own_change() -> None:
    class Custom(DatapipeEltSyncOperator):
        def _change(self) -> Any:
            return self.sync_id  # type: ignore[attr-defined]  # set by the declaration

    task: BaseOperator = Custom(task_id="t", sync_id="y")
    assert task._change() == "y"  # type: ignore[attr-defined]  # defined by the class of this test
