"""Tests of responses to requests whose success has no content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import ProtocolError
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from tests.support.routed_server import RoutedServer
from tests.support.scripted_server import Reply
from tests.support.tasks import run

#: Every endpoint that the interface answers with 204, and its arguments.
ENDPOINTS: dict[str, dict[str, Any]] = {
    "connections.delete": {"connection_id": "x"},
    "elt_streams.delete": {"stream_id": "x"},
    "elt_streams.request_full_refresh": {"stream_id": "x"},
    "elt_streams.cancel_full_refresh": {"stream_id": "x"},
    "elt_streams.clear_sync_interval": {"stream_id": "x"},
    "elt_syncs.delete": {"sync_id": "x"},
    "elt_syncs.enable": {"sync_id": "x"},
    "elt_syncs.disable": {"sync_id": "x"},
    "orchestrations.delete": {"orchestration_id": "x", "cron_schedule": "0 2 * * *"},
    "reverse_etl_failed_records.retry": {"reverse_etl_sync_id": "x", "record_ids": ["a"]},
    "reverse_etl_failed_records.retry_all": {"reverse_etl_sync_id": "x"},
    "reverse_etl_syncs.delete": {"sync_id": "x"},
    "reverse_etl_syncs.activate": {"sync_id": "x"},
    "reverse_etl_syncs.deactivate": {"sync_id": "x"},
    "transforms.delete": {"transform_id": "x"},
}
TEXT = Reply(200, b"Deleted.", {"content-type": "text/plain"})


def connect(server: RoutedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "datapipe", "host": server.url, "password": "secret-of-the-account"}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_plain_text_after_an_endpoint_without_content_is_success(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RoutedServer(lambda _: TEXT) as server:
        connect(server, monkeypatch)
        assert run(DatapipeOperator(task_id="t", endpoint=endpoint, arguments=ENDPOINTS[endpoint])) is None
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"\n<!doctype html><title>Log in</title>"),
        Reply(200, b"Please log in.", {"content-type": "Text/HTML; charset=utf-8"}),
        Reply(200, b"\xff\xfe\x00"),
    ],
    ids=["page", "type", "binary"],
)
def test_login_page_is_no_success_of_a_request(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    with RoutedServer(lambda _: reply) as server:
        connect(server, monkeypatch)
        with pytest.raises(ProtocolError, match="does not say"):
            run(DatapipeOperator(task_id="t", endpoint="elt_syncs.enable", arguments={"sync_id": "x"}))
