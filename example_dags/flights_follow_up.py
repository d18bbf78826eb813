"""
A DAG that starts when new delays were sent to the partner.

Any client can send them: ``flights_pipeline``, the schedule of the service, or a person.
"""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_datapipe.triggers.events import ReverseEtlRunEventTrigger

# Some records are always refused, so runs with failed records count, too.
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
        """Return how many rows each run has sent. Several runs may have ended since this DAG last started."""
        payloads = [event.extra["payload"] for event in triggering_asset_events[delays]]
        return {payload["run_id"]: payload["rows_synced"] for payload in payloads}

    rows_sent()
