"""Airflow's real components with CeleryExecutor: a database in PostgreSQL, a broker in Redis, and Celery workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.support.postgresql import PostgreSQL
from tests.support.redis_server import RedisServer
from tests.system.components import COMMANDS, AirflowComponents

WORKER = "worker"
#: Log line of a Celery worker that accepts tasks.
WORKER_READY = b" ready."


def database_config(database: PostgreSQL) -> dict[str, str]:
    """Return the settings of Airflow for a metadata database in PostgreSQL."""
    return {"database.sql_alchemy_conn": database.url_for("psycopg2")}


def celery_config(database: PostgreSQL, broker: RedisServer, *, concurrency: int) -> dict[str, str]:
    """Return the settings of Airflow for CeleryExecutor."""
    return {
        **database_config(database),
        "core.executor": "CeleryExecutor",
        "celery.broker_url": broker.url,
        "celery.result_backend": f"db+{database.url_for('psycopg2')}",
        "celery.worker_concurrency": str(concurrency),
    }


class CeleryComponents(AirflowComponents):
    """The components of :class:`AirflowComponents` and one Celery worker, ``worker``."""

    commands: ClassVar[Mapping[str, list[str]]] = {
        **COMMANDS,
        # The worker's log server would listen on all addresses of the machine.
        WORKER: ["celery", "worker", "--skip-serve-logs"],
    }

    def __init__(self, dags: Path, *, config: Mapping[str, str], **options: Any) -> None:
        super().__init__(dags, config=config, **options)
        self._worker_log_size = 0

    def _launch(self, component: str, name: str | None = None) -> None:
        if component == WORKER:
            # A killed worker leaves the file behind, and the next one would refuse to start.
            (self.home / "airflow-worker.pid").unlink(missing_ok=True)
            log = self._workspace.log_of(name or component)
            self._worker_log_size = log.stat().st_size if log.exists() else 0
        super()._launch(component, name)

    def _is_ready(self, component: str, after: int) -> bool:
        if component != WORKER:
            return super()._is_ready(component, after)
        return WORKER_READY in self._programs[WORKER].log.read_bytes()[self._worker_log_size :]
