"""Tests of a service that repeats the API key or webhook credentials in any encoding: tasks redact them."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_datapipe.api.endpoints import elt_streams
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.webhook import WebhookIngestOperator
from tests.support.responses import elt_stream
from tests.support.tasks import Memory, run
from tests.support.tls_service import Call, TlsService

SECRET = 'canary/key+0123<456>"789'
#: Passes through names and ids, which some encodings can't: no part of it may remain, either.
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
STREAM_RUN = {
    "id": "r1",
    "elt_sync_id": "y",
    "elt_stream_id": "s",
    "started_at": "2026-01-01T00:00:00.000Z",
    "finished_at": "2026-01-01T00:00:01.000Z",
    "status": "FAILED",
}
REVERSE_RUN = {
    "id": "r1",
    "reverse_etl_sync_id": "s",
    "started_at": "2026-01-01T00:00:00.000Z",
    "finished_at": "2026-01-01T00:00:01.000Z",
    "status": "FAILED",
    "failed_rows": 1,
}


def service_that_repeats(text: str, *, escaped: bool = False) -> Callable[[Call], tuple[int, Any]]:
    """
    Return the handler of a service whose runs fail and whose texts repeat a secret.

    :param text: the secret as the service writes it.
    :param escaped: escape every character of the secret in the JSON document.
    """

    def answer(call: Call) -> tuple[int, Any]:
        status, value = _answer(call, text)
        if escaped:
            plain = json.dumps(text)[1:-1]
            return status, json.dumps(value).replace(plain, "".join(f"\\u{ord(each):04X}" for each in text)).encode()
        return status, value

    return answer


def _answer(call: Call, text: str) -> tuple[int, Any]:
    snapshot = {"bytes_synced": 0, "error_message": text, "started_at": STREAM_RUN["started_at"]}
    states = [{"name": f"orders {text}", "active_sync": None, "latest_sync": snapshot}]
    fixed: dict[str, tuple[int, Any]] = {
        "/webhook": (422, {"error_code": text, "message": f"No: {text}"}),
        "/elt_streams/refused": (400, {"error_code": text, "message": text}),
        "/elt_streams/s": (200, elt_stream(name=f"orders {text}")),
        "/elt_syncs/y/status": (200, {"elt_sync_id": "y", "source_streams": states}),
        "/reverse_etl_failed_records": (200, {"data": [{"sync_id": "s", "record_id": text, "error": text}]}),
    }
    if call.path in fixed:
        return fixed[call.path]
    if call.method == "POST":
        kind = (
            "reverse_etl_sync_runs?reverse_etl_sync_id" if "reverse" in call.path else "elt_stream_runs?elt_stream_id"
        )
        return 200, {"status_url": f"/{kind}=s&limit=1&sort_direction=asc"}
    one = REVERSE_RUN | {"error": text, "more": {text: [text]}} if "reverse" in call.path else STREAM_RUN
    if call.path.endswith("_runs"):
        return 200, {"data": [] if "desc" in call.query else [one], "hasMore": False, "nextCursor": None}
    return 200, one


def run_stream(memory: Memory, *, deferrable: bool) -> Any:
    timing: dict[str, Any] = {"poll_interval": 0.05, "timeout": 20, "deferrable": deferrable}
    return run(EltStreamRunOperator(task_id="t", stream_id="s", **timing), memory)


def run_reverse_etl(memory: Memory, *, deferrable: bool) -> Any:
    timing: dict[str, Any] = {"poll_interval": 0.05, "timeout": 20, "deferrable": deferrable}
    return run(ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="s", **timing), memory)


def read_stream(memory: Memory, *, deferrable: bool) -> Any:
    if deferrable:
        return asyncio.run(DatapipeHook().asend(elt_streams.get("s")))
    return run(DatapipeOperator(task_id="t", endpoint="elt_streams.get", arguments={"stream_id": "s"}), memory)


def read_refused(memory: Memory, *, deferrable: bool) -> Any:
    if deferrable:
        return asyncio.run(DatapipeHook().asend(elt_streams.get("refused")))
    return DatapipeHook().send(elt_streams.get("refused"))


def define_connections(monkeypatch: pytest.MonkeyPatch, url: str, secret: str = SECRET, **webhook: Any) -> None:
    connection = {"conn_type": "datapipe", "host": url, "password": secret, "extra": {"retry_budget": 0}}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    hooks = {"conn_type": "datapipe_webhook", "host": f"{url}/webhook", "password": secret} | webhook
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_WEBHOOK_DEFAULT", json.dumps(hooks))


def left_by(use: Callable[[], Any]) -> str:
    """Return the result of a task, or its error with the whole chain."""
    try:
        return repr(use())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked through
        chain: list[str] = traceback.format_exception(error)
        each: BaseException | None = error
        while each is not None:
            chain += [repr(each), repr(vars(each))]
            each = each.__cause__ or each.__context__
        return "".join(chain)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
@pytest.mark.parametrize("use", [run_stream, run_reverse_etl, read_stream, read_refused])
def test_repeated_api_key_is_masked(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    *,
    use: Callable[..., Any],
    deferrable: bool,
    form: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    memory = Memory()
    with TlsService(service_that_repeats(FORMS[form])) as service:
        define_connections(monkeypatch, service.url)
        left = left_by(lambda: use(memory, deferrable=deferrable))
    assert "***" in left
    output = capsys.readouterr()
    text = "".join([left, repr(memory), caplog.text, output.out, output.err])
    assert not [piece for piece in PIECES if piece.lower() in text.lower()]


@pytest.mark.parametrize("use", [run_stream, run_reverse_etl, read_stream, read_refused])
def test_api_key_in_escaped_json_is_masked(monkeypatch: pytest.MonkeyPatch, use: Callable[..., Any]) -> None:
    with TlsService(service_that_repeats(SECRET, escaped=True)) as service:
        define_connections(monkeypatch, service.url)
        left = left_by(lambda: use(Memory(), deferrable=False))
    assert "***" in left
    assert "canary" not in left


def test_short_api_key_leaves_ids_and_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with TlsService(service_that_repeats("of today")) as service:
        define_connections(monkeypatch, service.url, "s")
        found = read_stream(Memory(), deferrable=False)
    assert (found["id"], found["name"]) == ("s", "orders of today")


def test_api_key_in_the_head_of_an_answer_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"x-echo": FORMS["percent"], "x-echo-2": SECRET, "x-echo-3": FORMS["base64"]}
    with TlsService(service_that_repeats(SECRET), headers=echo) as service:
        define_connections(monkeypatch, service.url)
        read_stream(Memory(), deferrable=False)
        read_stream(Memory(), deferrable=True)
    assert "x-echo" in caplog.text
    assert not [piece for piece in PIECES if piece in caplog.text]


AUTHENTICATIONS: dict[str, dict[str, Any]] = {
    "basic": {"login": "ann", "extra": {"authentication": "basic", "retry_budget": 0}},
    "token": {"extra": {"authentication": "token", "header": "X-Token", "retry_budget": 0}},
    "hmac": {"extra": {"authentication": "hmac", "header": "X-Signature", "retry_budget": 0}},
}


def push_by_operator() -> Any:
    return run(WebhookIngestOperator(task_id="t", records=[{"a": 1}]))


def push_by_hook() -> Any:
    return WebhookIngestHook().push({"a": 1})


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("authentication", AUTHENTICATIONS)
@pytest.mark.parametrize("use", [push_by_operator, push_by_hook])
def test_repeated_webhook_secret_is_masked(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    *,
    use: Callable[[], Any],
    authentication: str,
    form: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    with TlsService(service_that_repeats(FORMS[form])) as service:
        define_connections(monkeypatch, service.url, **AUTHENTICATIONS[authentication])
        left = left_by(use)
    assert "***" in left
    output = capsys.readouterr()
    text = left + caplog.text + output.out + output.err
    assert not [piece for piece in PIECES if piece.lower() in text.lower()]


def test_token_repeated_without_its_scheme_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    with TlsService(service_that_repeats("canary-0123456789")) as service:
        define_connections(monkeypatch, service.url, "Bearer canary-0123456789", **AUTHENTICATIONS["token"])
        left = left_by(push_by_hook)
    assert "***" in left
    assert "canary" not in left


def test_response_of_the_http_hook_repeats_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(call: Call) -> tuple[int, Any]:
        return 200, {"accepted": 1, "token": call.headers["x-token"], "quoted": FORMS["percent"]}

    with TlsService(accept) as service:
        define_connections(monkeypatch, service.url, **AUTHENTICATIONS["token"])
        response = WebhookIngestHook().run(data='{"a":1}')
    assert response.json() == {"accepted": 1, "token": "***", "quoted": "***"}


def test_representations_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = {"proxy": "http://user:canary-password@127.0.0.1:9"}
    define_connections(monkeypatch, "http://127.0.0.1:9", login="ann", extra={"authentication": "basic"} | proxy)
    hook, webhook = DatapipeHook(), WebhookIngestHook()
    client = hook.get_conn()
    shown = [hook, client, client.settings, asyncio.run(hook.aget_settings()), webhook, webhook.settings]
    shown += [webhook.settings.authentication, webhook.get_conn(), asyncio.run(hook.aget_conn())]
    assert "canary" not in repr(shown)
