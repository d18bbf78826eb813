"""DAG that runs a stream with the operator of this provider."""

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator

with DAG("moved", start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:
    EltStreamRunOperator(task_id="people", stream_id="shop.people", deferrable=True)
