"""Resources of a service for tests that stop, race and retry: one for each task, and runs that seem to go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from tests.support.local_service import LocalService

#: Seconds that a run takes which is not to end in a test.
FOR_EVER = 3600


def seed_of(streams: Iterable[str], folder: Path, reverse_etl_syncs: Iterable[str] = ()) -> dict[str, Any]:
    """
    Describe streams, each in a sync of its own, and reverse ETL syncs, by their ids.

    :param streams: The ids of the streams, and of their syncs.
    :param folder: Where there is room for a source and for what is exported.
    :param reverse_etl_syncs: The ids of the reverse ETL syncs.
    """
    (folder / "rows.csv").write_text("id,name\n1,one\n2,two\n", encoding="utf-8")
    mapping = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}
    return {
        "connections": [
            {"id": "rows", "integration_id": "files", "label": "Rows", "settings": {"path": str(folder)}},
            {"id": "exports", "integration_id": "jsonl", "label": "Exports", "settings": {"path": f"{folder}/out"}},
        ],
        "transforms": [
            {"id": "numbers", "name": "numbers", "publish": True, "sql_template": "SELECT range AS id FROM range(5)"}
        ],
        "elt_syncs": [
            {
                "id": stream,
                "connection_id": "rows",
                "destination_schema_name": stream,
                "source_streams": [{"id": stream, "name": "rows", "file": "rows.csv"}],
            }
            for stream in streams
        ],
        "reverse_etl_syncs": [
            {
                "id": sync,
                "source_id": "numbers",
                "destination_connection_id": "exports",
                "object_type_id": sync,
                "enabled": True,
                "operation": {"mode": "upsert", "mappings": [mapping]},
            }
            for sync in reverse_etl_syncs
        ],
    }


class Held:
    """
    Runs that have ended, and seem to go on until they are released: a second run could be started meanwhile.

    :param service: The service, with its control plane.
    :param resources: Whose runs.
    :param refusals: What requests for a second run of some of them are answered: the service's own words for a
        conflict. Those for the others are carried out.
    :param others: What else goes wrong meanwhile.
    """

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
        """
        Have the runs of a resource be what they are.

        :param resource: The resource; nothing happens if it was released before.
        """
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
    """
    Ask a service whether a sync runs on its schedule.

    :param service: The service.
    :param kind: Of the sync: ``elt_syncs`` or ``reverse_etl_syncs``.
    :param sync_id: The sync.
    """
    answer = httpx.get(f"{service.base_url}/{kind}/{sync_id}", headers=service.headers)
    answer.raise_for_status()
    return bool(answer.json()["enabled"])


class Journal:
    """
    What a service's journal says at one moment, by resource.

    :param service: The service, with its control plane.
    """

    def __init__(self, service: LocalService) -> None:
        self._requests = service.journal_requests()
        self._runs = service.journal_runs()

    def runs(self, resource: str) -> list[dict[str, Any]]:
        """
        List the runs of a resource, oldest first.

        :param resource: The resource.
        """
        return [run for run in self._runs if run["resource_id"] == resource]

    def has_begun(self, resource: str) -> bool:
        """
        Tell whether the last run of a resource has begun.

        :param resource: The resource.
        """
        runs = self.runs(resource)
        return bool(runs) and runs[-1]["run_id"] is not None

    def refused(self, resource: str) -> int | None:
        """
        Give the number of the last request for a resource that the test had refused; none if none was.

        :param resource: The resource.
        """
        refused = [
            request["seq"]
            for request in self._requests
            if request["resource_id"] == resource and request["fault"] and request["status"] == httpx.codes.CONFLICT
        ]
        return max(refused, default=None)

    def is_watched(self, resource: str, *, after: int = 0) -> bool:
        """
        Tell whether a run of a resource has begun, and somebody has looked at it since it was asked for.

        :param resource: The resource.
        :param after: Looks after the request with this number are meant.
        """
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
        """The number of the last request."""
        return max((request["seq"] for request in self._requests), default=0)
