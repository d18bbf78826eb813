"""The short chaos test; ``make chaos`` runs the whole."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.system.chaos.cases import KINDS, LATE_BY, SETTLE, few
from tests.system.chaos.play import Wave, connected, service_of
from tests.system.components import AirflowComponents

SEED = 4


def test_whatever_is_killed_there_is_one_run_and_the_task_ends_as_it_did(
    airflow: AirflowComponents, dags_folder: Path, tmp_path: Path
) -> None:
    cases = few(SEED)
    assert len(cases) >= 20
    assert {(case.kind, case.deferrable) for case in cases} == set(itertools.product(KINDS, (True, False)))
    # Else what is late is not looked for long enough to be found.
    assert LATE_BY < SETTLE
    with service_of(cases, tmp_path) as service, connected(airflow, service):
        wave = Wave("short", cases, airflow, service, dags_folder)
        verdicts = wave.play(limit=240)
    wrong = [str(verdict) for verdict in verdicts if verdict.faults]
    assert not wrong, "\n\n".join(wrong)
    # Else it shows nothing.
    assert [verdict.case.task_id for verdict in verdicts if not verdict.struck] == []
    assert wave.kills["service"] >= 1
    assert wave.kills["triggerer"] == 1
