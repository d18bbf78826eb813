"""Tasks of docs/changes.md that let a user authorize a connection."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from tests.support.documents import blocks

(PAGE,) = [
    block.text for block in blocks() if block.page == "docs/changes.md" and "operators.connections import" in block.text
]

with DAG(
    dag_id="bridges",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    default_args={"datapipe_conn_id": "datapipe_bridges"},
):
    exec(PAGE)  # noqa: S102 - code of the docs
