"""Short chaos test. ``make chaos`` runs the complete one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from tests.support.airflow_versions import since
from tests.system.chaos.cases import (
    AT_A_TIME,
    KINDS,
    LATE_BY,
    LIMIT,
    LOST_RESPONSE_TIMEOUT,
    Case,
    few,
    few_of_options,
    few_of_servers,
)
from tests.system.chaos.play import Wave, connected, service_of
from tests.system.components import AirflowComponents

#: Without task state, a retry of a killed task does not know its run.
pytestmark = since("3.3", "task state")
SEED = 4


def test_kill_at_any_step_leaves_one_run_and_the_correct_state(
    airflow: AirflowComponents, dags_folder: Path, tmp_path: Path
) -> None:
    cases = [*few(SEED), *few_of_options(SEED)]
    assert len(cases) >= 20
    assert {(case.kind, case.deferrable) for case in cases} == set(itertools.product(KINDS, (True, False)))
    # The search for a late run must last longer than its delay.
    assert LATE_BY < LOST_RESPONSE_TIMEOUT
    kills = played("short", cases, airflow, dags_folder, tmp_path)
    assert kills["service"] >= 1
    assert kills["triggerer"] == 1


def test_kills_of_scheduler_and_api_server_leave_one_run(
    airflow: AirflowComponents, dags_folder: Path, tmp_path: Path
) -> None:
    kills = played("servers", few_of_servers(SEED), airflow, dags_folder, tmp_path)
    assert kills["scheduler"] >= 1
    assert kills["api-server"] >= 1


def played(
    name: str, cases: Sequence[Case], airflow: AirflowComponents, dags_folder: Path, folder: Path
) -> dict[str, int]:
    """Run cases, assert that no result has a difference, and return the number of kills of each program."""
    with service_of(cases, folder) as service, connected(airflow, service):
        wave = Wave(name, cases, airflow, service, dags_folder)
        results = wave.play(limit=600)
    wrong = [str(result) for result in results if result.faults]
    assert not wrong, "\n\n".join(wrong)
    # Each fault has occurred.
    assert [result.case.task_id for result in results if not result.struck] == []
    # The number of concurrent runs reaches the limit, but does not exceed it.
    assert {result.at_once for result in results if result.case.option == LIMIT} <= {AT_A_TIME}
    return wave.kills
