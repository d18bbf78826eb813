"""Tests of connection bridges: creation, lifetime, and limits of state and label."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from typing import Any

import httpx

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection
from tests.support.local_service import LocalService

SEED = {"connections": [connection("data", "files", path="/nowhere")]}
BRIDGE = {"redirect_uri": "https://app.example.com/back", "integration_id": "files", "label": "Files"}
DAY = dt.timedelta(seconds=86_400)
MILLISECOND = dt.timedelta(milliseconds=1)


def create(api: Api, **more: str) -> dict[str, Any]:
    return api.post("/connection_bridges", BRIDGE | more, status=201)


def refused(api: Api, field: str, body: dict[str, Any]) -> None:
    refusal = api.refused("POST", "/connection_bridges", 400, json=body)
    assert refusal["message"].startswith(f"{field}: ")


def listed(api: Api) -> list[str]:
    return [one["authorize_url"] for one in api.get("/connection_bridges")["data"]]


def age(service: LocalService, url: str, by: dt.timedelta) -> None:
    """Move the creation and expiry times of a bridge into the past."""
    with closing(sqlite3.connect(service.home / "state.sqlite", timeout=10)) as state, state:
        for column in ("created_at", "expires_at"):
            earlier = f"strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '-{by.total_seconds()} seconds')"
            statement = f"UPDATE connection_bridges SET {column} = {earlier} WHERE id = ?"  # noqa: S608 - fixed names of the test
            assert state.execute(statement, (url.rpartition("/")[2],)).rowcount == 1


def test_active_bridges_are_listed_until_used(api: Api, service: LocalService) -> None:
    new, again, old = create(api), create(api, connection_id="data"), create(api)
    for bridge in (new, again, old):
        assert httpx.get(bridge["authorize_url"]).status_code == 200
    # The list contains active bridges only.
    assert listed(api) == [new["authorize_url"], again["authorize_url"], old["authorize_url"]]
    age(service, old["authorize_url"], DAY)
    assert listed(api) == [new["authorize_url"], again["authorize_url"]]
    assert httpx.post(again["authorize_url"], data={"path": "/elsewhere"}).status_code == 303
    assert listed(api) == [new["authorize_url"]]
    assert httpx.post(new["authorize_url"], data={"path": "/elsewhere"}).status_code == 303
    assert listed(api) == []
    assert len(api.all_pages("/connections")) == 2


def test_bridge_expires_after_a_day(api: Api, service: LocalService) -> None:
    before = dt.datetime.now(dt.UTC)
    bridge = create(api)
    after = dt.datetime.now(dt.UTC)
    expires = dt.datetime.fromisoformat(bridge["expires_at"])
    # Times have milliseconds.
    assert before - MILLISECOND <= expires - DAY <= after
    url = bridge["authorize_url"]
    age(service, url, DAY - dt.timedelta(minutes=1))
    assert listed(api) == [url]
    assert httpx.get(url).status_code == 200
    age(service, url, dt.timedelta(minutes=1))
    assert listed(api) == []
    for reply in (httpx.get(url), httpx.post(url, data={"path": "/elsewhere"})):
        assert reply.status_code == 410
    assert len(api.all_pages("/connections")) == 1


def test_state_has_up_to_255_characters(api: Api) -> None:
    for state in ("s" * 255, "é" * 255, "\U0001f600" * 255, ""):
        url = create(api, state=state)["authorize_url"]
        target = httpx.post(url, data={"action": "cancel"}).headers["location"]
        assert httpx.URL(target).params["state"] == state
    for state in ("s" * 256, "é" * 256, "s" * 10_000):
        refused(api, "state", BRIDGE | {"state": state})
    assert len(listed(api)) == 4


def test_label_is_text_of_at_least_one_character(api: Api) -> None:
    for label in ("", "a\0b"):
        refused(api, "label", BRIDGE | {"label": label})
    for label in ("x", "é", " ", "y" * 10_000):
        httpx.post(create(api, label=label)["authorize_url"], data={"path": "/elsewhere"})
        assert api.all_pages("/connections")[-1]["label"] == label
