"""
Pipeline from files through the warehouse to the API of a partner. The data pipeline service performs all steps.

1. An ELT sync loads five tables: the 336,776 flights that left New York City in 2013, and their reference data.
2. Two transforms are published: a view that joins the five tables, and a table of delays by carrier and month.
3. A reverse ETL sync sends this table to a partner. The partner always refuses months with fewer than ten flights. It
   also refuses carriers that it has not registered yet, and registers them.
4. A second run sends the refused records again. The partner now refuses only the months with fewer than ten flights.

``make demo`` runs this DAG on one machine. example_dags/flights_seed.yaml is the seed of the service.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator

with DAG(
    dag_id="flights_pipeline",
    start_date=pendulum.datetime(2026, 1, 1),
    # Use a schedule such as "@daily" for a real pipeline.
    schedule=None,
    catchup=False,
    # The tasks wait in the triggerer, and occupy no worker slot.
    default_args={"deferrable": True},
    tags=["datapipe", "example"],
    doc_md=__doc__,
):
    # Run all streams of the sync, at most three at a time. The result contains the row count of each stream.
    load = EltSyncRunOperator(task_id="load", sync_id="nycflights", max_active_streams=3)

    # A view exists as soon as it is published.
    departures = TransformPublishOperator(task_id="publish_departures", transform_id="departures")

    # For a table, the task waits until it is built.
    delays = TransformPublishOperator(task_id="publish_delays", transform_id="carrier_month_delays")

    # The partner refuses some records. The task fails if it refuses more than 40.
    report = ReverseEtlRunOperator(task_id="report", reverse_etl_sync_id="carrier_delays", max_failed_rows=40)

    # Send the refused records again. The partner still refuses four months. The task fails if it refuses more.
    report_again = ReverseEtlRunOperator(
        task_id="report_again",
        reverse_etl_sync_id="carrier_delays",
        retry_failed_records=True,
        max_failed_rows=4,
    )

    load >> departures >> delays >> report >> report_again
