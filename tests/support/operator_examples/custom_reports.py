"""Examples of the operator that creates custom reports."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.custom_reports import CustomReportsCreateOperator
from tests.support.operator_examples.example import Example, elt_sync, rows

SEED: dict[str, Any] = {"elt_syncs": [elt_sync("reports.sync", "reports", source_streams=[rows("reports.rows")])]}


def _report(name: str, query: str = "SELECT count(*) AS many FROM rows", sync: str = "reports.sync") -> dict[str, str]:
    return {"elt_sync_id": sync, "name": name, "query": query}


_CREATED = {
    "elt_sync_id": "reports.sync",
    "name": "How Many Rows",
    "source_stream_name": "how_many_rows",
    "action": "created",
    "error": None,
}

EXAMPLES = [
    Example(
        "custom_reports",
        CustomReportsCreateOperator,
        {"reports": [_report("How Many Rows")]},
        {"created": 1, "failed": 0, "reports": [_CREATED]},
        {"created": 0, "failed": 0},
    ),
    Example(
        "custom_reports_for_later",
        CustomReportsCreateOperator,
        {"reports": [_report("For Later")], "add_as_source_stream": False},
        {"created": 1, "failed": 0},
        {"created": 0, "failed": 0},
    ),
    Example(
        "custom_reports_of_which_some_fail",
        CustomReportsCreateOperator,
        {
            "reports": [
                _report("Half of them"),
                _report("Wrong", "SELECT nothing FROM nowhere"),
                _report("x", sync="no"),
            ],
            "on_partial_failure": "succeed",
            "tolerated_errors": ["not_found"],
        },
        {"created": 1, "failed": 2},
        {"created": 0, "failed": 2},
    ),
]
