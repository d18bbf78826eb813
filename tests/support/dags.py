"""DAG of a test, and its serialization."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG

from tests.support.airflow_versions import dag_serialization


def new_dag(dag_id: str = "d", **options: Any) -> DAG:
    """Return a DAG without a schedule."""
    return DAG(dag_id, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), **options)


def stored_dag(dag: DAG) -> Any:
    """Return a DAG as the scheduler reads it from the database, after a check against Airflow's schema."""
    serialization = dag_serialization()
    stored = serialization.to_dict(dag)
    serialization.validate_schema(stored)
    return serialization.from_dict(json.loads(json.dumps(stored)))
