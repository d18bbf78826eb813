"""Tests of connection bridges on the local service: creation, authorization by a user, and detection by a sensor."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred
from airflow.sdk import BaseNotifier

from airflow_provider_datapipe.operators.connections import ConnectionBridgeCreateOperator, ConnectionDeleteOperator
from airflow_provider_datapipe.runs.bridges import BridgeError, BridgeExpiredError
from airflow_provider_datapipe.sensors.state import ConnectionBridgeSensor
from airflow_provider_datapipe.triggers.condition import DatapipeConditionTrigger
from tests.contract.datapipe_local.api import Api
from tests.contract.seeds import FILES, MODES, elt_sync
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.tasks import Memory, context_of, first_event, run

REDIRECT = "https://app.example.com/connected"


class RecordingNotifier(BaseNotifier):
    """Notifier that records the message to a user."""

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.sent: list[str] = []

    def notify(self, context: Any) -> None:
        assert context["ti"]
        self.sent.append(self.text)


SEED = {"connections": [FILES | {"id": "data", "label": "Data"}], "elt_syncs": [elt_sync("shop", connection_id="data")]}


def bridge(**arguments: Any) -> ConnectionBridgeCreateOperator:
    new = {} if "connection_id" in arguments else {"integration_id": "files", "new_label": "Sales"}
    return ConnectionBridgeCreateOperator(task_id="bridge", redirect_uri=REDIRECT, **new | arguments)


def sensor(result: Any, **arguments: Any) -> ConnectionBridgeSensor:
    return ConnectionBridgeSensor(task_id="there", bridge=result, poke_interval=0.1, timeout=60, **arguments)


def authorize(url: str, folder: Path) -> dict[str, list[str]]:
    """Submit the form of the page, and return the query parameters of the redirect."""
    reply = httpx.post(url, data={"path": str(folder)})
    assert reply.status_code == 303, reply.text
    return parse_qs(urlsplit(reply.headers["location"]).query)


@MODES
def test_user_authorizes_while_a_sensor_waits(service: LocalService, tmp_path: Path, *, deferrable: bool) -> None:
    made = run(bridge(show_authorize_url=True))
    requests = len(service.journal_requests())

    def user() -> dict[str, list[str]]:
        wait_for("a poll", lambda: len(service.journal_requests()) > requests, limit=60, interval=0.05)
        return authorize(made["authorize_url"], tmp_path)

    with ThreadPoolExecutor(1) as others:
        authorized = others.submit(user)
        result = run(sensor(str(made), deferrable=deferrable))
        answer = authorized.result(60)
    assert answer["state"] == [made["state"]]
    assert result == {"connection_id": answer["connection_id"][0], "integration_id": "files", "label": "Sales"}
    # A second connection with the same label is distinguished from the first.
    again = run(bridge(show_authorize_url=True))
    assert again["known_connection_ids"] == [result["connection_id"]]
    authorize(again["authorize_url"], tmp_path)
    assert run(sensor(again))["connection_id"] not in (result["connection_id"], None)


@since("3.3", "start_from_trigger")
def test_sensor_with_start_from_trigger(service: LocalService, tmp_path: Path) -> None:
    made = run(bridge(show_authorize_url=True))
    template = "{{ ti.xcom_pull('bridge', map_indexes=-1) }}"
    task = sensor(template, start_from_trigger=True)
    start: Any = task.start_trigger_args
    assert start.trigger_kwargs["bridge"] == template
    authorize(made["authorize_url"], tmp_path)
    # Airflow renders the template in the triggerer.
    trigger = DatapipeConditionTrigger(**start.trigger_kwargs | {"bridge": str(made)})
    event = asyncio.run(first_event(trigger))
    assert made["authorize_url"] not in json.dumps(event)
    there = sensor(str(made)).execute_complete(context_of(Memory()), event)
    assert (there["integration_id"], there["label"]) == ("files", "Sales")
    with pytest.raises(ValueError, match="bridge is an output of another task"):
        sensor("{{ ti.xcom_pull('bridge') }}", start_from_trigger=True)


def test_reauthorization_of_a_connection(service: LocalService, tmp_path: Path) -> None:
    made = run(bridge(connection_id="data", show_authorize_url="True"))
    assert not sensor(made).poke({})
    with pytest.raises(TaskDeferred) as deferred:
        sensor(made, deferrable=True).execute(context_of(Memory()))
    assert made["authorize_url"] not in str(deferred.value.trigger.serialize())
    assert made["state"] not in str(deferred.value.trigger.serialize())
    authorize(made["authorize_url"], tmp_path)
    assert run(sensor(made)) == {"connection_id": "data", "integration_id": "files", "label": "Data"}
    service.reset()
    Api(service).client.delete("/elt_syncs/shop").raise_for_status()
    Api(service).client.delete("/connections/data").raise_for_status()
    with pytest.raises(BridgeError, match="Connection data no longer exists"):
        run(sensor(made))


@MODES
def test_expired_bridge(service: LocalService, *, deferrable: bool) -> None:
    Api(service).client.put("/_local/clock", json={"now": "2026-01-01T00:00:00Z"}).raise_for_status()
    made = run(bridge(show_authorize_url=True))
    assert made["expires_at"] == "2026-01-02T00:00:00.000Z"
    with pytest.raises(BridgeExpiredError, match="ended at 2026-01-02 00:00:00 UTC"):
        run(sensor(made, deferrable=deferrable))
    with pytest.raises(AirflowSkipException):
        run(sensor(made, deferrable=deferrable, soft_fail=True))


def test_authorize_url_is_sent_only_to_the_notifier(service: LocalService, capsys: pytest.CaptureFixture[str]) -> None:
    template = "Open {{ authorize_url }} for {{ bridge_label }} until {{ bridge_expires_at }} ({{ bridge_state }})"
    notifier, memory = RecordingNotifier(template), Memory()
    result = run(bridge(notifiers=notifier), memory)
    (text,) = notifier.sent
    (url,) = [word for word in text.split() if word.startswith(service.base_url)]
    assert httpx.get(url).status_code == 200
    assert text == f"Open {url} for Sales until {result['expires_at']} ({text.rpartition('(')[2]}"
    state = text.rpartition("(")[2].rstrip(")")
    assert len(state) >= 40
    output = capsys.readouterr()
    for where in (json.dumps(result), json.dumps(memory.pushed), json.dumps(memory.kept), output.out, output.err):
        assert url.rpartition("/")[2] not in where
        assert state not in where
    assert "A bridge for 'Sales' is open until" in output.out


@pytest.mark.parametrize("show", [False, "False", "{{ false }}"])
def test_authorize_url_without_a_recipient_is_refused(service: LocalService, show: Any) -> None:
    with pytest.raises(ValueError, match=r"the address has no recipient|show_authorize_url must be"):
        run(bridge(show_authorize_url=show))
    assert service.journal_requests() == []


def test_missing_arguments_are_refused_at_parsing() -> None:
    for arguments in ({"new_label": None}, {"connection_id": "a", "connection_label": "b"}):
        with pytest.raises(ValueError, match="connection"):
            bridge(show_authorize_url=True, **arguments)


def test_used_connection_is_not_deleted(service: LocalService) -> None:
    def delete(**arguments: Any) -> Any:
        return run(ConnectionDeleteOperator(task_id="t", connection_label="Data", **arguments))

    with pytest.raises(Exception, match="Connection Data is used by ELT sync shop"):
        delete()
    # The local service refuses the deletion, too.
    with pytest.raises(Exception, match="The connection is used by the ELT sync 'shop'"):
        delete(if_used="delete")
    assert [one["id"] for one in Api(service).all_pages("/connections")] == ["data"]
