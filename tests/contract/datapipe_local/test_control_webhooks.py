"""Tests of injected faults of webhook ingestion."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from datapipe_local.testing import DatapipeLocal
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

PATH = "/webhooks/hooks/orders"
SEED: dict[str, Any] = {
    "connections": [
        connection(name, "webhook", authentication={"method": "none"}, tables=[{"name": "orders"}])
        for name in ("hooks", "others")
    ],
    "elt_syncs": [elt_sync("pushed", "hooks", [stream("orders", table="orders")])],
}


def push(service: LocalService, path: str = PATH) -> httpx.Response:
    return httpx.post(f"{service.base_url}{path}", json={"n": 1})


def loaded_rows(service: LocalService) -> int:
    return int(Api(service).run_stream("orders").rows_synced or 0)


@pytest.mark.parametrize("pattern", ["/webhooks/**", "/webhooks/{id}/orders", "/webhooks/*/*", PATH, "/**"])
def test_a_webhook_fails_as_often_as_its_rule_sets(service: LocalService, pattern: str) -> None:
    service.faults([{"method": "POST", "path": pattern, "status": 503, "times": 2}])
    assert [push(service).status_code for _ in range(3)] == [503, 503, 200]
    assert loaded_rows(service) == 1


@pytest.mark.parametrize(("when", "rows"), [("before", 0), ("after", 1)])
def test_a_dropped_webhook_is_stored_only_before_the_drop(service: LocalService, when: str, rows: int) -> None:
    service.faults([{"path": "/webhooks/**", "drop": True, "when": when}])
    with pytest.raises(httpx.RemoteProtocolError):
        push(service)
    assert loaded_rows(service) == rows


def test_a_rewritten_response_of_a_webhook(service: LocalService) -> None:
    service.faults([{"path": "/webhooks/**", "rewrite": {"accepted": 7}}])
    assert [push(service).json()["accepted"] for _ in range(2)] == [7, 1]


def test_a_rule_for_one_webhook_connection(service: LocalService) -> None:
    service.faults([{"path": "/webhooks/**", "resource_id": "others", "status": 500, "times": "always"}])
    assert push(service).status_code == 200
    assert push(service, "/webhooks/others/orders").status_code == 500
    assert Api(service).get("/_local/faults")["data"][0]["acted"] == 1


def test_webhooks_are_not_in_the_journal(service: LocalService) -> None:
    push(service)
    assert service.journal_requests() == []
    refused = Api(service).refused("GET", "/_local/journal?kind=requests&path=/webhooks/**", 400)
    assert "webhooks, which are not in the journal" in refused["message"]


@pytest.mark.datapipe_local(SEED)
def test_the_plugin_sets_faults_of_webhooks(datapipe_local: DatapipeLocal) -> None:
    datapipe_local.faults({"path": "/webhooks/**", "status": 503})
    assert [datapipe_local.api.post(PATH, json={"n": 1}).status_code for _ in range(2)] == [503, 200]
