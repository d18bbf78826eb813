"""Tests of error messages for invalid requests: field, problem and fix in terms of JSON and HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.local_service import LocalService

STREAMS = "/elt_syncs/shop/source_streams"
WRONG: list[tuple[str, Any, str]] = [
    ("/orchestrations", {"name": "a"}, "cron_schedule: it is missing: give it."),
    ("/orchestrations", {"name": "a", "cron_schedule": "0 0 * * *", "zz": 1},
     "zz: there is no such field: leave it out."),
    ("/orchestrations", {"name": 1, "cron_schedule": "0 0 * * *"}, "name: it has the wrong type: give a text."),
    ("/orchestrations", [], "body: it has the wrong type: give an object."),
    ("/elt_syncs/shop", {"elt_settings": []}, "elt_settings: it has the wrong type: give an object."),
    (STREAMS, {"source_streams": {}}, "source_streams: it has the wrong type: give an array."),
    (STREAMS, {"source_streams": [[]]}, "source_streams.0: it has the wrong type: give an object."),
    ("/transforms", {"name": "a", "sql_template": "SELECT 1", "publish": 1},
     "publish: it has the wrong type: give true or false."),
    ("/reverse_etl_failed_records/retry?reverse_etl_sync_id=export", {"record_ids": "1"},
     "record_ids: it has the wrong type: give an array."),
]  # fmt: skip
NO_JSON: list[tuple[bytes, dict[str, str], str]] = [
    (b'{"name": }', {"content-type": "application/json"}, "body: it is no JSON, from character 9 on: send JSON."),
    (b"\xff", {"content-type": "application/json"}, "body: it cannot be read: send JSON in UTF-8."),
    (b"{}", {}, "Content-Type: the body is not said to be JSON: send it as application/json."),
    (b"{}", {"content-type": "text/plain"},
     "Content-Type: the body is not said to be JSON: send it as application/json."),
]  # fmt: skip


def refused(service: LocalService, path: str, content: bytes, headers: dict[str, str]) -> str:
    answer = httpx.post(service.base_url + path, content=content, headers=service.headers | headers, trust_env=False)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error_code"] == "invalid_request"
    return str(answer.json()["message"])


@pytest.mark.parametrize(("path", "body", "message"), WRONG)
def test_a_field_of_the_wrong_shape_is_named(service: LocalService, path: str, body: Any, message: str) -> None:
    assert refused(service, path, json.dumps(body).encode(), {"content-type": "application/json"}) == message


@pytest.mark.parametrize(("content", "headers", "message"), NO_JSON)
def test_a_body_that_is_no_json_is_told_so(
    service: LocalService, content: bytes, headers: dict[str, str], message: str
) -> None:
    assert refused(service, "/orchestrations", content, headers) == message


def test_a_body_is_asked_for(service: LocalService) -> None:
    assert refused(service, "/orchestrations", b"", {}) == "body: it is missing: give it."


def test_a_query_parameter_is_asked_for(service: LocalService) -> None:
    answer = httpx.get(f"{service.base_url}/elt_stream_runs", headers=service.headers, trust_env=False)
    assert answer.json() == {"error_code": "invalid_request", "message": "elt_stream_id: it is missing: give it."}
