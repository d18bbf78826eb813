"""``dag.test()`` of DAG files in a separate process, without components."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.support.airflow_versions import IMPORT_DAG_BAG
from tests.support.process_table import working_in

_PROGRAM = f"""
import json, pathlib, sys
from airflow.utils.db import initdb
{IMPORT_DAG_BAG}
dag_id, file, answer = sys.argv[1:]
if not pathlib.Path("airflow/airflow.db").exists():
    initdb()
bag = DagBag(file)
assert not bag.import_errors, bag.import_errors
run = bag.dags[dag_id].test()
tasks = {{}}
for one in run.get_task_instances():
    result = one.xcom_pull(task_ids=one.task_id, map_indexes=one.map_index)
    tasks[one.task_id if one.map_index < 0 else f"{{one.task_id}}[{{one.map_index}}]"] = [one.state, result]
with open(answer, "w") as file:
    json.dump([run.state, tasks], file, default=str)
"""


def python_path() -> str:
    """Return a PYTHONPATH with the modules of the tests, and with the same provider as in this process."""
    return os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])


@dataclass(frozen=True)
class Tested:
    """State of a DAG run, states and results of its tasks by label, and the output of the process."""

    #: Not a test class, despite its name.
    __test__: ClassVar[bool] = False

    state: str
    states: dict[str, str]
    results: dict[str, Any]
    output: str


class DagTest:
    """Airflow's home for ``dag.test()`` of several DAGs, with the users' defaults."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, dag_id: str, file: Path, connections: Mapping[str, str]) -> Tested:
        """Run a DAG with connections by their IDs, and assert that it leaves no process behind."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
            "AIRFLOW_HOME": str(self._folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(file.parent),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "PYTHONPATH": python_path(),
        }
        env |= {f"AIRFLOW_CONN_{conn_id.upper()}": value for conn_id, value in connections.items()}
        answer = self._folder / f"{dag_id}.json"
        done = subprocess.run(  # noqa: S603 - program of this module
            [sys.executable, "-c", _PROGRAM, dag_id, str(file), str(answer)],
            env=env,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert answer.exists(), done.stderr[-5000:]
        state, tasks = json.loads(answer.read_text())
        assert working_in(self._folder) == []
        return Tested(
            state,
            {label: each[0] for label, each in tasks.items()},
            {label: each[1] for label, each in tasks.items()},
            done.stdout + done.stderr,
        )
