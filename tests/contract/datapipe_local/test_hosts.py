"""By which names the service can be called: a page of another origin must not get at it (DNS rebinding, CSRF)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.test_cli import run, serving
from tests.support.local_service import LocalService

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
