"""Fake service with one resource that has a schedule, builders of models, and a runner of flows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeVar

from airflow_provider_datapipe.api.errors import InvalidRequestError, NotFoundError, ServerError, TransportError
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncWithSettings
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import Flow, run_blocking
from tests.support import responses
from tests.support.responses import LONG_AGO
from tests.unit.runs.model_service import ELT_SYNC, ModelService, page, run_of, stream

T = TypeVar("T")

LOST = TransportError("lost", sent=True)
UNSENT = TransportError("away", sent=False)
BROKEN = ServerError("broken", status=502)
GONE = NotFoundError("none", status=404)
REFUSED = InvalidRequestError("no", status=400)

ID = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}
NAME = {"source_property_id": "name", "destination_property_id": "name"}
UPSERT = {"mode": "upsert", "mappings": [ID, NAME]}
INSERT = {"mode": "insert", "mappings": [ID]}

MODELS: dict[str, Any] = {
    "elt_sync": EltSync,
    "transform": Transform,
    "reverse_etl_sync": ReverseEtlSyncWithSettings,
    "orchestration": Orchestration,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "elt_sync": {
        **ELT_SYNC,
        "id": "x",
        "destination_schema_name": "raw",
        "sync_interval": "0 3 * * *",
        "orchestration_workflow_id": None,
    },
    "transform": responses.transform("x", name="orders", cron_expression="0 4 * * *", orchestration_workflow_id=None),
    "reverse_etl_sync": {
        "id": "x",
        "enabled": True,
        "source_type": "Transform",
        "source_id": "t",
        "destination_connection_id": "c",
        "destination_integration_id": "crm",
        "object_type_id": "contact",
        "sync_interval": "0 5 * * *",
        "orchestration_workflow_id": None,
        "operation": UPSERT,
        "settings": {"key": "secret"},
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    },
    "orchestration": {"id": "x", "name": "Nightly", "cron_schedule": "0 2 * * *"},
}


def build(kind: str, **more: Any) -> Any:
    return MODELS[kind].model_validate(DEFAULTS[kind] | more)


def run(flow: Flow[T], **answers: list[Any]) -> tuple[T, ModelService]:
    """Run a flow. Return its result and the service that answered its requests."""
    service = ModelService(**answers)
    result = service.run(flow)
    assert json.loads(json.dumps(result)) == result
    return result, service


def body_of(request: Request[Any]) -> dict[str, Any]:
    return request.body.as_json() if request.body is not None else {}


class KilledError(BaseException):
    """End of the process."""


class Service:
    """
    Service with one resource, which requests change like in the real service.

    :param fail_at: number of the request that fails, from 1.
    :param failure: kind of failure. ``lost`` and ``killed`` requests are executed. ``down`` fails all further requests.
    """

    def __init__(self, kind: str, *, fail_at: int = 0, failure: str = "", **more: Any) -> None:
        self.kind = kind
        self.resource = copy.deepcopy(DEFAULTS[kind] | more)
        self.streams = self.resource.pop("streams", {})
        self.asked: list[str] = []
        self.requests: list[Request[Any]] = []
        self.fail_at, self.failure = fail_at, failure
        #: Functions that are called before the execution of a request, by endpoint.
        self.before: dict[str, Callable[[Request[Any]], None]] = {}
        self.shows_schedule = True
        #: Number of polls until the run has ended.
        self.going = 0
        self.paused = 0.0
        self.schedules_over_time: list[tuple[Any, ...]] = []

    @property
    def state(self) -> Any:
        return copy.deepcopy((self.resource, self.streams))

    def fail(self, fail_at: int, failure: str) -> None:
        """Let one of the next requests fail."""
        self.asked.clear()
        self.fail_at, self.failure = fail_at, failure

    def send(self, request: Request[Any]) -> Any:
        self.asked.append(request.endpoint.name)
        self.requests.append(request)
        asked = len(self.asked)
        failure = self.failure if asked == self.fail_at or (self.failure == "down" and asked > self.fail_at) else ""
        match failure:
            case "unsent" | "down":
                raise UNSENT
            case "refused":
                raise REFUSED
            case "killed before":
                raise KilledError
        answer = self.execute(request)
        if self.kind == "elt_sync":
            self.schedules_over_time.append(
                (self.resource["orchestration_workflow_id"], self.resource["sync_interval"])
            )
        match failure:
            case "lost":
                raise LOST
            case "killed":
                raise KilledError
        return answer

    def sleep(self, seconds: float) -> None:
        self.paused += seconds

    def run(self, flow: Flow[T]) -> T:
        return run_blocking(flow, self.send, self.sleep)

    def execute(self, request: Request[Any]) -> Any:
        name, body, resource = request.endpoint.name, body_of(request), self.resource
        if name in self.before:
            self.before[name](request)
        match name.partition(".")[2]:
            case "list" if name == "elt_streams.list":
                return page(*(self._stream(each) for each in self.streams))
            case "list":
                assert name == "reverse_etl_sync_runs.list"
                self.going -= 1
                return page(run_of("reverse_etl", status="RUNNING" if self.going > 0 else "COMPLETED"))
            case "set_sync_interval":
                stream_id = request.path.split("/")[2]
                self.streams[stream_id] = body["sync_interval"]
                return self._stream(stream_id)
            case "enable" | "activate" | "disable" | "deactivate" as how:
                resource["enabled"] = how in ("enable", "activate")
                return None
            case "attach_orchestration":
                resource |= body
            case "detach_orchestration":
                resource["orchestration_workflow_id"] = None
                if request.query:
                    assert resource["materialization"] == "table", "only tables have schedules"
                    resource["cron_expression"] = dict(request.query)["cron_expression"]
            case "update":
                if self.kind == "reverse_etl_sync":
                    if resource["enabled"] or self.going > 0:
                        raise InvalidRequestError("still active", status=400)
                    # An update replaces the whole schedule.
                    resource |= {"sync_interval": None, "orchestration_workflow_id": None}
                resource |= body
            case other:
                assert other == "get"
        return self.answer()

    def answer(self) -> Any:
        shown = dict(self.resource)
        if not self.shows_schedule:
            del shown["cron_schedule"]
        if self.kind == "transform":
            own = "none" if shown["cron_expression"] is None else "schedule"
            shown["rebuild_trigger"] = shown.get("rebuild_trigger") or (
                own if shown["orchestration_workflow_id"] is None else "orchestration"
            )
        return MODELS[self.kind].model_validate(shown)

    def _stream(self, stream_id: str) -> EltStream:
        return stream(stream_id, stream_id, sync_id="x", sync_interval=self.streams[stream_id])
