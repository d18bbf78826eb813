"""Module imports of the first trigger do not block the event loop of a triggerer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.models import RunRef
from tests.support.scripted_server import Reply, ScriptedServer
from tests.support.waited_run import connection

pytestmark = pytest.mark.slow


CONNECTION = "datapipe_first"
RUN = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z"}
GOING = Reply(body=RUN | {"status": "RUNNING"})
DONE = Reply(body=RUN | {"status": "COMPLETED", "finished_at": "2026-01-01T00:00:09.000Z"})
WAITING = Batch("elt_stream", waiting=[RunRef("elt_stream", "s", "orders", run_id="r1")]).as_dict()
RUN_TRIGGER = {
    "module": "airflow_provider_datapipe.triggers.run",
    "name": "DatapipeRunTrigger",
    "arguments": {"datapipe_conn_id": CONNECTION, "batch": WAITING, "policy": {"poll_interval": 0.1}},
}
CONDITION_TRIGGER = {
    "module": "airflow_provider_datapipe.triggers.condition",
    "name": "DatapipeConditionTrigger",
    "arguments": {
        "condition": "failed_records",
        "datapipe_conn_id": CONNECTION,
        "poll_interval": 0.1,
        "reverse_etl_sync_id": "e",
        "at_most": 1,
    },
}
EVENT_TRIGGER = {
    "module": "airflow_provider_datapipe.triggers.events",
    "name": "FailedRecordsEventTrigger",
    "arguments": {"reverse_etl_sync_id": "e", "datapipe_conn_id": CONNECTION, "poll_interval": 0.1},
}
DOWN = Reply(503)


def loaded_by(trigger: dict[str, Any], script: list[Reply], *, kill: bool = False) -> tuple[str | None, list[str]]:
    """Return the status of a trigger's event, and the modules that the event loop's thread loaded for it."""
    with ScriptedServer(script) as server:
        program = subprocess.run(
            [sys.executable, "-m", "tests.support.first_trigger"],
            input=json.dumps({**trigger, "connection": CONNECTION, "kill": kill}),
            env={**os.environ, f"AIRFLOW_CONN_{CONNECTION.upper()}": connection(server.url)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert program.returncode == 0, program.stderr
    report = json.loads(program.stdout.splitlines()[-1])
    return report["status"], report["loaded"]


@pytest.mark.parametrize(
    ("trigger", "script", "status"),
    [
        (RUN_TRIGGER, [GOING, DOWN, DONE], "success"),
        (CONDITION_TRIGGER, [Reply(body={"count": 9}), DOWN, Reply(body={"count": 0})], "success"),
        (EVENT_TRIGGER, [Reply(body={"count": 0}), DOWN, Reply(body={"count": 5})], "partial"),
    ],
    ids=["run", "condition", "event"],
)
def test_first_trigger_loads_nothing_in_the_event_loop(
    trigger: dict[str, Any], script: list[Reply], status: str
) -> None:
    assert loaded_by(trigger, script) == (status, [])


def test_first_kill_loads_nothing_in_the_event_loop() -> None:
    assert loaded_by(RUN_TRIGGER, [GOING], kill=True) == (None, [])
