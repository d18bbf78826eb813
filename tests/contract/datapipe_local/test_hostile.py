"""Tests of arbitrary requests to all operations of the OpenAPI document: never 5xx, never a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.contract.interface_table import ROWS
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

Json = dict[str, Any]

#: Unknown IDs that try to reach other paths.
TRICKS = [
    *("nope", "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "..%5c..", "a%2Fb", "%00", "a%00b", "%FF%FE"),
    *("%0d%0aX:%20y", "*", "'; DROP TABLE elt_syncs; --", "{{7*7}}", "❤", "%F0%9F%98%80"),
    *("a" * 10_000, "%41" * 3_000, "-1", "9" * 400),
]
TEXTS = [
    *("", " ", "\0", "a\0b", "a" * 10_000, "❤" * 3_000, "../../etc/passwd", "'; DROP TABLE x; --"),
    *("\x1b[31m", "\u202e", "\uff19"),
]
NO_JSON = [
    *(b"", b"{", b"}", b"nonsense", b"\xff\xfe\x00", b"\x00", b"{'a': 1}", b'{"a": NaN}', b'{"a": Infinity}', b"[1]"),
    *(b"[" * 100_000, b'{"a":' * 50_000, b'{"a": 1e400}', b'{"a": ' + b"9" * 20_000 + b"}"),
    *(b'{"a": "\\ud800"}', b'{"\\ud800": 1}'),
]
OTHER_SHAPES: list[Any] = [[], "text", 7, 1e308, -(10**30), True]
KEYS: list[list[tuple[bytes, bytes]]] = [
    *([], [(b"x-api-key", b"")], [(b"x-api-key", b"wrong")], [(b"x-api-key", b"a" * 10_000)]),
    *([(b"authorization", b"Bearer wrong")], [(b"x-api-key", "\u00e9".encode())]),
]


class Operation(NamedTuple):
    """Operation of the OpenAPI document, with unknown IDs in its path."""

    method: str
    template: str
    query: Json
    body: Json | None
    described: Json

    @property
    def path(self) -> str:
        return self.template.replace("{", "").replace("}", "")

    def path_of(self, resource_id: str) -> str:
        """Return the path with an ID in place of the first parameter."""
        return re.sub(r"\{\w+\}", lambda _: resource_id, self.template, count=1)


@pytest.fixture(scope="module")
def operations(document: Json) -> list[Operation]:
    found = [
        Operation(method.upper(), path, query_of(document, each), body_of(document, each), each)
        for path, methods in document["paths"].items()
        for method, each in methods.items()
        # Requests to the others need no key, or another one: test_ingestion.py.
        if "security" in each
    ]
    assert len(found) == len(ROWS)
    return found


@pytest.fixture
def client(service: LocalService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.base_url, headers=service.headers, timeout=30, trust_env=False) as client:
        yield client
    assert "Traceback" not in service.log


def with_ids(operations: list[Operation]) -> list[Operation]:
    return [operation for operation in operations if "{" in operation.template]


def schema_of(document: Json, schema: Json) -> Json:
    """Return a schema with references resolved and the first of alternatives."""
    while True:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = schema["anyOf"][0]
        else:
            return schema


def example_of(document: Json, schema: Json) -> Any:
    """Return a minimal value that a schema allows."""
    schema = schema_of(document, schema)
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: example_of(document, properties[name]) for name in schema.get("required", [])}
    if schema.get("type") == "array":
        return [example_of(document, schema["items"])]
    return {"boolean": False, "integer": 1, "number": 1}.get(schema.get("type", ""), "x")


def query_of(document: Json, described: Json) -> Json:
    return {
        parameter["name"]: example_of(document, parameter["schema"])
        for parameter in described.get("parameters", [])
        if parameter["in"] == "query" and parameter["required"]
    }


def body_of(document: Json, described: Json) -> Json | None:
    if "requestBody" not in described:
        return None
    body: Json = example_of(document, described["requestBody"]["content"]["application/json"]["schema"])
    return body


def send(client: httpx.Client, operation: Operation, **changed: Any) -> httpx.Response:
    """Send an operation with some parts changed, and check that the response has an allowed status."""
    path = changed.pop("path", operation.path)
    request: Json = {"params": operation.query, "json": operation.body} | changed
    if "content" in request:
        del request["json"]
        request["headers"] = {"content-type": "application/json"}
    answer = client.request(operation.method, path, **request)
    reported = f"{operation.method} {path[:200]} {str(changed)[:300]}: {answer.status_code} {answer.text[:500]}"
    assert answer.status_code < 500, reported
    assert "Traceback" not in answer.text, reported
    if answer.status_code >= 400:
        body = answer.json()
        assert {"error_code", "message"} <= body.keys() <= {"error_code", "message", "active_run_id"}, reported
        assert body["message"], reported
        assert "\n" not in body["message"], reported
        assert len(body["message"]) < 2_000, reported
    return answer


def test_a_wrong_key_is_refused_everywhere(service: LocalService, operations: list[Operation]) -> None:
    with httpx.Client(base_url=service.base_url, timeout=30, trust_env=False) as client:
        for operation in operations:
            for key in [*KEYS, [(b"x-api-key", service.api_key.encode()), (b"x-api-key", b"other")]]:
                answer = client.request(operation.method, operation.path, headers=key, json=operation.body)
                assert (answer.status_code, answer.json()["error_code"]) == (401, "unauthorized"), operation.path


def test_manipulated_paths_reach_no_resource(client: httpx.Client, operations: list[Operation]) -> None:
    for operation in with_ids(operations):
        for trick in TRICKS:
            answer = send(client, operation, path=operation.path_of(trick))
            # The client removes dot segments, and then requests another path.
            if trick not in {"..", ".", "%2e%2e"}:
                assert answer.status_code in {400, 404}, (operation, trick, answer.text)


def test_ids_of_other_resources_are_not_found(client: httpx.Client, operations: list[Operation]) -> None:
    own = {
        "connections": "data",
        "elt_streams": "people",
        "elt_syncs": "shop",
        "orchestrations": "nightly",
        "reverse_etl_syncs": "export",
        "transforms": "view",
    }
    for operation in with_ids(operations):
        for other, each in own.items():
            if other != operation.template.split("/")[1]:
                answer = send(client, operation, path=operation.path_of(each))
                assert answer.status_code in {400, 404}, (operation.template, each, answer.text)


def test_queries_are_strict(client: httpx.Client, operations: list[Operation]) -> None:
    for operation in operations:
        response = send(client, operation, params={**operation.query, "surprise": "1"})
        assert response.status_code == 400, operation
        assert "surprise" in response.json()["message"], operation
        for parameter in operation.described.get("parameters", []):
            if parameter["in"] == "query":
                name = parameter["name"]
                for text in TEXTS:
                    send(client, operation, params={**operation.query, name: text})
                twice = send(client, operation, params=[*operation.query.items(), (name, "1"), (name, "2")])
                assert twice.status_code == 400, (operation, name)


def test_bodies_other_than_json_are_refused(client: httpx.Client, operations: list[Operation]) -> None:
    for operation in operations:
        if operation.body is None:
            continue
        for content in NO_JSON:
            if content or operation.body:
                assert send(client, operation, content=content).status_code == 400, (operation, content[:50])
        for body in OTHER_SHAPES:
            assert send(client, operation, json=body).status_code == 400, (operation, body)
        response = send(client, operation, json={**operation.body, "surprise": 1})
        assert response.status_code == 400, operation
        assert "surprise" in response.json()["message"], operation


def test_unusual_values_cause_no_server_error(
    client: httpx.Client, document: Json, operations: list[Operation]
) -> None:
    nested: Any = {}
    for _ in range(200):
        nested = {"a": [nested]}
    for operation in operations:
        if operation.body is None:
            continue
        content = operation.described["requestBody"]["content"]["application/json"]["schema"]
        for name, field in schema_of(document, content).get("properties", {}).items():
            kind = schema_of(document, field)
            values: list[Any] = [None, nested, [nested], 10**30, -1e308, "9" * 400, *TEXTS]
            if kind.get("type") == "array" and kind.get("items"):
                item = example_of(document, kind["items"])
                values += [[item] * 60, [None], [[]]]
                if isinstance(item, dict):
                    values += [[{**item, inner: text}] for inner in item for text in TEXTS]
            if kind.get("type") == "object":
                values += [{text: 1} for text in TEXTS]
            for value in values:
                send(client, operation, json={**operation.body, name: value})
