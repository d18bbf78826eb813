"""
From files to a partner's API, through the warehouse: every step is done by the data pipeline service.

1. An ELT sync loads five tables: the 336,776 flights that left New York City in 2013, and what belongs to them.
2. Two transforms are published: a view that joins the five, and on top of it a table of delays by carrier and month.
3. A reverse ETL sync sends that table to a partner, who refuses some of its records for two reasons: a month with
   fewer than ten flights is never taken, and a carrier that is new to the partner has to be registered first.
4. By then the new carriers are registered: the refused records are sent again, and only the small months are left.

``make demo`` runs this DAG on one machine; example_dags/flights_seed.yaml is what the service holds.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt import EltSyncRunOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transform import TransformPublishOperator

with DAG(
    dag_id="flights_pipeline",
    start_date=pendulum.datetime(2026, 1, 1),
    # A real pipeline would have "@daily" here.
    schedule=None,
    catchup=False,
    # While the service works, the tasks wait in the triggerer and take no worker slot.
    default_args={"deferrable": True},
    tags=["datapipe", "example"],
    doc_md=__doc__,
):
    # All streams of the sync are asked to run at once, at most three at a time. The result has the rows of each.
    load = EltSyncRunOperator(task_id="load", sync_id="nycflights", max_active_streams=3)

    # A view is there as soon as it is published ...
    departures = TransformPublishOperator(task_id="publish_departures", transform_id="departures")

    # ... a table takes as long as its query: the task ends when the table is complete.
    delays = TransformPublishOperator(task_id="publish_delays", transform_id="carrier_month_delays")

    # Some records will be refused. This task bears with that, up to a number that would mean that more is wrong.
    report = ReverseEtlRunOperator(task_id="report", reverse_etl_sync_id="carrier_delays", max_failed_rows=40)

    # What was refused is sent once more. Four months with too few flights stay behind; one more fails the task.
    report_again = ReverseEtlRunOperator(
        task_id="report_again",
        reverse_etl_sync_id="carrier_delays",
        retry_failed_records=True,
        max_failed_rows=4,
    )

    load >> departures >> delays >> report >> report_again
