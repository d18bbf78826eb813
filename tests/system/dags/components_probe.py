"""A task that waits in the triggerer until a file exists, and one that returns a value after it."""

from __future__ import annotations

from airflow.providers.standard.sensors.filesystem import FileSensor
from airflow.sdk import dag, task


@dag(schedule=None)
def components_probe() -> None:
    @task
    def report() -> dict[str, int]:
        return {"rows": 7}

    (
        FileSensor(
            task_id="wait_for_file",
            filepath="{{ dag_run.conf['file'] }}",
            poke_interval=0.2,
            timeout=120,
            deferrable=True,
        )
        >> report()
    )


components_probe()
