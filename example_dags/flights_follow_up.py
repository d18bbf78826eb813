"""
DAG that starts after each run that sends delays to the partner, whichever client started the run.

The client can be the DAG ``flights_pipeline``, the schedule of the service, or a user.
"""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_datapipe.triggers.events import ReverseEtlRunEventTrigger

# The partner always refuses some records, so runs with failed records cause events as well.
sent = ReverseEtlRunEventTrigger("carrier_delays", outcomes=["succeeded", "partial"])
delays = Asset("flights_delays_sent", watchers=[AssetWatcher(name="carrier_delays", trigger=sent)])

with DAG(
    dag_id="flights_follow_up",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=[delays],
    catchup=False,
    tags=["datapipe", "example"],
    doc_md=__doc__,
):

    @task
    def rows_sent(triggering_asset_events: Any = None) -> dict[str, int]:
        """Return the number of sent rows of each run. Several runs may have ended since the last start of this DAG."""
        payloads = [event.extra["payload"] for event in triggering_asset_events[delays]]
        return {payload["run_id"]: payload["rows_synced"] for payload in payloads}

    rows_sent()
