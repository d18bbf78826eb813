"""Labels of mapped tasks, rendered from the map index template."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe.operators.elt_streams import EltStreamDeleteOperator, EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.operators.transforms import TransformDeployOperator, TransformPublishOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from tests.support.dags import new_dag


def labels(mapped: Any) -> list[str]:
    """Return the label of each task of a mapped operator, rendered like in Airflow."""
    template = mapped.partial_kwargs.get("map_index_template")
    if template is None:
        return []
    rendered = []
    for index, arguments in enumerate(mapped.expand_input.value):
        task = mapped.unmap(arguments)
        environment = mapped.dag.get_template_env()
        rendered.append(environment.from_string(template).render(task=task, ti=SimpleNamespace(map_index=index)))
    return rendered


@pytest.mark.parametrize(
    ("operator", "arguments", "label"),
    [
        (EltStreamRunOperator, {"stream_id": "shop.orders"}, "shop.orders"),
        (EltStreamRunOperator, {"sync_id": "shop", "stream_name": "orders"}, "shop/orders"),
        (EltSyncRunOperator, {"sync_id": "shop"}, "shop"),
        (EltStreamDeleteOperator, {"destination_schema_name": "raw", "stream_name": "orders"}, "raw/orders"),
        (OrchestrationRunOperator, {"orchestration_name": "Nightly"}, "Nightly"),
        (TransformPublishOperator, {"transform_name": "vip", "folder_path": "/shop"}, "shop/vip"),
        (TransformPublishOperator, {"transform_name": "vip"}, "vip"),
        (TransformDeployOperator, {"name": "vip", "sql_template": "SELECT 1"}, "vip"),
        (EltStreamRunSensor, {"stream_id": "x" * 300}, "x" * 250),
    ],
)
def test_label_is_the_name_of_the_resource(operator: Any, arguments: dict[str, Any], label: str) -> None:
    with new_dag():
        mapped = operator.partial(task_id="t").expand_kwargs([arguments])
    assert labels(mapped) == [label]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ["shop.orders", "4711", "1e5", "[1, 2]", "None", "it's \\ \U0001f600", '"quoted"'])
def test_label_is_text_with_native_rendering(name: str, native: bool) -> None:
    with new_dag(render_template_as_native_obj=native):
        mapped = EltStreamRunOperator.partial(task_id="t").expand_kwargs([{"stream_id": name}])
    assert labels(mapped) == [name]


@pytest.mark.parametrize("native", [False, True])
def test_index_is_text_with_native_rendering(native: bool) -> None:
    with new_dag(render_template_as_native_obj=native):
        mapped = OrchestrationRunOperator.partial(task_id="t").expand_kwargs([{"orchestration_id": ""}])
    assert labels(mapped) == ["0"]


@pytest.mark.parametrize(
    ("default_args", "arguments"),
    [({}, {"map_index_template": "my {{ task.stream_id }}"}), ({"map_index_template": "my a"}, {})],
    ids=["argument", "default argument"],
)
def test_template_of_the_user_takes_precedence(default_args: dict[str, Any], arguments: dict[str, Any]) -> None:
    with new_dag(default_args=default_args):
        mapped: Any = EltStreamRunOperator.partial(task_id="t", **arguments).expand_kwargs([{"stream_id": "a"}])
    assert labels(mapped) == ["my a"]


def test_task_without_a_resource_keeps_its_index() -> None:
    with new_dag():
        mapped: Any = QueryPreviewOperator.partial(task_id="t").expand_kwargs([{"sql_template": "SELECT 1"}])
    assert labels(mapped) == []
