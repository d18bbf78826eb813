"""Short deferred tasks without retries on LocalExecutor. ``python -m tests.system.short_runs`` runs more of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.system.components import AirflowComponents
from tests.system.conftest import connected
from tests.system.short_runs.__main__ import run, service_of

TASKS = 16


def test_scheduler_fails_no_short_deferred_task(airflow: AirflowComponents, dags_folder: Path) -> None:
    with service_of(TASKS) as service, connected(airflow, "datapipe_short_runs", service):
        result = run(airflow, service, dags_folder, "datapipe_short_runs", TASKS)
    assert result.states == Counter(success=TASKS), result.mismatches
    assert result.deferred == TASKS
    assert result.mismatches == []
