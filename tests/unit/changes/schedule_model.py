"""A model of what has a schedule, and of the three tasks that own it."""

from __future__ import annotations

import copy
import json
from typing import Any

from airflow_provider_datapipe.api.errors import InvalidRequestError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncWithSettings
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.changes import schedules
from airflow_provider_datapipe.changes.reverse_etl import Earlier
from airflow_provider_datapipe.changes.schedule_kinds import Means
from airflow_provider_datapipe.changes.schedules import Noted
from airflow_provider_datapipe.runs.records import NoRecords, Records
from airflow_provider_datapipe.runs.steps import drive

NOW = "2026-01-01T00:00:00Z"
OURS, THEIRS = "11 4 29 2 *", "12 5 29 2 *"
UPSERT = {"mode": "upsert", "mappings": [{"source_property_id": "id", "destination_property_id": "id"}]}
DATES = {"created_at": NOW, "updated_at": NOW}
DEFAULTS: dict[str, dict[str, Any]] = {
    "elt_sync": {
        "id": "x",
        "account_id": "a",
        "source_connection_id": "c",
        "source_integration_id": "files",
        "destination_connection_id": "w",
        "destination_integration_id": "warehouse",
        "enabled": True,
        "status": "RUNNING",
        "sync_interval": "0 3 * * *",
        "config": {"region": "eu"},
        "orchestration_workflow_id": None,
        **DATES,
    },
    "transform": {
        "id": "x",
        "name": "orders",
        "folder_path": "",
        "status": "published",
        "materialization": "table",
        "sql_template": "SELECT 1",
        "parameters": [],
        "cron_expression": "0 4 * * *",
        "orchestration_workflow_id": None,
        **DATES,
    },
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
        "settings": {"list": "1"},
        **DATES,
    },
    "orchestration": {"id": "x", "name": "Nightly", "cron_schedule": "0 2 * * *"},
}
ATTACHED = {"orchestration_workflow_id": "o"}
#: What is to be taken off, and put back exactly.
THINGS: list[tuple[str, dict[str, Any]]] = [
    ("elt_sync", {}),
    ("elt_sync", ATTACHED),
    ("elt_sync", ATTACHED | {"streams": {"s1": "0 1 * * *", "s2": None, "s3": "30 * * * *"}}),
    ("transform", {}),
    ("transform", ATTACHED),
    ("transform", ATTACHED | {"cron_expression": None}),
    ("transform", ATTACHED | {"cron_expression": None, "materialization": "view"}),
    ("reverse_etl_sync", {}),
    ("reverse_etl_sync", ATTACHED),
    ("reverse_etl_sync", ATTACHED | {"sync_interval": None}),
    ("orchestration", {}),
]
PAUSABLE: list[tuple[str, dict[str, Any]]] = [
    ("elt_sync", ATTACHED),
    ("elt_sync", {"sync_interval": None}),
    ("reverse_etl_sync", {}),
]
ALL = [*((kind, more, False) for kind, more in THINGS), *((kind, more, True) for kind, more in PAUSABLE)]


#: What another owner within the same DAG has begun.
ANOTHER = Noted(resource="transform", id="y", name="y", round="y", original={"cron_expression": "0 4 * * *"}, held={})


class KilledError(BaseException):
    """The end of the process."""


class Service:
    """A service with one thing, which it changes as the real one does."""

    def __init__(self, kind: str, more: dict[str, Any]) -> None:
        self.kind = kind
        self.thing = DEFAULTS[kind] | more
        self.streams = self.thing.pop("streams", {})
        self.asked: list[str] = []
        self.kill_at = 0
        self.is_carried_out = True
        self.shows_schedule = True
        self.always_on_schedule: list[tuple[Any, ...]] = []

    @property
    def state(self) -> Any:
        return copy.deepcopy((self.thing, self.streams))

    def send(self, request: Request[Any]) -> Any:
        name = request.endpoint.name
        self.asked.append(name)
        is_killed = len(self.asked) == self.kill_at
        if is_killed and not self.is_carried_out:
            raise KilledError
        answer = self._carry_out(name, request)
        if self.kind == "elt_sync":
            self.always_on_schedule.append((self.thing["orchestration_workflow_id"], self.thing["sync_interval"]))
        if is_killed:
            raise KilledError
        return answer

    def _carry_out(self, name: str, request: Request[Any]) -> Any:
        body = request.body.as_json() if request.body is not None else {}
        thing = self.thing
        match name.partition(".")[2]:
            case "list" if name == "elt_streams.list":
                return Page(data=tuple(self._stream(each) for each in self.streams), has_more=False)
            case "list":
                assert name == "reverse_etl_sync_runs.list"
                return Page(data=(), has_more=False)
            case "set_sync_interval":
                self.streams[request.path.split("/")[2]] = body["sync_interval"]
                return self._stream(request.path.split("/")[2])
            case "enable" | "activate" | "disable" | "deactivate" as how:
                thing["enabled"] = how in ("enable", "activate")
                return None
            case "attach_orchestration":
                thing |= body
            case "detach_orchestration":
                thing["orchestration_workflow_id"] = None
                if request.query:
                    assert thing["materialization"] == "table", "only tables have schedules"
                    thing["cron_expression"] = dict(request.query)["cron_expression"]
            case "update":
                if self.kind == "reverse_etl_sync":
                    if thing["enabled"]:
                        raise InvalidRequestError("still active", status=400)
                    # The whole schedule.
                    thing |= {"sync_interval": None, "orchestration_workflow_id": None}
                thing |= body
            case other:
                assert other == "get"
        return self._answer()

    def _answer(self) -> Any:
        models: dict[str, Any] = {
            "elt_sync": EltSync,
            "transform": Transform,
            "reverse_etl_sync": ReverseEtlSyncWithSettings,
            "orchestration": Orchestration,
        }
        shown = dict(self.thing)
        if not self.shows_schedule:
            del shown["cron_schedule"]
        if self.kind == "transform":
            own = "none" if shown["cron_expression"] is None else "schedule"
            shown["rebuild_trigger"] = shown.get("rebuild_trigger") or (
                own if shown["orchestration_workflow_id"] is None else "orchestration"
            )
        return models[self.kind].model_validate(shown)

    def _stream(self, stream_id: str) -> EltStream:
        flags = ("full_sync_at_midnight", "full_sync_always", "protected_from_full_sync", "enabled_history_table")
        fields = {"id": stream_id, "elt_sync_id": "x", "name": stream_id, "excluded_substreams": [], **DATES}
        own = {"sync_interval": self.streams[stream_id]}
        return EltStream.model_validate(fields | dict.fromkeys(flags, False) | own)

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing to wait for")


class Owner:
    """
    The three tasks of an owner, and what they know of each other.

    :param service: the service.
    :param mark: its cron expression.
    """

    def __init__(self, service: Service, mark: str = OURS, *, paused: bool = False, cron: str | None = None) -> None:
        self.service, self.mark, self.paused, self.cron = service, mark, paused, cron
        self.noted: Noted | None = None
        self.begun: Noted | None = None
        self.was_taken = False
        self.kept: Noted | None = None
        self.records: Records = NoRecords()

    def _drive(self, steps: Any) -> Any:
        return drive(steps, self.service.send, self.service.sleep)

    def note(self) -> Noted:
        which = "elt_sync_id" if self.service.kind == "elt_sync" else f"{self.service.kind}_id"
        finding = schedules.find(**{which: "x"})
        noted: Noted = self._drive(
            schedules.note(
                finding,
                self.mark,
                paused=self.paused,
                cron_schedule=self.cron,
                begun=[each for each in (ANOTHER, self.begun) if each],
                kept=self.kept,
            )
        )
        self.noted = self.kept = json.loads(json.dumps(noted))
        return noted

    def take_off(self) -> Any:
        self.begun, self.was_taken = self.noted, False
        assert self.noted is not None
        result = self._drive(schedules.take_off(self.noted, Means(Earlier(self.records), 60)))
        self.was_taken = True
        return result

    def put_back(self, if_changed: str = "fail") -> tuple[Any, list[str]]:
        assert self.noted is not None
        result: tuple[Any, list[str]] = self._drive(
            schedules.put_back(
                self.noted, Means(Earlier(self.records), 60), left_whole=self.was_taken, if_changed=if_changed
            )
        )
        self.begun = None
        return result


def marks(service: Service) -> set[Any]:
    return {value for value in (*service.thing.values(), *service.streams.values()) if value in (OURS, THEIRS)}


def is_due(service: Service) -> bool:
    """Return True if it would run by its own schedule, or with its orchestration."""
    thing = service.thing
    if not thing.get("enabled", True):
        return False
    crons = [thing.get(each) for each in ("sync_interval", "cron_expression", "cron_schedule")]
    own = [each for each in (*crons, *service.streams.values()) if each is not None]
    return thing.get("orchestration_workflow_id") is not None or any(each not in (OURS, THEIRS) for each in own)
