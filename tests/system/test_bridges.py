"""Connection bridges on real components: a DAG asks a user to authorize a connection, and then continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.conftest import connected

DAG_ID = "bridges"
#: State of a task that waits for input: since Airflow 3.3, and before.
WAITING = ("awaiting_input", "deferred")


def test_dag_asks_a_user_to_authorize_a_connection(airflow: AirflowComponents, tmp_path: Path) -> None:
    with LocalService() as service, connected(airflow, "datapipe_bridges", service):
        run_id = airflow.trigger(DAG_ID)
        asked: list[dict[str, Any]] = []

        def is_asked() -> bool:
            path = f"/dags/{DAG_ID}/dagRuns/{run_id}/hitlDetails"
            asked[:] = airflow.api.request("GET", path)["hitl_details"]
            return bool(asked)

        wait_for("the person is asked", is_asked, limit=120, interval=0.5)
        url = airflow.api.xcom(DAG_ID, run_id, "bridge", key="return_value")["authorize_url"]
        assert f"[this page]({url})" in asked[0]["body"]
        wait_for("the sensor waits", lambda: airflow.was_deferred(DAG_ID, run_id, "connected"), limit=60)

        page = httpx.post(url, data={"path": str(tmp_path)})
        assert page.status_code == 303
        reported = parse_qs(urlsplit(page.headers["location"]).query)
        # Airflow may fail a task that is answered in its first seconds (docs/waiting.md, "Minimum deferral time"). The
        # sensor detects the authorization without an answer.
        wait_for(
            "the sensor has seen it",
            lambda: airflow.tasks(DAG_ID, run_id)["connected"].state == "success",
            limit=90,
            interval=0.5,
        )
        assert airflow.tasks(DAG_ID, run_id)["ask"].state in WAITING
        answer = f"/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails"
        airflow.api.request("PATCH", answer, json={"chosen_options": ["Done"], "params_input": {}})

        airflow.ends(DAG_ID, run_id)
        (there,) = reported["connection_id"]
        expected = {"connection_id": there, "integration_id": "files", "label": "Sales files"}
        assert airflow.api.xcom(DAG_ID, run_id, "connected") == expected
        # No log contains the secret URL, which only the requested XCom contains.
        secret = url.rpartition("/")[2].encode()
        logs = [file for task in ("bridge", "connected") for file in airflow.task_logs(DAG_ID, run_id, task)]
        assert logs
        assert [file for file in logs if secret in file.read_bytes()] == []
