"""Answers as broken as they get, from a real server: sync and async end alike."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import zlib
from pathlib import Path

import pytest
import trustme

from airflow_provider_datapipe.api.endpoints import elt_stream_runs, elt_streams, elt_syncs
from airflow_provider_datapipe.api.errors import (
    ConfigurationError,
    DatapipeError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.api.settings import Settings
from tests.support.raw_server import Answer, RawServer
from tests.unit.api.test_client import KEY, RUN, Send, send_awaiting, send_blocking

ONCE = RetryPolicy(budget=0)
JSON_RUN = (
    b'{"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z", '
    b'"status": "RUNNING"}'
)


@pytest.fixture(params=[send_blocking, send_awaiting], ids=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Send:
    chosen: Send = request.param
    return chosen


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "content-type: application/json", *lines, "", ""]).encode()


def writes(*parts: bytes) -> Answer:
    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        for part in parts:
            connection.sendall(part)

    return answer


def trickles(first: bytes, drop: bytes) -> Answer:
    """Write a byte now and then, for ever."""

    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(first)
        while not stopping.wait(0.05):
            connection.sendall(drop)

    return answer


def resets(first: bytes) -> Answer:
    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(first)
        # The client has read what came before the reset.
        stopping.wait(0.1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return answer


def floods(first: bytes, chunk: bytes) -> Answer:
    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(first)
        while not stopping.is_set():
            connection.sendall(chunk)

    return answer


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1024 * 1024)
    return b"".join(packer.compress(zeros) for _ in range(size // len(zeros))) + packer.flush()


def silent(connection: socket.socket, stopping: threading.Event) -> None:
    stopping.wait(30)


#: A gzip header whose file name has no end.
GZIP_WITH_NAME = b"b\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03n\r\n"
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
BOMB = bomb(256 * 1024 * 1024)

FAULTS: dict[str, tuple[Answer, type[DatapipeError], str]] = {
    "slow headers": (silent, RequestTimeoutError, "got no answer"),
    "headers that trickle": (trickles(b"HTTP/1.1 200 OK\r\nx: ", b"y"), RequestTimeoutError, "within 0.5 s"),
    "a packed body that unpacks to nothing": (
        trickles(head("content-encoding: gzip", "transfer-encoding: chunked") + GZIP_WITH_NAME, b"1\r\nn\r\n"),
        RequestTimeoutError,
        "within 0.5 s",
    ),
    "a packed body that ends early": (
        writes(head("content-encoding: gzip", "content-length: 20"), gzip.compress(b"{}" * 99)[:20]),
        ProtocolError,
        "can't be unpacked",
    ),
    "slow body": (trickles(head("content-length: 100000"), b" "), RequestTimeoutError, "within 0.5 s"),
    "endless body": (floods(head("transfer-encoding: chunked"), CHUNK), ProtocolError, "more than 1,000,000 bytes"),
    "endless headers": (floods(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 65536), TransportError, "got no answer"),
    "gzip bomb": (
        writes(head("content-encoding: gzip", f"content-length: {len(BOMB)}"), BOMB),
        ProtocolError,
        "more than 1,000,000 bytes",
    ),
    "broken gzip": (
        writes(head("content-encoding: gzip", "content-length: 4"), b"oops"),
        ProtocolError,
        "can't be unpacked",
    ),
    "an encoding that was not asked for": (
        writes(head("content-encoding: zstd", "content-length: 4"), b"oops"),
        ProtocolError,
        "encoding 'zstd'",
    ),
    "reset in the body": (resets(head("content-length: 1000") + b"{"), TransportError, "got no answer"),
    "reset before the headers": (resets(b""), TransportError, "got no answer"),
    "body shorter than said": (writes(head("content-length: 1000"), b"{}"), TransportError, "got no answer"),
    "closed at once": (writes(), TransportError, "got no answer"),
    "no HTTP": (writes(b"SSH-2.0-OpenSSH_9.2\r\n"), TransportError, "got no answer"),
    "empty 200": (writes(head("content-length: 0")), ProtocolError, "does not say"),
    "HTML": (
        writes(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"),
        ProtocolError,
        r"\(text/html\)",
    ),
    "redirect": (
        writes(head("location: https://evil.example/", "content-length: 0", status="307 Temporary Redirect")),
        ProtocolError,
        "redirect",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_one_defined_end(send: Send, fault: str) -> None:
    answer, expected, says = FAULTS[fault]
    with RawServer(answer) as server:
        settings = Settings(server.url, KEY, timeout=0.5, retry=ONCE, max_answer_bytes=1_000_000)
        with pytest.raises(expected, match=says) as caught:
            send(settings, elt_stream_runs.get("r"))
    error = caught.value
    assert type(error) is expected
    assert "GET /elt_stream_runs/r" in str(error)
    assert server.url in str(error)
    assert len(str(error)) < 600
    # No other library's traceback on top.
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["slow headers", "headers that trickle", "reset in the body", "body shorter than said", "closed at once"]
)
def test_a_lost_run_request_may_have_succeeded(send: Send, fault: str) -> None:
    with RawServer(FAULTS[fault][0]) as server:
        settings = Settings(server.url, KEY, timeout=0.5, retry=RetryPolicy(budget=5, first_delay=0.01))
        with pytest.raises(TransportError) as caught:
            send(settings, elt_streams.request_run("s"))
    assert caught.value.sent
    assert server.requests == 1


@pytest.mark.parametrize("content_type", ["text/plain", "text/html; charset=latin1", "application/octet-stream"])
def test_json_under_a_wrong_content_type_is_read(send: Send, content_type: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(JSON_RUN)}\r\n\r\n".encode()
    with RawServer(writes(answer, JSON_RUN)) as server:
        assert send(Settings(server.url, KEY, retry=ONCE), elt_stream_runs.get("r")).id == RUN["id"]


def test_a_packed_answer_is_read(send: Send) -> None:
    packed = gzip.compress(JSON_RUN)
    with RawServer(writes(head("content-encoding: gzip", f"content-length: {len(packed)}"), packed)) as server:
        assert send(Settings(server.url, KEY, retry=ONCE), elt_stream_runs.get("r")).id == "r1"


def test_unknown_certificate_authorities_are_rejected_at_once(send: Send, tmp_path: Path) -> None:
    import ssl

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


@pytest.mark.parametrize("body", [b"<html>Log in", b"\xff"])
def test_a_page_in_place_of_no_content_is_no_success(send: Send, body: bytes) -> None:
    with (
        RawServer(writes(head(f"content-length: {len(body)}"), body)) as server,
        pytest.raises(ProtocolError, match="does not say"),
    ):
        send(Settings(server.url, KEY, retry=ONCE), elt_syncs.enable("y"))


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"  ", b"OK", b"Deleted: the sync, and its streams"])
def test_no_content_may_come_as_an_empty_answer(send: Send, body: bytes) -> None:
    with RawServer(writes(head(f"content-length: {len(body)}"), body)) as server:
        assert send(Settings(server.url, KEY, retry=ONCE), elt_syncs.enable("y")) is None


@pytest.mark.parametrize(
    "answer",
    [
        head("content-length: 0", status=f"401 bad key {KEY}"),
        head("content-length: 2", f"x: {KEY}", status=f"404 {KEY}") + b"{}",
        f"HTTP/1.1 200 OK\r\ncontent-type: {KEY}\r\ncontent-length: 2\r\n\r\n[]".encode(),
        head("content-length: 2", f"content-encoding: {KEY}") + b"{}",
    ],
)
def test_a_key_that_comes_back_is_not_shown(send: Send, answer: bytes) -> None:
    with RawServer(writes(answer)) as server, pytest.raises(DatapipeError) as caught:
        send(Settings(server.url, KEY, retry=ONCE), elt_stream_runs.get("r"))
    assert KEY not in str(caught.value)


def test_a_connection_that_is_not_made_was_not_sent(send: Send) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # The queue of connections is full from now on: nobody takes them out.
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


@pytest.mark.parametrize(
    ("timeout", "connect_timeout", "limit"),
    [
        (60, 10, 10),
        # Less than the whole, or nobody could say that nothing was sent.
        (10, 10, 9),
        (0.5, 10, 0.45),
    ],
)
def test_connecting_ends_before_the_attempt_does(timeout: float, connect_timeout: float, limit: float) -> None:
    settings = Settings("http://127.0.0.1", KEY, timeout=timeout, connect_timeout=connect_timeout)
    assert settings.connect_limit == limit
