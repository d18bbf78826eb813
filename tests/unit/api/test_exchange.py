"""Attempts of one request: sent content, parsing of responses, and complete text of each error."""

from __future__ import annotations

import logging
import random
import ssl
import time
from email.utils import formatdate
from typing import Any

import pytest

from airflow_provider_datapipe import __version__
from airflow_provider_datapipe.api.body import TooLarge, Unreadable
from airflow_provider_datapipe.api.endpoints import (
    connection_bridges,
    elt_stream_runs,
    elt_streams,
    elt_syncs,
    orchestrations,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import (
    ApiError,
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    ProtocolError,
    RequestTimeoutError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.masking import Mask
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.request_attempts import RequestAttempts, ResponseHead, RetryAfter, TransportFailure
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.api.settings import Settings

BASE = "https://api.example.com/v1/"
AT = "https://api.example.com"
KEY = "key-that-must-not-show"
NAMED = "the Airflow connection `shop`"
#: Tuesday, 6 January 2026, 00:00:10 UTC.
DATE, SECONDS = "Tue, 06 Jan 2026 00:00:10 GMT", 1_767_657_610.0
RUN = elt_stream_runs.get("r1")
START = elt_streams.request_run("s")


def exchange(request: Request[Any] = RUN, **changed: Any) -> RequestAttempts[Any]:
    changed = {"connection": NAMED, "retry": RetryPolicy(budget=0), **changed}
    return RequestAttempts(Settings(base_url=BASE, api_key=KEY, **changed), request)


def head(status: int = 200, reason: str = "", **headers: str) -> ResponseHead:
    return ResponseHead(status, reason, {name.replace("_", "-"): value for name, value in headers.items()})


def refused(status: int, body: bytes, request: Request[Any] = RUN, reason: str = "", **headers: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        exchange(request).received(head(status, reason, **headers), body)
    return caught.value


# Sent requests.


def test_a_read_has_url_and_headers() -> None:
    sent = exchange(elt_stream_runs.list_("s 1", limit=5)).attempt()
    assert (sent.method, sent.content) == ("GET", None)
    assert sent.url.startswith("https://api.example.com/v1/elt_stream_runs?elt_stream_id=s%201&")
    assert "limit=5" in sent.url.split("?")[1].split("&")
    assert sent.headers == {
        "x-api-key": KEY,
        "accept": "application/json",
        "accept-encoding": "gzip",
        "user-agent": f"airflow-provider-datapipe/{__version__}",
    }
    assert KEY not in repr(sent)


def test_a_body_is_compact_json_in_utf_8() -> None:
    sent = exchange(orchestrations.create(name="é", cron_schedule="0 1 * * *")).attempt()
    assert sent.content == '{"name":"é","cron_schedule":"0 1 * * *"}'.encode()
    assert sent.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("more", "is_sent"), [(0, True), (1, False)])
def test_a_url_beyond_the_limit_is_not_sent(more: int, *, is_sent: bool) -> None:
    before = len(f"{BASE}elt_stream_runs/")
    request = elt_stream_runs.get("r" * (65_536 - before + more))
    if is_sent:
        assert len(exchange(request).attempt().url) == 65_536
        return
    with pytest.raises(InvalidInputError) as caught:
        exchange(request).attempt()
    assert str(caught.value) == ("elt_stream_runs.get: the address would have 65,537 characters. Nothing was sent.")


def test_unpaired_surrogates_are_refused() -> None:
    half = "x\ud800"
    for request in (orchestrations.create(name=half, cron_schedule="0 1 * * *"), transforms.list_(name=half)):
        with pytest.raises(InvalidInputError) as caught:
            exchange(request).attempt()
        assert str(caught.value).startswith(
            f"{request.endpoint.name}: an argument contains text that UTF-8 can't encode"
        )


def test_the_key_is_not_sent_to_another_origin() -> None:
    request = Request(RUN.endpoint, RUN.path, origin="https://elsewhere.example.com")
    with pytest.raises(ProtocolError) as caught:
        exchange(request).attempt()
    assert str(caught.value) == (
        "The service at https://api.example.com sent its client to https://elsewhere.example.com for "
        "GET /elt_stream_runs/r1: refused, because the API key is for one origin only."
    )
    with pytest.raises(ProtocolError, match=r"to https://\*\*\*\.example\.com for"):
        exchange(Request(RUN.endpoint, RUN.path, origin=f"https://{KEY}.example.com")).attempt()
    for origin in ("HTTPS://api.example.com:443/x", "https://API.example.com", "https://api.example.com:443"):
        assert exchange(Request(RUN.endpoint, RUN.path, origin=origin)).attempt().url


# Responses.


@pytest.mark.parametrize(
    ("date", "seconds"), [(DATE, SECONDS), (None, None), ("yesterday", None), ("Tue, 06 Jan 99999 00:00:10 GMT", None)]
)
def test_page_contains_the_time_of_the_service(date: str | None, seconds: float | None) -> None:
    headers = {} if date is None else {"date": date}
    page = exchange(elt_stream_runs.list_("s")).received(
        ResponseHead(200, "", headers), b'{"data": [], "has_more": false}'
    )
    assert not isinstance(page, RetryAfter)
    assert page.answered_at == seconds


def test_endpoint_without_content_accepts_any_text() -> None:
    for body in (b"", b"{}", b"null", b"  ", b"done", b"Deleted: the sync, and its streams"):
        for given in (head(204), head(content_type="application/json"), head(content_type="text/plain")):
            assert exchange(elt_syncs.enable("y")).received(given, body) is None


def test_a_redirect_names_the_address_to_check() -> None:
    with pytest.raises(ProtocolError) as caught:
        exchange().received(head(302), b"")
    assert str(caught.value) == (
        "GET /elt_stream_runs/r1 at https://api.example.com answered 302, a redirect, which is not followed.\n"
        f"Check the host (base address) of {NAMED}."
    )
    with pytest.raises(ProtocolError, match="answered 300, a redirect"):
        exchange().received(head(300), b"")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": {}}', "started_at: "),
        (b'{"id": ["' + KEY.encode() + b'"]}', "id: Input should be a valid string"),
        (b"<html>", "Invalid JSON: expected value at line 1 column 1"),
    ],
)
def test_an_undocumented_response_names_the_field(body: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        exchange().received(head(200, content_type="text/x\n" + "y" * 100), body)
    first, second = str(caught.value).splitlines()
    reported = f"text/x {'y' * 72}…"
    assert first.startswith(
        f"GET /elt_stream_runs/r1 at {AT} answered 200 ({reported}) with a body that does not match the interface: "
    )
    assert f"does not match the interface: {problem}" in first
    assert first.endswith(".")
    assert second == f"Check that the host (base address) of {NAMED} is that of the management interface."
    assert KEY not in str(caught.value)
    assert "http" not in first.partition("does not match the interface: ")[2]


def test_error_names_a_missing_content_type_and_a_nested_field() -> None:
    message = r"200 \(no content type\) with a body that does not match the interface: data\.0\.id: Field required\."
    with pytest.raises(ProtocolError, match=message):
        exchange(elt_stream_runs.list_("s")).received(head(), b'{"data": [{}], "has_more": false}')


@pytest.mark.parametrize(("encoding", "is_read"), [("", True), (" GZIP ", True), ("identity", True), ("br", False)])
def test_a_body_in_another_encoding_is_refused(encoding: str, *, is_read: bool) -> None:
    if is_read:
        assert exchange().open_body(head(content_encoding=encoding)).whole() == b""
        return
    with pytest.raises(ProtocolError) as caught:
        exchange().open_body(head(content_encoding=encoding))
    assert str(caught.value) == (
        f"GET /elt_stream_runs/r1 at {AT} answered in the encoding 'br', which was not requested."
    )


def test_a_body_beyond_the_limit_is_not_read() -> None:
    attempts = exchange(max_answer_bytes=5_000)
    reader = attempts.open_body(head())
    reader.feed(b"1" * 5_000)
    with pytest.raises(TooLarge) as caught:
        reader.feed(b"2")
    with pytest.raises(ProtocolError) as error:
        attempts.failed(caught.value)
    assert str(error.value) == (
        f"GET /elt_stream_runs/r1 at {AT} returned more than 5,000 bytes; the rest was not read."
    )


def test_message_about_an_unreadable_body() -> None:
    with pytest.raises(ProtocolError) as error:
        exchange().failed(Unreadable())
    assert str(error.value) == f"GET /elt_stream_runs/r1 at {AT} returned a body that cannot be decompressed."


# Refusals.


@pytest.mark.parametrize(
    ("status", "cause", "hint"),
    [
        (401, "The service does not accept the API key", f"Check the password (API key) of {NAMED}."),
        (403, "The API key does not allow this request", f"Check what the API key of {NAMED} is allowed to do."),
        (404, "Not found", f"Check the ID, and that the API key of {NAMED} belongs to the same account."),
        (409, "Conflict", None),
        (429, "Too many requests", f"Raise the poll interval, or set a lower max_requests_per_second of {NAMED}."),
        (503, "The service failed", "Try again later."),
        (400, "The service refused the request", None),
        (418, "The service refused the request", None),
    ],
)
def test_a_refusal_has_cause_request_and_hint(status: int, cause: str, hint: str | None) -> None:
    error = refused(status, b'{"error_code": "c", "message": "No, not so..."}')
    lines = [f"{cause}: No, not so.", f"Request: GET /elt_stream_runs/r1 at {AT} answered {status}."]
    assert str(error).splitlines() == [*lines, *([] if hint is None else [hint])]
    assert (error.status, error.error_code, error.request) == (status, "c", RUN)


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "Check the API key."), (403, "Check what the API key is allowed to do.")]
)
def test_hints_without_a_connection(status: int, hint: str) -> None:
    with pytest.raises(ApiError) as caught:
        exchange(connection="").received(head(status), b"")
    assert str(caught.value).splitlines()[-1] == hint


@pytest.mark.parametrize(
    ("body", "reason", "text", "code"),
    [
        (b'{"message": "Only a message"}', "Bad", "Only a message", ""),
        (b'{"message": 7, "error_code": 8}', "Bad", "7", ""),
        (b'{"detail": "another"}', "Bad", "Bad", None),
        (b"[1]", "Bad", "Bad", None),
        (b"null", "Bad", "Bad", None),
        (b"\xff\xfe", "Bad", "Bad", None),
        (b'{"error_code": "x', "Bad", "Bad", None),
        (b"", "Bad", "Bad", None),
        (b"<html>", "", "no reason", None),
        (b"[" * 100_000, "", "no reason", None),
    ],
)
def test_a_refusal_without_the_documented_body(body: bytes, reason: str, text: str, code: str | None) -> None:
    error = refused(400, body, reason=reason)
    assert str(error).splitlines()[0] == f"The service refused the request: {text}."
    assert error.error_code == code


def test_a_conflict_names_the_active_run() -> None:
    error = refused(409, b'{"error_code": "e", "message": "m", "active_run_id": "r9"}', START)
    assert isinstance(error, ConflictError)
    assert error.active_run_id == "r9"
    for body in (b"", b"{}", b"[]", b'{"error_code": "e", "message": "m"}'):
        assert refused(409, body, START).active_run_id is None


def test_retry_after_is_parsed() -> None:
    assert refused(429, b"", retry_after="120").retry_after == 120
    assert refused(429, b"").retry_after is None
    later = time.time() + 1_000
    for form in (str(int(later)), formatdate(later, usegmt=True)):
        assert refused(429, b"", retry_after=form).retry_after == pytest.approx(1_000, abs=60)


@pytest.mark.parametrize(
    "request_",
    [
        elt_syncs.update("y", elt_settings={"password": "canary-1", "more": [{"token": "canary-1-and-2"}], "a": "eu"}),
        reverse_etl_syncs.settings_schema(connection_id="c", object_type="o", partial_settings={"p": "canary-1"}),
        connection_bridges.create(
            redirect_uri="https://app.example.com/", integration_id="files", label="l", state="canary-1"
        ),
    ],
)
def test_the_key_and_secrets_of_the_request_are_masked(request_: Request[Any]) -> None:
    body = f'{{"error_code": "canary-1", "message": "{KEY} and canary-1 of the eu are wrong"}}'.encode()
    error = refused(400, body, request_)
    assert str(error).splitlines()[0] == "The service refused the request: *** and *** of the eu are wrong."
    assert error.error_code == "***"


@pytest.mark.parametrize(("key", "mask"), [("k-1", None), (KEY, Mask((KEY, "proxy-password")))])
def test_short_keys_and_further_secrets_are_masked(key: str, mask: Mask | None) -> None:
    settings = Settings(base_url=BASE, api_key=key, retry=RetryPolicy(budget=0))
    message = f"the key {key} is wrong, proxy-password"
    with pytest.raises(ApiError, match=r"request: the key \*\*\* is wrong, ") as caught:
        RequestAttempts(settings, RUN, mask).received(
            head(400), f'{{"error_code": "c", "message": "{message}"}}'.encode()
        )
    assert ("proxy-password" in str(caught.value)) == (mask is None)


# No response.


def lost(
    cause: Exception | None = None, *, sent: bool = True, timed_out: bool = False, reason: str = ""
) -> TransportFailure:
    return TransportFailure(cause or OSError(), sent, timed_out, reason)


@pytest.mark.parametrize(
    ("failure", "how"),
    [
        (lost(timed_out=True), "within 7.5 s"),
        (lost(timed_out=True, sent=False), "in time: no connection was established"),
        (lost(reason="closed by\nthe peer"), "(closed by the peer)"),
        (lost(), "(OSError)"),
        (lost(reason=f"http://user:secret@proxy and {KEY}", sent=False), "(http://***@proxy and ***)"),
    ],
)
def test_a_lost_response_has_cause_and_hint(failure: TransportFailure, how: str) -> None:
    with pytest.raises(TransportError) as caught:
        exchange(timeout=7.5).failed(failure)
    assert str(caught.value) == (
        f"GET /elt_stream_runs/r1 got no answer from {AT} {how}.\n"
        f"Check the host (base address) of {NAMED}, and that the service is up."
    )
    assert caught.value.sent is failure.sent
    assert isinstance(caught.value, RequestTimeoutError) is failure.timed_out


@pytest.mark.parametrize("chain", ["itself", "cause", "context"])
def test_an_untrusted_certificate_names_the_setting(chain: str) -> None:
    certificate = ssl.SSLCertVerificationError(1, "failed")
    certificate.verify_message = "self-signed certificate"
    error: Exception = certificate
    if chain != "itself":
        error = OSError("connect")
        setattr(error, f"__{chain}__", certificate)
    with pytest.raises(ConfigurationError) as caught:
        exchange().failed(lost(error))
    assert str(caught.value) == (
        f"{AT} shows a certificate that is not trusted (self-signed certificate).\nIf it is the right server, set "
        f"ca_bundle of {NAMED} to the certificate of its authority."
    )


# Attempts.


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of the exchange, which tests can set. Delays have no jitter."""
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(random, "random", lambda: 1.0)
    return now


def test_a_failed_read_is_retried_within_the_budget(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    attempts = exchange(retry=RetryPolicy(budget=10, first_delay=2, longest_delay=60))
    attempts.attempt()
    assert attempts.received(head(503, f"broken, {KEY}"), b"") == RetryAfter(2.0)
    attempts.attempt()
    clock[0] += 6
    assert attempts.failed(lost()) == RetryAfter(4.0)
    attempts.attempt()
    with pytest.raises(ServerError):
        attempts.received(head(503), b"")
    (record,) = caplog.records
    message = record.getMessage()
    assert record.levelname == "WARNING"
    assert message.startswith("The service failed: broken, ***.\nRequest: GET /elt_stream_runs/r1 at ")
    assert message.endswith("\nTrying again for up to 10 s.")


@pytest.mark.usefixtures("clock")
def test_a_success_after_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    attempts = exchange(elt_syncs.enable("y"), retry=RetryPolicy(budget=10))
    attempts.attempt()
    assert isinstance(attempts.received(head(429), b""), RetryAfter)
    attempts.attempt()
    assert attempts.received(head(204), b"") is None
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[1:] == ["POST /elt_syncs/y/enable succeeded at attempt 2."]


def test_a_run_request_that_was_not_sent_is_retried() -> None:
    attempts = exchange(START, retry=RetryPolicy(budget=100))
    attempts.attempt()
    assert isinstance(attempts.failed(lost(sent=False)), RetryAfter)
    attempts.attempt()
    with pytest.raises(TransportError):
        attempts.failed(lost())


def test_request_with_once_is_not_retried() -> None:
    request = Request(RUN.endpoint, RUN.path, once=True)
    attempts = exchange(request, retry=RetryPolicy(budget=100))
    attempts.attempt()
    with pytest.raises(ServerError):
        attempts.received(head(503), b"")
