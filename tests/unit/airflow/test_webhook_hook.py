"""Webhook hook with connections from environment variables, requests-mock, and servers that fail."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import requests_mock
import trustme
from airflow.providers.http.hooks.http import HttpHook

from airflow_provider_datapipe.api.canonical import NotCanonicalError
from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    InvalidRequestError,
    ProtocolError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.get_provider_info import WEBHOOK_FIELDS, get_provider_info
from airflow_provider_datapipe.hooks import webhook
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.hooks.webhook_connection import WebhookExtra
from tests.support.airflow_versions import since
from tests.support.processes import wait_for
from tests.support.raw_server import Answer, RawServer
from tests.support.scripted_server import Reply, ScriptedServer

SECRET = "canary-s3cret-that-must-not-show"
URL = "https://hooks.example.com/secret-path/orders"
HMAC = {"authentication": "hmac", "header": "X-Signature"}
TOKEN = {"authentication": "token", "header": "X-Token"}
TAKEN = Reply(200, {"accepted": 1})
Connect = Callable[..., WebhookIngestHook]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def make(host: str | None, **extra: Any) -> WebhookIngestHook:
        fields = {name: extra.pop(name) for name in ("login", "password", "port", "schema") if name in extra}
        if extra.get("authentication") in ("basic", "token", "hmac"):
            fields.setdefault("password", SECRET)
        connection = {"conn_type": "datapipe_webhook", "host": host, "extra": {"retry_budget": 0} | extra} | fields
        monkeypatch.setenv("AIRFLOW_CONN_HOOKS", json.dumps(connection))
        return WebhookIngestHook("hooks")

    return make


def tls_of(ca_bundle: Path) -> ssl.SSLContext:
    """Return the TLS of a server on loopback, and write the certificate of its authority."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(ca_bundle)
    return tls


@contextmanager
def closed_port() -> Iterator[int]:
    """Reserve a port on which no server listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield closed.getsockname()[1]


def signature(body: bytes) -> str:
    return hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


def sending(message: bytes) -> Answer:
    """Return an answer that sends bytes, and closes only after the peer: unread data would reset the connection."""

    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(message)
        if not isinstance(connection, ssl.SSLSocket):
            connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    return answer


send_accepted = sending(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{"accepted":1}')


def test_signature_covers_the_sent_body(connect: Connect) -> None:
    with requests_mock.Mocker() as service:
        service.post(URL, json={"accepted": 2})
        sent = connect(URL, **HMAC).push([{"b": 1.0, "a": "é"}, {}])
    (request,) = service.request_history
    assert request.body == '[{"a":"é","b":1.0},{}]'.encode()
    assert request.headers["X-Signature"] == signature(request.body)
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Accept-Encoding"] == "identity"
    assert request.headers["User-Agent"].startswith("airflow-provider-datapipe/")
    assert (sent.rows, sent.attempts, sent.in_doubt) == (2, 1, False)


def test_token_is_sent_in_its_header(connect: Connect) -> None:
    with ScriptedServer([Reply(200, b"")]) as server:
        assert connect(server.url, **TOKEN).push({}).rows is None
    assert server.seen[0].headers["X-Token"] == SECRET


def test_no_authentication_ignores_netrc(connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login ann password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with ScriptedServer([TAKEN]) as server:
        connect(server.url).push({})
    assert "Authorization" not in server.seen[0].headers


def test_http_hook_methods_authenticate_and_follow_no_redirect(connect: Connect) -> None:
    hook = connect(URL, **HMAC)
    assert isinstance(hook, HttpHook)
    with requests_mock.Mocker() as service:
        service.post(
            f"{URL}/x", [{"json": {"accepted": 1}}, {"status_code": 307, "headers": {"Location": "https://evil"}}]
        )
        assert hook.run("x", data='{"a":1}').json() == {"accepted": 1}
        with pytest.raises(ProtocolError, match="redirects are not followed"):
            hook.run("x", data='{"a":1}')
    assert [request.headers["X-Signature"] for request in service.request_history] == [signature(b'{"a":1}')] * 2


@pytest.mark.parametrize("location", ["{other}/elsewhere", "http://[bad"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304])
def test_redirects_are_refused(connect: Connect, status: int, location: str) -> None:
    with (
        ScriptedServer([TAKEN]) as other,
        ScriptedServer([Reply(status, headers={"Location": location.format(other=other.url)})]) as server,
        pytest.raises(ProtocolError, match=rf"answered {status}, and data was not accepted"),
    ):
        connect(server.url, **TOKEN).push({})
    assert len(server.seen) == 1
    assert other.seen == []


def test_endpoint_is_appended_to_the_base_url(connect: Connect) -> None:
    with ScriptedServer([TAKEN]) as server:
        hook = connect(f"{server.url}/hooks/", **TOKEN)
        for endpoint in ("orders", "/orders", None, "http://evil.example.com/x"):
            hook.push({}, endpoint)
        # All requests share one TCP connection.
        hook.close()
        paths = [seen.path for seen in server.seen]
    assert paths == ["/hooks/orders", "/hooks/orders", "/hooks/", "/hooks/http://evil.example.com/x"]
    with pytest.raises(ConfigurationError, match="no endpoint can follow"):
        connect(f"{server.url}/hooks?key=1").push({}, "orders")


def test_port_zero_counts_as_no_port(connect: Connect) -> None:
    assert connect("https://hooks.example.com/orders", port="0").settings.url == "https://hooks.example.com/orders"


@pytest.mark.parametrize("endpoint", ["../other", "..", "a/./b", "%2e%2E/x", "a\\..\\b", "#rows", "a\nb", "None"])
def test_endpoint_cannot_leave_the_base_url(connect: Connect, endpoint: str) -> None:
    with ScriptedServer([TAKEN]) as server:
        hook = connect(f"{server.url}/hooks/", **TOKEN)
        with pytest.raises(ConfigurationError, match=r"The endpoint .* the end of a table's address"):
            hook.push({}, endpoint)
        hook.close()
    assert server.seen == []


def test_tcp_connection_is_reused(connect: Connect) -> None:
    connections = 0

    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        nonlocal connections
        connections += 1
        for _ in range(3):
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"accepted":1}')
            # Read up to the end of the next request's head, and skip the rest of the previous body.
            received = b" "
            while received and b"\r\n\r\n" not in received:
                piece = connection.recv(65536)
                received = received + piece if piece else b""

    with RawServer(answer) as server:
        hook = connect(server.url)
        assert [hook.push({}).rows for _ in range(3)] == [1, 1, 1]
        hook.close()
    assert connections == 1


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (Reply(400, {"message": "not an object"}), InvalidRequestError, "answered 400: not an object."),
        (
            Reply(401, {"message": f"bad {SECRET}"}),
            AuthenticationError,
            r"401: bad \*\*\*.\nCheck the authentication of the Airflow connection `hooks`",
        ),
        (Reply(404, b"<html>"), DatapipeError, "404: Not Found.\nCheck the host of the Airflow connection `hooks`"),
        (Reply(413, {"message": ["odd"]}), InvalidRequestError, "lower max_batch_bytes"),
        (Reply(429, {}), RateLimitError, "Send less often"),
        (Reply(500, b"\xff"), ServerError, "500: Internal Server Error.\nThe service has a problem"),
        (Reply(400, {"message": "x" * 10_000}), InvalidRequestError, "…"),
        (Reply(400, b"[" * 60_000), InvalidRequestError, "Bad Request"),
        (Reply(0), TransportError, "did not respond"),
    ],
)
def test_errors_explain_the_refusal_without_secrets(
    connect: Connect, reply: Reply, error: type[DatapipeError], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer([reply]) as server:
        hook = connect(f"{server.url}/secret-path", **TOKEN)
        with pytest.raises(error, match=message) as failed:
            hook.push({"canary": 1})
    shown = "".join(traceback.format_exception(failed.value)) + repr(hook) + repr(hook.settings)
    # urllib3 logs the path of each request at level DEBUG.
    shown += "".join(record.getMessage() for record in caplog.records if not record.name.startswith("urllib3"))
    for secret in (SECRET, "secret-path"):
        assert secret not in shown
    assert len(str(failed.value)) < 1000
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/hooks/T0/lets-in-canary", "Cannot POST /hooks/T0/lets-in-canary/orders"),
        ("/lets-in-canary-01", "no table of the name lets-in-canary-01"),
        ("/a%20canary/b", "nothing at /a canary/b/orders"),
        ("/in?key=canary", "the key canary is not known"),
        ("/in?key=a%2Fcanary", "/in?key=a%2Fcanary and a/canary are none"),
    ],
)
def test_secret_url_is_masked_in_errors(connect: Connect, path: str, message: str) -> None:
    with ScriptedServer([Reply(404, {"message": message, "error_code": message})]) as server:
        hook = connect(f"{server.url}{path}")
        with pytest.raises(ApiError) as failed:
            hook.push({}, None if "?" in path else "orders")
    assert "***" in str(failed.value)
    for shown in (str(failed.value), str(failed.value.error_code)):
        assert "canary" not in shown


def test_basic_credentials_are_sent_and_masked_in_errors(connect: Connect) -> None:
    encoded = "YW5uOnB3LWNhbmFyeQ=="
    with ScriptedServer([Reply(401, {"message": f"Basic {encoded} is pw-canary"})]) as server:
        with pytest.raises(AuthenticationError) as failed:
            connect(server.url, authentication="basic", login="ann", password="pw-canary").push({})
        assert server.seen[0].headers["Authorization"] == f"Basic {encoded}"
    assert encoded not in str(failed.value)
    assert "pw-canary" not in str(failed.value)


@pytest.mark.slow
def test_temporary_errors_are_retried(connect: Connect) -> None:
    script = [Reply(429, headers={"Retry-After": "0"}), Reply(503), Reply(0), TAKEN]
    with ScriptedServer(script) as server:
        sent = connect(server.url, **HMAC, retry_budget=30).push({"a": 1})
    assert (sent.attempts, sent.in_doubt) == (4, True)
    assert {seen.body for seen in server.seen} == {b'{"a":1}'}
    assert {seen.headers["X-Signature"] for seen in server.seen} == {signature(b'{"a":1}')}


def test_retry_after_beyond_the_budget_raises_at_once(connect: Connect) -> None:
    with (
        ScriptedServer([Reply(429, headers={"Retry-After": "3600"})]) as server,
        pytest.raises(RateLimitError) as failed,
    ):
        connect(server.url, retry_budget=30).push({})
    assert failed.value.retry_after == 3600
    assert len(server.seen) == 1


def test_value_without_a_json_form_is_not_sent(connect: Connect) -> None:
    with ScriptedServer([TAKEN]) as server, pytest.raises(NotCanonicalError, match="a: NaN"):
        connect(server.url).push({"a": float("nan")})
    assert server.seen == []


def test_refused_connection_is_a_transport_error(connect: Connect) -> None:
    refused = r"did not respond \(Connection refused\)"
    with closed_port() as port, pytest.raises(TransportError, match=refused) as failed:
        connect(f"http://127.0.0.1:{port}", **TOKEN).push({})
    assert not failed.value.sent


def test_response_timeout(connect: Connect) -> None:
    with (
        ScriptedServer([Reply(200, delay=60)]) as server,
        pytest.raises(RequestTimeoutError, match=r"did not respond within 0\.2 s") as failed,
    ):
        connect(server.url, timeout=0.2).push({})
    assert failed.value.sent


@pytest.mark.parametrize("head", [b"200 OK", b"302 Found\r\nLocation: /elsewhere"])
def test_endless_body_is_read_up_to_a_limit(connect: Connect, head: bytes) -> None:
    sent = 0

    def answer(connection: socket.socket, stopping: threading.Event) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 %s\r\n\r\n" % head)
        # The client closes the connection.
        while not stopping.is_set() and sent < 1 << 28:
            connection.sendall(b"x" * 65536)
            sent += 65536

    with RawServer(answer) as server, nullcontext() if head == b"200 OK" else pytest.raises(ProtocolError):
        assert connect(server.url, timeout=30).push({}).rows is None
    # The buffers of the operating system are smaller than the difference.
    assert sent < 1 << 26


def send_body_slowly(connection: socket.socket, stopping: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not stopping.wait(0.05):
        connection.sendall(b"x")


def send_only_continue(connection: socket.socket, stopping: threading.Event) -> None:
    for _ in range(40):
        if stopping.wait(0.1):
            return
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    send_accepted(connection, stopping)


@pytest.mark.slow
def test_endless_headers_do_not_delay_the_result(connect: Connect) -> None:
    left = False

    def head_without_an_end(connection: socket.socket, stopping: threading.Event) -> None:
        nonlocal left
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(90):
            if stopping.wait(0.1):
                return
            try:
                connection.sendall(b"X-%d: y\r\n" % number)
            except OSError:
                left = True
                return
        sending(b'Content-Length: 14\r\n\r\n{"accepted":1}')(connection, stopping)

    with RawServer(head_without_an_end) as server:
        # Enough time for the status line on a busy machine, and far less than the headers take.
        hook = connect(server.url, timeout=2)
        assert hook.push({}).rows is None
        hook.close()
        wait_for("the client has left", lambda: left, limit=8)


def test_sending_is_not_limited_by_the_connect_timeout(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_CONNECT_LIMIT", 0.2)
    size = 16 << 20

    def slow(connection: socket.socket, stopping: threading.Event) -> None:
        # The client must wait here, because the body exceeds the buffers of the operating system.
        stopping.wait(1)
        received = 0
        while received < size and (piece := connection.recv(1 << 20)):
            received += len(piece)
        send_accepted(connection, stopping)

    with RawServer(slow) as server:
        assert connect(server.url, timeout=30).push({"text": "x" * (size + (1 << 20))}).rows == 1


@pytest.mark.parametrize("encrypted", [False, True])
def test_informational_responses_do_not_extend_the_timeout(connect: Connect, tmp_path: Any, *, encrypted: bool) -> None:
    tls = tls_of(tmp_path / "ca.pem")
    with (
        RawServer(send_only_continue, tls if encrypted else None) as server,
        pytest.raises(RequestTimeoutError, match=r"did not respond within 0\.5 s") as failed,
    ):
        connect(server.url, timeout=0.5, ca_bundle=str(tmp_path / "ca.pem")).push({})
    assert failed.value.sent


@pytest.mark.parametrize("rows", [-1, True, "2", "many", 1.0, None, pytest.param(10**4000, id="huge")])
def test_an_invalid_number_of_rows_is_ignored(connect: Connect, rows: Any) -> None:
    with ScriptedServer([Reply(201, {"accepted": rows})]) as server:
        assert connect(server.url).push({}).rows is None


@pytest.mark.parametrize(
    "answer",
    [send_body_slowly, sending(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"accepted":')],
    ids=["slow", "partial"],
)
def test_success_status_counts_despite_an_incomplete_body(connect: Connect, answer: Answer) -> None:
    with RawServer(answer) as server:
        assert connect(server.url, timeout=1).push({}).rows is None


def test_non_http_response_is_a_transport_error(connect: Connect) -> None:
    banner = sending(f"SSH-2.0 {SECRET}\r\n".encode())
    with RawServer(banner) as server, pytest.raises(TransportError) as failed:
        connect(server.url, **TOKEN).push({})
    assert failed.value.sent
    assert SECRET not in "".join(traceback.format_exception(failed.value))


def test_certificates_are_verified(connect: Connect, tmp_path: Any) -> None:
    tls = tls_of(tmp_path / "ca.pem")
    with RawServer(send_accepted, tls) as server:
        with pytest.raises(ConfigurationError, match=r"a certificate that is not trusted (?s:.*)ca_bundle"):
            connect(server.url, **TOKEN).push({})
        assert connect(server.url, **TOKEN, ca_bundle=str(tmp_path / "ca.pem")).push({}).rows == 1
    assert server.requests == 1


def test_requests_use_the_proxy_of_the_connection(connect: Connect) -> None:
    with ScriptedServer([TAKEN]) as proxy:
        connect("http://hooks.example.com/x", **TOKEN, proxy=proxy.url, allow_plain_http=True).push({})
    assert [seen.path for seen in proxy.seen] == ["http://hooks.example.com/x"]
    with closed_port() as port:
        down = f"http://u:{SECRET}@127.0.0.1:{port}"
        with pytest.raises(TransportError, match="did not respond") as failed:
            connect(URL, **TOKEN, proxy=down).push({})
    assert not failed.value.sent
    assert SECRET not in str(failed.value)


def test_proxy_without_connect_support_is_a_transport_error(connect: Connect) -> None:
    # This proxy does not support CONNECT.
    with ScriptedServer([TAKEN]) as proxy, pytest.raises(TransportError, match="did not respond") as failed:
        connect(URL, **TOKEN, proxy=proxy.url).push({})
    assert not failed.value.sent


def test_proxy_of_the_environment_is_not_used_for_loopback(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ScriptedServer([TAKEN]) as proxy, ScriptedServer([TAKEN]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        connect(server.url).push({})
        connect("http://hooks.example.com/x", allow_plain_http=True).push({})
    assert (len(server.seen), len(proxy.seen)) == (1, 1)


@pytest.mark.parametrize("entry", ["[fd00::1]", "fd00::1", "[fd00::1]:8443"])
def test_no_proxy_applies_as_in_other_clients(connect: Connect, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    for name, value in {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": entry}.items():
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, value)
    session = connect(host := "https://[fd00::1]:8443").get_conn()
    options = session.merge_environment_settings(host, dict(session.proxies), stream=True, verify=True, cert=None)
    assert "https" not in options["proxies"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"host": None}, "There is no base address: .*\nCheck the Airflow connection `hooks`"),
        ({"host": "http://hooks.example.com"}, "Plain http to hooks.example.com would show data"),
        ({"host": "https://u:p@hooks.example.com"}, "must not contain a user"),
        ({"host": "https://hooks.example.com/#x"}, "fragment"),
        ({"host": "ftp://hooks.example.com"}, "must be a URL"),
        ({"host": "https://hooks.example.com:99999"}, "URL"),
        ({"host": "https://a..b"}, "not a URL"),
        ({"authentication": "magic"}, "Extra field authentication"),
        *(({"timeout": timeout}, "Extra field timeout") for timeout in (0, "inf", 1e10)),
        ({"password": SECRET}, "There is a password, but the authentication is 'none'"),
        ({"authentication": "hmac"}, ".* name of a custom header"),
        *(({"proxy": proxy}, "The proxy must be a URL") for proxy in ("not a url", "http://")),
        ({"ca_bundle": "/nowhere.pem"}, "The CA bundle /nowhere.pem can't be read"),
        ({"authentication": "hmac", "header": "Expect"}, "name of a custom header"),
        *((TOKEN | {"header": header}, "name of a custom header") for header in ("Transfer-Encoding", "X-A\nX-B")),
        (TOKEN | {"password": "a\r\nX-B: c"}, "printable ASCII"),
    ],
)
def test_error_of_an_unusable_connection(connect: Connect, fields: dict[str, Any], problem: str) -> None:
    hook = connect(**({"host": URL} | fields))
    with pytest.raises(ConfigurationError, match=problem) as caught:
        hook.sending()
    assert SECRET not in str(caught.value)
    healthy, message = hook.test_connection()
    assert not healthy
    assert message == str(caught.value).splitlines()[0]


@since("3.2", "connections whose extra is not an object")
def test_extra_that_is_no_object_is_refused(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = connect(URL)
    # JSON that is encoded twice.
    extra = json.dumps(json.dumps({"authentication": "none"}))
    monkeypatch.setenv("AIRFLOW_CONN_HOOKS", json.dumps({"conn_type": "datapipe_webhook", "host": URL, "extra": extra}))
    with pytest.raises(ConfigurationError, match=r"a value of type str\. It must be an object"):
        hook.sending()


def test_misspelled_field_logs_a_suggestion(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    connect(URL, retrybudget=3).sending()
    assert "Did you mean retry_budget?" in caplog.text


@pytest.mark.parametrize(
    ("reply", "healthy", "message"),
    [
        *((Reply(status), True, "is there and accepts the credentials.") for status in (400, 422)),
        *((Reply(status), False, "The webhook is there, but does not accept the cred") for status in (401, 403)),
        (Reply(404), False, "No table has this address, so the credentials were not checked."),
        (Reply(503), False, "The service is there, but has a problem."),
        (Reply(405), False, "The response does not come from a webhook."),
        (Reply(302), False, "The response does not come from a webhook."),
        (Reply(200), False, "accepted a body of invalid JSON"),
        (Reply(0), False, "did not respond"),
    ],
)
def test_test_connection(connect: Connect, reply: Reply, healthy: bool, message: str) -> None:
    with ScriptedServer([reply]) as server:
        answer = connect(server.url, **HMAC, retry_budget=60).test_connection()
    assert answer[0] == healthy
    assert message in answer[1]
    # One request, with a body that cannot become a row.
    (seen,) = server.seen
    assert seen.body == b"{"
    assert seen.headers["X-Signature"] == signature(b"{")


def test_form_has_exactly_the_supported_fields() -> None:
    assert set(WEBHOOK_FIELDS) == set(WebhookExtra.model_fields)
    for name, field in WEBHOOK_FIELDS.items():
        assert field["schema"].get("default") == WebhookExtra.model_fields[name].default, name
    (form,) = [
        each for each in get_provider_info()["connection-types"] if each["connection-type"] == "datapipe_webhook"
    ]
    assert form["conn-fields"] is WEBHOOK_FIELDS
    assert form["hook-class-name"] == f"{WebhookIngestHook.__module__}.{WebhookIngestHook.__qualname__}"
    assert form["hook-name"] == WebhookIngestHook.hook_name


def test_emptied_form_fields_have_their_defaults(connect: Connect) -> None:
    settings = connect(URL, **dict.fromkeys(WEBHOOK_FIELDS)).settings
    assert (settings.timeout, settings.retry_budget, settings.proxy) == (60, 60, None)
    assert connect(URL, authentication="").settings.authentication.headers(b"") == {}
