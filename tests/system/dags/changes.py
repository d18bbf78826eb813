"""Changing operators: a selection of each module, and all examples, with each operator mapped once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, get_parsing_context

from tests.support.operator_examples import EXAMPLES, Example

ARGUMENTS: dict[str, Any] = {
    "start_date": pendulum.datetime(2026, 1, 1),
    "schedule": None,
    "default_args": {"datapipe_conn_id": "datapipe_changes", "execution_timeout": timedelta(minutes=5)},
}
OPERATORS = {example.operator: example for example in EXAMPLES}
MODULES: dict[str, list[Example]] = {}
for operator, example in OPERATORS.items():
    MODULES.setdefault(operator.__module__, []).append(example)


def add(example: Example, *, mapped: bool) -> None:
    """Add the task of an example, mapped over one of its arguments or not."""
    if not mapped:
        example.operator(task_id=example.name, **example.arguments)
        return
    others = {name: value for name, value in example.arguments.items() if name != example.mapped_argument}
    value = example.arguments[example.mapped_argument]
    example.operator.partial(task_id=example.name, **others).expand(**{example.mapped_argument: [value]})


with DAG(dag_id="changes", **ARGUMENTS):
    for first, *others in MODULES.values():
        add(first, mapped=False)
        for other in others[-1:]:
            add(other, mapped=True)

# The process of a task needs only its own DAG.
if get_parsing_context().dag_id is None:
    with DAG(dag_id="all_changes", **ARGUMENTS):
        for example in EXAMPLES:
            add(example, mapped=example in OPERATORS.values())
