"""HTTP client for tests that validates responses with the models of the provider."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncRun
from tests.support.local_service import LocalService

Json = dict[str, Any]

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_LIMIT = 120.0


class Api:
    """HTTP client of a service, which stays valid after a restart of the service."""

    def __init__(self, service: LocalService) -> None:
        self.client = httpx.Client(base_url=service.base_url, headers=service.headers, timeout=60)

    def get(self, path: str, **query: Any) -> Json:
        answer = self.client.get(path, params=query or None)
        assert answer.status_code == 200, answer.text
        body: Json = answer.json()
        check_times(body)
        return body

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Json:
        answer = self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else {}

    def refused(
        self, method: str, path: str, status: int, *, code: str | None = None, message: str = "", **request: Any
    ) -> Json:
        """
        Send a request, and check that the response has this status and the error body of the interface.

        :param code: The expected error code. Any by default.
        :param message: A part of the message.
        """
        if "json" in request:
            # As bytes: httpx does not send half a character.
            request["content"] = json.dumps(request.pop("json")).encode()
            request["headers"] = {"content-type": "application/json"}
        answer = self.client.request(method, path, **request)
        assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
        body: Json = answer.json()
        assert set(body) <= {"error_code", "message", "active_run_id"}
        assert body["error_code"] == (code or body["error_code"] or "missing"), body
        assert body["message"]
        assert message in body["message"], body
        assert "\n" not in body["message"]
        return body

    def delete(self, path: str, **query: Any) -> None:
        answer = self.client.delete(path, params=query or None)
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def first(self, status_url: str) -> Json | None:
        """Return the first run of a status URL, None if the list is empty."""
        page = Page[dict[str, Any]].model_validate(self.get(status_url))
        assert len(page.data) <= 1
        return page.data[0] if page.data else None

    def run_stream(self, stream_id: str) -> EltStreamRun:
        status_url = RunRequested.model_validate(self.post(f"/elt_streams/{stream_id}/request_run")).status_url
        return EltStreamRun.model_validate(self.ended(status_url))

    def stream_status(self, sync_id: str, name: str) -> Json:
        """Return the status of a stream of a sync."""
        streams = self.get(f"/elt_syncs/{sync_id}/status")["source_streams"]
        return next(each for each in streams if each["name"] == name)

    def run_reverse(self, sync_id: str) -> ReverseEtlSyncRun:
        url = RunRequested.model_validate(self.post(f"/reverse_etl_syncs/{sync_id}/request_run")).status_url
        return ReverseEtlSyncRun.model_validate(self.ended(url))

    def run_orchestration(self, orchestration_id: str) -> OrchestrationRun:
        run = OrchestrationRun.model_validate(self.post(f"/orchestrations/{orchestration_id}/request_run"))
        assert run.status == "NOT_STARTED"
        return OrchestrationRun.model_validate(self.ended(f"/orchestration_runs/{run.id}"))

    def ended(self, url: str) -> Json:
        """Wait until a run has finished. The URL is a status URL or the address of the run."""
        return self.until(url, lambda run: "finished_at" in run)

    def until(self, url: str, condition: Any) -> Json:
        """Poll a status URL or the address of a run until the condition is true for the run."""
        deadline = time.monotonic() + _LIMIT
        seen: Json | None = None
        while time.monotonic() < deadline:
            seen = self.first(url) if "?" in url else self.get(url)
            if seen is not None and condition(seen):
                return seen
            time.sleep(0.01)
        raise TimeoutError(f"{url}: {seen}")

    def all_pages(self, path: str, **query: Any) -> list[Json]:
        """Return the items of all pages of a list."""
        items: list[Json] = []
        while True:
            page = self.get(path, **query)
            assert page["hasMore"] == page["has_more"] == ("next_cursor" in page)
            assert len(page["data"]) == query.get("limit", 10) or not page["has_more"]
            items += page["data"]
            if not page["has_more"]:
                return items
            assert page["nextCursor"] == page["next_cursor"]
            query["starting_after"] = page["next_cursor"]


@contextmanager
def served(*arguments: Any, **options: Any) -> Iterator[tuple[LocalService, Api]]:
    """Start a service with these arguments for a ``with`` block. Yield it and its client."""
    with LocalService(*arguments, **options) as service:
        yield service, Api(service)
        assert "Traceback" not in service.log


def check_times(value: Any) -> None:
    """Check that every time in a response has the timestamp format of the interface."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if name.endswith("_at"):
                assert _TIMESTAMP.fullmatch(entry), (name, entry)
            check_times(entry)
    elif isinstance(value, list):
        for entry in value:
            check_times(entry)
