"""Getting started up to its last step, with only the wheel and a CSV file."""

from __future__ import annotations

import csv
import json
import random
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.packaging.installed import build, fresh, install, requirement
from tests.support.documents import blocks, pages
from tests.support.processes import ReservedPort, Workspace, wait_for
from tests.support.shell import bash
from tests.system.airflow_api import ENDED, AirflowApi

PAGE = "docs/getting_started.md"
ROWS = 5000
#: Time limit in seconds for ``airflow standalone`` on a busy machine.
_LIMIT = 300.0


def own_file(path: Path) -> list[str]:
    """Write a CSV file, and return the names of the adults in it."""
    chance = random.Random(1)  # noqa: S311 - reproducible, no secret
    rows = [(number, f"Person {number}", chance.choice([*range(100), "NA"])) for number in range(ROWS)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "name", "age"), *rows])
    return [name for _, name, age in rows if isinstance(age, int) and age >= 18]


def test_getting_started_with_the_wheel_and_one_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    readme_asks_for = requirement("README.md", extra="[local]")
    page = [block for block in blocks() if block.page == PAGE]
    asked, folder, init, serve, connect, run, poll, standalone = (
        block.text.strip() for block in page if block.language == "sh"
    )
    assert asked == f"pip install '{readme_asks_for}'"
    assert "8484" in connect
    installed = install(readme_asks_for, build(tmp_path_factory.mktemp("dist")), fresh(tmp_path_factory.mktemp("env")))
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-new-user-"))
        ports = [ReservedPort() for _ in range(4)]
        for port in ports:
            stack.callback(port.release)
        local, api, worker_logs, trigger_logs = (port.number for port in ports)
        here = workspace.path
        foreign = ("AIRFLOW", "DATAPIPE")
        env = {name: value for name, value in installed.environment().items() if not name.startswith(foreign)}
        env |= {
            # Only the environment that the page describes. The default Airflow home would be in this folder.
            "HOME": str(here),
            "NO_PROXY": "127.0.0.1,localhost",
            # The ports of the page may be in use.
            "AIRFLOW__API__PORT": str(api),
            "AIRFLOW__API__BASE_URL": f"http://localhost:{api}",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{api}/execution/",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
        }
        bash(folder, here, env)
        adults = own_file(here / "shop" / "people.csv")
        for block in page:
            if block.file:
                (here / block.file).write_text(block.text)
        bash(init, here, env)
        service = workspace.start("serve", ["bash", "-c", f"exec {serve} --port {local}"], env=env)
        ready = f"datapipe-local is ready at http://127.0.0.1:{local}"
        wait_for("it says so", lambda: ready in service.tail(), limit=60, watch=[service])
        connected = connect.replace("8484", str(local))
        output = bash(f"{connected}\n{run}", here, env)
        assert "state=success" in output.rpartition("DagRun Finished")[2]
        assert (here / "shop/airflow/airflow.db").exists()
        assert not (here / "airflow").exists()
        shown = bash(poll, here, env).splitlines()
        assert shown[-1] == f"(100 of {len(adults):,} rows)"
        names = {line.partition(" | ")[2] for line in shown[2:-1]}
        assert len(names) == 100
        assert names <= set(adults)

        exports = "\n".join(line for line in run.splitlines() if line.startswith("export "))
        command = f"{connected}\n{exports}\nexec {standalone}"
        airflow = workspace.start("standalone", ["bash", "-c", command], env=env)
        (name,) = {word for word in pages()[PAGE].split("`") if word.endswith("passwords.json.generated")}
        wait_for("the password is generated", (here / name).exists, limit=_LIMIT, interval=0.5, watch=[airflow])
        assert "Password for user 'admin'" in airflow.log.read_text()
        password = json.loads((here / name).read_text())["admin"]
        client = stack.enter_context(closing(AirflowApi(f"http://localhost:{api}", "admin", password)))

        def is_ready() -> bool:
            return client.answers() and client.knows_dag("shop") and bool(client.live_jobs("TriggererJob"))

        wait_for("the DAG is listed, and a triggerer runs", is_ready, limit=_LIMIT, interval=0.5, watch=[airflow])
        assert client.request("GET", "/dags/shop")["is_paused"]
        client.request("PATCH", "/dags/shop", json={"is_paused": False})
        run_id = client.trigger("shop")
        wait_for(
            "the run ends",
            lambda: client.run_state("shop", run_id) in ENDED,
            limit=_LIMIT,
            interval=1,
            watch=[airflow, service],
        )
        assert client.run_state("shop", run_id) == "success"
