"""The last step of Getting started: the DAG of the page with ``airflow standalone``."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from tests.support.documents import blocks, pages
from tests.support.processes import ReservedPort, Workspace, wait_for
from tests.support.shell import bash
from tests.system.airflow_api import ENDED, AirflowApi

PAGE = "docs/getting_started.md"
#: More than standalone needs on a busy machine.
_LIMIT = 300.0


def test_dag_of_getting_started_with_standalone() -> None:
    page = [block for block in blocks() if block.page == PAGE]
    _, folder, init, serve, connect, run, _, standalone = (
        block.text.strip() for block in page if block.language == "sh"
    )
    exports = "\n".join(line for line in run.splitlines() if line.startswith("export "))
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-standalone-"))
        ports = [ReservedPort() for _ in range(4)]
        for port in ports:
            stack.callback(port.release)
        local, api, worker_logs, trigger_logs = (port.number for port in ports)
        here = workspace.path
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATAPIPE"))}
        env |= {
            "HOME": str(here),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
            "NO_PROXY": "127.0.0.1,localhost",
            # The ports of the page may be in use.
            "AIRFLOW__API__PORT": str(api),
            "AIRFLOW__API__BASE_URL": f"http://localhost:{api}",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{api}/execution/",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
        }
        bash(folder, here, env)
        for block in page:
            if block.file:
                (here / block.file).write_text(block.text)
        bash(init, here, env)
        service = workspace.start("serve", ["bash", "-c", f"exec {serve} --port {local}"], env=env)
        wait_for("the service is ready", lambda: "is ready at" in service.tail(), limit=_LIMIT, watch=[service])
        command = f"{connect.replace('8484', str(local))}\n{exports}\nexec {standalone}"
        airflow = workspace.start("standalone", ["bash", "-c", command], env=env)
        (name,) = {word for word in pages()[PAGE].split("`") if word.endswith("passwords.json.generated")}
        passwords = here / name
        wait_for("the password is generated", passwords.exists, limit=_LIMIT, watch=[airflow])
        assert "Password for user 'admin'" in airflow.log.read_text()
        password = json.loads(passwords.read_text())["admin"]
        client = stack.enter_context(closing(AirflowApi(f"http://localhost:{api}", "admin", password)))
        wait_for("the API server answers", client.answers, limit=_LIMIT, watch=[airflow])
        wait_for("the DAG is listed", lambda: client.knows_dag("shop"), limit=_LIMIT, watch=[airflow])
        wait_for("a triggerer runs", lambda: bool(client.live_jobs("TriggererJob")), limit=_LIMIT, watch=[airflow])
        assert client.request("GET", "/dags/shop")["is_paused"]
        client.request("PATCH", "/dags/shop", json={"is_paused": False})
        run_id = client.trigger("shop")
        wait_for(
            "the run ends", lambda: client.run_state("shop", run_id) in ENDED, limit=_LIMIT, watch=[airflow, service]
        )
        assert client.run_state("shop", run_id) == "success"
