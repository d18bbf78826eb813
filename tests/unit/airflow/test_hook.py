"""Hook and connection settings, with Airflow connections from environment variables."""

from __future__ import annotations

import importlib
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import connections
from airflow_provider_datapipe.api.errors import AuthenticationError, ConfigurationError
from airflow_provider_datapipe.get_provider_info import CONNECTION_FIELDS, get_provider_info
from airflow_provider_datapipe.hooks.connection import ConnectionExtra
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.runs.names import NameLookupError
from tests.support import responses
from tests.support.airflow_versions import since
from tests.support.scripted_server import Reply, ScriptedServer
from tests.unit.runs import model_service

KEY = "key-that-must-not-show"
HOST = "https://api.example.com"
EMPTY = Reply(body={"data": [], "hasMore": False})
Connect = Callable[..., DatapipeHook]
#: Older versions report that such a connection is not defined.
READABLE = since("3.2", "connections whose extra is not an object")


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def make(host: str | None, *, extra: dict[str, Any] | None = None, **fields: Any) -> DatapipeHook:
        connection = {"conn_type": "datapipe", "host": host, "password": KEY, "extra": extra or {}} | fields
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", json.dumps(connection))
        return DatapipeHook("datapipe_test")

    return make


OTHER = "The response does not come from the service's management interface."


@pytest.mark.parametrize(
    ("reply", "healthy", "message"),
    [
        (EMPTY, True, "The service at {url} is healthy and accepts the API key."),
        (
            Reply(401, {"error_code": "unauthorized", "message": f"bad key {KEY}"}),
            False,
            "The service is there, but does not accept the API key.",
        ),
        (Reply(404, b"<html>"), False, OTHER),
        (Reply(200, b"<html>hello"), False, OTHER),
        (Reply(301), False, OTHER),
        (Reply(500), False, "The service is there, but has a problem."),
    ],
    ids=["healthy", "wrong key", "not found", "a web page", "redirect", "broken"],
)
def test_test_connection_explains_each_problem(connect: Connect, reply: Reply, healthy: bool, message: str) -> None:
    with ScriptedServer([reply]) as server:
        result = connect(server.url).test_connection()
    assert result[0] == healthy
    assert result[1].startswith(message.format(url=server.url))
    assert KEY not in result[1]
    assert len(server.seen) == 1


def test_test_connection_explains_an_unreachable_host(connect: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        healthy, message = connect(f"http://127.0.0.1:{taken.getsockname()[1]}").test_connection()
    assert not healthy
    assert "got no answer from http://127.0.0.1" in message
    assert "Check the host (base address) of this connection" in message


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"host": None}, "There is no base address: .*\nCheck the Airflow connection `datapipe_test`"),
        ({"host": "http://api.example.com"}, "Plain http to api.example.com"),
        ({"password": None}, "There is no API key"),
        ({"extra": {"timeout": "soon"}}, "Extra field timeout: Input should be a"),
        ({"extra": {"timeout": 0}}, "Extra field timeout"),
        ({"extra": {"timeout": 1e10}}, "Extra field timeout"),
        *(
            pytest.param({"extra": extra}, "a value of type .*must be an object.*\nCheck the", marks=READABLE)
            for extra in ("[]", "5", json.dumps(json.dumps({"timeout": 5})))
        ),
        ({"extra": {"max_connections": 0}}, "Extra field max_connections"),
        *(
            (
                {"extra": {"max_requests_per_second": rate}},
                "Extra field max_requests_per_second: .*\nCheck the Airflow connection `datapipe_test`",
            )
            for rate in (0, -1, "many", "nan", "inf")
        ),
        ({"extra": {"ca_bundle": "nowhere.pem"}}, r"nowhere\.pem"),
        *(
            ({"extra": {"link": link}}, r"Extra field link: must be an http or .*\{id")
            for link in ("javascript:alert({id})", "https://app.example.com/", "app.example.com/{id}")
        ),
    ],
)
def test_error_of_an_unusable_connection(connect: Connect, fields: dict[str, Any], problem: str) -> None:
    hook = connect(**({"host": HOST} | fields))
    with pytest.raises(ConfigurationError, match=problem) as caught:
        hook.get_conn()
    assert KEY not in str(caught.value)
    assert not hook.test_connection()[0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"host": "https://api.example.com/v1"}, "https://api.example.com/v1"),
        ({"host": "api.example.com"}, "https://api.example.com"),
        ({"host": "api.example.com/v1", "port": 8443}, "https://api.example.com:8443/v1"),
        ({"host": "localhost", "schema": "http", "port": 8080}, "http://localhost:8080"),
        ({"host": "http://localhost", "port": 8080}, "http://localhost:8080"),
        ({"host": "http://localhost:1/x", "port": 8080}, "http://localhost:1/x"),
        ({"host": "http://[::1]/x", "port": 8080}, "http://[::1]:8080/x"),
        ({"host": "api.example.com:8443/v1", "port": 443}, "https://api.example.com:8443/v1"),
        ({"host": "::1/x", "schema": "http", "port": 8080}, "http://[::1]:8080/x"),
        ({"host": "fd00::1"}, "https://[fd00::1]"),
        ({"host": "[fd00::1]", "port": 8443}, "https://[fd00::1]:8443"),
        ({"host": "https://api.example.com/v1", "port": "0"}, "https://api.example.com/v1"),
        ({"host": "http://[::1]/x", "port": "0"}, "http://[::1]/x"),
        ({"host": "api.example.com", "port": "0"}, "https://api.example.com"),
    ],
)
def test_spellings_of_the_base_url(connect: Connect, fields: dict[str, Any], expected: str) -> None:
    assert connect(**fields).get_conn().settings.base_url == expected


async def test_uri_connections_and_async_settings(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = await connect(HOST, port="0").aget_settings()
    assert settings.base_url == HOST
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", f"datapipe://:{KEY}@https%3A%2F%2Fapi.example.com:0")
    assert DatapipeHook("datapipe_test").get_conn().settings.base_url == HOST
    # Airflow removes the brackets.
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", f"datapipe://:{KEY}@[::1]:8484/http")
    assert DatapipeHook("datapipe_test").get_conn().settings.base_url == "http://[::1]:8484"


def test_form_has_exactly_the_supported_fields(connect: Connect) -> None:
    assert set(CONNECTION_FIELDS) == set(ConnectionExtra.model_fields)
    for name, field in CONNECTION_FIELDS.items():
        assert field["schema"].get("default") == ConnectionExtra.model_fields[name].default, name


def test_each_form_field_takes_effect(connect: Connect, tmp_path: Any) -> None:
    import certifi

    given = {
        "poll_interval": 7,
        "max_poll_interval": 90,
        "defer_after": 4,
        "timeout": "31",
        "retry_budget": 3,
        "max_connections": 2,
        "max_requests_per_second": "7.5",
        "proxy": "http://127.0.0.1:9",
        "ca_bundle": certifi.where(),
        "allow_plain_http": "true",
        "link": "https://app.example.com/{resource}/{id}",
        "lineage_warehouse": "snowflake://org-acct/ANALYTICS",
    }
    assert set(given) == set(CONNECTION_FIELDS)
    hook = connect("http://api.example.com", extra=given)
    settings = hook.get_conn().settings
    assert given | hook.extra.model_dump(include={"poll_interval", "max_poll_interval", "defer_after"}) == given
    assert (hook.extra.link, hook.extra.lineage_warehouse) == (given["link"], given["lineage_warehouse"])
    assert (settings.timeout, settings.retry.budget, settings.max_connections) == (31, 3, 2)
    assert settings.max_requests_per_second == 7.5
    assert (settings.proxy, settings.ca_bundle) == ("http://127.0.0.1:9", certifi.where())
    assert settings.allow_plain_http


def test_shares_divide_the_rate_limit(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__RATE_LIMIT_SHARES", "4")
    limited = connect(HOST, extra={"max_requests_per_second": 10}).get_conn()
    assert limited.settings.max_requests_per_second == 2.5
    assert connect(HOST).get_conn().settings.max_requests_per_second is None


@pytest.mark.parametrize("shares", ["0", "-1", "1.5", "two", "\N{SUPERSCRIPT TWO}"])
def test_invalid_shares_are_explained(connect: Connect, monkeypatch: pytest.MonkeyPatch, shares: str) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__RATE_LIMIT_SHARES", shares)
    hook = connect(HOST, extra={"max_requests_per_second": 10})
    problem = r"\[datapipe\] rate_limit_shares must be a whole number.*\nCheck the Airflow connection `datapipe_test`"
    with pytest.raises(ConfigurationError, match=problem):
        hook.get_conn()


def test_emptied_form_field_has_its_default(connect: Connect) -> None:
    hook = connect(HOST, extra={"timeout": None, "poll_interval": "", "proxy": ""})
    assert (hook.extra.timeout, hook.extra.poll_interval, hook.extra.proxy) == (60, None, None)


def test_misspelled_field_logs_a_suggestion(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        connect(HOST, extra={"time_out": 3}).get_conn()
    assert "time_out is unknown. Did you mean timeout?" in caplog.text


def test_requests_go_through_the_proxy_of_the_connection(connect: Connect) -> None:
    with ScriptedServer([EMPTY]) as proxy:
        extra = {"proxy": proxy.url, "allow_plain_http": True}
        hook = connect("http://api.example.com", extra=extra)
        assert hook.send(connections.list_()).data == ()
        hook.close()
    assert proxy.seen[0].path == "http://api.example.com/connections"


def test_proxy_of_the_environment_is_ignored_on_loopback(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedServer([EMPTY]) as server:
        assert connect(server.url).test_connection()[0]


def test_pages_work_after_close(connect: Connect) -> None:
    page = {"data": [{"id": "c", "further": 1}], "hasMore": False}
    with ScriptedServer([Reply(body=page)]) as server:
        hook = connect(server.url)
        assert [connection.id for connection in hook.pages(connections.list_())] == ["c"]
        hook.close()
        hook.close()
        assert [connection.id for connection in hook.pages(connections.list_())] == ["c"]
        hook.close()


async def test_asynchronous_methods(connect: Connect) -> None:
    with ScriptedServer([EMPTY, EMPTY, Reply(401)]) as server:
        hook = connect(server.url)
        async with await hook.aget_conn() as client:
            assert (await client.send(connections.list_())).data == ()
        assert (await hook.asend(connections.list_())).data == ()
        with pytest.raises(AuthenticationError):
            await hook.asend(connections.list_())


def test_find_methods_return_resources_by_name(connect: Connect) -> None:
    transform = model_service.transform(id="t").model_dump(mode="json", exclude_none=True)
    found = [responses.elt_stream("s", name="orders"), {"id": "o", "name": "Nightly"}, transform]
    pages = [Reply(body={"data": [item], "hasMore": False}) for item in found]
    with ScriptedServer([*pages, pages[1]]) as server:
        hook = connect(server.url)
        assert hook.find_stream("y", "orders").id == "s"
        assert hook.find_orchestration("Nightly").id == "o"
        assert hook.find_transform("daily", "sales").id == "t"
        with pytest.raises(NameLookupError, match="Did you mean Nightly"):
            hook.find_orchestration("nightly")
        hook.close()


def test_provider_info_lists_existing_modules() -> None:
    info = get_provider_info()
    for section in ("hooks", "operators", "sensors", "triggers"):
        for integration in info[section]:
            for module in integration["python-modules"]:
                importlib.import_module(module)
    connection, _ = info["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name) is DatapipeHook
    assert connection["connection-type"] == DatapipeHook.conn_type
