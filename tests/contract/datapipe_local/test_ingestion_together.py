"""Tests of concurrent webhook ingestion, and of state between requests."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import connection
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

EVENTS = "/webhooks/hooks/events"
SENDERS = 8


def seed(authentication: dict[str, str] | None = None) -> dict[str, Any]:
    tables = [{"name": "events"}, {"name": "others"}]
    hooks = connection("hooks", "webhook", authentication=authentication or {"method": "none"}, tables=tables)
    return {"limits": {"webhook_request_bytes": 1_000}, "connections": [hooks]}


@pytest.fixture(scope="module")
def controlled() -> Iterator[LocalService]:
    with served(seed(), control=True) as (service, _):
        yield service


@pytest.fixture
def client(service: LocalService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.base_url, timeout=30) as client:
        yield client


@pytest.fixture
def service(controlled: LocalService) -> LocalService:
    # Without "drop", a reset keeps the seeds that tests add.
    local(controlled, "reset", {"seed": "drop"})
    local(controlled, "seed", seed())
    return controlled


def local(service: LocalService, path: str, body: dict[str, Any]) -> None:
    httpx.post(f"{service.base_url}/_local/{path}", json=body, headers=service.headers).raise_for_status()


def kept(service: LocalService) -> list[Any]:
    with sqlite3.connect(service.home / "state.sqlite") as store:
        return [json.loads(record) for (record,) in store.execute("SELECT record FROM webhook_records ORDER BY seq")]


def pour(service: LocalService, sender: int, answered: list[tuple[int, int]], enough: threading.Event) -> None:
    """Send one record after the other until the service is gone, and add the acknowledged ones to ``answered``."""
    with httpx.Client(base_url=service.base_url, timeout=30) as client:
        for number in range(1_000_000):
            try:
                answer = client.post(EVENTS, json={"sender": sender, "number": number})
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            answered.append((sender, number))
            if number == 20:
                enough.set()


def test_kill_loses_no_acknowledged_record_of_many_senders(service: LocalService) -> None:
    answered: list[tuple[int, int]] = []
    enough = [threading.Event() for _ in range(SENDERS)]
    with ThreadPoolExecutor(SENDERS) as senders:
        going = [senders.submit(pour, service, number, answered, enough[number]) for number in range(SENDERS)]
        try:
            for event in enough:
                assert event.wait(30)
        finally:
            service.kill()
        for end in going:
            end.result()
    found = [(row["sender"], row["number"]) for row in kept(service)]
    service.start()
    assert len(found) == len(set(found))
    assert set(answered) <= set(found)
    # Each sender has at most one record without an acknowledgement.
    assert len(found) - len(answered) <= SENDERS
    # The records of each sender are in order.
    for one in range(SENDERS):
        numbers = [number for sender, number in found if sender == one]
        assert numbers == sorted(numbers)


def test_changed_token_applies_to_the_next_request(service: LocalService, client: httpx.Client) -> None:
    def statuses(*tokens: str | None) -> list[int]:
        headers: list[dict[str, str]] = [{"x-token": token} if token else {} for token in tokens]
        return [client.post(EVENTS, json={}, headers=each).status_code for each in headers]

    assert statuses(None) == [200]
    for token in ("old", "new"):
        local(service, "seed", seed({"method": "token", "header": "X-Token", "token": token}))
        assert statuses(None, "old", "new") == ([401, 200, 401] if token == "old" else [401, 401, 200])


def test_changed_size_limit_applies_to_the_next_request(service: LocalService, client: httpx.Client) -> None:
    assert client.post(EVENTS, json={"x": "y" * 500}).status_code == 200
    local(service, "seed", seed() | {"limits": {"webhook_request_bytes": 100}})
    assert client.post(EVENTS, json={"x": "y" * 500}).status_code == 413
    assert client.post(EVENTS, json={"x": "y"}).status_code == 200


def test_deleted_connection_accepts_nothing_from_many_senders(service: LocalService, api: Api) -> None:
    refused = threading.Event()
    statuses: set[int] = set()

    def send() -> None:
        with httpx.Client(base_url=service.base_url, timeout=30) as client:
            while not refused.is_set():
                statuses.add(client.post(EVENTS, json={}).status_code)
                if 404 in statuses:
                    refused.set()

    with ThreadPoolExecutor(4) as senders:
        going = [senders.submit(send) for _ in range(4)]
        wait_for("rows are taken", lambda: 200 in statuses, limit=60)
        api.delete("/connections/hooks")
        for end in going:
            end.result(timeout=30)
    assert statuses <= {200, 404}


def test_requests_of_several_tables_at_the_same_time(service: LocalService) -> None:
    def send(number: int) -> None:
        table = "events" if number % 2 else "others"
        answer = httpx.post(f"{service.base_url}/webhooks/hooks/{table}", json={"number": number}, timeout=30)
        assert answer.json() == {"accepted": 1}

    with ThreadPoolExecutor(SENDERS) as senders:
        list(senders.map(send, range(40)))
    with sqlite3.connect(service.home / "state.sqlite") as store:
        found = store.execute("SELECT table_name, record FROM webhook_records").fetchall()
    tables = {json.loads(record)["number"]: table for table, record in found}
    assert (len(found), tables) == (40, {number: "events" if number % 2 else "others" for number in range(40)})
