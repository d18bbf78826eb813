"""Tests of the accepted host names: protection against DNS rebinding and CSRF."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.test_cli import run, serving
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow


HOOKS = {
    "connections": [
        {
            "id": "hooks",
            "integration_id": "webhook",
            "label": "Hooks",
            "settings": {"authentication": {"method": "none"}, "tables": [{"name": "orders"}]},
        }
    ]
}
PATHS = ["/health", "/", "/web/app.js", "/openapi.json", "/connections", "/authorize/x", "/nowhere"]


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with LocalService(HOOKS) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8484", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_a_name_that_was_made_to_lead_here_is_refused(service: LocalService, path: str, host: str) -> None:
    answer = httpx.get(f"{service.base_url}{path}", headers={**service.headers, "host": host})
    assert answer.status_code == 421
    assert answer.json()["error_code"] == "misdirected_request"
    assert repr(host) in answer.json()["message"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:1", "localhost:8484", "LOCALHOST.", "my.localhost", "[::1]:80"]
)
def test_addresses_and_localhost_are_nobodys_to_redirect(service: LocalService, host: str) -> None:
    answer = httpx.get(f"{service.base_url}/connections", headers={**service.headers, "host": host})
    assert answer.status_code == 200


def sent(service: LocalService, request: bytes) -> bytes:
    port = int(service.base_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


HOSTILE = [
    b"[::1].evil.com",
    b"[::1]evil.com:80",
    b"127.0.0.1:80@evil.com",
    b"localhost@evil.com",
    b"evil.com@localhost",
    b"localhost:port",
    b"localhost:65536",
    b"localhost:80:80",
    b".localhost",
    b"localhost..",
    b"",
    b":80",
    b"::1",
    b"[fe80::1%25eth0]",
    b"2130706433",
    b"0177.0.0.1",
    b"0x7f.1",
    b"127.1",
    "127\u30020\u30020\u30021".encode(),
    b"localhost evil.com",
    b"localhost, evil.com",
    b"localhost\t.evil.com",
    b"localhost/.evil.com",
    b"localhost%00.evil.com",
]


@pytest.mark.parametrize("host", HOSTILE)
def test_a_malformed_host_header_is_refused(service: LocalService, host: bytes) -> None:
    # Twice: a refused header must not be remembered as allowed.
    for _ in range(2):
        answer = sent(service, b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert b"Host: " in answer


@pytest.mark.parametrize("character", [b"\0", b"\x01", b"\x0b", b"\x7f", b"\n", b"\r"])
def test_control_characters_in_a_host_are_refused(service: LocalService, character: bytes) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost%s.evil.com\r\nConnection: close\r\n\r\n"
    assert sent(service, request % character).startswith(b"HTTP/1.1 400 ")


def test_two_equal_host_headers_are_refused(service: LocalService) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for _ in range(2):
        assert sent(service, request).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("host", ["[::ffff:127.0.0.1]", "192.0.2.7:8484", "[2001:DB8::1]:8484"])
def test_every_ip_address_is_accepted(service: LocalService, host: str) -> None:
    answer = httpx.get(f"{service.base_url}/connections", headers={**service.headers, "host": host})
    assert answer.status_code == 200


def test_one_of_two_names_is_enough_to_be_refused(service: LocalService) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert sent(service, request).startswith(b"HTTP/1.1 421 ")


def test_without_a_name_it_is_no_browser(service: LocalService) -> None:
    assert sent(service, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_websocket_is_checked_like_all_else(service: LocalService) -> None:
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += b"Sec-WebSocket-Key: eA==\r\n\r\n"
    for host, path, status in ((b"evil.example", b"/", 421), (b"localhost", b"/connections", 401)):
        answer = sent(service, b"GET %s HTTP/1.1\r\nHost: %s\r\n%s" % (path, host, upgrade))
        assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_a_foreign_page_pushes_nothing(service: LocalService) -> None:
    path = f"{service.base_url}/webhooks/hooks/orders"
    origin = {"origin": "http://evil.example"}
    # As a form or a script sends it without asking first; what a browser asks first gets no leave.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert httpx.post(path, content=b"{}", headers={**origin, "content-type": kind}).status_code == 415
    asked = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    for url in (path, f"{service.base_url}/elt_streams/people/request_run"):
        answer = httpx.options(url, headers=asked)
        assert answer.is_error
        assert not [name for name in answer.headers if name.startswith("access-control")]
    # Under a name that leads here a page is of the same origin, and needs no leave.
    assert httpx.post(path, json={}, headers={"host": "evil.example"}).status_code == 421
    assert httpx.post(path, json={}).status_code == 200


def test_other_names_can_be_allowed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("init", "--home", home)
    with serving(home, "--port", "0", "--allow-host", "Tunnel.example", "--allow-host", "other") as (_, line):
        url = line.split()[-1]
        said = [
            httpx.get(f"{url}/health", headers={"host": host}).status_code for host in ("tunnel.example:80", "other")
        ]
        assert said == [200, 200]
        assert httpx.get(f"{url}/health", headers={"host": "evil.example"}).status_code == 421


def test_who_lets_others_in_is_called_as_they_like(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("init", "--home", home)
    everywhere = "0.0.0.0"  # noqa: S104 - what this is about; it has a key
    with serving(home, "--port", "0", "--host", everywhere) as (_, line):
        url = line.split()[-1].replace(everywhere, "127.0.0.1")
        assert httpx.get(f"{url}/health", headers={"host": "datapipe.internal"}).status_code == 200
        # Any name, but a name: the address of an authorize page is made of it.
        assert httpx.get(f"{url}/health", headers={"host": "[::1].evil.com"}).status_code == 400


@pytest.mark.parametrize("name", ["https://tunnel.example", "tunnel.example:80", "*.example", "a@b", "[::1].example"])
def test_allow_host_refuses_what_is_no_host_name(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    run("init", "--home", home)
    for option, more, environment in (
        ("--allow-host", ["--allow-host", name], {}),
        ("DATAPIPE_LOCAL_ALLOWED_HOSTS", [], {"DATAPIPE_LOCAL_ALLOWED_HOSTS": f"other, {name}"}),
    ):
        done = run("serve", "--home", home, "--port", "0", *more, **environment)
        assert done.returncode == 1
        assert f"{option}: {name!r} is not a host name" in done.stderr
