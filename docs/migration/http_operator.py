"""DAG that runs a stream with HttpOperator and HttpSensor."""

import pendulum
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.http.sensors.http import HttpSensor
from airflow.sdk import DAG


def has_ended(response):
    """Return True if the requested run has completed."""
    runs = response.json()["data"]
    return bool(runs) and runs[0]["status"] == "COMPLETED"


with DAG("http_operator", start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:
    start = HttpOperator(
        task_id="start",
        http_conn_id="service_http",
        endpoint="elt_streams/shop.people/request_run",
        response_filter=lambda response: response.json()["status_url"],
    )
    wait = HttpSensor(
        task_id="wait",
        http_conn_id="service_http",
        endpoint="{{ ti.xcom_pull('start') }}",
        response_check=has_ended,
        poke_interval=1,
        timeout=3600,
    )
    start >> wait
