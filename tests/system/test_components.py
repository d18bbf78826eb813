from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.process_table import alive, listens_on, tree_of, working_in
from tests.support.processes import ProgramError, wait_for
from tests.system.components import COMMANDS, AirflowComponents, readable
from tests.system.conftest import DAGS

if TYPE_CHECKING:
    from tests.system.airflow_api import TaskInstance

PROBE = "components_probe"
STARTER = """
import json, sys
from pathlib import Path
from tests.system.components import AirflowComponents
with AirflowComponents(Path(sys.argv[1]), env={"AIRFLOW_CONN_FS_DEFAULT": "fs:///"}) as airflow:
    run = airflow.trigger("components_probe", {"file": "/no/such/file"})
    def report(instances):
        if any(one.state == "deferred" for one in instances):
            print(json.dumps(str(airflow.home)), flush=True)
    airflow.wait("components_probe", run, watch=report)
"""


def wait_until_deferred(airflow: AirflowComponents, run_id: str, task_id: str) -> None:
    def deferred() -> bool:
        instances = airflow.api.task_instances(PROBE, run_id)
        return any(one.task_id == task_id and one.state == "deferred" for one in instances)

    wait_for(f"{task_id} is deferred", deferred, limit=60)


def test_a_deferred_task_runs_through_the_triggerer(airflow: AirflowComponents, tmp_path: Path) -> None:
    file = tmp_path / "go"
    run_id = airflow.trigger(PROBE, {"file": str(file)})
    seen: dict[str, list[str | None]] = {}

    def watch(instances: list[TaskInstance]) -> None:
        for one in instances:
            seen.setdefault(one.label, []).append(one.state)
            if one.state == "deferred":
                file.touch()

    assert airflow.wait(PROBE, run_id, watch=watch) == "success"
    assert "deferred" in seen["wait_for_file"]
    assert airflow.was_deferred(PROBE, run_id, "wait_for_file")
    assert not airflow.was_deferred(PROBE, run_id, "report")
    assert airflow.api.xcom(PROBE, run_id, "report") == {"rows": 7}
    assert airflow.api.xcom(PROBE, run_id, "report", key="no such key") is None


def test_every_server_listens_on_loopback_only(airflow: AirflowComponents) -> None:
    pids = [pid for component in COMMANDS for pid in tree_of(airflow.pid(component))]
    assert set().union(*map(listens_on, pids)) == {"127.0.0.1"}


def test_a_restarted_triggerer_ends_the_wait(airflow: AirflowComponents, tmp_path: Path) -> None:
    file = tmp_path / "go"
    run_id = airflow.trigger(PROBE, {"file": str(file)})
    wait_until_deferred(airflow, run_id, "wait_for_file")
    family = tree_of(airflow.pid("triggerer"))
    assert len(family) > 1

    airflow.kill("triggerer")
    assert not any(map(alive, family))
    file.touch()
    airflow.restart("triggerer")

    assert airflow.wait(PROBE, run_id) == "success"


def test_a_dag_that_does_not_exist_is_named(airflow: AirflowComponents) -> None:
    with pytest.raises(ProgramError, match="no_such_dag is parsed"):
        airflow.trigger("no_such_dag", limit=1)


def test_a_line_of_a_task_log_is_shortened() -> None:
    line = '{"level": "error", "event": "Task failed", "error_detail": [{"exc_type": "E", "exc_value": "no such"}]}'
    assert readable(line) == "error: Task failed: E: no such"
    assert readable('{"level": "info", "event": "Poking"}') == "info: Poking"
    assert readable("no JSON {") == "no JSON {"


def test_a_component_that_cannot_start_is_quoted() -> None:
    config = {"database.sql_alchemy_conn": "sqlite:////no/such/folder/airflow.db"}
    with (
        pytest.raises(ProgramError, match=r"db-migrate ended(.|\n)*unable to open database file"),
        AirflowComponents(DAGS, config=config),
    ):
        pytest.fail("it started without a database")


def test_nothing_survives_a_starter_that_is_killed() -> None:
    command = [sys.executable, "-c", STARTER, str(DAGS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as starter:  # noqa: S603 - our own command
        assert starter.stdout is not None
        home = Path(json.loads(starter.stdout.readline()))
        # Guards, components, the executor's workers, the trigger runner.
        assert len(working_in(home)) >= 2 * len(COMMANDS) + 2
        starter.send_signal(signal.SIGKILL)
        wait_for("all are gone", lambda: not working_in(home) and not home.exists(), limit=30)
