"""Each operator that changes a resource, as a task, and mapped over one of its arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG

from tests.support.operator_examples import EXAMPLES

ARGUMENTS: dict[str, Any] = {
    "start_date": pendulum.datetime(2026, 1, 1),
    "schedule": None,
    "catchup": False,
    "default_args": {"datapipe_conn_id": "datapipe_changes", "execution_timeout": timedelta(minutes=5)},
}

with DAG(dag_id="changes", **ARGUMENTS):
    for example in EXAMPLES:
        example.operator(task_id=example.name, **example.arguments)

with DAG(dag_id="changes_mapped", **ARGUMENTS):
    for example in {example.operator: example for example in EXAMPLES}.values():
        others = {name: value for name, value in example.arguments.items() if name != example.mapped_argument}
        value = example.arguments[example.mapped_argument]
        example.operator.partial(task_id=example.name, **others).expand(**{example.mapped_argument: [value]})
