"""Samples of the soak test: memory, file descriptors and connections of processes, and rows of the database."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # Airflow brings psutil, nobody its stubs.

from tests.system.distributed.deployment import TRIGGERERS, WORKERS, Deployment
from tests.system.distributed.metadata import Metadata

_MB = 1024.0 * 1024.0
#: Airflow keeps task states and results until the DAG run is deleted or they expire: their number for each run is flat.
_FOR_EACH_RUN = "SELECT count(*)::float / greatest((SELECT count(*) FROM dag_run), 1) FROM"
#: Rows of the provider: triggers, positions of event sources, and for each DAG run its task states and results.
_ROWS = {
    "trigger_rows": "SELECT count(*) FROM trigger WHERE classpath LIKE 'airflow_provider_datapipe.%%'",
    "asset_state_store_rows": "SELECT count(*) FROM asset_state_store",
    "task_states_for_each_run_rows": f"{_FOR_EACH_RUN} task_state_store WHERE key LIKE 'datapipe.%%'",
    "xcoms_for_each_run_rows": f"{_FOR_EACH_RUN} xcom",
    "postgresql_connections": "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL",
}


class Samples:
    """
    Samples of a deployment, which are also written to a CSV file.

    :param deployment: the running components.
    :param file: the CSV file.
    """

    def __init__(self, deployment: Deployment, file: Path) -> None:
        self._deployment = deployment
        self._metadata = Metadata(deployment.database_url)
        self._file = file
        self.minutes: list[float] = []
        self.values: dict[str, list[float]] = {}

    def take(self, minute: float) -> None:
        """Take one sample, and write it."""
        sample = dict(self._processes())
        for name, query in _ROWS.items():
            ((value,),) = self._metadata.select(query)
            sample[name] = float(value)
        self.minutes.append(minute)
        is_first = not self.values
        for name, value in sample.items():
            self.values.setdefault(name, []).append(value)
        with self._file.open("w" if is_first else "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if is_first:
                writer.writerow(["minute", *sample])
            writer.writerow([f"{minute:.2f}", *(f"{value:.1f}" for value in sample.values())])

    def _processes(self) -> Iterator[tuple[str, float]]:
        for component in (*TRIGGERERS, *WORKERS):
            rss, fds, connections = 0.0, 0, 0
            for process in self._long_lived(component):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    rss += process.memory_info().rss / _MB
                    fds += process.num_fds()
                    connections += len(process.net_connections(kind="tcp"))
            yield f"{component}_rss_mb", rss
            yield f"{component}_fds", float(fds)
            yield f"{component}_connections", float(connections)

    def _long_lived(self, component: str) -> Iterator[psutil.Process]:
        """Yield the processes of a component, without those that each run one task."""
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._deployment.program(component).pid)
            yield first
            yield from first.children(recursive=component in TRIGGERERS)
