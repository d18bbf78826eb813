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

import duckdb
import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.support.documents import blocks
from tests.support.local_service import LocalService

SECRET = "shared-s3cret-ü"
TOKEN = "Bearer t0ken"
LIMIT = 20_000
TABLES = [{"name": "events"}, {"name": "raw", "sync_mode": "packed"}]
WAYS: dict[str, dict[str, str]] = {
    "open": {"method": "none"},
    "basic": {"method": "basic", "username": "ann", "password": "p:ss wörd"},
    "token": {"method": "token", "header": "X-Token", "token": TOKEN},
    "hmac": {"method": "hmac", "header": "X-Signature", "secret": SECRET},
}


def stream(connection: str, table: str) -> dict[str, Any]:
    return {"id": f"{connection}.{table}", "name": table, "table": table}


SEED = {
    "limits": {"webhook_request_bytes": LIMIT},
    "connections": [
        *(
            {
                "id": name,
                "integration_id": "webhook",
                "label": name,
                "settings": {"authentication": way, "tables": TABLES},
            }
            for name, way in WAYS.items()
        ),
        {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": "/nowhere"}},
    ],
    "elt_syncs": [
        {
            "id": name,
            "connection_id": name,
            "destination_schema_name": name,
            "source_streams": [stream(name, "events"), stream(name, "raw")],
        }
        for name in WAYS
    ],
}
JSON = {"content-type": "application/json"}
EVENTS = "/webhooks/open/events"


@pytest.fixture(scope="module")
def controlled() -> Iterator[LocalService]:
    with LocalService(SEED, control=True) as service:
        yield service
        assert "Traceback" not in service.log
        for secret in (SECRET, TOKEN, "p:ss", "canary"):
            assert secret not in service.log


@pytest.fixture
def api(controlled: LocalService) -> Api:
    controlled.reset()
    return Api(controlled)


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
    # What was sent is repeated nowhere.
    assert "canary" not in answer.text
    return body


def signature(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def rows(service: LocalService, api: Api, table: str) -> list[Any]:
    """Load a table, and return its rows."""
    stream_id, place = table, table
    run = api.run_stream(stream_id)
    assert run.status == "COMPLETED", api.get(f"/elt_syncs/{table.partition('.')[0]}/status")
    service.stop()
    try:
        with duckdb.connect(str(service.warehouse), read_only=True) as warehouse:
            found = warehouse.sql(f"FROM {place}").fetchall()
    finally:
        service.start()
    assert run.rows_synced == len(found)
    return found


@pytest.mark.slow
def test_requests_become_rows_at_the_next_run(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    assert push(sender, EVENTS, {"id": 1, "who": {"name": "Ada"}}) == {"accepted": 1}
    assert push(sender, EVENTS, [{"id": 2}, {"id": 3, "tags": ["x"]}]) == {"accepted": 2}
    assert push(sender, EVENTS, []) == {"accepted": 0}
    # What was answered is on disk.
    controlled.kill()
    controlled.start()
    found = rows(controlled, api, "open.events")
    assert sorted(found) == [(1, {"name": "Ada"}, None), (2, None, None), (3, None, ["x"])]
    assert push(sender, EVENTS, {"id": "four"}) == {"accepted": 1}
    assert sorted(row[0] for row in rows(controlled, api, "open.events")) == ['"four"', "1", "2", "3"]


def test_keys_that_differ_in_case_alone_are_columns_apart(
    controlled: LocalService, api: Api, sender: httpx.Client
) -> None:
    push(sender, EVENTS, [{"a": 1, "A": 2}, {"A": 3}])
    assert sorted(rows(controlled, api, "open.events"), key=str) == [(1, 2), (None, 3)]


def test_packed_is_text_as_it_came(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    sent = [b'{"b": 1,\n "a":1.10}', b"[1, 2]", b'"text"', b"null", b"1e3"]
    for content in sent:
        assert push(sender, "/webhooks/open/raw", content) == {"accepted": 1}
    assert sorted(rows(controlled, api, "open.raw")) == sorted((content.decode(),) for content in sent)


def test_a_table_without_requests_is_empty(api: Api) -> None:
    for table in ("open.events", "open.raw"):
        run = api.run_stream(table)
        assert (run.status, run.rows_synced) == ("COMPLETED", 0)


ODD = [
    {},
    {"": 1},
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


def test_nothing_that_is_taken_breaks_the_load(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    for number, record in enumerate(ODD):
        assert push(sender, EVENTS, record) == {"accepted": 1}
        run = api.run_stream("open.events")
        assert (run.status, run.rows_synced) == ("COMPLETED", number + 1), record


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x=1",
        b"{",
        b"{} {}",
        b"NaN",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":' + b"9" * 5_000 + b"}",
        b'{"canary":1,"canary":2}',
        b'{"a":"\\ud800"}',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"[" * 10_000,
        b'{"a":' * 3_000,
        b"5",
        b"null",
        b'"canary"',
        b"[1]",
        b'[{"a":1},[{"a":1}]]',
        b"[{}, null]",
    ],
)
def test_what_is_no_record(api: Api, sender: httpx.Client, content: bytes) -> None:
    assert push(sender, EVENTS, content, 400)["error_code"] == "invalid_payload"
    assert api.run_stream("open.events").rows_synced == 0


@pytest.mark.parametrize("content", [b"", b"{", b"NaN", b'{"a":1,"a":1}', b"\xff", b"[" * 10_000])
def test_packed_has_to_be_json_too(sender: httpx.Client, content: bytes) -> None:
    push(sender, "/webhooks/open/raw", content, 400)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/cloudevents+json",
        "application/vnd.x.v1+json ; version=1",
    ],
)
def test_json_has_many_names(sender: httpx.Client, kind: str) -> None:
    push(sender, EVENTS, {}, headers={"content-type": kind})


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "text/json",
        "application/jsonx",
        "json",
        "application/",
        "application/json; charset=utf-16",
        "application/json; charset=latin1",
        "application/json, text/plain",
        "+json",
    ],
)
def test_what_is_not_called_json(sender: httpx.Client, kind: str) -> None:
    said = push(sender, EVENTS, {}, 415, headers={"content-type": kind})
    assert said["error_code"] == "unsupported_media_type"


def test_what_is_compressed_or_not_called_anything(sender: httpx.Client) -> None:
    push(sender, EVENTS, {}, 415, headers={"content-encoding": "gzip"})
    assert sender.post(EVENTS, content=b"{}").status_code == 415
    twice = [("content-type", "application/json"), ("content-type", "text/plain")]
    assert sender.post(EVENTS, content=b"{}", headers=twice).status_code == 415


def test_as_many_bytes_as_may_be(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    def sized(size: int) -> bytes:
        return b'{"a":"' + b"x" * (size - 8) + b'"}'

    assert push(sender, EVENTS, sized(LIMIT)) == {"accepted": 1}
    assert push(sender, EVENTS, sized(LIMIT + 1), 413)["error_code"] == "payload_too_large"
    # The connection goes on.
    assert push(sender, EVENTS, sized(LIMIT)) == {"accepted": 1}

    def parts(size: int) -> Iterator[bytes]:
        whole = sized(size)
        yield from (whole[start : start + 999] for start in range(0, size, 999))

    assert sender.post(EVENTS, content=parts(LIMIT), headers=JSON).json() == {"accepted": 1}
    said = sender.post(EVENTS, content=parts(LIMIT + 1), headers=JSON)
    assert (said.status_code, said.json()["error_code"]) == (413, "payload_too_large")
    assert api.run_stream("open.events").rows_synced == 3


def test_no_more_is_read_than_may_be(controlled: LocalService) -> None:
    head = f"POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with _connected(controlled) as line:
        # It says at once that it will be too much: nothing of it is waited for.
        line.sendall(f"{head}content-length: {10**15}\r\n\r\n".encode())
        assert line.recv(4096).startswith(b"HTTP/1.1 413 ")
    with _connected(controlled) as line:
        # It does not say so, and does not end.
        line.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(LIMIT // 1_000 + 1):
            line.sendall(b"3e8\r\n" + b"x" * 1_000 + b"\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 413 ")
    with _connected(controlled) as line:
        # It hangs up in the middle.
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
                basic("ann:"),
                basic("bob:p:ss wörd"),
                basic("ann"),
                "Basic =",
                "Basic",
                "Basic !",
                basic("ann:p:ss wörd\x00"),
                basic("ann:p:ss wörd")[6:],
                f"Bearer {basic('ann:p:ss wörd')[6:]}",
                "Basic é",
                basic("Ann:p:ss wörd"),
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
    # Nothing tells what was wrong with it.
    assert len({answer.text for answer in answers}) == 1
    assert {answer.headers.get("www-authenticate") for answer in answers} == {
        'Basic realm="webhook", charset="UTF-8"' if way == "basic" else None
    }
    # Who is not let in is not told about the body: not its kind, not its size.
    assert sender.post(path, content=b"x" * (LIMIT + 1)).status_code == 401


def _as_bytes(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in [*JSON.items(), *headers]]


def test_the_api_key_is_no_credential(api: Api) -> None:
    for way in ("basic", "token", "hmac"):
        assert api.client.post(f"/webhooks/{way}/events", json={}).status_code == 401


HOOK = "/webhooks/hmac/events"


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"a":1,"b":[{"c":2,"d":3}]}',
        '{"a":"é"}'.encode(),
        b'{"a":"\\u00e9"}',
        b'{"A":1,"a":1.50}',
        b'[{"b":1},{"a":1}]',
        b'{"a b":" , "}',
    ],
)
def test_canonical_json_that_is_signed(sender: httpx.Client, body: bytes) -> None:
    push(sender, HOOK, body, headers={"x-signature": signature(body)})
    push(sender, HOOK, body, headers={"X-SIGNATURE": signature(body)})


@pytest.mark.parametrize(
    "body", [b'{"b":1,"a":1}', b'{"a": 1}', b" {}", b"{}\n", b'{"a":{"c":1,"b":1}}', b'{"a":1,"A":1}']
)
def test_another_spelling_is_refused_whatever_is_signed(sender: httpx.Client, body: bytes) -> None:
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    for signed in (body, canonical):
        said = push(sender, HOOK, body, 401, headers={"x-signature": signature(signed)})
        assert said["error_code"] == "unauthorized"
    push(sender, HOOK, canonical, headers={"x-signature": signature(canonical)})


def test_a_signature_that_is_not_it(api: Api, sender: httpx.Client) -> None:
    body = b'{"a":1}'
    good = signature(body)
    for wrong in ("", good.upper(), good[:-1], f"sha256={good}", signature(body, "other"), signature(b"{}"), "é"):
        headers = _as_bytes([("x-signature", wrong)])
        assert sender.post(HOOK, content=body, headers=headers).status_code == 401, wrong
    assert sender.post(HOOK, content=body, headers=JSON).status_code == 401
    twice = _as_bytes([("x-signature", good), ("x-signature", good)])
    assert sender.post(HOOK, content=body, headers=twice).status_code == 401
    # Only who has the secret is told that it is no JSON.
    push(sender, HOOK, b"{", 401, headers={"x-signature": good})
    push(sender, HOOK, b"{", 400, headers={"x-signature": signature(b"{")})
    push(sender, HOOK, b'{"a":1,"a":1}', 400, headers={"x-signature": signature(b'{"a":1,"a":1}')})
    assert api.run_stream("hmac.events").rows_synced == 0


def test_the_example_of_the_documentation_is_let_in(controlled: LocalService, api: Api) -> None:
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own docs
    assert done.stdout == "{'accepted': 2}\n"
    assert api.run_stream("hmac.events").rows_synced == 2


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/open/nope",
        "/webhooks/open/EVENTS",
        "/webhooks/nope/events",
        "/webhooks/files/events",
        "/webhooks/basic/nope",
        "/webhooks/open/%00",
        "/webhooks/open/events%00",
        "/webhooks/open/%FF",
        "/webhooks/open/..",
        "/webhooks/../connections",
        "/webhooks/..%2fconnections",
        "/webhooks/open/..%2f..%2fconnections",
        "/webhooks/%2e%2e/connections",
        "/webhooks/open%2fevents/events",
        "/webhooks/open/events/",
        "/webhooks//open/events",
        "/webhooks/open",
        "/webhooks/",
        "/webhooks/open/" + "x" * 10_000,
        "/webhooks/" + "x" * 10_000 + "/events",
        "/webhooks/open/'; DROP TABLE webhook_records; --",
    ],
)
def test_paths_that_lead_nowhere(api: Api, controlled: LocalService, path: str) -> None:
    # As it stands here: a client would tidy it.
    with _connected(controlled) as line:
        escaped = path.replace(" ", "%20").replace("'", "%27")
        line.sendall(
            f"POST {escaped} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
            "connection: close\r\n\r\n{}".encode()
        )
        said = b"".join(iter(lambda: line.recv(65536), b""))
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.split()[1] == b"404"
    assert json.loads(body)["error_code"] == "not_found"
    assert api.run_stream("open.events").rows_synced == 0


def test_an_encoded_path_is_the_same_path(sender: httpx.Client) -> None:
    push(sender, "/webhooks/op%65n/%65vents", {})


def test_other_methods_and_parameters(sender: httpx.Client) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert sender.request(method, EVENTS, headers=JSON).status_code == 405
    push(sender, f"{EVENTS}?x=1", {}, 400)


def test_a_connection_shows_no_secrets(api: Api) -> None:
    for path in ("/connections", "/connections/hmac/settings", "/elt_syncs/hmac", "/elt_syncs/hmac/status"):
        assert SECRET not in api.client.get(path).text


def test_tables_are_what_the_source_offers(api: Api) -> None:
    offered = api.all_pages("/elt_syncs/open/available_source_streams")
    assert [one["name"] for one in offered] == ["events", "raw"]


def test_a_table_becomes_a_stream_without_a_seed(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    """Use only the interface, from the bridge to the rows, with excluded and hashed columns."""
    bridge = {"redirect_uri": "https://app.example.com/", "integration_id": "webhook", "label": "Fresh"}
    url = api.post("/connection_bridges", bridge, status=201)["authorize_url"]
    target = httpx.post(url, data={"authentication.method": "none", "tables.0.name": "clicks"}).headers["location"]
    connection_id = httpx.URL(target).params["connection_id"]
    push(sender, f"/webhooks/{connection_id}/clicks", {"id": 1, "secret": "canary", "mail": "a@example.com"})
    sync = {"connection_id": connection_id, "destination_schema_name": "fresh", "sync_interval": "0 0 1 1 *"}
    sync_id = api.post("/elt_syncs", sync, status=201)["id"]
    wanted = {"name": "clicks", "excluded_columns": ["secret"], "hashed_columns": ["mail"]}
    added = api.post(f"/elt_syncs/{sync_id}/source_streams", {"source_streams": [wanted]}, status=201)
    stream_id = added["source_streams"][0]["id"]
    assert api.run_stream(stream_id).rows_synced == 1
    controlled.stop()
    try:
        with duckdb.connect(str(controlled.warehouse), read_only=True) as warehouse:
            (row,) = warehouse.sql("FROM fresh.clicks").fetchall()
    finally:
        controlled.start()
    assert row == (1, hashlib.sha256(b"a@example.com").hexdigest())


def test_a_table_that_has_gone_fails_its_stream_alone(api: Api) -> None:
    body = {
        "redirect_uri": "https://app.example.com/",
        "integration_id": "webhook",
        "connection_id": "open",
        "label": "open",
    }
    url = api.post("/connection_bridges", body, status=201)["authorize_url"]
    assert httpx.post(url, data={"authentication.method": "none", "tables.0.name": "raw"}).status_code == 303
    run = api.run_stream("open.events")
    assert run.status == "FAILED"
    states = {state["name"]: state for state in api.get("/elt_syncs/open/status")["source_streams"]}
    assert "no table 'events'" in states["events"]["latest_sync"]["error_message"]
    # What was packed before is taken apart as well as it can be.
    assert api.run_stream("open.raw").status == "COMPLETED"


def test_a_table_may_change_its_mode(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    for content in (b"5", b'{"a": 1}', b'[{"a":2},"x"]'):
        push(sender, "/webhooks/open/raw", content)
    body = {
        "redirect_uri": "https://app.example.com/",
        "integration_id": "webhook",
        "connection_id": "open",
        "label": "open",
    }
    url = api.post("/connection_bridges", body, status=201)["authorize_url"]
    form = {"authentication.method": "none", "tables.0.name": "raw", "tables.0.sync_mode": "unpacked"}
    assert httpx.post(url, data=form).status_code == 303
    assert len(rows(controlled, api, "open.raw")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, 2**128 + 1, -(10**60) - 7])
def test_signed_integers_keep_all_digits(controlled: LocalService, api: Api, sender: httpx.Client, value: int) -> None:
    body = json.dumps([{"id": 1, "in": {"x": [value]}, "x": value}, {"id": 2, "x": 3}], separators=(",", ":")).encode()
    push(sender, "/webhooks/hmac/events", body, headers={"X-Signature": signature(body)})
    first = next(row for row in rows(controlled, api, "hmac.events") if str(row[0]) == "1")
    assert str(value) in str(first[1])
    assert str(first[2]) == str(value)


def test_packed_integers_keep_all_digits(controlled: LocalService, api: Api, sender: httpx.Client) -> None:
    push(sender, "/webhooks/open/raw", {"x": 10**60 + 7})
    assert json.loads(rows(controlled, api, "open.raw")[0][0]) == {"x": 10**60 + 7}
