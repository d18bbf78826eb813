"""Tests of webhook ingestion: authentication, accepted payloads and their rows."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from tests.contract.datapipe_local import transform_calls
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream
from tests.support.documents import blocks
from tests.support.local_service import LocalService

SECRET = "shared-s3cret-ü"
TOKEN = "Bearer t0ken"
SECRETS = [SECRET, TOKEN, "p:ss", "canary"]
LIMIT = 20_000
TABLES = [{"name": "events"}, {"name": "raw", "sync_mode": "packed"}]
WAYS: dict[str, dict[str, str]] = {
    "open": {"method": "none"},
    "basic": {"method": "basic", "username": "ann", "password": "p:ss wörd"},
    "token": {"method": "token", "header": "X-Token", "token": TOKEN},
    "hmac": {"method": "hmac", "header": "X-Signature", "secret": SECRET},
}


SEED = {
    "limits": {"webhook_request_bytes": LIMIT},
    "connections": [
        *(connection(name, "webhook", authentication=way, tables=TABLES) for name, way in WAYS.items()),
        connection("files", "files", path="/nowhere"),
    ],
    "elt_syncs": [
        elt_sync(name, name, [stream(table, table=table, id=f"{name}.{table}") for table in ("events", "raw")])
        for name in WAYS
    ],
}
JSON = {"content-type": "application/json"}
EVENTS = "/webhooks/open/events"


@pytest.fixture
def sender(controlled: LocalService) -> Iterator[httpx.Client]:
    """Return a client without the API key."""
    with httpx.Client(base_url=controlled.base_url, timeout=30) as client:
        yield client


def push(
    sender: httpx.Client, path: str, content: Any, status: int = 200, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    answer = sender.post(path, content=content, headers=JSON | (headers or {}))
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert body.keys() == ({"accepted"} if status == 200 else {"error_code", "message"})
    # No response contains values of the request.
    assert "canary" not in answer.text
    return body


def signature(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def rows(api: Api, table: str) -> list[tuple[Any, ...]]:
    """Load a table, and return its rows."""
    run = api.run_stream(table)
    assert run.status == "COMPLETED", api.get(f"/elt_syncs/{table.partition('.')[0]}/status")
    found = [tuple(row.values()) for row in transform_calls.rows(api, f"FROM {table}")]
    assert run.rows_synced == len(found)
    return sorted(found, key=str)


def reauthorize(api: Api, table: str, **more: str) -> None:
    """Replace the settings of the open connection by a single table."""
    body = {"redirect_uri": "https://app.example.com/", "integration_id": "webhook", "connection_id": "open"}
    url = api.post("/connection_bridges", {**body, "label": "open"}, status=201)["authorize_url"]
    form = {"authentication.method": "none", "tables.0.name": table}
    assert httpx.post(url, data=form | {f"tables.0.{name}": value for name, value in more.items()}).status_code == 303


@pytest.mark.slow
def test_requests_become_rows_at_the_next_run(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    assert push(sender, EVENTS, {"id": 1, "who": {"name": "Ada"}}) == {"accepted": 1}
    assert push(sender, EVENTS, [{"id": 2}, {"id": 3, "tags": ["x"]}]) == {"accepted": 2}
    assert push(sender, EVENTS, []) == {"accepted": 0}
    # Acknowledged records are on disk.
    controlled.kill()
    controlled.start()
    assert rows(api, "open.events") == [(1, {"name": "Ada"}, None), (2, None, None), (3, None, ["x"])]
    assert push(sender, EVENTS, {"id": "four"}) == {"accepted": 1}
    assert [row[0] for row in rows(api, "open.events")] == ["four", 1, 2, 3]


def test_integers_keep_all_digits_if_keys_differ_by_case(api: Api, sender: httpx.Client) -> None:
    push(sender, EVENTS, [{"id": 1, "a": 1, "A": 2**80 + 1, "b": {"x": 1, "X": 2}}, {"id": 2, "A": 1.5}])
    first, second = rows(api, "open.events")
    # Only such columns are JSON.
    assert first == (1, 1, 2**80 + 1, {"x": 1, "X": 2})
    assert second == (2, None, 1.5, None)


def test_packed_tables_contain_the_text_of_requests(api: Api, sender: httpx.Client) -> None:
    sent = [b'{"b": 1,\n "a":1.10}', b"[1, 2]", b'"text"', b"null", b"1e3", b'{"x": %d}' % (10**60 + 7)]
    for content in sent:
        assert push(sender, "/webhooks/open/raw", content) == {"accepted": 1}
    assert rows(api, "open.raw") == sorted(((content.decode(),) for content in sent), key=str)


ODD = [
    {},
    {"x": {"y": 1}, "z": {"t": "x", "T": 1}},
    {"x": {"Y": 2, "": 3}},
    {"a": 1, "A": 2},
    {"json": 1},
    {"a b": {'"': [{}, []]}},
    {"é\u0000": "x\u0000y"},
    {"a": None},
    {"select": "'; DROP TABLE x; --"},
    {"long": "x" * 15_000},
    {f"k{number}": number for number in range(1_000)},
    {"a": 10**300, "b": -1e-300},
    {"t": "2024-01-01T00:00:00Z"},
    {"t": "no time"},
    json.loads('{"d":' * 99 + "1" + "}" * 99),
]


def test_every_accepted_record_can_be_loaded(api: Api, sender: httpx.Client) -> None:
    for table in ("open.events", "open.raw"):
        run = api.run_stream(table)
        assert (run.status, run.rows_synced) == ("COMPLETED", 0)
    for number, record in enumerate(ODD):
        assert push(sender, EVENTS, record) == {"accepted": 1}
        run = api.run_stream("open.events")
        assert (run.status, run.rows_synced) == ("COMPLETED", number + 1), record


NO_JSON = [
    *(b"", b"x=1", b"{", b"{} {}", b"NaN", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":1e999}', b'{"a":"\\ud800"}'),
    *(b'{"a":' + b"9" * 5_000 + b"}", b'{"canary":1,"canary":2}', b"\xff\xfe", b"\xef\xbb\xbf{}"),
    *(b"[" * 10_000, b'{"a":' * 3_000),
]
NO_RECORDS = [
    *(b"5", b"null", b'"canary"', b"[1]", b'[{"a":1},[{"a":1}]]', b"[{}, null]"),
    *(b'{"":1}', b'[{"a":1},{"a":2,"":3}]'),
]


def test_invalid_payloads_are_refused(api: Api, sender: httpx.Client) -> None:
    for content in (*NO_JSON, *NO_RECORDS):
        assert push(sender, EVENTS, content, 400)["error_code"] == "invalid_payload", content[:50]
    for content in NO_JSON:
        assert push(sender, "/webhooks/open/raw", content, 400)["error_code"] == "invalid_payload", content[:50]
    assert api.run_stream("open.events").rows_synced == api.run_stream("open.raw").rows_synced == 0


def test_media_types(sender: httpx.Client) -> None:
    for kind in (
        *("application/json", "APPLICATION/JSON", "application/json; charset=utf-8"),
        *('application/json;charset="UTF-8"', "application/cloudevents+json", "application/vnd.x.v1+json ; version=1"),
    ):
        push(sender, EVENTS, {}, headers={"content-type": kind})
    for kind in (
        *("", "text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonx", "json", "+json"),
        *("application/", "application/json; charset=utf-16", "application/json; charset=latin1"),
        "application/json, text/plain",
    ):
        refusal = push(sender, EVENTS, {}, 415, headers={"content-type": kind})
        assert refusal["error_code"] == "unsupported_media_type", kind
    push(sender, EVENTS, {}, 415, headers={"content-encoding": "gzip"})
    assert sender.post(EVENTS, content=b"{}").status_code == 415
    twice = [("content-type", "application/json"), ("content-type", "text/plain")]
    assert sender.post(EVENTS, content=b"{}", headers=twice).status_code == 415


def test_size_limit(api: Api, sender: httpx.Client) -> None:
    def sized(size: int) -> bytes:
        return b'{"a":"' + b"x" * (size - 8) + b'"}'

    assert push(sender, EVENTS, sized(LIMIT)) == {"accepted": 1}
    assert push(sender, EVENTS, sized(LIMIT + 1), 413)["error_code"] == "payload_too_large"
    # The connection can be used again.
    assert push(sender, EVENTS, sized(LIMIT)) == {"accepted": 1}

    def parts(size: int) -> Iterator[bytes]:
        whole = sized(size)
        yield from (whole[start : start + 999] for start in range(0, size, 999))

    assert sender.post(EVENTS, content=parts(LIMIT), headers=JSON).json() == {"accepted": 1}
    response = sender.post(EVENTS, content=parts(LIMIT + 1), headers=JSON)
    assert (response.status_code, response.json()["error_code"]) == (413, "payload_too_large")
    assert api.run_stream("open.events").rows_synced == 3


def test_too_large_requests_are_refused_before_their_end(controlled: LocalService) -> None:
    head = f"POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with _connected(controlled) as line:
        # Announced by its length: refused before the first byte.
        line.sendall(f"{head}content-length: {10**15}\r\n\r\n".encode())
        assert line.recv(4096).startswith(b"HTTP/1.1 413 ")
    with _connected(controlled) as line:
        # Without a length and without an end.
        line.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(LIMIT // 1_000 + 1):
            line.sendall(b"3e8\r\n" + b"x" * 1_000 + b"\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 413 ")
    with _connected(controlled) as line:
        # A client that closes the connection in between.
        line.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())


def _connected(service: LocalService) -> socket.socket:
    port = httpx.URL(service.base_url).port
    assert port is not None
    return socket.create_connection(("127.0.0.1", port), timeout=20)


@pytest.mark.parametrize(
    ("way", "header", "right", "wrong"),
    [
        (
            "basic",
            "authorization",
            [basic("ann:p:ss wörd"), f"bAsIc   {basic('ann:p:ss wörd')[6:]}"],
            [
                *map(basic, ("ann:", "bob:p:ss wörd", "ann", "ann:p:ss wörd\x00", "Ann:p:ss wörd")),
                *("Basic =", "Basic", "Basic !", "Basic é"),
                basic("ann:p:ss wörd")[6:],
                f"Bearer {basic('ann:p:ss wörd')[6:]}",
            ],
        ),
        ("token", "x-token", [TOKEN], ["", "t0ken", TOKEN.lower(), f"{TOKEN}x", TOKEN[:-1], "é", f"Bearer {TOKEN}"]),
    ],
)
def test_credentials(sender: httpx.Client, way: str, header: str, right: list[str], wrong: list[str]) -> None:
    path = f"/webhooks/{way}/events"
    for value in right:
        assert sender.post(path, content=b"{}", headers=_as_bytes([(header, value)])).json() == {"accepted": 1}
    answers = [sender.post(path, content=b"{}", headers=_as_bytes([(header, value)])) for value in wrong]
    answers.append(sender.post(path, content=b"{}", headers=JSON))
    twice = _as_bytes([(header, right[0]), (header, right[0])])
    answers.append(sender.post(path, content=b"{}", headers=twice))
    assert {answer.status_code for answer in answers} == {401}
    # All responses are equal, so that none reveals the reason.
    assert len({answer.text for answer in answers}) == 1
    assert {answer.headers.get("www-authenticate") for answer in answers} == {
        'Basic realm="webhook", charset="UTF-8"' if way == "basic" else None
    }
    # Nor do they depend on the body, its type or its size.
    assert sender.post(path, content=b"x" * (LIMIT + 1)).status_code == 401


def _as_bytes(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in [*JSON.items(), *headers]]


def test_api_key_does_not_authenticate_webhooks(api: Api) -> None:
    for way in ("basic", "token", "hmac"):
        assert api.client.post(f"/webhooks/{way}/events", json={}).status_code == 401


HOOK = "/webhooks/hmac/events"
CANONICAL = [
    *(b"{}", b"[]", b'{"a":1,"b":[{"c":2,"d":3}]}', '{"a":"é"}'.encode(), b'{"a":"\\u00e9"}'),
    *(b'{"A":1,"a":1.50}', b'[{"b":1},{"a":1}]', b'{"a b":" , "}'),
]
NOT_CANONICAL = [b'{"b":1,"a":1}', b'{"a": 1}', b" {}", b"{}\n", b'{"a":{"c":1,"b":1}}', b'{"a":1,"A":1}']


def test_signature_of_canonical_json(sender: httpx.Client) -> None:
    for body in CANONICAL:
        push(sender, HOOK, body, headers={"x-signature": signature(body)})
        push(sender, HOOK, body, headers={"X-SIGNATURE": signature(body)})
    for body in NOT_CANONICAL:
        canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
        for signed in (body, canonical):
            refusal = push(sender, HOOK, body, 401, headers={"x-signature": signature(signed)})
            assert refusal["error_code"] == "unauthorized"
        push(sender, HOOK, canonical, headers={"x-signature": signature(canonical)})


def test_invalid_signatures_are_refused(api: Api, sender: httpx.Client) -> None:
    body = b'{"a":1}'
    good = signature(body)
    for wrong in ("", good.upper(), good[:-1], f"sha256={good}", signature(body, "other"), signature(b"{}"), "é"):
        headers = _as_bytes([("x-signature", wrong)])
        assert sender.post(HOOK, content=body, headers=headers).status_code == 401, wrong
    assert sender.post(HOOK, content=body, headers=JSON).status_code == 401
    twice = _as_bytes([("x-signature", good), ("x-signature", good)])
    assert sender.post(HOOK, content=body, headers=twice).status_code == 401
    # Only a signed body is checked.
    push(sender, HOOK, b"{", 401, headers={"x-signature": good})
    push(sender, HOOK, b"{", 400, headers={"x-signature": signature(b"{")})
    push(sender, HOOK, b'{"a":1,"a":1}', 400, headers={"x-signature": signature(b'{"a":1,"a":1}')})
    assert api.run_stream("hmac.events").rows_synced == 0


def test_the_example_of_the_documentation_is_accepted(controlled: LocalService, api: Api) -> None:
    (block,) = [
        one.text for one in blocks() if one.page == "docs/local.md" and one.first_line.startswith("import hashlib")
    ]
    assert "/webhooks/hooks/orders" in block
    assert 'b"the secret"' in block
    assert "http://127.0.0.1:8484/" in block
    program = (
        block.replace("http://127.0.0.1:8484", controlled.base_url)
        .replace("/webhooks/hooks/orders", HOOK)
        .replace('b"the secret"', f"{SECRET!r}.encode()")
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - an example of our docs
    assert done.stdout == "{'accepted': 2}\n"
    assert api.run_stream("hmac.events").rows_synced == 2


@pytest.mark.parametrize(
    "path",
    [
        *("open/nope", "open/EVENTS", "nope/events", "files/events", "basic/nope", "open/..", "open", ""),
        *("open/%00", "open/events%00", "open/%FF", "open%2fevents/events", "open/events/", "/open/events"),
        *("../connections", "..%2fconnections", "open/..%2f..%2fconnections", "%2e%2e/connections"),
        *("open/" + "x" * 10_000, "x" * 10_000 + "/events", "open/'; DROP TABLE webhook_records; --"),
    ],
    ids=lambda path: path[:30],
)
def test_unknown_paths(controlled: LocalService, path: str) -> None:
    # On a socket, because a client normalizes paths.
    with _connected(controlled) as line:
        escaped = path.replace(" ", "%20").replace("'", "%27")
        line.sendall(
            f"POST /webhooks/{escaped} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            "content-length: 2\r\nconnection: close\r\n\r\n{}".encode()
        )
        received = b"".join(iter(lambda: line.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.split()[1] == b"404"
    assert json.loads(body)["error_code"] == "not_found"


def test_other_methods_and_parameters_are_refused(api: Api, sender: httpx.Client) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert sender.request(method, EVENTS, headers=JSON).status_code == 405
    push(sender, f"{EVENTS}?x=1", {}, 400)
    assert api.run_stream("open.events").rows_synced == 0
    # The same path, encoded.
    push(sender, "/webhooks/op%65n/%65vents", {})
    assert api.run_stream("open.events").rows_synced == 1


def test_responses_contain_no_secrets(api: Api) -> None:
    for path in ("/connections", "/connections/hmac/settings", "/elt_syncs/hmac", "/elt_syncs/hmac/status"):
        assert SECRET not in api.client.get(path).text


def test_webhook_connection_without_a_seed(api: Api, sender: httpx.Client) -> None:
    """Use only the interface, from the bridge to the rows, with excluded and hashed columns."""
    bridge = {"redirect_uri": "https://app.example.com/", "integration_id": "webhook", "label": "Fresh"}
    url = api.post("/connection_bridges", bridge, status=201)["authorize_url"]
    target = httpx.post(url, data={"authentication.method": "none", "tables.0.name": "clicks"}).headers["location"]
    connection_id = httpx.URL(target).params["connection_id"]
    push(sender, f"/webhooks/{connection_id}/clicks", {"id": 1, "secret": "canary", "mail": "a@example.com"})
    sync = {"connection_id": connection_id, "destination_schema_name": "fresh", "sync_interval": "0 0 1 1 *"}
    sync_id = api.post("/elt_syncs", sync, status=201)["id"]
    offered = api.all_pages(f"/elt_syncs/{sync_id}/available_source_streams")
    assert [one["name"] for one in offered] == ["clicks"]
    wanted = {"name": "clicks", "excluded_columns": ["secret"], "hashed_columns": ["mail"]}
    added = api.post(f"/elt_syncs/{sync_id}/source_streams", {"source_streams": [wanted]}, status=201)
    assert api.run_stream(added["source_streams"][0]["id"]).rows_synced == 1
    hashed = hashlib.sha256(b"a@example.com").hexdigest()
    assert [tuple(row.values()) for row in transform_calls.rows(api, "FROM fresh.clicks")] == [(1, hashed)]


def test_removed_table_fails_only_its_stream(api: Api) -> None:
    offered = api.all_pages("/elt_syncs/open/available_source_streams")
    assert [(one["name"], one["retired"]) for one in offered] == [("events", False), ("raw", False)]
    reauthorize(api, "raw")
    assert api.run_stream("open.events").status == "FAILED"
    assert "no table 'events'" in api.stream_status("open", "events")["latest_sync"]["error_message"]
    assert api.run_stream("open.raw").status == "COMPLETED"


def test_packed_table_becomes_unpacked(api: Api, sender: httpx.Client) -> None:
    for content in (b"5", b'{"a": 1}', b'[{"a":2},"x"]', b'{"a":3,"":4}'):
        push(sender, "/webhooks/open/raw", content)
    reauthorize(api, "raw", sync_mode="unpacked")
    expected = [(5, None), (None, 1), (None, 2), ("x", None), ({"a": 3, "": 4}, None)]
    assert rows(api, "open.raw") == sorted(expected, key=str)


def test_objects_whose_keys_differ_only_by_case_are_json(api: Api, sender: httpx.Client) -> None:
    push(sender, EVENTS, {"id": 1, "on": "12-31-2026", "a": {"x": 1}, "b": {"y": 1}})
    assert rows(api, "open.events") == [(1, "2026-12-31", {"x": 1}, {"y": 1})]
    push(sender, EVENTS, [{"id": 2, "a": {"X": 2}}, {"id": 3, "A": {"y": 3}}])
    # The other columns keep their types.
    assert rows(api, "open.events") == [
        (1, "2026-12-31", {"x": 1}, {"y": 1}, None),
        (2, None, {"X": 2}, None, None),
        (3, None, None, None, {"y": 3}),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, 2**128 + 1, -(10**60) - 7])
def test_integers_keep_all_digits(api: Api, sender: httpx.Client, value: int) -> None:
    body = json.dumps([{"id": 1, "in": {"x": [value]}, "x": value}, {"id": 2, "x": 3}], separators=(",", ":")).encode()
    push(sender, HOOK, body, headers={"X-Signature": signature(body)})
    first = next(row for row in rows(api, "hmac.events") if str(row[0]) == "1")
    assert str(value) in str(first[1])
    assert str(first[2]) == str(value)
