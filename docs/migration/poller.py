"""DAG that runs a stream with a Python function that polls in a loop."""

import time

import pendulum
import requests
from airflow.sdk import DAG, BaseHook, task

with DAG("poller", start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:

    @task
    def people():
        """Load the stream, and return the ID of the run."""
        connection = BaseHook.get_connection("service_http")
        session = requests.Session()
        session.headers.update(connection.extra_dejson)
        response = session.post(f"{connection.host}/elt_streams/shop.people/request_run", timeout=60)
        response.raise_for_status()
        while True:
            polled = session.get(f"{connection.host}{response.json()['status_url']}", timeout=60)
            polled.raise_for_status()
            runs = polled.json()["data"]
            if runs and runs[0]["status"] == "COMPLETED":
                return runs[0]["id"]
            if runs and runs[0]["status"] == "FAILED":
                raise RuntimeError("the run has failed")
            time.sleep(1)

    people()
