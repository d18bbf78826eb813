"""Queries of Airflow's metadata database, which also work while the API server is down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

_DRIVER = "postgresql+psycopg:"
#: Events of the audit log with which the scheduler reports a try that it has lost.
LOST_EVENTS = ("state mismatch", "heartbeat timeout", "stuck in queued tries exceeded")
#: Seconds between two attempts to reach the database while it restarts.
_PAUSE = 1.0


@dataclass(frozen=True)
class TaskRow:
    """Task instance in the metadata database."""

    task_id: str
    state: str | None
    try_number: int
    pid: int | None
    scheduled_at: datetime | None
    end_date: datetime | None


class Metadata:
    """
    Client of the metadata database.

    :param url: the address of the database, for SQLAlchemy.
    """

    def __init__(self, url: str) -> None:
        self._url = url.replace(_DRIVER, "postgresql:", 1)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Connect for a few queries."""
        with psycopg.connect(self._url, connect_timeout=5) as connection:
            yield connection

    def select(self, query: str, *values: object, limit: float = 120) -> list[tuple[Any, ...]]:
        """
        Return the rows of a query. Repeat it while the database is down, for a limited time in seconds.

        :raises psycopg.OperationalError: if the database stays down.
        """
        deadline = time.monotonic() + limit
        while True:
            try:
                with self.connection() as connection:
                    return connection.execute(query.encode(), values).fetchall()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a DAG run."""
        ((state,),) = self.select("SELECT state FROM dag_run WHERE dag_id = %s AND run_id = %s", dag_id, run_id)
        return str(state)

    def tasks(self, dag_id: str, run_id: str | None = None) -> list[TaskRow]:
        """Return the task instances of a DAG run, or of all runs of a DAG."""
        rows = self.select(
            "SELECT task_id, state, try_number, pid, scheduled_dttm, end_date FROM task_instance"
            " WHERE dag_id = %s AND (run_id = %s OR %s::text IS NULL)",
            dag_id,
            run_id,
            run_id,
        )
        return [TaskRow(*row) for row in rows]

    def lost_tries(self, dag_id: str, run_id: str) -> dict[tuple[str, int], str]:
        """Return the event of the audit log for each try that the scheduler has lost, by task and number of the try."""
        rows = self.select(
            "SELECT task_id, try_number, event FROM log WHERE dag_id = %s AND run_id = %s AND event = ANY(%s)",
            dag_id,
            run_id,
            list(LOST_EVENTS),
        )
        return {(task_id, number): event for task_id, number, event in rows}

    def results(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return the results of the tasks of a DAG run."""
        rows = self.select(
            "SELECT task_id, value FROM xcom WHERE dag_id = %s AND run_id = %s AND key = 'return_value'", dag_id, run_id
        )
        return dict(rows)

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        ((number,),) = self.select(f"SELECT count(*) FROM {table}")  # noqa: S608 - our own words
        return int(number)

    def running(self, limit: float = 0) -> dict[int, tuple[str, str, str, int]]:
        """Return DAG, run, task and number of the try of each running task instance, by process ID."""
        rows = self.select(
            "SELECT pid, dag_id, run_id, task_id, try_number FROM task_instance"
            " WHERE pid IS NOT NULL AND state = 'running'",
            limit=limit,
        )
        return {pid: (dag_id, run_id, task_id, number) for pid, dag_id, run_id, task_id, number in rows}
