"""Blocking and asynchronous client with real and broken servers: same answers and same errors."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from airflow_provider_datapipe.api.async_client import AsyncClient
from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import elt_stream_runs, elt_streams, elt_syncs, orchestrations
from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    DatapipeError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.flows import list_all, run_blocking
from tests.support.raw_server import Answer, RawServer
from tests.support.scripted_server import Reply, ScriptedServer

KEY = "key-that-must-not-show"
RUN = {
    "id": "r1",
    "elt_sync_id": "y",
    "elt_stream_id": "s",
    "started_at": "2026-01-01T00:00:00.000Z",
    "status": "RUNNING",
}
REQUESTED = {"status_url": "/elt_stream_runs?elt_stream_id=s&limit=1&sort_direction=asc"}
ONCE = RetryPolicy(budget=0)
QUICK = RetryPolicy(budget=5, first_delay=0.01, longest_delay=0.05)

Send = Callable[[Settings, Request[Any]], Any]


def send_blocking(settings: Settings, request: Request[Any]) -> Any:
    with Client(settings) as client:
        return client.send(request)


def send_awaiting(settings: Settings, request: Request[Any]) -> Any:
    async def go() -> Any:
        async with AsyncClient(settings) as client:
            return await client.send(request)

    return asyncio.run(go())


@pytest.fixture(params=[send_blocking, send_awaiting], ids=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Send:
    chosen: Send = request.param
    return chosen


def settings_for(server: ScriptedServer | RawServer, **changed: Any) -> Settings:
    return Settings(server.url, KEY, **{"retry": QUICK, **changed})


def ids_of_pages(settings: Settings, limit: int | None = None) -> list[str]:
    with Client(settings) as client:
        return [run.id for run in client.pages(elt_stream_runs.list_("s"), limit=limit)]


def ids_of_awaited_pages(settings: Settings, limit: int | None = None) -> list[str]:
    async def go() -> list[str]:
        async with AsyncClient(settings) as client:
            return [run.id async for run in client.pages(elt_stream_runs.list_("s"), limit=limit)]

    return asyncio.run(go())


def test_response_is_typed_and_the_key_is_sent(send: Send) -> None:
    with ScriptedServer([Reply(body=RUN)]) as server:
        run = send(settings_for(server), elt_stream_runs.get("a/b?c"))
    assert run.id == "r1"
    assert run.started_at.timezone_name == "UTC"
    (seen,) = server.seen
    assert seen.path == "/elt_stream_runs/a%2Fb%3Fc"
    assert seen.headers["x-api-key"] == KEY


def test_both_clients_send_equal_requests() -> None:
    for request in (
        elt_stream_runs.get("r"),
        elt_streams.request_run("s"),
        orchestrations.create(name="n", cron_schedule="0 1 * * *"),
    ):
        sent = []
        for send in (send_blocking, send_awaiting):
            with ScriptedServer([Reply(400)]) as server, pytest.raises(InvalidRequestError):
                send(settings_for(server), request)
            (seen,) = server.seen
            headers = {name.lower(): value for name, value in seen.headers.items()}
            # These headers concern the connection, not the request.
            sent.append((seen.method, seen.path, seen.body, {**headers, "host": "", "connection": ""}))
        assert sent[0] == sent[1]


def test_response_without_content_is_none(send: Send) -> None:
    with ScriptedServer([Reply(204, b"")]) as server:
        assert send(settings_for(server), elt_syncs.enable("y")) is None
    assert server.seen[0].method == "POST"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, InvalidRequestError),
        (500, ServerError),
        (501, ServerError),
    ],
)
def test_each_error_status_has_its_exception(send: Send, status: int, expected: type[ApiError]) -> None:
    body = {"error_code": "e", "message": f"no, not with {KEY}\n at all", "active_run_id": "r9"}
    with ScriptedServer([Reply(status, body)]) as server, pytest.raises(expected) as caught:
        send(settings_for(server), elt_streams.request_run("s"))
    message = str(caught.value)
    cause, request, *_ = message.splitlines()
    assert type(caught.value) is expected
    assert cause == f"{expected.cause}: no, not with *** at all."
    assert request == f"Request: POST /elt_streams/s/request_run at {server.url} answered {status}."
    assert KEY not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert getattr(caught.value, "active_run_id", None) == "r9"
    assert len(server.seen) == 1


def test_an_undocumented_response_is_a_protocol_error(send: Send) -> None:
    bodies = [b"", b"<html>", b'{"id": 1', b"[]", b'{"id": "r"}', b"null", b'{"a":' * 5000]
    with ScriptedServer([Reply(200, body) for body in bodies]) as server:
        for _ in bodies:
            with pytest.raises(ProtocolError) as caught:
                send(settings_for(server), elt_stream_runs.get("r"))
            assert len(str(caught.value)) < 600


def test_read_is_retried_after_a_server_error(send: Send) -> None:
    with ScriptedServer([Reply(502, b"<html>"), Reply(0), Reply(503), Reply(body=RUN)]) as server:
        assert send(settings_for(server), elt_stream_runs.get("r")).id == "r1"
    assert len(server.seen) == 4


@pytest.mark.parametrize("reply", [Reply(500), Reply(502), Reply(503), Reply(0)], ids=["500", "502", "503", "dropped"])
def test_a_run_request_that_may_have_succeeded_is_not_repeated(send: Send, reply: Reply) -> None:
    replies = [reply, Reply(body=REQUESTED)]
    with ScriptedServer(replies) as server, pytest.raises((ServerError, TransportError)) as caught:
        send(settings_for(server), elt_streams.request_run("s"))
    assert len(server.seen) == 1
    assert getattr(caught.value, "sent", True)


def test_rate_limited_request_is_retried(send: Send) -> None:
    with ScriptedServer([Reply(429, headers={"retry-after": "0"}), Reply(body=REQUESTED)]) as server:
        assert send(settings_for(server), elt_streams.request_run("s")).status_url == REQUESTED["status_url"]
    assert len(server.seen) == 2


def test_retry_after_beyond_the_budget_raises_at_once(send: Send) -> None:
    limited = Reply(429, headers={"retry-after": "3600"})
    with ScriptedServer([limited]) as server, pytest.raises(RateLimitError) as caught:
        send(settings_for(server), elt_stream_runs.get("r"))
    assert caught.value.retry_after == 3600
    assert len(server.seen) == 1


def test_slow_response_is_a_timeout(send: Send) -> None:
    with ScriptedServer([Reply(delay=30)]) as server, pytest.raises(RequestTimeoutError) as caught:
        send(settings_for(server, timeout=0.2, retry=ONCE), elt_stream_runs.get("r"))
    assert caught.value.sent


def test_refused_connection_raises_with_the_url(send: Send) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TransportError, match=f"GET /elt_stream_runs/r got no answer from {url}") as caught:
            send(Settings(url, KEY, retry=ONCE), elt_stream_runs.get("r"))
    assert not caught.value.sent


def test_a_redirect_is_not_followed(send: Send) -> None:
    with (
        ScriptedServer([Reply(body=RUN)]) as other,
        ScriptedServer([Reply(302, headers={"location": f"{other.url}/elt_stream_runs/r"})]) as server,
        pytest.raises(ProtocolError, match="redirect"),
    ):
        send(settings_for(server), elt_stream_runs.get("r"))
    assert other.seen == []


def test_a_request_for_another_origin_is_rejected_unsent(send: Send) -> None:
    request = elt_stream_runs.list_("s")
    elsewhere = Request(request.endpoint, request.path, request.query, origin="https://evil.example")
    with ScriptedServer([Reply()]) as server, pytest.raises(ProtocolError, match="one origin only"):
        send(settings_for(server), elsewhere)
    assert server.seen == []


def test_pages_follow_both_spellings_of_the_cursor() -> None:
    pages = [
        Reply(body={"data": [RUN | {"id": "1"}], "hasMore": True, "nextCursor": "a"}),
        Reply(body={"data": [RUN | {"id": "2"}], "has_more": True, "next_cursor": "b"}),
        Reply(body={"data": [RUN | {"id": "3"}], "has_more": False, "hasMore": False}),
    ]
    limits = ["100", "100&starting_after=a", "100&starting_after=b"]
    for read_ids in (ids_of_pages, ids_of_awaited_pages):
        with ScriptedServer(pages) as server:
            assert read_ids(settings_for(server)) == ["1", "2", "3"]
        assert [seen.path.partition("limit=")[2] for seen in server.seen] == limits


def test_pages_stop_at_the_limit() -> None:
    data = [[RUN | {"id": f"{cursor}{number}"} for number in range(2)] for cursor in "abc"]
    replies = [Reply(body={"data": runs, "hasMore": True, "nextCursor": runs[0]["id"]}) for runs in data]
    with ScriptedServer(replies) as server:
        settings = settings_for(server)
        assert len(ids_of_pages(settings, limit=2)) == 2
        assert len(server.seen) == 1
        assert len(ids_of_pages(settings, limit=3)) == 3
        requests = len(server.seen)
        assert ids_of_pages(settings, limit=0) == []
        with pytest.raises(ValueError, match="limit must be a number of items or None, not -1"):
            ids_of_pages(settings, limit=-1)
        assert len(server.seen) == requests


def test_item_that_moved_to_the_next_page_is_read_once() -> None:
    pages = [
        Reply(body={"data": [RUN | {"id": "1"}, RUN | {"id": "2"}], "hasMore": True, "nextCursor": "a"}),
        Reply(body={"data": [RUN | {"id": "2"}, RUN | {"id": "3"}], "hasMore": False}),
    ]
    for read_ids in (ids_of_pages, ids_of_awaited_pages):
        with ScriptedServer(pages) as server:
            assert read_ids(settings_for(server), limit=3) == ["1", "2", "3"]
    with ScriptedServer(pages) as server, Client(settings_for(server)) as client:
        runs = run_blocking(list_all(elt_stream_runs.list_("s")), client.send, time.sleep)
        assert [run.id for run in runs] == ["1", "2", "3"]


@pytest.mark.parametrize("cursors", ["aa", "aba"])
def test_repeated_cursor_is_a_protocol_error(cursors: str) -> None:
    replies = [Reply(body={"data": [RUN], "hasMore": True, "nextCursor": cursor}) for cursor in cursors]
    with ScriptedServer(replies) as server, pytest.raises(ProtocolError, match="never end"):
        ids_of_pages(settings_for(server))
    assert len(server.seen) == len(cursors)


@pytest.mark.parametrize(
    ("path", "sent"), [("/v1/", "/v1"), ("/my path/données", "/my%20path/donn%C3%A9es"), ("/a%2Fb", "/a%2Fb")]
)
def test_path_of_the_base_url_is_percent_encoded(send: Send, path: str, sent: str) -> None:
    with ScriptedServer([Reply(body=RUN)]) as server:
        send(Settings(f"{server.url}{path}", KEY, retry=ONCE), elt_stream_runs.get("r1"))
    assert [seen.path for seen in server.seen] == [f"{sent}/elt_stream_runs/r1"]


def test_missing_ca_bundle_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.pem"):
        Client(Settings(base_url="https://api.example.com", api_key=KEY, ca_bundle="nowhere.pem"))


def test_environment_proxy_with_another_scheme_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://user:pw@127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="is not an HTTP proxy") as caught:
        AsyncClient(Settings(base_url="https://api.example.com", api_key=KEY))
    assert "pw" not in str(caught.value)
    # A service on loopback is requested without a proxy.
    AsyncClient(Settings(base_url="http://127.0.0.1:1", api_key=KEY))


# Broken servers.


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "content-type: application/json", *lines, "", ""]).encode()


def writes(*parts: bytes) -> Answer:
    return lambda connection, _: connection.sendall(b"".join(parts))


def repeats(first: bytes, more: bytes, pause: float = 0.0) -> Answer:
    """Send bytes repeatedly without an end."""

    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(first)
        while not stopping.wait(pause):
            connection.sendall(more)

    return answer


def resets(first: bytes) -> Answer:
    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(first)
        # The client has received the bytes before the reset.
        stopping.wait(0.1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return answer


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1024 * 1024)
    return b"".join(packer.compress(zeros) for _ in range(size // len(zeros))) + packer.flush()


JSON_RUN = json.dumps(RUN).encode()
PACKED_RUN = gzip.compress(JSON_RUN)
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
BOMB = bomb(256 * 1024 * 1024)
PACKED = "content-encoding: gzip"
CHUNKED = "transfer-encoding: chunked"
#: gzip header with an endless file name.
GZIP_OF_NOTHING = head(PACKED, CHUNKED) + b"b\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03n\r\n"
TRUNCATED_GZIP = gzip.compress(b"{}" * 99)[:20]
HTML = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"
LATE, LOST, LARGE, BROKEN = "within 0.5 s", "got no answer", "more than 1,000,000 bytes", "cannot be decompressed"
FAULTS: dict[str, tuple[Answer, type[DatapipeError], str]] = {
    "slow headers": (repeats(b"", b"", 30), RequestTimeoutError, LOST),
    "headers that trickle": (repeats(b"HTTP/1.1 200 OK\r\nx: ", b"y", 0.05), RequestTimeoutError, LATE),
    "gzip of nothing": (repeats(GZIP_OF_NOTHING, b"1\r\nn\r\n", 0.05), RequestTimeoutError, LATE),
    "truncated gzip": (writes(head(PACKED, "content-length: 20"), TRUNCATED_GZIP), ProtocolError, BROKEN),
    "slow body": (repeats(head("content-length: 100000"), b" ", 0.05), RequestTimeoutError, LATE),
    "endless body": (repeats(head(CHUNKED), CHUNK), ProtocolError, LARGE),
    "endless headers": (repeats(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 65536), TransportError, LOST),
    "gzip bomb": (writes(head(PACKED, f"content-length: {len(BOMB)}"), BOMB), ProtocolError, LARGE),
    "broken gzip": (writes(head(PACKED, "content-length: 4"), b"oops"), ProtocolError, BROKEN),
    "zstd": (writes(head("content-encoding: zstd", "content-length: 4"), b"oops"), ProtocolError, "encoding 'zstd'"),
    "reset in the body": (resets(head("content-length: 1000") + b"{"), TransportError, LOST),
    "reset before the headers": (resets(b""), TransportError, LOST),
    "body shorter than said": (writes(head("content-length: 1000"), b"{}"), TransportError, LOST),
    "closed at once": (writes(), TransportError, LOST),
    "no HTTP": (writes(b"SSH-2.0-OpenSSH_9.2\r\n"), TransportError, LOST),
    "HTML": (writes(HTML), ProtocolError, r"\(text/html\)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_raises_one_defined_error(send: Send, fault: str) -> None:
    answer, expected, says = FAULTS[fault]
    with RawServer(answer) as server, pytest.raises(expected, match=says) as caught:
        send(settings_for(server, timeout=0.5, retry=ONCE, max_answer_bytes=1_000_000), elt_stream_runs.get("r"))
    error = caught.value
    assert type(error) is expected
    assert "GET /elt_stream_runs/r" in str(error)
    assert server.url in str(error)
    assert len(str(error)) < 600
    # The traceback contains no exception of another library.
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["slow headers", "headers that trickle", "reset in the body", "body shorter than said", "closed at once"]
)
def test_lost_run_request_is_not_retried(send: Send, fault: str) -> None:
    with RawServer(FAULTS[fault][0]) as server, pytest.raises(TransportError) as caught:
        send(settings_for(server, timeout=0.5), elt_streams.request_run("s"))
    assert caught.value.sent
    assert server.requests == 1


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ((PACKED, f"content-length: {len(PACKED_RUN)}"), PACKED_RUN),
        (("content-type: text/html; charset=latin1", f"content-length: {len(JSON_RUN)}"), JSON_RUN),
        ((f"content-security-policy: {'x' * 30_000}", f"content-length: {len(JSON_RUN)}"), JSON_RUN),
    ],
    ids=["packed", "wrong content type", "long header"],
)
def test_unusual_responses_are_accepted(send: Send, lines: tuple[str, ...], body: bytes) -> None:
    with RawServer(writes("\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode(), body)) as server:
        assert send(Settings(server.url, KEY, retry=ONCE), elt_stream_runs.get("r")).id == "r1"


def test_unknown_certificate_authorities_are_rejected_at_once(send: Send, tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    with RawServer(writes(head(f"content-length: {len(JSON_RUN)}"), JSON_RUN), tls) as server:
        with pytest.raises(ConfigurationError, match=r"not trusted(?s:.*)ca_bundle"):
            send(Settings(server.url, KEY), elt_stream_runs.get("r"))
        assert server.requests == 0
        settings = Settings(server.url, KEY, ca_bundle=str(bundle))
        assert send(settings, elt_stream_runs.get("r")).id == "r1"


@pytest.mark.parametrize(
    "answer",
    [
        head("content-length: 0", status=f"401 bad key {KEY}"),
        head("content-length: 2", f"x: {KEY}", status=f"404 {KEY}") + b"{}",
        f"HTTP/1.1 200 OK\r\ncontent-type: {KEY}\r\ncontent-length: 2\r\n\r\n[]".encode(),
        head("content-length: 2", f"content-encoding: {KEY}") + b"{}",
    ],
)
def test_key_repeated_by_the_server_is_masked(send: Send, answer: bytes) -> None:
    with RawServer(writes(answer)) as server, pytest.raises(DatapipeError) as caught:
        send(Settings(server.url, KEY, retry=ONCE), elt_stream_runs.get("r"))
    assert KEY not in str(caught.value)


def test_connect_timeout_means_that_nothing_was_sent(send: Send) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # The queue of the listening socket is full, because the test accepts no connection.
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        settings = Settings(f"http://127.0.0.1:{full.getsockname()[1]}", KEY, connect_timeout=0.5, retry=ONCE)
        with pytest.raises(RequestTimeoutError, match="no connection") as caught:
            send(settings, elt_streams.request_run("s"))
        for each in waiting:
            each.close()
    assert not caught.value.sent
