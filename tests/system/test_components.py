"""Components for tests: servers only on loopback, and errors with their cause."""

from __future__ import annotations

import pytest

from tests.support.process_table import listens_on, tree_of
from tests.support.processes import ProgramError
from tests.system.components import COMMANDS, AirflowComponents, readable


def test_servers_listen_only_on_loopback(airflow: AirflowComponents) -> None:
    pids = [pid for component in COMMANDS for pid in tree_of(airflow.pid(component))]
    assert set().union(*map(listens_on, pids)) == {"127.0.0.1"}


def test_error_of_an_unknown_dag_contains_its_id(airflow: AirflowComponents) -> None:
    with pytest.raises(ProgramError, match="no_such_dag is parsed"):
        airflow.trigger("no_such_dag", limit=1)


def test_readable_shortens_a_line_of_a_task_log() -> None:
    line = '{"level": "error", "event": "Task failed", "error_detail": [{"exc_type": "E", "exc_value": "no such"}]}'
    assert readable(line) == "error: Task failed: E: no such"
    assert readable("no JSON {") == "no JSON {"
