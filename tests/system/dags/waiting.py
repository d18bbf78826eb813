"""Sensors in each mode that wait for the first run of a resource after the data interval of the DAG run."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow import __version__
from airflow.sdk import DAG
from packaging.version import Version

from airflow_provider_datapipe.sensors.run import (
    EltStreamRunSensor,
    EltSyncRunSensor,
    OrchestrationRunSensor,
    ReverseEtlRunSensor,
)
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor

MODES: dict[str, dict[str, Any]] = {
    "poke": {"mode": "poke", "poke_interval": 1},
    # Airflow fails a task that is queued again before the scheduler has processed its previous pass.
    "reschedule": {"mode": "reschedule", "poke_interval": 10},
    "deferred": {"deferrable": True, "poke_interval": 1},
    "triggered": {"start_from_trigger": True, "poke_interval": 1},
}
if Version(__version__) < Version("3.3.dev0"):
    del MODES["triggered"]

with DAG(dag_id="waiting", start_date=pendulum.datetime(2026, 1, 1), schedule=None, default_args={"timeout": 120}):
    for mode, arguments in MODES.items():
        EltStreamRunSensor(task_id=f"stream_{mode}", sync_id="awaited", stream_name="airlines", **arguments)
        OrchestrationRunSensor(task_id=f"orchestration_{mode}", orchestration_name="Awaited", **arguments)
        ReverseEtlRunSensor(task_id=f"reverse_etl_{mode}", reverse_etl_sync_id="awaited", **arguments)
        if mode in ("deferred", "triggered"):
            # The components have few worker slots.
            EltSyncRunSensor(task_id=f"sync_{mode}", sync_id="awaited", **arguments)
            EltStreamFreshnessSensor(
                task_id=f"fresh_{mode}",
                stream_id="awaited.airlines",
                max_age=1,
                as_of="{{ dag_run.run_after }}",
                **arguments,
            )
