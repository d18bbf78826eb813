"""Tests of the accepted host names: protection against DNS rebinding and CSRF."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.seeds import connection
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

HOOKS = connection("hooks", "webhook", authentication={"method": "none"}, tables=[{"name": "orders"}])
PATHS = ["/health", "/", "/web/app.js", "/openapi.json", "/connections", "/authorize/x", "/nowhere"]


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with served({"connections": [HOOKS]}) as (service, _):
        yield service


FOREIGN = ["evil.example", "evil.example:8484", "localhost.evil.example", "127.0.0.1.evil.example"]
OWN = [
    *("127.0.0.1", "127.0.0.1:1", "localhost:8484", "LOCALHOST.", "my.localhost"),
    *("[::1]:80", "[::ffff:127.0.0.1]", "192.0.2.7:8484", "[2001:DB8::1]:8484"),
]


@pytest.mark.parametrize("path", PATHS)
def test_foreign_host_names_are_refused(service: LocalService, path: str) -> None:
    for host in FOREIGN:
        answer = httpx.get(f"{service.base_url}{path}", headers={**service.headers, "host": host})
        assert answer.status_code == 421
        assert answer.json()["error_code"] == "misdirected_request"
        assert repr(host) in answer.json()["message"]


@pytest.mark.parametrize("host", OWN)
def test_localhost_and_ip_addresses_are_accepted(service: LocalService, host: str) -> None:
    answer = httpx.get(f"{service.base_url}/connections", headers={**service.headers, "host": host})
    assert answer.status_code == 200


def sent(service: LocalService, request: bytes) -> bytes:
    port = int(service.base_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


HOSTILE = [
    *(b"[::1].evil.com", b"[::1]evil.com:80", b"127.0.0.1:80@evil.com", b"localhost@evil.com", b"evil.com@localhost"),
    *(b"localhost:port", b"localhost:65536", b"localhost:80:80", b".localhost", b"localhost..", b"", b":80", b"::1"),
    *(b"[fe80::1%25eth0]", b"2130706433", b"0177.0.0.1", b"0x7f.1", b"127.1", "127\u30020\u30020\u30021".encode()),
    *(b"localhost evil.com", b"localhost, evil.com", b"localhost\t.evil.com", b"localhost/.evil.com"),
    *(b"localhost%00.evil.com", b"localhost\0.evil.com", b"localhost\x01.evil.com", b"localhost\x0b.evil.com"),
    *(b"localhost\x7f.evil.com", b"localhost\n.evil.com", b"localhost\r.evil.com"),
]


@pytest.mark.parametrize("host", HOSTILE)
def test_a_malformed_host_header_is_refused(service: LocalService, host: bytes) -> None:
    # Twice: a refused header must not be remembered as allowed.
    for _ in range(2):
        answer = sent(service, b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        # The HTTP parser refuses control characters without naming the header.
        assert b"Host: " in answer or min(host) < 32 or 127 in host


def test_two_host_headers_are_refused(service: LocalService) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for _ in range(2):
        assert sent(service, request).startswith(b"HTTP/1.1 400 ")
    one_foreign = request.replace(b"localhost", b"evil.example", 1)
    assert sent(service, one_foreign).startswith(b"HTTP/1.1 421 ")


def test_request_without_a_host_is_accepted(service: LocalService) -> None:
    # A browser always sends the header.
    assert sent(service, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_websocket_needs_host_and_key(service: LocalService) -> None:
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += b"Sec-WebSocket-Key: eA==\r\n\r\n"
    for host, path, status in ((b"evil.example", b"/", 421), (b"localhost", b"/connections", 401)):
        answer = sent(service, b"GET %s HTTP/1.1\r\nHost: %s\r\n%s" % (path, host, upgrade))
        assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_foreign_page_cannot_push_records(service: LocalService) -> None:
    path = f"{service.base_url}/webhooks/hooks/orders"
    origin = {"origin": "http://evil.example"}
    # Requests without a preflight have other media types. A preflight is refused.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert httpx.post(path, content=b"{}", headers={**origin, "content-type": kind}).status_code == 415
    preflight = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    for url in (path, f"{service.base_url}/elt_streams/people/request_run"):
        answer = httpx.options(url, headers=preflight)
        assert answer.is_error
        assert not [name for name in answer.headers if name.startswith("access-control")]
    # With a foreign name that resolves to the service, the page has the same origin.
    assert httpx.post(path, json={}, headers={"host": "evil.example"}).status_code == 421
    assert httpx.post(path, json={}).status_code == 200
