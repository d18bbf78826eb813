"""Sensors with start_from_trigger: stored trigger arguments, and refused arguments at DAG parsing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from airflow import __version__
from airflow.sdk import XComArg

from airflow_provider_datapipe.sensors import base
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, EltSyncRunSensor, OrchestrationRunSensor
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor, ReverseEtlFailedRecordsSensor
from tests.support.airflow_versions import since
from tests.support.dags import new_dag, stored_dag
from tests.support.documents import ROOT, names_of

STARTS_FROM_TRIGGER = since("3.3", "start_from_trigger")


MADE: list[Callable[..., Any]] = [
    lambda **more: EltStreamRunSensor(task_id="t", stream_id="{{ params.id }}", **more),
    lambda **more: EltSyncRunSensor(task_id="t", sync_id="y", streams=("a", "{{ params.b }}"), **more),
    lambda **more: OrchestrationRunSensor(task_id="t", orchestration_name="Nightly", run_id="r", **more),
    lambda **more: EltStreamFreshnessSensor(
        task_id="t", stream_id="s", max_age=timedelta(hours=1), as_of=datetime(2026, 1, 1, tzinfo=UTC), **more
    ),
    lambda **more: ReverseEtlFailedRecordsSensor(task_id="t", reverse_etl_sync_id="e", at_most=3, **more),
]


@STARTS_FROM_TRIGGER
@pytest.mark.parametrize("make", MADE)
def test_every_template_is_a_stored_field_of_the_trigger(make: Callable[..., Any]) -> None:
    from airflow.serialization.serialized_objects import BaseSerialization

    with new_dag() as dag:
        task = make(start_from_trigger=True, timeout=600, execution_timeout=timedelta(seconds=60))
    again = stored_dag(dag).get_task("t")
    assert again.start_from_trigger
    kept: Any = again.start_trigger_args
    assert kept.timeout == timedelta(seconds=60)
    module, _, name = kept.trigger_cls.rpartition(".")
    arguments = BaseSerialization.deserialize(kept.trigger_kwargs)
    trigger = getattr(importlib.import_module(module), name)(**arguments)
    # Airflow renders only trigger attributes with the name of the template field.
    given = {field for field in task.template_fields if getattr(task, field) is not None}
    assert given <= trigger.serialize()[1].keys()
    assert all(hasattr(trigger, field) for field in given)
    # A deferral in a worker passes the same fields.
    fields = base._as_json(task._fields())
    assert trigger.fields == fields
    assert trigger.condition == task.condition
    # The sensor defers where Airflow does not support start_from_trigger, such as in dag.test().
    assert task.deferrable


def test_start_from_trigger_is_off_by_default() -> None:
    sensor = EltStreamRunSensor(task_id="t", stream_id="s", deferrable=True)
    assert not sensor.start_from_trigger
    assert sensor.start_trigger_args is None


@pytest.mark.parametrize(("version", "is_refused"), [("3.2.1", True), ("3.3.0", False), ("4.0.0rc1", False)])
def test_start_from_trigger_requires_airflow_3_3(
    version: str, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    monkeypatch.setattr(base, "airflow_version", version)
    message = r"requires Airflow 3\.3 or later; this is 3\.2\.1"
    with pytest.raises(ValueError, match=message) if is_refused else nullcontext():
        EltStreamRunSensor(task_id="t", stream_id="s", start_from_trigger=True)


def test_the_retry_policy_names_the_required_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    # Before Airflow 3.3, the module has no RetryPolicy.
    monkeypatch.setitem(sys.modules, "airflow.sdk", ModuleType("airflow.sdk"))
    monkeypatch.delitem(sys.modules, "airflow_provider_datapipe.retries", raising=False)
    with pytest.raises(ImportError, match=rf"requires Airflow 3\.3 or later; this is {__version__}"):
        importlib.import_module("airflow_provider_datapipe.retries")


@STARTS_FROM_TRIGGER
def test_mapped_tasks_with_default_arguments_defer() -> None:
    with new_dag(default_args={"start_from_trigger": True}) as dag:
        mapped: Any = EltStreamRunSensor.partial(task_id="t").expand(stream_id=["a"])
        EltStreamRunSensor(task_id="other", stream_id="a")
    assert not mapped.start_from_trigger
    one = mapped.unmap({"stream_id": "a"})
    assert (one.start_from_trigger, one.deferrable) == (False, True)
    assert dag.get_task("other").start_from_trigger


def test_mapped_tasks_are_refused_at_parsing() -> None:
    with new_dag(), pytest.raises(ValueError, match="does not work with mapped tasks"):
        EltStreamRunSensor.partial(task_id="t", start_from_trigger=True)
    with new_dag():
        EltStreamRunSensor.partial(task_id="t", deferrable=True).expand(stream_id=["a"])


@STARTS_FROM_TRIGGER
@pytest.mark.parametrize(
    "arguments",
    [
        {"stream_id": "{{ ti.xcom_pull('before') }}"},
        {"stream_id": "s", "after": "{{ task_instance.xcom_pull(task_ids='before') }}"},
        {"stream_id": "s", "datapipe_conn_id": "{{ ti.xcom_pull('before') }}"},
    ],
)
def test_templates_with_xcom_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is an output of another task"):
        EltStreamRunSensor(task_id="t", start_from_trigger=True, **arguments)
    EltStreamRunSensor(task_id="t", deferrable=True, **arguments)
    waits_for_no_index = {name: value.replace("')", "', map_indexes=-1)") for name, value in arguments.items()}
    EltStreamRunSensor(task_id="t", start_from_trigger=True, **waits_for_no_index)


@STARTS_FROM_TRIGGER
def test_xcom_arguments_are_refused() -> None:
    with new_dag():
        before = EltStreamRunSensor(task_id="before", stream_id="s")
        result: Any = XComArg(before)
        for arguments in (
            {"sync_id": result},
            {"sync_id": "y", "streams": [result]},
            {"sync_id": "y", "streams": result},
        ):
            with pytest.raises(ValueError, match="is an output of another task"):
                EltSyncRunSensor(task_id=f"t{len(str(arguments))}", start_from_trigger=True, **arguments)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"data_interval_end": "E", "dag_run": {"run_after": "R"}}, "E"),
        # A DAG run without a logical date has no data interval, and an undefined name is an error.
        ({"dag_run": {"run_after": "R"}}, "R"),
    ],
)
def test_default_of_after(context: dict[str, Any], expected: str) -> None:
    sensor = EltStreamRunSensor(task_id="t", stream_id="s", dag=new_dag())
    sensor.render_template_fields(context)  # type: ignore[arg-type]  # the used part of a context
    assert sensor.after == expected


@STARTS_FROM_TRIGGER
def test_dag_of_the_sensors_page_is_serializable() -> None:
    (block,) = (ROOT / "docs/sensors.md").read_text().split("```python\n")[1:]
    names = names_of(block.partition("```")[0].replace("catchup=True):", "catchup=True) as made:"))
    assert len(stored_dag(names["made"]).task_ids) == 4
