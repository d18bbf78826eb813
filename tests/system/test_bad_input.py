"""Tests of bad input: the task fails with one clear line, and no log contains the key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.airflow_versions import older_than
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents

pytestmark = pytest.mark.medium


DAG = "bad_input"

#: Expected error of each task: class and text.
EXPECTED = {
    "wrong_key": (
        "AuthenticationError",
        r"does not accept the API key.*GET /elt_streams/.* at .* answered 401.*Check the password",
    ),
    "unknown_stream": ("NotFoundError", r"^Not found: .*nowhere.*GET /elt_streams/nowhere at .* answered 404.*Check"),
    "disabled_sync": ("RunConflictError", r"ELT sync disabled is disabled.*Enable it"),
    "vanished_file": ("RunFailedError", r"ELT stream broken\.vanished_\w+: the run failed: .*vanished_\w+\.csv"),
    "failing_query": (
        "RunFailedError",
        r"transform broken/failing_table \(failing_table\): the run failed: .*this row is bad",
    ),
    "failing_view": (
        "InvalidRequestError",
        r"no_such_column.*POST /transforms/failing_view/publish at .* answered 400",
    ),
    "refused_rows": ("RunPartialError", r"reverse ETL sync refused_\w+: 1 of 1 rows failed.*too few"),
    "failed_run": ("RunFailedError", r"ELT stream broken\.failed_before: the run failed: .*failed_before\.csv"),
    "service_down": ("TransportError", r"GET /orchestration_runs got no answer from .*Check the"),
}


@pytest.fixture(scope="module")
def ended(airflow: AirflowComponents, service: LocalService) -> dict[str, Any]:
    """Run the DAG once, and return the failure in the log of each task."""
    service.request("POST", "/elt_streams/broken.failed_before/request_run")

    def has_failed() -> bool:
        runs = service.request("GET", "/elt_stream_runs", params={"elt_stream_id": "broken.failed_before"})["data"]
        return any(run["status"] == "FAILED" for run in runs)

    wait_for("a run has failed", has_failed, limit=30)
    run_id = airflow.run(DAG, "failed")
    tasks = airflow.tasks(DAG, run_id)
    others = [one for one in tasks.values() if one.state != "failed"]
    assert others == [], [airflow.log_tail(DAG, run_id, one) for one in others]
    ends: dict[str, Any] = {}

    def are_logged() -> bool:
        # A worker's supervisor writes the last lines of a log after the state is known.
        ends.update({task_id: list(failures(airflow, run_id, task_id)) for task_id in tasks})
        return all(ends.values())

    wait_for("the error of each task is logged", are_logged, limit=60)
    return ends


def failures(airflow: AirflowComponents, run_id: str, task_id: str) -> Iterator[list[dict[str, Any]]]:
    """Return the error that Airflow logged at the end of a task, and its causes."""
    for path in airflow.task_logs(DAG, run_id, task_id):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if entry.get("error_detail"):
                yield entry["error_detail"]


@pytest.mark.parametrize("how", ["deferred", "blocking"])
@pytest.mark.parametrize("case", EXPECTED)
def test_task_fails_with_one_clear_error(ended: dict[str, Any], case: str, how: str) -> None:
    tries = ended[f"{case}_{how}"]
    # Only temporary errors are retried, although all tasks have retries. Without a retry policy, no task has retries.
    assert len(tries) == (2 if case == "service_down" and not older_than("3.3") else 1)
    # One error, without a cause from another library.
    (error,) = tries[-1]
    expected, says = EXPECTED[case]
    assert error["exc_type"] == expected
    assert re.search(says, error["exc_value"], re.DOTALL), error["exc_value"]
    assert 1 <= len(error["exc_value"].splitlines()) <= 5
    assert len(error["exc_value"]) < 800
    assert error["exc_notes"] == []


def test_no_log_contains_the_api_key(ended: dict[str, Any], airflow: AirflowComponents, service: LocalService) -> None:
    assert len(ended) == 2 * len(EXPECTED)
    logs = [*airflow.log_files(), service.log_file]
    assert len(logs) > len(ended)
    assert [path for path in logs if service.api_key.encode() in path.read_bytes()] == []
