"""Both clients against a real server: the same answers and the same errors."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from airflow_provider_datapipe.api.async_client import AsyncClient
from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import (
    connection_bridges,
    elt_stream_runs,
    elt_streams,
    elt_syncs,
    orchestrations,
    reverse_etl_syncs,
)
from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    InvalidInputError,
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


def settings_for(server: ScriptedServer, **changed: Any) -> Settings:
    return Settings(base_url=server.url, api_key=KEY, **{"retry": QUICK, **changed})


def test_an_answer_is_typed_and_the_key_is_sent(send: Send) -> None:
    with ScriptedServer([Reply(body=RUN)]) as server:
        run = send(settings_for(server), elt_stream_runs.get("a/b?c"))
    assert run.id == "r1"
    assert run.started_at.timezone_name == "UTC"
    (seen,) = server.seen
    assert seen.path == "/elt_stream_runs/a%2Fb%3Fc"
    assert seen.headers["x-api-key"] == KEY


def test_both_clients_send_the_same() -> None:
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
            # These are about the line, not about the request.
            sent.append((seen.method, seen.path, seen.body, {**headers, "host": "", "connection": ""}))
        assert sent[0] == sent[1]


def test_an_answer_without_content_is_none(send: Send) -> None:
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
def test_a_refusal_is_an_error_of_its_own(send: Send, status: int, expected: type[ApiError]) -> None:
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
def test_a_secret_that_a_response_repeats_is_not_shown(send: Send, request_: Request[Any]) -> None:
    said = "the value canary-1 of the eu is wrong"
    with (
        ScriptedServer([Reply(400, {"error_code": "canary-1", "message": said})]) as server,
        pytest.raises(InvalidRequestError, match=r"the value \*\*\* of the eu is wrong") as failed,
    ):
        send(settings_for(server), request_)
    assert "canary" not in str(failed.value)
    assert failed.value.error_code == "***"


@pytest.mark.parametrize("body", [b"", b"<html><h1>Bad gateway", b'{"error_code": "x', b"[1]", b"null", b"\xff\xfe"])
def test_any_body_of_a_refusal_is_survived(send: Send, body: bytes) -> None:
    with ScriptedServer([Reply(404, body)]) as server, pytest.raises(NotFoundError, match="Not Found"):
        send(settings_for(server), elt_streams.get("s"))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"id": 1', b"[]", b'{"id": "r"}', b"null", b'{"a":' * 5000], ids=lambda body: body[:9]
)
def test_an_undocumented_response_is_a_protocol_error(send: Send, body: bytes) -> None:
    with ScriptedServer([Reply(200, body)]) as server, pytest.raises(ProtocolError) as caught:
        send(settings_for(server), elt_stream_runs.get("r"))
    assert len(str(caught.value)) < 600


def test_a_read_is_sent_again_after_a_server_error(send: Send) -> None:
    with ScriptedServer([Reply(502, b"<html>"), Reply(0), Reply(503), Reply(body=RUN)]) as server:
        assert send(settings_for(server), elt_stream_runs.get("r")).id == "r1"
    assert len(server.seen) == 4


@pytest.mark.parametrize("reply", [Reply(500), Reply(502), Reply(503), Reply(0)], ids=["500", "502", "503", "dropped"])
def test_a_run_request_that_may_have_succeeded_is_not_repeated(send: Send, reply: Reply) -> None:
    with (
        ScriptedServer([reply, Reply(body=REQUESTED)]) as server,
        pytest.raises((ServerError, TransportError)) as caught,
    ):
        send(settings_for(server), elt_streams.request_run("s"))
    assert len(server.seen) == 1
    assert getattr(caught.value, "sent", True)


def test_what_the_rate_limit_turned_away_is_sent_again(send: Send) -> None:
    with ScriptedServer([Reply(429, headers={"retry-after": "0"}), Reply(body=REQUESTED)]) as server:
        assert send(settings_for(server), elt_streams.request_run("s")).status_url == REQUESTED["status_url"]
    assert len(server.seen) == 2


def test_what_is_tried_again_is_logged_once_and_briefly(send: Send, caplog: pytest.LogCaptureFixture) -> None:
    replies = [Reply(500, {"error_code": "e", "message": f"broken, {KEY}"})] * 4 + [Reply(body=RUN)]
    with caplog.at_level("INFO", "airflow_provider_datapipe"), ScriptedServer(replies) as server:
        send(settings_for(server), elt_stream_runs.get("r"))
    ours = [record for record in caplog.records if record.name.startswith("airflow_provider_datapipe")]
    assert [record.levelname for record in ours] == ["WARNING", "INFO"]
    assert "Trying again for up to 5 s" in ours[0].getMessage()
    assert "succeeded at attempt 5" in ours[1].getMessage()
    assert KEY not in caplog.text


@pytest.mark.parametrize("when", ["seconds", "date", "none", "unreadable"])
def test_every_form_of_retry_after_is_followed(send: Send, when: str) -> None:
    in_a_second = format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)
    given = {"seconds": "0", "date": in_a_second, "none": None, "unreadable": "soon"}[when]
    headers = {} if given is None else {"retry-after": given}
    with ScriptedServer([Reply(429, b"", headers), Reply(body=RUN)]) as server:
        assert send(settings_for(server), elt_stream_runs.get("r")).id == "r1"
    assert len(server.seen) == 2


@pytest.mark.parametrize("when", ["seconds", "date", "none"])
def test_a_rate_limit_that_stays_is_an_error_that_says_when(send: Send, when: str) -> None:
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    headers = {"seconds": {"retry-after": "3600"}, "date": {"retry-after": in_an_hour}, "none": {}}[when]
    with ScriptedServer([Reply(429, b"", headers)]) as server, pytest.raises(RateLimitError) as caught:
        send(settings_for(server, retry=RetryPolicy(budget=0)), elt_stream_runs.get("r"))
    after = caught.value.retry_after
    assert after is None if when == "none" else after is not None and 3500 < after <= 3600


@pytest.mark.parametrize("body", [{"error_code": "e", "message": "m"}, {}, [], "no"])
def test_a_conflict_that_does_not_name_the_run(send: Send, body: Any) -> None:
    with ScriptedServer([Reply(409, body)]) as server, pytest.raises(ConflictError) as caught:
        send(settings_for(server), elt_streams.request_run("s"))
    assert caught.value.active_run_id is None
    assert len(server.seen) == 1


def test_a_wait_longer_than_the_budget_is_not_begun(send: Send) -> None:
    with (
        ScriptedServer([Reply(429, headers={"retry-after": "3600"})]) as server,
        pytest.raises(RateLimitError) as caught,
    ):
        send(settings_for(server), elt_stream_runs.get("r"))
    assert caught.value.retry_after == 3600
    assert len(server.seen) == 1


def test_no_answer_in_time_is_a_timeout(send: Send) -> None:
    with ScriptedServer([Reply(delay=30)]) as server, pytest.raises(RequestTimeoutError) as caught:
        send(settings_for(server, timeout=0.2, retry=RetryPolicy(budget=0)), elt_stream_runs.get("r"))
    assert caught.value.sent


def test_nobody_there_is_said_with_the_address(send: Send) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings(base_url=url, api_key=KEY, retry=RetryPolicy(budget=0))
        with pytest.raises(TransportError, match=f"GET /elt_stream_runs/r got no answer from {url}") as caught:
            send(settings, elt_stream_runs.get("r"))
    assert not caught.value.sent


def test_an_endless_answer_is_cut(send: Send) -> None:
    with ScriptedServer([Reply(body=b" " * 100_000)]) as server, pytest.raises(ProtocolError, match="10,000 bytes"):
        send(settings_for(server, max_answer_bytes=10_000), elt_stream_runs.get("r"))


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


def test_pages_are_followed_in_both_spellings() -> None:
    pages = [
        Reply(body={"data": [RUN | {"id": "1"}], "hasMore": True, "nextCursor": "a"}),
        Reply(body={"data": [RUN | {"id": "2"}], "has_more": True, "next_cursor": "b"}),
        Reply(body={"data": [RUN | {"id": "3"}], "has_more": False, "hasMore": False}),
    ]

    async def awaiting(settings: Settings) -> list[str]:
        async with AsyncClient(settings) as client:
            return [run.id async for run in client.pages(elt_stream_runs.list_("s"))]

    with ScriptedServer(pages) as server:
        with Client(settings_for(server)) as client:
            assert [run.id for run in client.pages(elt_stream_runs.list_("s"))] == ["1", "2", "3"]
        assert [seen.path.partition("limit=")[2] for seen in server.seen] == [
            "100",
            "100&starting_after=a",
            "100&starting_after=b",
        ]
    with ScriptedServer(pages) as server:
        assert asyncio.run(awaiting(settings_for(server))) == ["1", "2", "3"]


def test_pages_can_be_bounded() -> None:
    page = {"data": [RUN, RUN], "hasMore": True}
    replies = [Reply(body=page | {"nextCursor": cursor}) for cursor in "abc"]
    with ScriptedServer(replies) as server, Client(settings_for(server)) as client:
        assert len(list(client.pages(elt_stream_runs.list_("s"), limit=2))) == 2
        assert len(server.seen) == 1
        assert len(list(client.pages(elt_stream_runs.list_("s"), limit=3))) == 3


def test_cursors_that_go_round_in_circles_end_the_list() -> None:
    page = {"data": [RUN], "hasMore": True}
    replies = [Reply(body=page | {"nextCursor": cursor}) for cursor in "aba"]
    with (
        ScriptedServer(replies) as server,
        Client(settings_for(server)) as client,
        pytest.raises(ProtocolError, match="never end"),
    ):
        list(client.pages(elt_stream_runs.list_("s")))


def test_a_cursor_that_does_not_move_ends_the_list() -> None:
    endless = Reply(body={"data": [RUN], "hasMore": True, "nextCursor": "a"})
    with ScriptedServer([endless]) as server, Client(settings_for(server)) as client:
        with pytest.raises(ProtocolError, match="never end"):
            list(client.pages(elt_stream_runs.list_("s")))
        assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "must be a URL"),
        ("api.example.com", "must be a URL"),
        ("ftp://api.example.com", "must be a URL"),
        ("https://u:p@api.example.com", "must not hold a user"),
        ("https://api.example.com?x=1", "must not hold"),
        ("http://api.example.com", "Plain http"),
        ("http://[::1", "not a URL"),
        ("https://api..example.com", "can't exist"),
        (f"https://{'a' * 64}.example.com", "can't exist"),
        ("https://api.example.com:65536", "can't exist"),
    ],
)
def test_an_address_that_can_not_be_used_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Settings(base_url=url, api_key=KEY)


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.example",
        "127.0.0.1:80@evil.example",
        "localhost@evil.example",
        "evil.example\\@localhost",
        "localhost.evil.example",
        "localhost%00.evil.example",
        "localhost\0.evil.example",
        "localhost\t.evil.example",
        "localhost,evil.example",
        "localhost ",
        "localhost:port",
        "localhost:\u0668\u0660:1",
        "[::1]:80:80",
        "[fe80::1%25eth0]",
        "[::ffff:127.0.0.1]",
        "\uff4cocalhost",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "",
    ],
)
def test_plain_http_is_refused_for_hosts_like_loopback(host: str) -> None:
    with pytest.raises(ConfigurationError):
        Settings(base_url=f"http://{host}/v1", api_key=KEY)


@pytest.mark.parametrize(
    "url", ["https://api.example.com/v1", "http://localhost:1", "http://127.0.0.1", "http://[::1]:9"]
)
def test_addresses_that_can_be_used(url: str) -> None:
    assert KEY not in repr(Settings(base_url=url, api_key=KEY))


@pytest.mark.parametrize("key", ["", "a\nb", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(base_url="https://api.example.com", api_key=key)
    assert not key or key not in str(caught.value)


def test_plain_http_elsewhere_only_where_it_is_allowed() -> None:
    Settings(base_url="http://api.example.com", api_key=KEY, allow_plain_http=True)


def test_a_ca_bundle_that_is_not_there_is_said() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.pem"):
        Client(Settings(base_url="https://api.example.com", api_key=KEY, ca_bundle="nowhere.pem"))


@pytest.mark.parametrize("proxy", ["proxy:3128", "socks5://proxy:1080", "http://", "http://[::1"])
def test_an_invalid_proxy_is_rejected_without_its_password(proxy: str) -> None:
    with pytest.raises(ConfigurationError, match="proxy must be a URL"):
        Settings(base_url="https://api.example.com", api_key=KEY, proxy=proxy)
    assert "pw" not in repr(Settings(base_url="https://api.example.com", api_key=KEY, proxy="http://u:pw@proxy:3128"))


def test_a_proxy_of_the_environment_that_is_not_http_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://user:pw@127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="no HTTP proxy") as caught:
        AsyncClient(Settings(base_url="https://api.example.com", api_key=KEY))
    assert "pw" not in str(caught.value)
    # The local service is asked directly.
    AsyncClient(Settings(base_url="http://127.0.0.1:1", api_key=KEY))


def test_an_id_that_no_url_can_hold_is_refused(send: Send) -> None:
    with ScriptedServer([Reply()]) as server, pytest.raises(InvalidInputError, match="Nothing was sent"):
        send(settings_for(server), elt_stream_runs.get("x" * 70_000))
    assert server.seen == []


def test_the_same_origin_in_another_spelling_is_the_same(send: Send) -> None:
    request = elt_stream_runs.get("r")
    with ScriptedServer([Reply(body=RUN)]) as server:
        spelt = Request(request.endpoint, request.path, origin=server.url.replace("http:", "HTTP:"))
        assert send(settings_for(server), spelt).id == "r1"


def test_a_path_below_the_base_address_is_kept(send: Send) -> None:
    with ScriptedServer([Reply(body=RUN)]) as server:
        send(Settings(base_url=f"{server.url}/api/v1/", api_key=KEY), elt_stream_runs.get("r"))
    assert server.seen[0].path == "/api/v1/elt_stream_runs/r"


@pytest.mark.parametrize("resource_id", ["", ".", ".."])
def test_an_id_that_would_name_another_resource_is_refused(resource_id: str) -> None:
    with pytest.raises(InvalidInputError, match="is not an id"):
        elt_streams.get(resource_id)
