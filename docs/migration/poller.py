"""The same, as a function with a loop."""

import time

import pendulum
import requests
from airflow.sdk import DAG, BaseHook, task

with DAG("poller", start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:

    @task
    def people():
        """Load the stream, and give the id of the run."""
        connection = BaseHook.get_connection("service_http")
        session = requests.Session()
        session.headers.update(connection.extra_dejson)
        answer = session.post(f"{connection.host}/elt_streams/shop.people/request_run", timeout=60)
        answer.raise_for_status()
        while True:
            look = session.get(f"{connection.host}{answer.json()['status_url']}", timeout=60)
            look.raise_for_status()
            runs = look.json()["data"]
            if runs and runs[0]["status"] == "COMPLETED":
                return runs[0]["id"]
            if runs and runs[0]["status"] == "FAILED":
                raise RuntimeError("the run has failed")
            time.sleep(1)

    people()
