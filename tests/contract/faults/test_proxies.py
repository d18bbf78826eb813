"""Tests of proxies: secrets stay inside the TLS tunnel, and no error or log shows the proxy credentials."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk.exceptions import AirflowSensorTimeout

from airflow_provider_datapipe.api.endpoints import elt_stream_runs
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.webhook import WebhookIngestOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from tests.support.connect_proxy import ConnectProxy
from tests.support.responses import elt_stream
from tests.support.tasks import Memory, run
from tests.support.tls_service import HOST, Call, TlsFiles, TlsService

KEY = "canary+key/0123456789=abc"
SECRET = "canary:secret/of the webhook"
USER, PASSWORD = "canary-user", "canary/pass:w%rd#1"
USER_INFO = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
RUN = {
    "id": "r1",
    "elt_sync_id": "y",
    "elt_stream_id": "s",
    "started_at": "2026-01-01T00:00:00.000Z",
    "finished_at": "2026-01-01T00:00:01.000Z",
    "status": "COMPLETED",
    "rows_synced": 3,
}
STREAM = elt_stream()
STATUS_URL = "/elt_stream_runs?elt_stream_id=s&limit=1&sort_direction=asc"
AUTHENTICATIONS: dict[str, dict[str, Any]] = {
    "basic": {"login": "ann", "extra": {"authentication": "basic"}},
    "token": {"extra": {"authentication": "token", "header": "X-Token"}},
    "hmac": {"extra": {"authentication": "hmac", "header": "X-Signature"}},
}


def answer(call: Call) -> tuple[int, Any]:
    if call.path == "/hooks/orders":
        return 200, {"accepted": 1}
    if call.method == "POST":
        return 200, {"status_url": STATUS_URL}
    if call.path.startswith("/elt_streams/"):
        return 200, STREAM | {"id": call.path.rpartition("/")[2]}
    if call.path == "/elt_stream_runs" and "elt_stream_id=s" in call.query and "desc" in call.query:
        return 200, {"data": [], "hasMore": False, "nextCursor": None}
    if call.path == "/elt_stream_runs":
        return 200, {"data": [RUN], "hasMore": False, "nextCursor": None}
    return 200, RUN


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles.create(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(tls: TlsFiles) -> Iterator[TlsService]:
    """Return a service on which the watched run appears after the first poll, so that a sensor defers."""
    polls = itertools.count()

    def answer_later(call: Call) -> tuple[int, Any]:
        if "elt_stream_id=watched" in call.query and next(polls) == 0:
            return 200, {"data": [], "hasMore": False, "nextCursor": None}
        return answer(call)

    with TlsService(answer_later, tls.context) as running:
        yield running


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


Connect = Callable[..., None]


@pytest.fixture(params=["environment", "extra"])
def connect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tls: TlsFiles, no_proxy: None) -> Connect:
    """Return a function that defines both Airflow connections and the proxy, in each of the two ways."""

    def connect(proxy: str, **webhook: Any) -> None:
        extra: dict[str, Any] = {"ca_bundle": tls.ca_bundle, "retry_budget": 0}
        if request.param == "environment":
            monkeypatch.setenv("HTTPS_PROXY", proxy)
        else:
            extra["proxy"] = proxy
        connection = {"conn_type": "datapipe", "host": f"https://{HOST}", "password": KEY, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        hooks = {"conn_type": "datapipe_webhook", "host": f"https://{HOST}/hooks/orders", "password": SECRET}
        hooks |= webhook | {"extra": extra | webhook.get("extra", {})}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_WEBHOOK_DEFAULT", json.dumps(hooks))

    return connect


def run_blocking() -> Any:
    return run(EltStreamRunOperator(task_id="t", stream_id="s", poll_interval=0.05, timeout=10, deferrable=False))


def run_deferred() -> Any:
    return run(EltStreamRunOperator(task_id="t", stream_id="s", poll_interval=0.05, timeout=10, deferrable=True))


def sense_deferred() -> Any:
    after = "2025-12-31T00:00:00Z"
    return run(
        EltStreamRunSensor(
            task_id="t", stream_id="watched", after=after, poke_interval=0.05, timeout=10, deferrable=True
        )
    )


def hook_blocking() -> Any:
    hook = DatapipeHook()
    try:
        return hook.send(elt_stream_runs.get("r1"))
    finally:
        hook.close()


def hook_async() -> Any:
    return asyncio.run(DatapipeHook().asend(elt_stream_runs.get("r1")))


def hook_test() -> Any:
    return DatapipeHook().test_connection()


def push_by_operator() -> Any:
    return run(WebhookIngestOperator(task_id="t", records=[{"a": 1}]))


def push_by_hook() -> Any:
    hook = WebhookIngestHook()
    try:
        return hook.push({"a": 1})
    finally:
        hook.close()


def run_http_hook() -> Any:
    hook = WebhookIngestHook()
    try:
        return hook.run(data='{"a":1}')
    finally:
        hook.close()


MANAGEMENT = [run_blocking, run_deferred, sense_deferred, hook_blocking, hook_async]
WEBHOOK = [push_by_operator, push_by_hook, run_http_hook]
Use = Callable[[], Any]


def forms(secret: str) -> set[bytes]:
    """Return a secret as text, percent-encoded and as base64."""
    raw = secret.encode()
    return {raw, quote(secret, safe="").encode(), base64.b64encode(raw)[:-4], raw.hex().encode()}


@pytest.mark.parametrize("use", MANAGEMENT)
def test_connect_request_carries_no_api_key(service: TlsService, connect: Connect, use: Use) -> None:
    with ConnectProxy(service.port, user_info=f"{USER}:{PASSWORD}") as proxy:
        connect(proxy.url(USER_INFO))
        use()
    assert {call.headers["x-api-key"] for call in service.calls} == {KEY}
    assert proxy.heads
    for head in proxy.heads:
        assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
        assert b"x-api-key" not in head.lower()
        assert not [form for form in forms(KEY) if form in head]


@pytest.mark.parametrize("authentication", AUTHENTICATIONS)
@pytest.mark.parametrize("use", WEBHOOK)
def test_connect_request_carries_no_webhook_credentials(
    service: TlsService, connect: Connect, use: Use, authentication: str
) -> None:
    header = {"basic": "authorization", "token": "x-token", "hmac": "x-signature"}[authentication]
    with ConnectProxy(service.port, user_info=f"{USER}:{PASSWORD}") as proxy:
        connect(proxy.url(USER_INFO), **AUTHENTICATIONS[authentication])
        use()
    sent = {call.headers[header].encode() for call in service.calls}
    assert proxy.heads
    assert len(sent) == 1
    for head in proxy.heads:
        assert f"\r\n{header}:".encode() not in head.lower()
        assert not [each for each in sent | forms(SECRET) | forms(f"ann:{SECRET}") if each in head]


def refusal(status: str, body: str = "") -> bytes:
    """Return a response in which the proxy repeats the credentials in several encodings."""
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    reason = f"{status} {PASSWORD} {quote(PASSWORD, safe='')} {encoded}"
    return f"HTTP/1.1 {reason}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


REFUSALS = {
    "authentication required": refusal("407 Proxy Authentication Required"),
    "bad gateway": refusal("502 Bad Gateway"),
    "not HTTP": f"garbage of {USER}:{PASSWORD}\r\n\r\n".encode(),
    "no answer": b"",
    "tunnel without TLS": f"HTTP/1.1 200 OK\r\n\r\nno TLS for {USER_INFO}".encode(),
}


def shown(error: BaseException) -> str:
    """Return an error as a traceback shows it, and every exception of its chain in full."""
    parts = traceback.format_exception(error)
    each: BaseException | None = error
    while each is not None:
        parts += [str(each), repr(each), repr(each.args), repr(vars(each))]
        each = each.__cause__ or each.__context__
    return "".join(parts)


def assert_hidden(text: str) -> None:
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    for form in (USER, PASSWORD, quote(PASSWORD, safe=""), USER_INFO, encoded, encoded.rstrip("=")):
        assert form not in text


@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize("use", [run_blocking, hook_blocking, hook_async, *WEBHOOK])
def test_error_of_a_failed_tunnel_shows_no_credentials(connect: Connect, use: Use, kind: str) -> None:
    with ConnectProxy(0, refusal=REFUSALS[kind]) as proxy:
        connect(proxy.url(USER_INFO), **AUTHENTICATIONS["token"])
        with pytest.raises(Exception, match=r"got no answer|gave no answer") as failed:
            use()
    assert proxy.heads
    assert_hidden(shown(failed.value))


@pytest.mark.slow
def test_deferred_wait_shows_no_proxy_credentials(
    tls: TlsFiles, connect: Connect, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer_once(call: Call) -> tuple[int, Any]:
        if call.path != "/elt_stream_runs":
            return answer(call)
        proxy.refusal = REFUSALS["authentication required"]
        return 200, {"data": [], "hasMore": False, "nextCursor": None}

    caplog.set_level(logging.DEBUG)
    memory = Memory()
    timing: dict[str, Any] = {"after": "2025-12-31T00:00:00Z", "poke_interval": 0.05, "timeout": 1}
    with TlsService(answer_once, tls.context) as service, ConnectProxy(service.port) as proxy:
        connect(proxy.url(USER_INFO))
        with pytest.raises(AirflowSensorTimeout) as failed:
            run(EltStreamRunSensor(task_id="t", stream_id="watched", deferrable=True, **timing), memory)
    output = capsys.readouterr().out
    assert "the proxy answered 407" in output
    assert_hidden(shown(failed.value) + caplog.text + output + repr(memory))


@pytest.mark.parametrize("use", [run_blocking, hook_blocking, hook_async, hook_test, push_by_hook])
def test_debug_logs_show_no_secret_and_no_credentials(
    service: TlsService, connect: Connect, caplog: pytest.LogCaptureFixture, use: Use
) -> None:
    caplog.set_level(logging.DEBUG)
    with ConnectProxy(service.port, user_info=f"{USER}:{PASSWORD}") as proxy:
        connect(proxy.url(USER_INFO), **AUTHENTICATIONS["token"])
        use()
    assert_hidden(caplog.text)
    assert KEY not in caplog.text
    assert SECRET not in caplog.text
    with ConnectProxy(0, user_info="other:credentials") as proxy:
        connect(proxy.url(USER_INFO), **AUTHENTICATIONS["token"])
        with contextlib.suppress(Exception):
            use()
    assert_hidden(caplog.text)


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
@pytest.mark.parametrize("use", [hook_blocking, hook_async, push_by_hook])
def test_unusable_proxy_address_is_refused_and_not_shown(connect: Connect, use: Use, address: str) -> None:
    connect(address, **AUTHENTICATIONS["token"])
    with pytest.raises(Exception, match=r"(?i)proxy") as failed:
        use()
    assert "canary" not in shown(failed.value)
