"""Sensors in poke, reschedule and deferrable mode, on real components, for runs that others start."""

from __future__ import annotations

import httpx

from tests.support.local_service import LocalService
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents

DAG = "waiting"
KINDS = ("stream", "orchestration", "reverse_etl")
#: Which state shows that a sensor of each mode has looked, and found that it has to wait.
WAITS_AS = {"poke": "running", "reschedule": "up_for_reschedule", "deferred": "deferred"}
RUNS = (
    "/elt_streams/awaited.airlines/request_run",
    "/orchestrations/awaited/request_run",
    "/reverse_etl_syncs/awaited/request_run",
)


def test_every_sensor_waits_in_every_mode(airflow: AirflowComponents, service: LocalService) -> None:
    waited: set[str] = set()
    requested: list[int] = []

    def watch(instances: list[TaskInstance]) -> None:
        waited.update(one.task_id for one in instances if one.state == WAITS_AS[one.task_id.rpartition("_")[2]])
        if len(waited) == len(KINDS) * len(WAITS_AS) and not requested:
            with httpx.Client(base_url=service.base_url, headers=service.headers) as client:
                requested.extend(client.post(path).status_code for path in RUNS)

    run_id = airflow.trigger(DAG)
    state = airflow.wait(DAG, run_id, limit=180, watch=watch)
    instances = airflow.api.task_instances(DAG, run_id)
    assert state == "success", [airflow.log_tail(DAG, run_id, one) for one in instances if one.state == "failed"]
    assert requested == [200, 200, 200]
    for kind in KINDS:
        results = [airflow.api.xcom(DAG, run_id, f"{kind}_{mode}") for mode in WAITS_AS]
        assert [result["outcome"] for result in results] == ["succeeded"] * len(WAITS_AS)
        # All have seen the same run.
        assert len({result["run_id"] for result in results}) == 1
    for mode in WAITS_AS:
        assert airflow.was_deferred(DAG, run_id, f"stream_{mode}") == (mode == "deferred")
