"""Connection bridges, detection of the authorization, and deletion of connections."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import connections as endpoints
from airflow_provider_datapipe.api.errors import InvalidInputError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.connection_bridges import ConnectionBridge, CreatedConnectionBridge
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.resources.connections import (
    ConnectionInUseError,
    OpenedBridge,
    delete,
    open_bridge,
    result_of,
)
from airflow_provider_datapipe.runs.bridges import Bridge, BridgeError, BridgeExpiredError, fingerprint
from airflow_provider_datapipe.runs.conditions.registry import condition_of
from airflow_provider_datapipe.runs.conditions.sensor_backoff import is_final
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError
from tests.unit.changes.fake_service import GONE, body_of
from tests.unit.runs.model_service import ModelService, page

URL = "https://app.example.com/authorize/never-to-be-seen"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MADE = CreatedConnectionBridge.model_validate({"authorize_url": URL, "expires_at": "2026-01-02T00:00:00.000Z"})
OURS = Connection(id="ours", integration_id="crm", label="Sales")
BARE = Connection(id="bare")


def bridges(*urls: str | None) -> Page[Any]:
    return page(*(ConnectionBridge(authorize_url=url) for url in urls))


def opened(service: ModelService, **given: str | None) -> OpenedBridge:
    arguments: dict[str, str | None] = {
        "redirect_uri": "https://app.example.com/back",
        "integration_id": "crm",
        "new_label": "Sales",
        "connection_id": None,
        "connection_label": None,
        "state": None,
    }
    return service.run(open_bridge(**arguments | given))


def made(*known: Connection, active: Page[Any] | None = None) -> ModelService:
    return ModelService(
        connections__list=[page(*known)],
        connection_bridges__create=[MADE],
        connection_bridges__list=[active or bridges()],
    )


def body(service: ModelService) -> dict[str, Any]:
    (request,) = [one for one in service.requests if one.endpoint.name == "connection_bridges.create"]
    return body_of(request)


def test_bridge_stores_known_connections_but_no_secret() -> None:
    others = [Connection(id="a", integration_id="crm", label="Other"), Connection(id="b", integration_id="x")]
    service = made(OURS, BARE, *others)
    made_now = opened(service)
    assert made_now.bridge.known_connection_ids == ("ours", "bare")
    assert len(body(service)["state"]) >= 40
    assert body(service)["state"] == made_now.state != opened(made()).state
    result = result_of(made_now, show=False)
    assert json.loads(json.dumps(result)) == result
    for text in (json.dumps(result), repr(made_now), repr(service.requests)):
        assert URL not in text
        assert made_now.state not in text
    shown = result_of(made_now, show=True)
    assert (shown["authorize_url"], shown["state"]) == (URL, made_now.state)
    # Airflow stores trigger arguments as plain text, so they must not contain secrets.
    assert URL not in str(condition_of("connection_bridge", {"bridge": str(shown)}).fields)


def test_reauthorization_by_id_or_label() -> None:
    by_label = made(OURS, active=bridges(None, URL))
    bridge = opened(by_label, integration_id=None, new_label=None, connection_label="Sales").bridge
    assert (bridge.connection_id, bridge.integration_id, bridge.label) == ("ours", "crm", "Sales")
    assert bridge.fingerprint == fingerprint(URL) != URL
    assert body(by_label)["connection_id"] == "ours"
    by_id = made(OURS)
    bridge = opened(by_id, integration_id=None, connection_id="ours", new_label="New", state="mine").bridge
    assert (bridge.label, bridge.fingerprint) == ("New", None)
    assert body(by_id)["state"] == "mine"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"new_label": ""}, ValueError, "new_label is empty"),
        ({"integration_id": None, "new_label": None, "connection_id": "bare"}, ValueError, "integration_id is empty"),
        ({"state": "None"}, ValueError, "state is empty"),
        ({"redirect_uri": "http://app.example.com/x"}, InvalidInputError, "redirect_uri"),
        ({"connection_label": "Unknown"}, UnknownNameError, "Unknown"),
    ],
)
def test_invalid_arguments_create_no_bridge(given: dict[str, str | None], error: type[Exception], message: str) -> None:
    service = made(OURS, BARE)
    with pytest.raises(error, match=message):
        opened(service, **given)
    assert "connection_bridges.create" not in service.asked


def new_bridge(**more: Any) -> dict[str, Any]:
    bridge = Bridge("crm", "Sales", "2026-01-02T00:00:00.000Z", known_connection_ids=("ours", "bare"))
    return bridge.as_dict() | more


def poll(bridge: Any, *listed: Connection, now: datetime = NOW, active: Page[Any] | None = None) -> Any:
    service = ModelService(connections__list=[page(*listed)], connection_bridges__list=[active or bridges()])
    condition = condition_of("connection_bridge", {"bridge": bridge})
    check = service.run(condition.check(now.timestamp()))
    assert all(request.once for request in service.requests)
    if not check.is_met:
        return None
    again = type(check).from_dict(json.loads(json.dumps(check.as_dict())))
    result, error = condition.task_result(again)
    if error is not None:
        raise error
    return result


@pytest.mark.parametrize("written", [lambda given: given, json.dumps, str])
def test_new_connection_is_distinguished_from_known_ones(written: Any) -> None:
    bridge = written(new_bridge(authorize_url=URL, resource="connection_bridge"))
    wrong = Connection(id="w", integration_id="crm", label="Other")
    assert poll(bridge, OURS, BARE, wrong) is None
    new = Connection(id="n", integration_id="crm", label="Sales")
    assert poll(bridge, OURS, new) == {"connection_id": "n", "integration_id": "crm", "label": "Sales"}
    assert poll(bridge, OURS, Connection(id="n"))["connection_id"] == "n"
    with pytest.raises(BridgeError, match="2 connections may have been created by the bridge for 'Sales': n, m"):
        poll(bridge, new, Connection(id="m", label="Sales"))


def test_expired_bridge_is_an_error() -> None:
    end = NOW + timedelta(days=1)
    new = Connection(id="n", integration_id="crm", label="Sales")
    assert poll(new_bridge(), OURS, now=end - timedelta(seconds=1)) is None
    with pytest.raises(BridgeExpiredError, match=r"The bridge for 'Sales' .crm. ended at 2026-01-02 00:00:00 UTC"):
        poll(new_bridge(), OURS, now=end)
    # A connection that was authorized just before the end is found.
    assert poll(new_bridge(), OURS, new, now=end + timedelta(hours=1))["connection_id"] == "n"


def test_reauthorization_ends_with_its_bridge() -> None:
    bridge = new_bridge(connection_id="ours", fingerprint=fingerprint(URL), known_connection_ids=[])
    assert poll(bridge, OURS, active=bridges("https://other", URL, None)) is None
    assert poll(bridge, OURS, active=bridges("https://other"))["connection_id"] == "ours"
    with pytest.raises(BridgeError, match="ours no longer exists"):
        poll(bridge, BARE)
    # Shortly before its end, the bridge may already have expired, because clocks differ.
    assert poll(bridge, OURS, now=NOW + timedelta(hours=23, minutes=59, seconds=30)) is None
    with pytest.raises(BridgeExpiredError):
        poll(bridge, OURS, now=NOW + timedelta(days=1))
    with pytest.raises(BridgeError, match="does not show the bridge for connection ours") as reported:
        poll(bridge | {"fingerprint": None}, OURS)
    assert is_final(reported.value, was_answered=True)


@pytest.mark.parametrize("bridge", [None, "", "None", "[1]", {}, {"integration_id": "crm", "label": "x"}, URL])
def test_invalid_bridge_is_refused_and_not_shown(bridge: Any) -> None:
    with pytest.raises(ValueError, match="bridge must be the result of a ConnectionBridgeCreateOperator") as reported:
        poll(bridge)
    assert "never-to-be-seen" not in str(reported.value)


def sync(sync_id: str, source: str, destination: str = "warehouse") -> Any:
    return SimpleNamespace(id=sync_id, source_connection_id=source, destination_connection_id=destination)


def deleting(service: ModelService, **given: Any) -> Any:
    arguments = {"connection_id": "ours", "connection_label": None, "if_used": "fail", "if_missing": "succeed"}
    return service.run(delete(**arguments | given))


def connected(*answers: Any, syncs: tuple[Any, ...] = (), reverse: tuple[Any, ...] = ()) -> ModelService:
    return ModelService(
        connections__list=[page(OURS, BARE)],
        elt_syncs__list=[page(*syncs)],
        reverse_etl_syncs__list=[page(*reverse)],
        connections__delete=list(answers) or [None],
    )


def test_a_used_connection_is_deleted_only_on_request() -> None:
    used = {
        "syncs": (sync("a", "ours"), sync("b", "x"), sync("c", "x", "ours")),
        "reverse": tuple(sync(f"r{number}", "-", "ours") for number in range(4)),
    }
    service = connected(**used)
    message = "Connection ours is used by ELT sync a, ELT sync c, reverse ETL sync r0, .* and 1 more"
    with pytest.raises(ConnectionInUseError, match=message):
        deleting(service)
    assert endpoints.delete("ours").endpoint.name not in service.asked
    result = deleting(connected(**used), if_used="delete", connection_id=None, connection_label="Sales")
    assert (result["id"], result["name"], result["changed"]) == ("ours", "Sales", True)
    assert result["details"] == {"elt_syncs": ["a", "c"], "reverse_etl_syncs": ["r0", "r1", "r2", "r3"]}
    refused = InvalidRequestError("in use", status=400)
    with pytest.raises(InvalidRequestError):
        deleting(connected(refused, **used), if_used="delete")


@pytest.mark.parametrize("given", [{}, {"connection_id": None, "connection_label": "Sales"}])
def test_deletion_whose_response_was_lost(given: dict[str, Any]) -> None:
    # The client repeats the request after a lost response.
    service = connected(GONE, syncs=(sync("a", "ours"),))
    result = deleting(service, if_used="delete", if_missing="fail", **given)
    assert (result["id"], result["changed"], result["details"]["elt_syncs"]) == ("ours", True, ["a"])


def test_deletion_of_a_missing_connection() -> None:
    assert not deleting(connected(GONE), connection_id="unknown")["changed"]
    # The list can lack a new connection.
    assert deleting(connected(), connection_id="new")["changed"]
    unknown = {"connection_id": None, "connection_label": "Unknown"}
    assert not deleting(connected(), **unknown)["changed"]
    with pytest.raises(NotFoundError):
        deleting(connected(GONE), connection_id="unknown", if_missing="fail")
    with pytest.raises(UnknownNameError):
        deleting(connected(), if_missing="fail", **unknown)
    twice = ModelService(connections__list=[page(OURS, Connection(id="b", label="Sales"))])
    with pytest.raises(AmbiguousNameError):
        deleting(twice, connection_id=None, connection_label="Sales")
    with pytest.raises(ValueError, match="if_used must be 'fail' or 'delete'"):
        deleting(connected(), if_used="x")
