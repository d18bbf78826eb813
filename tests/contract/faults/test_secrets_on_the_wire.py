"""Tests that no result, error, log or proxy shows an API key, webhook credentials or the credentials of a proxy."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import ssl
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
import trustme

from airflow_provider_datapipe.api.endpoints import elt_streams
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.webhooks import WebhookIngestOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from tests.support.connect_proxy import ConnectProxy
from tests.support.responses import elt_stream
from tests.support.scripted_server import Reply, RoutedServer, Seen
from tests.support.tasks import Memory, run
from tests.support.waited_run import WaitedRun, operator

SECRET = 'canary/key+0123<456>"789'
USER, PASSWORD = "canary-user", "canary/pass:w%rd#1"
USER_INFO = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
#: Name in the certificate of the service. No DNS server knows it, so only a proxy can reach the service.
HOST = "service.test"
AUTHENTICATIONS: dict[str, dict[str, Any]] = {
    "basic": {"login": "ann", "extra": {"authentication": "basic"}},
    "token": {"extra": {"authentication": "token", "header": "X-Token"}},
    "hmac": {"extra": {"authentication": "hmac", "header": "X-Signature"}},
}
Connect = Callable[..., None]
Use = Callable[[Memory], Any]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Return a function that defines both Airflow connections."""

    def connect(url: str, secret: str = SECRET, *, authentication: str = "token", **extra: Any) -> None:
        extra["retry_budget"] = 0
        connection = {"conn_type": "datapipe", "host": url, "password": secret, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        more = AUTHENTICATIONS[authentication]
        webhook = {"conn_type": "datapipe_webhook", "host": f"{url}/webhook", "password": secret}
        webhook |= more | {"extra": extra | more["extra"]}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_WEBHOOK_DEFAULT", json.dumps(webhook))

    return connect


@pytest.fixture
def output(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return a function that returns the log, with debug messages, and the output of the test."""
    caplog.set_level(logging.DEBUG)
    return lambda: caplog.text + "".join(capsys.readouterr())


def run_kind(kind: str, memory: Memory, *, deferrable: bool) -> Any:
    return run(operator(kind, deferrable=deferrable, timeout=20), memory)


def sense(memory: Memory, *, timeout: float = 10) -> Any:
    times: dict[str, Any] = {"after": "2025-12-31T00:00:00Z", "poke_interval": 0.05, "timeout": timeout}
    return run(EltStreamRunSensor(task_id="t", stream_id="s", deferrable=True, **times), memory)


def read_by_operator(stream_id: str, memory: Memory) -> Any:
    arguments = {"stream_id": stream_id}
    return run(DatapipeOperator(task_id="t", endpoint="elt_streams.get", arguments=arguments), memory)


def read_by_hook(stream_id: str, _: Memory) -> Any:
    with closing(DatapipeHook()) as hook:
        return hook.send(elt_streams.get(stream_id))


def read_async(stream_id: str, _: Memory) -> Any:
    return asyncio.run(DatapipeHook().asend(elt_streams.get(stream_id)))


def push_by_operator(memory: Memory) -> Any:
    return run(WebhookIngestOperator(task_id="t", records=[{"a": 1}]), memory)


def push_by_hook(_: Memory) -> Any:
    with closing(WebhookIngestHook()) as hook:
        return hook.push({"a": 1})


def push_by_http_hook(_: Memory) -> Any:
    with closing(WebhookIngestHook()) as hook:
        return hook.run(data='{"a":1}')


def left_by(use: Callable[[], Any]) -> str:
    """Return the result of a task, or its error with the whole chain."""
    try:
        return repr(use())
    except Exception as error:  # noqa: BLE001 - the test searches any error
        chain: list[str] = traceback.format_exception(error)
        each: BaseException | None = error
        while each is not None:
            chain += [str(each), repr(each), repr(each.args), repr(vars(each))]
            each = each.__cause__ or each.__context__
        return "".join(chain)


# A service that repeats the secret in any encoding.

#: Secret that fits into names and IDs, unlike some of its encodings. No part of it may remain.
PIECES = ("canary", "0123<456", "%63%61", "&#99;", "&#x63;", "63616e617279", "Y2FuYXJ5", "NhbmFyeS", "jYW5hcn")


def base64_after(prefix: str) -> str:
    return base64.b64encode(f"{prefix}{SECRET} and more".encode()).decode()


FORMS = {
    "plain": SECRET,
    "in a sentence": f"The key '{SECRET}' is not valid.",
    "percent": quote(SECRET, safe=""),
    "percent, all characters": "".join(f"%{ord(each):02X}" for each in SECRET),
    "percent, lower case": "".join(f"%{ord(each):02x}" for each in SECRET),
    "percent, twice": quote(quote(SECRET, safe=""), safe=""),
    "HTML, named": "canary/key+0123&lt;456&gt;&quot;789",
    "HTML, decimal": "".join(f"&#{ord(each)};" for each in SECRET),
    "HTML, hexadecimal": "".join(f"&#x{ord(each):x};" for each in SECRET),
    "HTML in a percent-encoded text": quote("".join(f"&#{ord(each)};" for each in SECRET)),
    "base64": base64_after(""),
    "base64 after one byte": base64_after("x"),
    "base64 after two bytes": base64_after("x:"),
    "base64 for URLs": base64_after("").replace("+", "-").replace("/", "_"),
    "base64, percent-encoded": quote(base64_after(""), safe=""),
    "hexadecimal": SECRET.encode().hex(),
    "hexadecimal, upper case": SECRET.encode().hex().upper(),
    "JSON": json.dumps(SECRET),
    "JSON in JSON": json.dumps(json.dumps(SECRET)),
    "JSON, escaped": "".join(f"\\u{ord(each):04x}" for each in SECRET),
}


class EchoingService(WaitedRun):
    """
    Service whose runs fail and whose texts repeat a secret.

    :param text: the secret as the service writes it.
    :param escaped: escape every character of the secret in the JSON document.
    :param headers: headers of each response.
    """

    def __init__(self, text: str, *, escaped: bool = False, headers: dict[str, str] | None = None) -> None:
        super().__init__(-1, fields={"status": "FAILED", "failed_rows": 1, "error": text, "more": {text: [text]}})
        snapshot = {"bytes_synced": 0, "error_message": text, "started_at": self._began}
        states = [{"name": f"orders {text}", "active_sync": None, "latest_sync": snapshot}]
        records = [{"sync_id": "s", "record_id": text, "error": text}]
        self._fixed: dict[str, Reply] = {
            "/webhook": Reply(422, {"error_code": text, "message": f"No: {text}"}),
            "/elt_streams/refused": Reply(400, {"error_code": text, "message": text}),
            "/elt_streams/s": Reply(body=elt_stream(name=f"orders {text}")),
            "/elt_syncs/y/status": Reply(body={"elt_sync_id": "y", "source_streams": states}),
            "/reverse_etl_failed_records": Reply(body={"data": records}),
        }
        self._text = json.dumps(text)[1:-1]
        self._escaped = "".join(f"\\u{ord(each):04X}" for each in text) if escaped else self._text
        self._headers = headers or {}

    def _answer(self, request: Seen) -> Reply | None:
        reply = self._fixed.get(request.route) or super()._answer(request)
        if reply is None:
            return None
        body = json.dumps(reply.body).replace(self._text, self._escaped).encode()
        return replace(reply, body=body, headers=self._headers)


MANAGEMENT: dict[str, Use] = {
    "stream": partial(run_kind, "elt_stream", deferrable=False),
    "reverse ETL": partial(run_kind, "reverse_etl", deferrable=False),
    "read": partial(read_by_operator, "s"),
    "refused read": partial(read_by_hook, "refused"),
}
DEFERRED: dict[str, Use] = {
    "deferred stream": partial(run_kind, "elt_stream", deferrable=True),
    "deferred reverse ETL": partial(run_kind, "reverse_etl", deferrable=True),
    "asynchronous read": partial(read_async, "s"),
    "refused asynchronous read": partial(read_async, "refused"),
}
PUSHES: dict[str, Use] = {"operator": push_by_operator, "hook": push_by_hook}
ECHOES = [
    *((name, "token", form) for form in FORMS for name in (*MANAGEMENT, "hook")),
    *((name, "token", form) for form in ("in a sentence", "percent") for name in DEFERRED),
    *((name, authentication, "in a sentence") for authentication in AUTHENTICATIONS for name in PUSHES),
]


@pytest.mark.slow
@pytest.mark.parametrize(("use", "authentication", "form"), ECHOES)
def test_repeated_secret_is_masked(
    use: str, authentication: str, form: str, connect: Connect, output: Callable[[], str]
) -> None:
    memory = Memory()
    with EchoingService(FORMS[form]) as service:
        connect(service.url, authentication=authentication)
        left = left_by(lambda: (MANAGEMENT | DEFERRED | PUSHES)[use](memory))
    assert "***" in left
    text = "".join([left, repr(memory), output()]).lower()
    assert not [piece for piece in PIECES if piece.lower() in text]


@pytest.mark.parametrize("use", MANAGEMENT)
def test_api_key_in_escaped_json_is_masked(use: str, connect: Connect) -> None:
    with EchoingService(SECRET, escaped=True) as service:
        connect(service.url)
        left = left_by(lambda: MANAGEMENT[use](Memory()))
    assert "***" in left
    assert "canary" not in left


def test_short_api_key_leaves_ids_and_names_as_they_are(connect: Connect) -> None:
    with EchoingService("of today") as service:
        connect(service.url, "s")
        found = read_by_operator("s", Memory())
    assert (found["id"], found["name"]) == ("s", "orders of today")


def test_api_key_in_the_head_of_an_answer_is_not_logged(connect: Connect, output: Callable[[], str]) -> None:
    echo = {"x-echo": FORMS["percent"], "x-echo-2": SECRET, "x-echo-3": FORMS["base64"]}
    with EchoingService(SECRET, headers=echo) as service:
        connect(service.url)
        read_by_operator("s", Memory())
        read_async("s", Memory())
    text = output()
    assert "x-echo" in text
    assert not [piece for piece in PIECES if piece in text]


def test_token_repeated_without_its_scheme_is_masked(connect: Connect) -> None:
    with EchoingService("canary-0123456789") as service:
        connect(service.url, "Bearer canary-0123456789")
        left = left_by(lambda: push_by_hook(Memory()))
    assert "***" in left
    assert "canary" not in left


def test_response_of_the_http_hook_repeats_no_secret(connect: Connect) -> None:
    def accept(request: Seen) -> Reply:
        return Reply(body={"accepted": 1, "token": request.headers["x-token"], "quoted": FORMS["percent"]})

    with RoutedServer(accept) as service:
        connect(service.url)
        response = push_by_http_hook(Memory())
    assert response.json() == {"accepted": 1, "token": "***", "quoted": "***"}


def test_representations_show_no_secret(connect: Connect) -> None:
    connect("http://127.0.0.1:9", authentication="basic", proxy="http://user:canary-password@127.0.0.1:9")
    hook, webhook = DatapipeHook(), WebhookIngestHook()
    client = hook.get_conn()
    shown = [hook, client, client.settings, asyncio.run(hook.aget_settings()), webhook, webhook.settings]
    shown += [webhook.settings.authentication, webhook.get_conn(), asyncio.run(hook.aget_conn())]
    assert "canary" not in repr(shown)


# Proxies: secrets stay inside the TLS tunnel.


class Service(WaitedRun):
    """Service with a webhook, on which the run appears after the first poll, so that a sensor defers."""

    def _answer(self, request: Seen) -> Reply | None:
        if request.route == "/webhook":
            return Reply(body={"accepted": 1})
        reply = super()._answer(request)
        if request.route == "/elt_stream_runs":
            self.started.append("elt_stream")
        return reply


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    """Return the context of a server with a certificate for :data:`HOST`, and the bundle that trusts it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    bundle = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    return context, str(bundle)


@pytest.fixture(params=["environment", "extra"])
def by_proxy(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, connect: Connect, tls: tuple[ssl.SSLContext, str]
) -> Connect:
    """Return a function that defines both Airflow connections and the proxy, in each of the two ways."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    def by_proxy(proxy: str, *, authentication: str = "token") -> None:
        if request.param == "environment":
            monkeypatch.setenv("HTTPS_PROXY", proxy)
        extra = {"proxy": proxy} if request.param == "extra" else {}
        connect(f"https://{HOST}", authentication=authentication, ca_bundle=tls[1], **extra)

    return by_proxy


RUNS: list[Use] = [partial(run_kind, "elt_stream", deferrable=False), partial(run_kind, "elt_stream", deferrable=True)]
READS: list[Use] = [partial(read_by_hook, "s"), partial(read_async, "s")]
HOOKS: list[Use] = [push_by_operator, push_by_hook, push_by_http_hook]


def check_connection(_: Memory) -> Any:
    return DatapipeHook().test_connection()


def forms(secret: str) -> set[bytes]:
    """Return a secret as text, percent-encoded, as base64 and as hexadecimal text."""
    raw = secret.encode()
    return {raw, quote(secret, safe="").encode(), base64.b64encode(raw)[:-4], raw.hex().encode()}


@pytest.mark.parametrize(
    ("use", "header", "authentication"),
    [
        *((use, "x-api-key", "token") for use in (*RUNS, sense, *READS)),
        *((use, "authorization", "basic") for use in HOOKS),
        *((use, "x-token", "token") for use in HOOKS),
        *((use, "x-signature", "hmac") for use in HOOKS),
    ],
)
def test_connect_request_carries_no_secret(
    use: Use, header: str, authentication: str, by_proxy: Connect, tls: tuple[ssl.SSLContext, str]
) -> None:
    with Service(-1, tls=tls[0]) as service, ConnectProxy(service.port, user_info=f"{USER}:{PASSWORD}") as proxy:
        by_proxy(proxy.url_with(USER_INFO), authentication=authentication)
        use(Memory())
    (sent,) = {request.headers[header].encode() for request in service.seen}
    assert header != "x-api-key" or sent == SECRET.encode()
    assert proxy.heads
    for head in proxy.heads:
        assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.".encode())
        assert f"\r\n{header}:".encode() not in head.lower()
        assert not [each for each in {sent} | forms(SECRET) | forms(f"ann:{SECRET}") if each in head]


def refusal(status: str) -> bytes:
    """Return a response in which the proxy repeats the credentials in several encodings."""
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return f"HTTP/1.1 {status} {PASSWORD} {quote(PASSWORD, safe='')} {encoded}\r\ncontent-length: 0\r\n\r\n".encode()


REFUSALS = {
    "authentication required": refusal("407 Proxy Authentication Required"),
    "bad gateway": refusal("502 Bad Gateway"),
    "not HTTP": f"garbage of {USER}:{PASSWORD}\r\n\r\n".encode(),
    "no answer": b"",
    "tunnel without TLS": f"HTTP/1.1 200 OK\r\n\r\nno TLS for {USER_INFO}".encode(),
}


def assert_hidden(text: str) -> None:
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    for form in (USER, PASSWORD, quote(PASSWORD, safe=""), USER_INFO, encoded, encoded.rstrip("="), SECRET):
        assert form not in text


@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize("use", [RUNS[0], *READS, *HOOKS])
def test_error_of_a_failed_tunnel_shows_no_credentials(by_proxy: Connect, use: Use, kind: str) -> None:
    with ConnectProxy(0, refusal=REFUSALS[kind]) as proxy:
        by_proxy(proxy.url_with(USER_INFO))
        left = left_by(lambda: use(Memory()))
    assert proxy.heads
    assert re.search("got no answer|did not respond", left)
    assert_hidden(left)


@pytest.mark.slow
def test_deferred_wait_shows_no_proxy_credentials(
    by_proxy: Connect, tls: tuple[ssl.SSLContext, str], output: Callable[[], str]
) -> None:
    class RefusedLater(WaitedRun):
        def _answer(self, request: Seen) -> Reply | None:
            if request.route == "/elt_stream_runs":
                proxy.refusal = REFUSALS["authentication required"]
            return super()._answer(request)

    memory = Memory()
    with RefusedLater(tls=tls[0]) as service, ConnectProxy(service.port) as proxy:
        by_proxy(proxy.url_with(USER_INFO))
        left = left_by(lambda: sense(memory, timeout=2))
    text = output()
    assert "AirflowSensorTimeout" in left
    assert "the proxy answered 407" in text
    assert_hidden(left + text + repr(memory))


@pytest.mark.parametrize("use", [RUNS[0], *READS, check_connection, push_by_hook])
def test_debug_logs_show_no_secret_and_no_credentials(
    by_proxy: Connect, tls: tuple[ssl.SSLContext, str], output: Callable[[], str], use: Use
) -> None:
    with Service(-1, tls=tls[0]) as service, ConnectProxy(service.port, user_info=f"{USER}:{PASSWORD}") as proxy:
        by_proxy(proxy.url_with(USER_INFO))
        use(Memory())
    with ConnectProxy(0, user_info="other:credentials") as proxy:
        by_proxy(proxy.url_with(USER_INFO))
        left_by(lambda: use(Memory()))
    assert proxy.heads
    assert_hidden(output())


@pytest.mark.parametrize(
    "address",
    [
        f"http://{USER}:{PASSWORD}@127.0.0.1:9",
        f"http://{USER}:{PASSWORD[:6]}[@127.0.0.1:9",
        f"http://{USER_INFO}@127.0.0.1:99999",
        f"http://{USER_INFO}@:9",
        f"ftp://{USER_INFO}@127.0.0.1:9",
        f"socks5://{USER_INFO}@127.0.0.1:9",
    ],
)
@pytest.mark.parametrize("use", [*READS, push_by_hook])
def test_unusable_proxy_address_is_refused_and_not_shown(by_proxy: Connect, use: Use, address: str) -> None:
    by_proxy(address)
    left = left_by(lambda: use(Memory()))
    assert re.search("(?i)error.*proxy", left)
    assert "canary" not in left
