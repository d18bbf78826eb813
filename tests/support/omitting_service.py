"""In-memory service that omits schedule fields of its responses, written from the interface description alone."""

from __future__ import annotations

import json
from typing import Any

from tests.support.responses import LONG_AGO as AT
from tests.support.responses import elt_stream, transform
from tests.support.scripted_server import Reply, RoutedServer, Seen

Json = dict[str, Any]

#: Fields that the older description does not declare.
NEWER = {
    "elt_streams": ("sync_interval",),
    "transforms": ("cron_expression", "rebuild_trigger"),
    "orchestrations": ("cron_schedule",),
}


def everything() -> dict[str, list[Json]]:
    """Return the resources by kind."""
    times = {"created_at": AT, "updated_at": AT}
    elt_sync = {
        "id": "shop",
        "account_id": "a",
        "source_connection_id": "in",
        "source_integration_id": "files",
        "destination_connection_id": "dwh",
        "destination_integration_id": "dwh",
        "destination_schema_name": "shop",
        "enabled": True,
        "status": "RUNNING",
        "sync_interval": "0 3 * * *",
        "orchestration_workflow_id": "nightly",
        **times,
    }
    mapping = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}
    reverse_etl_sync = {
        "id": "contacts",
        "enabled": True,
        "source_type": "Transform",
        "source_id": "people",
        "transform_id": "people",
        "destination_connection_id": "out",
        "destination_integration_id": "crm",
        "object_type_id": "contacts",
        "sync_interval": "0 5 * * *",
        "orchestration_workflow_id": "nightly",
        "operation": {"mode": "upsert", "mappings": [mapping]},
        "settings": {},
        **times,
    }
    schedule = {"cron_expression": "0 4 * * *", "rebuild_trigger": "schedule"}
    return {
        "connections": [
            {"id": "in", "integration_id": "files", "label": "Files", "created_at": AT},
            {"id": "out", "integration_id": "crm", "label": "CRM", "created_at": AT},
        ],
        "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [elt_sync],
        "elt_streams": [elt_stream("shop.orders", sync_id="shop", sync_interval="0 * * * *")],
        "transforms": [transform("people", sql_template="SELECT 1 AS id", **schedule)],
        "reverse_etl_syncs": [reverse_etl_sync],
    }


class OmittingService(RoutedServer):
    """
    Service that omits schedule fields.

    :param older: omit also the fields that the older description does not declare.
    """

    def __init__(self, *, older: bool = False) -> None:
        super().__init__(self._answer)
        #: Resources by kind and ID. Fields that are None are omitted from responses.
        self.held = {kind: {one["id"]: one for one in resources} for kind, resources in everything().items()}
        self.older = older
        #: Requests that change something: method, path, body.
        self.changes: list[tuple[str, str, Any]] = []

    def _answer(self, request: Seen) -> Reply:
        status, body = self._response(request.method, request.route, request.query, json.loads(request.body or b"null"))
        return Reply(status, b"" if body is None else body)

    def shown(self, kind: str, resource_id: str) -> Json:
        """Return a resource as responses contain it."""
        one = self.held[kind][resource_id]
        hidden = set(NEWER.get(kind, ())) if self.older else set()
        if kind in ("elt_syncs", "reverse_etl_syncs") and one.get("orchestration_workflow_id") is not None:
            hidden.add("sync_interval")
        return {name: value for name, value in one.items() if value is not None and name not in hidden}

    def _response(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        kind, *rest = path.strip("/").split("/")
        if method == "GET":
            return self._read(kind, rest, query)
        self.changes.append((method, path, body))
        one = self.held[kind][rest[0]]
        match (method, kind, *rest[1:]):
            case ("POST", _, "orchestration"):
                one["orchestration_workflow_id"] = body["orchestration_workflow_id"]
            case ("DELETE", _, "orchestration"):
                one["orchestration_workflow_id"] = None
                one |= query
            case ("POST", "elt_streams", "set_sync_interval"):
                one["sync_interval"] = body["sync_interval"]
            case ("POST", "elt_streams", "clear_sync_interval"):
                one["sync_interval"] = None
                return 204, None
            case ("POST", _, "enable" | "disable" | "activate" | "deactivate" as action):
                one["enabled"] = action in ("enable", "activate")
                return 204, None
            case ("POST", "reverse_etl_syncs"):
                if one["enabled"]:
                    return 400, {"error_code": "active", "message": "Deactivate the sync first."}
                one |= {"sync_interval": None, "orchestration_workflow_id": None, **body}
            case ("POST", "elt_syncs"):
                one |= {"config" if name == "elt_settings" else name: value for name, value in body.items()}
            case ("POST", "transforms", "publish"):
                one["status"] = "published"
            case ("POST" | "PATCH", "orchestrations" | "transforms"):
                one |= body
            case _:
                return 404, {"error_code": "not_found", "message": path}
        return 200, self.shown(kind, rest[0])

    def _read(self, kind: str, rest: list[str], query: dict[str, str]) -> tuple[int, Any]:
        if rest == ["available_references"] or (kind not in self.held and not rest):
            return 200, {"data": [], "has_more": False}
        if rest[1:] == ["versions"]:
            sql = self.held[kind][rest[0]]["sql_template"]
            version = {"id": "v1", "sql_template": sql, "parameters": [], "is_published": True, "created_at": AT}
            return 200, {"data": [version], "has_more": False}
        if kind not in self.held or (rest and rest[0] not in self.held[kind]):
            return 404, {"error_code": "not_found", "message": "/".join([kind, *rest])}
        if rest:
            return 200, self.shown(kind, rest[0])
        filters = {name: value for name, value in query.items() if name in ("elt_sync_id", "destination_connection_id")}
        found = [self.shown(kind, key) for key, one in self.held[kind].items() if filters.items() <= one.items()]
        return 200, {"data": found, "has_more": False}
