"""Examples of the operator for any endpoint. They only read, so that they replace no example of another operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from tests.support.operator_examples.example import Example, orchestration

SEED: dict[str, Any] = {
    "orchestrations": [orchestration(f"generic.{number}", f"Generic {number}") for number in range(3)]
}

EXAMPLES = [
    Example(
        "call_get",
        DatapipeOperator,
        {"endpoint": "orchestrations.get", "arguments": '{"orchestration_id": "generic.1"}'},
        {"id": "generic.1", "name": "Generic 1"},
        {"id": "generic.1"},
    ),
    Example("call_all_pages", DatapipeOperator, {"endpoint": "connections.list", "all_pages": "True"}, again={}),
    Example(
        "call_one_page",
        DatapipeOperator,
        {"endpoint": "orchestrations.list", "arguments": {"limit": 1}},
        {"has_more": True},
        {"has_more": True},
    ),
]
