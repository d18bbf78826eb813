"""
Close the books of each day: a table of the orders of that day, which does not change any more.

Missing days can be backfilled:

    airflow backfill create --dag-id shop_daily_close --from-date 2026-03-01 --to-date 2026-03-03

A load has no data interval: the service determines which rows are new. So a day cannot be loaded again. Instead, the
DAG waits for the first load that started after the end of the day, which has read all of its orders. For earlier days,
that load has already finished. Only the SQL uses the data interval.

If a day is closed twice, its table does not change: the service does not build published SQL again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_datapipe.operators.transforms import TransformDeployOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor

with DAG(
    dag_id="shop_daily_close",
    start_date=pendulum.datetime(2026, 3, 1),
    # With "@daily", the data interval has no length, unless Airflow is configured otherwise.
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    catchup=False,
    default_args={"datapipe_conn_id": "shop", "deferrable": True, "retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    # A load that ended after the day can have started before its end. Failed loads are skipped.
    loaded = EltStreamRunSensor(
        task_id="loaded_after_the_day", stream_id="shop.orders", on_failure="next", timeout=timedelta(hours=12)
    )

    # Airflow renders its names in the file, such as `data_interval_start`, and keeps the references of the service.
    close = TransformDeployOperator(
        task_id="close",
        name="orders_{{ data_interval_start | ds_nodash }}",
        folder_path="closed",
        sql_template="sql/closed_day.sql",
        materialization="table",
    )

    @task.datapipe_query_check(retry_on_failure=False)
    def is_complete(data_interval_start: Any = None, data_interval_end: Any = None) -> str:
        """Return SQL that checks that the day has all of its orders, and no others."""
        closed = f"{{{{model.closed.orders_{data_interval_start:YYYYMMDD}}}}}"
        # Dates only, no external text.
        return f"""
            SELECT (SELECT count(*) FROM {closed}) = count(*) AS is_complete
            FROM {{{{raw.shop.orders}}}}
            WHERE ordered_on >= DATE '{data_interval_start:YYYY-MM-DD}'
              AND ordered_on < DATE '{data_interval_end:YYYY-MM-DD}'
        """  # noqa: S608 - dates only

    loaded >> close >> is_complete()
