"""Client of Airflow's REST API for the system tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

ENDED = frozenset({"success", "failed"})
#: Default limit of entries per response.
_PAGE = 100
#: Number of retries of a request that failed because of a locked database, and seconds between them.
_REPEATS = 9
_PAUSE = 1.0


class AirflowApiError(Exception):
    """The REST API refused a request. The message quotes the response."""


@dataclass(frozen=True)
class TaskInstance:
    """Task instance in a response of the REST API."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    operator: str | None
    start_date: datetime | None
    end_date: datetime | None
    pid: int | None = None

    @property
    def label(self) -> str:
        """ID of the task, with the map index of a mapped task."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> TaskInstance:
        def moment(name: str) -> datetime | None:
            return datetime.fromisoformat(answer[name]) if answer[name] else None

        return cls(
            task_id=answer["task_id"],
            map_index=answer["map_index"],
            state=answer["state"],
            try_number=answer["try_number"],
            operator=answer["operator_name"],
            start_date=moment("start_date"),
            end_date=moment("end_date"),
            pid=answer["pid"],
        )


def _is_locked(answer: httpx.Response) -> bool:
    # Airflow 3.1 does not mention the database.
    server_error = answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    return server_error and ("Database" in answer.text or answer.text == "Internal Server Error")


class AirflowApi:
    """Client of one Airflow installation."""

    def __init__(self, address: str, login: str, password: str) -> None:
        # trust_env: requests to 127.0.0.1 must not use a proxy of the environment.
        # SQLite has one writer at a time, so a request can take long on a busy machine.
        self._http = httpx.Client(base_url=address, timeout=120, trust_env=False)
        self._credentials = {"username": login, "password": password}

    def close(self) -> None:
        self._http.close()

    def answers(self) -> bool:
        """Return True if the API server responds, also to tasks. Log in if it does."""
        try:
            if self._http.get("/api/v2/monitor/health", timeout=5).status_code != httpx.codes.OK:
                return False
            # The first request takes seconds of CPU time. Requests of tasks would time out meanwhile.
            self._http.get("/execution/health", timeout=120)
        except httpx.TransportError:
            return False
        if "Authorization" not in self._http.headers:
            answer = self._http.post("/auth/token", json=self._credentials)
            if answer.status_code != httpx.codes.CREATED:
                raise AirflowApiError(f"Airflow refused the login: {answer.status_code} {answer.text}")
            self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return True

    def request(self, method: str, path: str, *, base: str = "/api/v2", **options: Any) -> Any:
        """
        Send a request, and return the JSON of the response.

        SQLite has one writer at a time: a request that fails because the database is locked is repeated.
        """
        answer = self._http.request(method, f"{base}{path}", **options)
        for _ in range(_REPEATS):
            if not _is_locked(answer):
                break
            time.sleep(_PAUSE)
            answer = self._http.request(method, f"{base}{path}", **options)
        if answer.is_error:
            raise AirflowApiError(f"{method} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json() if answer.content else None

    def live_jobs(self, job_type: str) -> list[int]:
        """List the IDs of the jobs with the state running, newest first."""
        params = {"job_type": job_type, "job_state": "running", "order_by": "-id"}
        return [job["id"] for job in self.request("GET", "/jobs", params=params)["jobs"]]

    def import_errors(self) -> list[str]:
        """List the import errors of DAG files, with the names of the files."""
        errors = self.request("GET", "/importErrors")["import_errors"]
        return [f"{error['filename']}:\n{error['stack_trace']}" for error in errors]

    def knows_dag(self, dag_id: str) -> bool:
        """Return True if a DAG has been parsed, and can be triggered."""
        dags = self.request("GET", "/dags", params={"dag_id_pattern": dag_id, "limit": 100})["dags"]
        return any(dag["dag_id"] == dag_id and not dag["is_stale"] for dag in dags)

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a DAG run, and return its ID."""
        body = {"logical_date": None, "conf": conf or {}}
        run: dict[str, str] = self.request("POST", f"/dags/{dag_id}/dagRuns", json=body)
        return run["dag_run_id"]

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Read the state of a DAG run."""
        run: dict[str, str] = self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")
        return run["state"]

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """List the task instances of a run."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        found: list[TaskInstance] = []
        while True:
            answer = self.request("GET", path, params={"limit": _PAGE, "offset": len(found), "order_by": "id"})
            found += [TaskInstance.from_answer(one) for one in answer["task_instances"]]
            if len(found) >= answer["total_entries"] or not answer["task_instances"]:
                return found

    def clear(self, dag_id: str, run_id: str, *task_ids: str, **options: bool) -> None:
        """Clear tasks of a run in any state, all without names, like the button of their pages."""
        body = {"dag_run_id": run_id, "task_ids": task_ids or None, "dry_run": False, "only_failed": False, **options}
        self.request("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task as success or failed, like the button of its page."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        self.request("PATCH", path, json={"new_state": state})

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int, *, map_index: int = -1) -> str:
        """Return the log of one try of a task, of its worker and of its trigger."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        answer = self.request("GET", path, params={"map_index": map_index, "full_content": True})
        reported: list[str] = []
        for entry in answer["content"]:
            # The text of an exception, or the reason for a skipped task, is in a separate field.
            causes = (cause["exc_value"] for cause in entry.get("error_detail") or ())
            reported += [entry["event"], *causes, entry.get("reason", "")]
        return "\n".join(reported)

    def xcom(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1, key: str = "return_value") -> Any:
        """Return an XCom; None if it does not exist."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        answer = self._http.get(f"/api/v2{path}", params={"map_index": map_index, "deserialize": True})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.is_error:
            raise AirflowApiError(f"GET {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json()["value"]

    def wait_for_run(
        self, dag_id: str, run_id: str, *, limit: float, watch: Callable[[list[TaskInstance]], None] | None = None
    ) -> str:
        """
        Wait for a DAG run to end, and return its state. ``watch`` is called with the task instances twice a second.

        Errors of the API server are ignored, because a test may be restarting it.
        """
        deadline = time.monotonic() + limit
        state = "unknown"
        while time.monotonic() < deadline:
            instances: list[TaskInstance] | None = None
            with suppress(httpx.TransportError):
                # Read the DAG run before the tasks, so that the tasks are not older than the end of the DAG run.
                state = self.run_state(dag_id, run_id)
                instances = self.task_instances(dag_id, run_id) if watch else []
            if instances is not None:
                if watch:
                    watch(instances)
                if state in ENDED:
                    return state
            time.sleep(0.5 if watch else 1)
        tasks = self.task_instances(dag_id, run_id)
        seen = ", ".join(f"{one.label} {one.state} (try {one.try_number})" for one in tasks)
        raise AirflowApiError(f"{dag_id} {run_id} did not end within {limit:.0f} s: {state}; {seen}")
