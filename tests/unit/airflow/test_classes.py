"""Requirements of Airflow on each operator, sensor and trigger class."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_provider_datapipe.get_provider_info import get_provider_info
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, EltSyncRunSensor, OrchestrationRunSensor
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor, ReverseEtlFailedRecordsSensor
from tests.support.dags import new_dag, stored_dag
from tests.support.operator_examples import EXAMPLES


def classes() -> Iterator[type[BaseOperator]]:
    info = get_provider_info()
    for section in (*info["operators"], *info["sensors"]):
        for name in section["python-modules"]:
            for _, found in inspect.getmembers(importlib.import_module(name), inspect.isclass):
                if found.__module__ == name and issubclass(found, BaseOperator) and found.__name__[0] != "_":
                    yield found


# Base classes have "Datapipe" in their names, and so do some classes for direct use.
WITH_EXAMPLE = {example.operator for example in EXAMPLES}
CONCRETE = [found for found in classes() if "Datapipe" not in found.__name__ or found in WITH_EXAMPLE]


def own_parameters(found: type[BaseOperator]) -> dict[str, inspect.Parameter]:
    own: dict[str, inspect.Parameter] = {}
    for base in found.__mro__:
        if base.__module__.startswith("airflow_provider_datapipe") and "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters
            own |= {
                name: parameter
                for name, parameter in parameters.items()
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in ("task_id", "default_args")
            }
    return own


#: Required ID argument of each class that starts runs or waits. Other classes are created from the examples.
ID = {
    "EltStreamRunOperator": "stream_id",
    "EltSyncRunOperator": "sync_id",
    "OrchestrationRunOperator": "orchestration_id",
    "ReverseEtlRunOperator": "reverse_etl_sync_id",
    "TransformPublishOperator": "transform_id",
    "EltStreamRunSensor": "stream_id",
    "OrchestrationRunSensor": "orchestration_id",
    "ReverseEtlRunSensor": "reverse_etl_sync_id",
    "EltSyncRunSensor": "sync_id",
    "EltStreamFreshnessSensor": "stream_id",
    "EltSyncFreshnessSensor": "sync_id",
    "OrchestrationFreshnessSensor": "orchestration_id",
    "ReverseEtlFreshnessSensor": "reverse_etl_sync_id",
    "EltStreamLastRunSensor": "stream_id",
    "OrchestrationLastRunSensor": "orchestration_id",
    "ReverseEtlLastRunSensor": "reverse_etl_sync_id",
    "ReverseEtlFailedRecordsSensor": "reverse_etl_sync_id",
    "ConnectionBridgeSensor": "bridge",
    # This operator has no ID argument. Its source takes the place of the ID.
    "WebhookIngestOperator": "source",
}


USED = {example.operator: example for example in reversed(EXAMPLES) if example.operator.__name__ not in ID}


def make(found: type[BaseOperator], **arguments: Any) -> Any:
    if found in USED:
        return found(task_id="t", **(USED[found].arguments | arguments))
    name = ID[found.__name__]
    needed = {"max_age": 60} if "max_age" in own_parameters(found) else {}
    return found(task_id="t", **({name: f"{{{{ params.{name} }}}}"} | needed | arguments))


def test_all_concrete_classes_are_tested() -> None:
    assert {found.__name__ for found in CONCRETE} == set(ID) | {found.__name__ for found in USED}


@pytest.mark.parametrize("found", CONCRETE)
def test_template_fields_are_attributes_and_include_all_ids(found: type[BaseOperator]) -> None:
    task = make(found)
    assert not isinstance(found.template_fields, str)
    for name in found.template_fields:
        assert hasattr(task, name)
    ids = {name for name in own_parameters(found) if name.endswith("_id")}
    assert ids or found in USED
    assert ids <= set(found.template_fields)


@pytest.mark.parametrize("found", CONCRETE)
def test_every_parameter_is_documented(found: type[BaseOperator]) -> None:
    documented: set[str] = set()
    for base in found.__mro__:
        documented |= set(re.findall(r":param (\w+):", base.__doc__ or ""))
    assert set(own_parameters(found)) <= documented
    templated = {
        name
        for base in found.__mro__
        for name, text in re.findall(r":param (\w+):((?:(?!:param)[\s\S])*)", base.__doc__ or "")
        if "(templated)" in text
    }
    assert set(found.template_fields) == templated


@pytest.mark.parametrize("found", CONCRETE)
def test_dag_serialization_round_trip(found: type[BaseOperator]) -> None:
    with new_dag() as dag:
        make(found, **({"deferrable": True} if "deferrable" in own_parameters(found) else {}))
    assert stored_dag(dag).task_ids == ["t"]


@pytest.mark.parametrize("found", CONCRETE)
def test_each_class_can_be_mapped(found: type[BaseOperator]) -> None:
    with new_dag():
        if found in USED:
            arguments, mapped = dict(USED[found].arguments), USED[found].mapped_argument
            value = arguments.pop(mapped)
            found.partial(task_id="t", **arguments).expand(**{mapped: [value, value]})
            return
        needed = {"max_age": 60} if "max_age" in own_parameters(found) else {}
        found.partial(task_id="t", **needed).expand(**{ID[found.__name__]: ["a", "b"]})


ONE_ORCHESTRATION = "exactly one of orchestration_id and orchestration_name"
STREAM: dict[str, Any] = {"stream_id": "s"}
A_STREAM = "give stream_id, or stream_name and sync_id"


@pytest.mark.parametrize(
    ("found", "arguments", "problem"),
    [
        (EltStreamRunOperator, STREAM | {"poll_interval": 0}, "poll_interval"),
        (EltStreamRunOperator, STREAM | {"timeout": timedelta(0)}, "timeout"),
        (EltSyncRunOperator, {"sync_id": "y", "max_active_streams": 0}, "max_active_streams"),
        (EltSyncRunOperator, {"sync_id": "y", "on_partial_failure": "ignore"}, "on_partial_failure"),
        (ReverseEtlRunOperator, {"reverse_etl_sync_id": "e", "max_failed_rows": -1}, "max_failed_rows"),
        (EltStreamRunOperator, {}, A_STREAM),
        (EltStreamRunOperator, {"stream_name": "n"}, A_STREAM),
        (EltStreamRunSensor, {"stream_name": "n"}, A_STREAM),
        (EltStreamRunOperator, STREAM | {"stream_name": "n", "sync_id": "y"}, "remove stream_name and sync_id"),
        (EltStreamRunOperator, STREAM | {"sync_id": "y"}, "already identifies the stream; remove sync_id"),
        (OrchestrationRunOperator, {}, ONE_ORCHESTRATION),
        (OrchestrationRunSensor, {}, ONE_ORCHESTRATION),
        (TransformPublishOperator, {}, "exactly one of transform_id and transform_name"),
        (TransformPublishOperator, {"transform_id": "t", "folder_path": "f"}, "new_folder_path"),
        (EltStreamRunSensor, STREAM | {"run_id": "r", "newest": True}, "one of run_id and newest"),
        (EltStreamRunSensor, STREAM | {"run_id": "r", "after": "2026-01-01T00:00:00Z"}, "after: not allowed with"),
        (EltStreamRunSensor, STREAM | {"newest": True, "moment_of": "end"}, "moment_of: not allowed with"),
        (EltStreamRunSensor, STREAM | {"newest": True, "on_failure": "next"}, "on_failure: not allowed with"),
        (EltStreamRunSensor, STREAM | {"after": None}, "newest=True"),
        (EltStreamRunSensor, STREAM | {"moment_of": "middle"}, "moment_of must be"),
        (EltStreamRunSensor, STREAM | {"on_failure": "skip"}, "on_failure must be"),
        (EltStreamRunSensor, STREAM | {"after": datetime(2026, 1, 1)}, "after has no time zone"),  # noqa: DTZ001 - the refused value
        (EltStreamFreshnessSensor, STREAM | {"max_age": 0}, "max_age"),
        (ReverseEtlFailedRecordsSensor, {"reverse_etl_sync_id": "e", "at_most": -1}, "at_most"),
        (EltSyncRunSensor, {"sync_id": "y", "after": None}, "after is None"),
    ],
)
def test_wrong_arguments_are_refused_when_the_dag_is_parsed(
    found: Any, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        found(task_id="t", **arguments)


@pytest.mark.parametrize("value", ["", "None"])
def test_empty_rendered_id_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="stream_id is empty"):
        EltStreamRunOperator(task_id="t", stream_id=value)._target().send(None)


@pytest.mark.parametrize(
    ("given", "expected"), [(True, True), ("True", True), ("['a', 'b']", ["a", "b"]), (["a"], ["a"]), ("False", False)]
)
def test_retry_failed_records_can_be_a_template(given: Any, expected: Any) -> None:
    task = ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="e", retry_failed_records=given)
    with pytest.raises(StopIteration) as stopped:
        task._target().send(None)
    assert stopped.value.value.options["retry_failed_records"] == expected


@pytest.mark.parametrize("given", ["r1", "", "None", "[1]", "{'a': 1}", "__import__('os')"])
def test_invalid_retry_failed_records_is_refused(given: str) -> None:
    task = ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="e", retry_failed_records=given)
    with pytest.raises(ValueError, match="retry_failed_records must be"):
        _ = task._target()
