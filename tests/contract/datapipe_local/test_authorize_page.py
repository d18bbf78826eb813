"""Tests of the page of a connection bridge over HTTP: fields, form data, and secrets that it never shows."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection
from tests.support.local_service import LocalService

#: Texts that the log does not contain.
SECRETS = ["never-to-be-seen", "/authorize/", "canary"]
SECRET = SECRETS[0]
BRIDGE = {
    "redirect_uri": "https://app.example.com/back",
    "integration_id": "webhook",
    "label": "<script>alert('label')</script>",
    "state": "<s>&=",
}
HOOKS = {
    "authentication": {"method": "basic", "username": "ann", "password": SECRET},
    "tables": [{"name": "orders", "sync_mode": "packed"}, {"name": "more"}],
}
SEED = {"connections": [connection("hooks", "webhook", **HOOKS)]}
GOOD = {"authentication.method": "none", "tables.0.name": "orders", "tables.0.sync_mode": "unpacked"}


class Page(HTMLParser):
    """Tags and text of an HTML page."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in tags]

    def values(self) -> dict[str, str]:
        """Return the values of the text fields by name."""
        return {str(one["name"]): str(one.get("value") or "") for one in self.all("input") if one.get("type") == "text"}


def opened(api: Api, **more: str) -> str:
    url: str = api.post("/connection_bridges", BRIDGE | more, status=201)["authorize_url"]
    return url


def answer(reply: httpx.Response) -> tuple[str, dict[str, str]]:
    """Return the target and the query parameters of a redirect."""
    assert reply.status_code == 303, reply.text
    url = urlsplit(reply.headers["location"])
    return f"{url.scheme}://{url.netloc}{url.path}", dict(parse_qsl(url.query))


def is_closed(url: str, reason: str) -> None:
    """Check that a page shows a reason and no form, and creates nothing."""
    for reply in (httpx.get(url), httpx.post(url, data=GOOD), httpx.post(url, data={"action": "cancel"})):
        assert reply.status_code == 410
        assert reason in Page(reply).text
        assert "<form" not in reply.text
        is_guarded(reply)


def is_guarded(reply: httpx.Response, target: str = "") -> None:
    policy = dict(part.strip().partition(" ")[::2] for part in reply.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"].split() == ["'self'", *([target] if target else [])]
    assert policy["style-src"].startswith("'sha256-")
    assert "unsafe" not in str(policy)
    assert reply.headers.items() >= {
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("content-type", "text/html; charset=utf-8"),
    }


@pytest.mark.parametrize("integration", ["files", "webhook", "http", "jsonl"])
def test_the_page_is_accessible_and_has_no_scripts(api: Api, integration: str) -> None:
    reply = httpx.get(opened(api, integration_id=integration))
    assert reply.status_code == 200
    is_guarded(reply, "https://app.example.com")
    page = Page(reply)
    # The label is text. There is no script, and no resource of another host.
    assert BRIDGE["label"] in page.text
    assert page.all("script", "img", "iframe", "object") == []
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "style"]
    assert [one["href"] for one in page.all("link")] == ["data:,"]
    assert not re.search(r"(src|href|action)=.?(https?:)?//", reply.text)
    # Each field has a label, and each ID is unique.
    fields = [one["id"] for one in page.all("input", "select", "textarea")]
    assert sorted(map(str, fields)) == sorted(str(one["for"]) for one in page.all("label"))
    ids = [one["id"] for _, one in page.tags if "id" in one]
    assert len(set(ids)) == len(ids)
    described = " ".join(str(one["aria-describedby"]) for _, one in page.tags if "aria-describedby" in one).split()
    assert set(described) <= set(ids)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1


def test_a_connection_is_created(api: Api) -> None:
    url = opened(api)
    where, parameters = answer(httpx.post(url, data=GOOD))
    assert where == BRIDGE["redirect_uri"]
    assert parameters.keys() == {"connection_id", "state"}
    assert parameters["state"] == BRIDGE["state"]
    (connection,) = [one for one in api.all_pages("/connections") if one["id"] == parameters["connection_id"]]
    assert (connection["integration_id"], connection["label"]) == ("webhook", BRIDGE["label"])
    hook = httpx.post(api.client.base_url.join(f"/webhooks/{connection['id']}/orders"), json={"a": 1})
    assert hook.json() == {"accepted": 1}
    assert api.get("/connection_bridges")["data"] == []
    # A link works once.
    is_closed(url, "already used")
    assert len(api.all_pages("/connections")) == 2


def test_without_a_state_none_is_returned(api: Api) -> None:
    body = {name: value for name, value in BRIDGE.items() if name != "state"}
    url = api.post("/connection_bridges", body, status=201)["authorize_url"]
    assert answer(httpx.post(url, data={"action": "cancel"}))[1] == {"error": "access_denied"}
    assert answer(httpx.post(url, data=GOOD))[1].keys() == {"connection_id"}
    assert answer(httpx.post(opened(api, state=""), data=GOOD | {"action": "cancel"}))[1] == {"error": "access_denied"}


def test_a_canceled_page_can_still_be_used(api: Api) -> None:
    url = opened(api)
    where, parameters = answer(httpx.post(url, data={"action": "cancel", "tables.0.name": "!"}))
    assert (where, parameters) == (BRIDGE["redirect_uri"], {"error": "access_denied", "state": BRIDGE["state"]})
    assert len(api.all_pages("/connections")) == 1
    assert len(api.get("/connection_bridges")["data"]) == 1
    answer(httpx.post(url, data=GOOD))


def test_concurrent_forms_create_one_connection(api: Api) -> None:
    url = opened(api)
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda _: httpx.post(url, data=GOOD).status_code, range(8))
    assert sorted(replies) == [303] + [410] * 7
    assert len(api.all_pages("/connections")) == 2


def test_errors_are_shown_at_their_fields(api: Api) -> None:
    url = opened(api)
    form = {
        "authentication.method": "basic",
        "authentication.basic.username": "a:b",
        "authentication.basic.password": "canary",
        "tables.0.name": '"><b>',
        "tables.2.name": "orders",
        "tables.2.sync_mode": "packed",
    }
    reply = httpx.post(url, data=form)
    assert reply.status_code == 400
    is_guarded(reply, "https://app.example.com")
    page = Page(reply)
    wrong = {str(one["id"]) for one in page.all("input", "select") if one.get("aria-invalid") == "true"}
    assert wrong == {"authentication.basic.username", "tables.0.name"}
    assert {str(one["href"]) for one in page.all("a")} == {f"#{name}" for name in wrong}
    assert "remove the colon" in page.text.lower()
    # The form has the input again, except for secrets and for the empty row.
    values = page.values()
    assert values["authentication.basic.username"] == "a:b"
    assert (values["tables.0.name"], values["tables.1.name"]) == ('"><b>', "orders")
    assert "canary" not in unescape(reply.text)
    assert [one for one in page.all("input") if one.get("type") == "password" and one.get("value")] == []
    chosen = [one["value"] for one in page.all("option") if "selected" in one]
    assert chosen[:3] == ["basic", "unpacked", "packed"]
    assert len(api.all_pages("/connections")) == 1
    answer(httpx.post(url, data=GOOD))


@pytest.mark.parametrize(
    ("integration", "form", "fields"),
    [
        ("files", {}, {"path"}),
        ("files", {"path": "relative/to/what"}, {"path"}),
        ("files", {"path": "/a\x00b"}, {"path"}),
        ("files", {"path": "/a\nb"}, {"path"}),
        ("http", {"url": "nonsense"}, {"url"}),
        ("http", {"url": "http://[::1"}, {"url"}),
        ("http", {"url": "http://169.254.169.254/latest"}, {"url"}),
        ("http", {"url": "http://10.0.0.1/"}, {"url"}),
        ("http", {"url": "http://2852039166/"}, {"url"}),
        ("jsonl", {"path": "~"}, {"path"}),
        ("jsonl", {"path": "/x", "object_types": "{"}, {"object_types"}),
        ("webhook", {}, {"tables"}),
        ("webhook", GOOD | {"authentication.method": "other"}, {"authentication"}),
        ("webhook", GOOD | {"tables.0.sync_mode": "both"}, {"tables.0.sync_mode"}),
        ("webhook", GOOD | {"tables.0.name": "a__b"}, {"tables.0.name"}),
        ("webhook", GOOD | {"tables.0.name": "x" * 64}, {"tables.0.name"}),
        ("webhook", GOOD | {f"tables.{number}.name": f"t{number}" for number in range(101)}, {"tables"}),
        ("webhook", GOOD | {"authentication.method": "token", "authentication.token.header": "Content-Type"}, None),
        ("webhook", GOOD | {"authentication.method": "hmac"}, None),
    ],
)
def test_invalid_settings(api: Api, integration: str, form: dict[str, str], fields: set[str] | None) -> None:
    reply = httpx.post(opened(api, integration_id=integration), data=form or {"x": "y"})
    assert reply.status_code == 400
    page = Page(reply)
    links = {str(one["href"])[1:] for one in page.all("a")}
    assert links == fields if fields is not None else links
    assert links <= {str(one["id"]) for _, one in page.tags if "id" in one}
    assert "Traceback" not in page.text
    assert "pydantic" not in page.text
    assert "validation error" not in page.text
    assert len(api.all_pages("/connections")) == 1


def test_tables_with_the_same_name(api: Api) -> None:
    reply = httpx.post(opened(api), data=GOOD | {"tables.1.name": "ORDERS"})
    assert reply.status_code == 400
    assert "The names of tables must be unique." in Page(reply).text


def test_more_rows_of_tables(api: Api) -> None:
    form = GOOD | {f"tables.{number}.name": f"t{number}" for number in range(3)} | {"action": "more"}
    reply = httpx.post(opened(api), data=form)
    assert reply.status_code == 200
    values = Page(reply).values()
    assert [values[f"tables.{number}.name"] for number in range(5)] == ["t0", "t1", "t2", "", ""]
    assert len(api.all_pages("/connections")) == 1


def test_a_connection_is_authorized_again(api: Api) -> None:
    url = opened(api, connection_id="hooks", label="After")
    reply = httpx.get(url)
    page = Page(reply)
    assert "Reconnect Webhook" in page.text
    # The form has the settings of the connection, except for secrets.
    values = page.values()
    assert values["authentication.basic.username"] == "ann"
    assert (values["tables.0.name"], values["tables.1.name"]) == ("orders", "more")
    assert SECRET not in reply.text
    form = {"authentication.method": "basic", "authentication.basic.username": "ann", "tables.0.name": "orders"}
    # The password is not taken from the connection: the user has to know it.
    assert httpx.post(url, data=form).status_code == 400
    push = f"{api.client.base_url}/webhooks/hooks/orders"
    assert httpx.post(push, json={}, auth=("ann", SECRET)).status_code == 200
    assert answer(httpx.post(url, data=form | {"authentication.basic.password": "new"}))[1]["connection_id"] == "hooks"
    assert httpx.post(push, json={}, auth=("ann", SECRET)).status_code == 401
    assert httpx.post(push, json={}, auth=("ann", "new")).status_code == 200
    (connection,) = api.all_pages("/connections")
    assert (connection["id"], connection["label"]) == ("hooks", "After")


def test_an_expired_bridge(api: Api, controlled: LocalService) -> None:
    url = opened(api)
    with sqlite3.connect(controlled.home / "state.sqlite", timeout=10) as state:
        state.execute("UPDATE connection_bridges SET expires_at = '2020-01-01T00:00:00.000Z'")
    state.close()
    is_closed(url, "has expired")
    assert len(api.all_pages("/connections")) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_links(api: Api, controlled: LocalService, method: str) -> None:
    opened(api)
    tokens = ("nope", "%00", "%FF", "%E2%82", "%2e", "..%2fauthorize", "x" * 10_000, "'; DROP TABLE x; --", "<script>")
    for token in (*tokens, "❤", "*"):
        url = f"{controlled.base_url}/authorize/{token}"
        reply = httpx.request(method, url, data=GOOD if method == "POST" else None)
        assert reply.status_code == 404, token
        assert "<script" not in reply.text
    assert len(api.all_pages("/connections")) == 1


def test_other_paths_below_authorize_are_refused(controlled: LocalService) -> None:
    for path in ("/authorize/", "/authorize/a/b", "/authorize/../connections", "/authorize/..%2fconnections"):
        reply = httpx.get(httpx.URL(controlled.base_url).copy_with(raw_path=path.encode()))
        assert reply.status_code in (401, 404)
        assert "hooks" not in reply.text


def test_a_link_is_not_an_api_key(api: Api, controlled: LocalService) -> None:
    token = opened(api).rpartition("/")[2]
    for path in ("/connections", f"/connection_bridges/{token}", f"/authorize/{token}/"):
        assert httpx.get(f"{controlled.base_url}{path}").status_code in (401, 404)
    assert httpx.get(f"{controlled.base_url}/connections", headers={"x-api-key": token}).status_code == 401


FORM = "application/x-www-form-urlencoded"


def test_requests_other_than_forms_are_refused(api: Api) -> None:
    url = opened(api, integration_id="files")
    for content, kind, status in (
        (b'{"path": "/x"}', "application/json", 415),
        (b"path=/x", "text/plain", 415),
        (b"path=/x", "multipart/form-data; boundary=x", 415),
        (b"path=%FF", FORM, 400),
        (b"path=\xff", FORM, 400),
        (b"&".join([b"a=b"] * 5_000), FORM, 400),
        (b"path=" + b"x" * 500_000, FORM, 413),
        (b"", FORM, 400),
        (b"=&=&%=&path", FORM, 400),
        (b"tables.99999999999999999999.name=x&tables..name=y&tables.-1.name=z", FORM, 400),
    ):
        reply = httpx.post(url, content=content, headers={"content-type": kind})
        assert reply.status_code == status, content[:50]
        assert "<h1>" in reply.text
    assert len(api.all_pages("/connections")) == 1


def test_a_form_cannot_change_the_redirect(api: Api) -> None:
    form: dict[str, Any] = GOOD | {"redirect_uri": "https://evil.example/", "state": "x", "connection_id": "hooks"}
    where, parameters = answer(httpx.post(f"{opened(api)}?redirect_uri=https://evil.example/", data=form))
    assert where == BRIDGE["redirect_uri"]
    assert parameters["state"] == BRIDGE["state"]
    assert parameters["connection_id"] != "hooks"
