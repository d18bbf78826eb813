"""
Load all branches of the shop. Each branch is a separate ELT sync.

The DAG run reads the list of branches, so that a new branch needs no change here. Each branch has a mapped task
instance: a failed one can be cleared separately, and does not affect the others. At most four load at a time. (Before
Airflow 3.2, deferred tasks do not count for `max_active_tis_per_dag`, so that all can load at a time.)
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, task

from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator

with DAG(
    dag_id="shop_branches",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule="0 2 * * *",
    catchup=False,
    max_active_runs=1,
    default_args={"datapipe_conn_id": "shop", "retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    syncs = DatapipeOperator(task_id="syncs", endpoint="elt_syncs.list", all_pages=True)

    @task
    def open_branches(syncs: Any) -> list[str]:
        """Return the IDs of the enabled syncs of branches."""
        names = {sync["id"]: sync["destination_schema_name"] or "" for sync in syncs if sync["enabled"]}
        return sorted(sync_id for sync_id, name in names.items() if name.startswith("branch_"))

    load = EltSyncRunOperator.partial(
        task_id="load",
        deferrable=True,
        max_active_tis_per_dag=4,
        map_index_template="{{ task.sync_id }}",
    ).expand(sync_id=open_branches(syncs.output))

    @task(trigger_rule="none_failed")
    def rows(results: Any) -> dict[str, int]:
        """Return the number of rows of each branch."""
        return {result["sync_id"]: result["rows_synced"] for result in results}

    rows(load.output)
