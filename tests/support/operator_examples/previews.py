"""Examples of the operators that run queries."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.query_previews import (
    DatapipeCheckOperator,
    DatapipeThresholdCheckOperator,
    DatapipeValueCheckOperator,
    QueryPreviewOperator,
)
from tests.support.operator_examples.example import Example, transform

_NUMBERS = "SELECT value FROM generate_series(1, 4) AS numbers(value)"
_FROM = "FROM {{model.previews.queried}}"
_PASSED = {"passed": True}

SEED: dict[str, Any] = {"transforms": [transform("transform.queried", "queried", "previews", sql_template=_NUMBERS)]}

EXAMPLES = [
    Example(
        "query_preview",
        QueryPreviewOperator,
        {"sql_template": f"SELECT value {_FROM} ORDER BY value", "max_rows": 2},
        {"rows": [{"value": 1}, {"value": 2}], "num_rows_total": 4, "is_complete": False},
        {"num_rows_total": 4},
    ),
    Example(
        "check",
        DatapipeCheckOperator,
        {"sql_template": f"SELECT count(*) = 4 AS all_there, min(value) AS least {_FROM}"},
        _PASSED | {"row": {"all_there": True, "least": 1}},
        _PASSED,
    ),
    Example(
        "check_value",
        DatapipeValueCheckOperator,
        {"sql_template": f"SELECT count(*) AS rows {_FROM}", "pass_value": 5, "tolerance": 0.2},
        _PASSED | {"row": {"rows": 4}},
        _PASSED,
    ),
    Example(
        "check_threshold",
        DatapipeThresholdCheckOperator,
        {
            "sql_template": f"SELECT avg(value) AS mean {_FROM}",
            "min_threshold": 2,
            "max_threshold": f"SELECT max(value) {_FROM}",
        },
        _PASSED | {"value": 2.5, "min_threshold": 2, "max_threshold": 4},
        _PASSED,
    ),
]
