"""Resources of a service for tests that stop and retry tasks: one for each task, with runs that appear to be active."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.support.local_service import LocalService
from tests.system import seeds

#: Duration in seconds of a run that must not end during a test.
FOR_EVER = 3600


def seed_of(streams: Iterable[str], folder: Path, reverse_etl_syncs: Iterable[str] = ()) -> dict[str, Any]:
    """Return the seed of streams, each in a separate sync, and of reverse ETL syncs."""
    (folder / "rows.csv").write_text("id,name\n1,one\n2,two\n", encoding="utf-8")
    return {
        "connections": [
            seeds.connection("rows", "files", path=str(folder)),
            seeds.connection("exports", "jsonl", path=f"{folder}/out"),
        ],
        "transforms": [seeds.transform("numbers", "SELECT range AS id FROM range(5)")],
        "elt_syncs": [seeds.elt_sync(each, "rows", [seeds.stream(each, "rows")]) for each in streams],
        "reverse_etl_syncs": [seeds.reverse_etl_sync(each, "numbers", "exports") for each in reverse_etl_syncs],
    }


class Held:
    """Runs that have ended, but appear to be active until their release, so that a second run could start."""

    def __init__(
        self,
        service: LocalService,
        resources: Iterable[str],
        refusals: Mapping[str, dict[str, Any]] | None = None,
        others: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._others = others
        self._service = service
        self._resources = set(resources)
        self._refusals = refusals or {}
        self._put()

    def release(self, resource: str) -> None:
        """Show the true state of the runs of a resource."""
        if resource in self._resources:
            self._resources.remove(resource)
            self._put()

    def _put(self) -> None:
        going = {"rewrite": {"status": "RUNNING"}, "remove": ["finished_at"], "times": "always"}
        paths = ("/elt_stream_runs", "/elt_stream_runs/*")
        rules: list[dict[str, Any]] = [
            {"method": "GET", "path": path, "resource_id": resource, **going}
            for resource in sorted(self._resources)
            for path in paths
        ]
        for resource in sorted(self._resources.intersection(self._refusals)):
            refusal = {"status": httpx.codes.CONFLICT, "body": self._refusals[resource], "times": "always"}
            rules.append({"method": "POST", "path": "/elt_streams/*/request_run", "resource_id": resource, **refusal})
        self._service.faults([*rules, *self._others])


def is_enabled(service: LocalService, kind: str, sync_id: str) -> bool:
    """Return True if a sync runs on its schedule."""
    return bool(service.request("GET", f"/{kind}/{sync_id}")["enabled"])


class Journal:
    """Snapshot of the journal of a service, by resource."""

    def __init__(self, service: LocalService) -> None:
        self._requests = service.journal_requests()
        self._runs = service.journal_runs()

    def runs(self, resource: str) -> list[dict[str, Any]]:
        """List the runs of a resource, oldest first."""
        return [run for run in self._runs if run["resource_id"] == resource]

    def has_begun(self, resource: str) -> bool:
        """Return True if the last run of a resource has started."""
        runs = self.runs(resource)
        return bool(runs) and runs[-1]["run_id"] is not None

    def refused(self, resource: str) -> int | None:
        """Return the number of the last refused request for a resource; None if none was refused."""
        refused = [
            request["seq"]
            for request in self._requests
            if request["resource_id"] == resource and request["fault"] and request["status"] == httpx.codes.CONFLICT
        ]
        return max(refused, default=None)

    def is_watched(self, resource: str, *, after: int = 0) -> bool:
        """Return True if a run of a resource has started, and was polled after its request."""
        if not self.has_begun(resource):
            return False
        since = max(after, self.runs(resource)[-1]["request"])
        return any(
            request["seq"] > since and request["method"] == "GET" and request["status"] == httpx.codes.OK
            for request in self._requests
            if request["resource_id"] == resource
        )

    @property
    def last(self) -> int:
        return max((request["seq"] for request in self._requests), default=0)
