"""Tests of connections, integrations and connection bridges through the interface."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from jsonschema import Draft7Validator

from airflow_provider_datapipe.api.models.common import ListOrPage, Page
from airflow_provider_datapipe.api.models.connection_bridges import ConnectionBridge, CreatedConnectionBridge
from airflow_provider_datapipe.api.models.integrations import Integration
from airflow_provider_datapipe.api.models.settings_schema import SettingsSchema
from datapipe_local.connectors.destinations import DESTINATIONS
from datapipe_local.connectors.sources import SOURCES
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync, reverse_etl_sync, transform
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

SECRET = "never-to-be-seen"
SECRETS = [SECRET]
SETTINGS: dict[str, dict[str, Any]] = {
    "files": {"path": "/nowhere"},
    "webhook": {
        "authentication": {"method": "basic", "username": "ann", "password": SECRET},
        "tables": [{"name": "orders"}, {"name": "raw", "sync_mode": "packed"}],
    },
    "jsonl": {"path": "/nowhere/out"},
    "http": {"url": "http://127.0.0.1:9/x"},
    "csv": {"path": "/nowhere/out"},
    "sql_tables": {"url": f"postgresql://ann:{SECRET}@127.0.0.1:9/x"},
}
SEED = {
    "connections": [connection(name, name, **settings) for name, settings in SETTINGS.items()],
    "elt_syncs": [elt_sync(f"shop{number}", "files") for number in range(7)],
    "transforms": [transform("one", "SELECT 1 AS x", publish=True)],
    "reverse_etl_syncs": [reverse_etl_sync("export", "one", "jsonl", "ones", "x")],
}
BRIDGE = {"redirect_uri": "https://app.example.com/back", "integration_id": "webhook", "label": "Hooks"}


def test_integrations(api: Api) -> None:
    sources = Page[Integration].model_validate(api.get("/integrations"))
    assert {one.id for one in sources.data} == set(SOURCES) == {"files", "generated", "sql", "webhook"}
    assert api.get("/integrations", ability="EltSource") == api.get("/integrations")
    destinations = Page[Integration].model_validate(api.get("/integrations", ability="ReverseEtlDestination"))
    assert {one.id for one in destinations.data} == set(DESTINATIONS) == {"csv", "http", "jsonl", "sql_tables"}
    for one in (*sources.data, *destinations.data):
        assert one.abilities == (("EltSource",) if one.id in SOURCES else ("ReverseEtlDestination",))
        assert one.name not in ("", one.id)
        assert one.supports_start_date is False


def test_integrations_are_listed_in_pages(api: Api) -> None:
    found = api.all_pages("/integrations", ability="ReverseEtlDestination", limit=1)
    assert [one["id"] for one in found] == ["csv", "http", "jsonl", "sql_tables"]
    for query in ("ability=", "ability=eltSource", "ability=x", "limit=0", "starting_after=x", "id=files"):
        name = query.partition("=")[0]
        assert api.refused("GET", f"/integrations?{query}", 400)["message"].startswith(f"{name}: ")


@pytest.mark.parametrize("connection", SETTINGS)
def test_the_settings_of_a_connection_are_described(api: Api, connection: str) -> None:
    body = api.get(f"/connections/{connection}/settings")
    assert SettingsSchema.model_validate(body).schema_uri == "http://json-schema.org/draft-07/schema#"
    assert body["type"] == "object"
    Draft7Validator.check_schema(body)
    check = Draft7Validator(body)
    assert check.is_valid(SETTINGS[connection])
    assert not check.is_valid({})
    assert SECRET not in str(body)
    # The schema is self-contained.
    assert "$ref" not in str(body)


def test_lists_of_connections_have_no_settings(api: Api) -> None:
    for one in api.all_pages("/connections"):
        assert one.keys() == {"id", "integration_id", "label", "created_at"}


def test_a_connection_is_deleted(api: Api) -> None:
    api.post("/connection_bridges", BRIDGE | {"connection_id": "webhook"}, status=201)
    url = api.get("/connection_bridges")["data"][0]["authorize_url"]
    assert httpx.get(url).status_code == 200
    api.delete("/connections/webhook")
    assert "webhook" not in [one["id"] for one in api.all_pages("/connections")]
    api.refused("DELETE", "/connections/webhook", 404)
    api.refused("GET", "/connections/webhook/settings", 404)
    # Its bridges and its webhooks are also deleted.
    assert api.get("/connection_bridges")["data"] == []
    assert httpx.get(url).status_code == 404
    hook = httpx.post(api.client.base_url.join("/webhooks/webhook/orders"), json={}, auth=("ann", SECRET))
    assert hook.status_code == 404


def test_a_connection_in_use_is_not_deleted(api: Api) -> None:
    message = "the reverse ETL sync 'export'"
    api.refused("DELETE", "/connections/jsonl", 400, code="connection_in_use", message=message)
    refusal = api.refused("DELETE", "/connections/files", 400, message="the ELT sync 'shop0', ")
    assert refusal["message"].count("shop") == 5
    assert "and 2 more" in refusal["message"]
    assert len(api.all_pages("/connections")) == len(SETTINGS)


def test_deleted_resources_stay_deleted_after_init(api: Api, controlled: LocalService) -> None:
    for number in range(7):
        api.delete(f"/elt_syncs/shop{number}")
    for name in ("files", "http"):
        api.delete(f"/connections/{name}")
    controlled.stop()
    controlled.init()
    controlled.start()
    assert [one["id"] for one in api.all_pages("/connections")] == ["webhook", "jsonl", "csv", "sql_tables"]
    assert api.all_pages("/elt_syncs") == []


def test_a_bridge_is_created_and_listed(api: Api, controlled: LocalService) -> None:
    body = api.post("/connection_bridges", BRIDGE, status=201)
    bridge = CreatedConnectionBridge.model_validate(body)
    assert bridge.authorize_url.startswith(f"{controlled.base_url}/authorize/")
    listed = ListOrPage[ConnectionBridge].model_validate(api.get("/connection_bridges"))
    assert [one.authorize_url for one in listed.data] == [bridge.authorize_url]
    assert listed.has_more is False
    other = api.post("/connection_bridges", BRIDGE, status=201)
    # Addresses are unguessable.
    assert len(other["authorize_url"].rpartition("/")[2]) >= 43
    assert other["authorize_url"] != bridge.authorize_url


def test_a_bridge_has_the_host_of_the_request(api: Api) -> None:
    headers = {"host": "datapipe.localhost:8484"}
    body = api.client.post("/connection_bridges", json=BRIDGE, headers=headers).json()
    assert body["authorize_url"].startswith("http://datapipe.localhost:8484/authorize/")
    for host in ("a b", "a/b", "a@b", '"', "]", "x" * 300):
        refusal = api.client.post("/connection_bridges", json=BRIDGE, headers={"host": f"{host}.localhost"})
        assert refusal.status_code == 400, host
    assert api.client.post("/connection_bridges", json=BRIDGE, headers={"host": "localhost:port"}).status_code == 400
    assert len(api.get("/connection_bridges")["data"]) == 1


def test_redirect_uris_that_are_accepted(api: Api) -> None:
    for uri in (
        *("https://app.example.com", "https://app.example.com/", "https://app.example.com/a%20b;c,d/~e"),
        *("https://localhost:8443/back", "http://localhost/back", "http://localhost:3000", "https://[::1]/back"),
        *("HTTPS://APP.example.com/", "https://xn--bcher-kva.example/"),
    ):
        api.post("/connection_bridges", BRIDGE | {"redirect_uri": uri}, status=201)


def test_redirect_uris_that_are_refused(api: Api) -> None:
    host = "https://app.example.com"
    for uri in (
        *("", "app.example.com/back", "//app.example.com/", "https:///back", "https://", "https://-/", "https://./"),
        *("http://app.example.com/back", "http://127.0.0.1:3000/back", "https://127.1/", "https://2130706433/"),
        *(
            f"{host}:443/back",
            f"{host}:8443/",
            f"{host}/back?x=1",
            f"{host}/back?",
            f"{host}/back#part",
            "https://localhost:99999/back",
        ),
        *("https://ann@app.example.com/back", "https://ann:pw@app.example.com/back", f"{host}\\@evil.example/"),
        *(f"{host}/a b", f"{host}/\r\nset-cookie: a=b", f"{host};script-src *", f"{host}/é", f"{host}/\x00"),
        *("https://[::1].evil.example/", "https://a[::1]/", "https://[fe80::1%25eth0]/", "https://a..example/"),
        *("https://bücher.example/", "javascript:alert(1)", "data:text/html,x", "ftp://localhost/"),
        *(f"{host}/{'a' * 3_000}", "x" * 10_000),
    ):
        body = BRIDGE | {"redirect_uri": uri}
        refusal = api.refused("POST", "/connection_bridges", 400, code="invalid_redirect_uri", json=body)
        assert refusal["message"].startswith("redirect_uri: "), uri
    assert api.get("/connection_bridges")["data"] == []


def test_invalid_fields_of_a_bridge(api: Api) -> None:
    invalid: list[tuple[str, int, list[Any]]] = [
        ("integration_id", 404, ["nope", "FILES", "", "x" * 10_000]),
        ("connection_id", 404, ["nope", ""]),
        ("integration_id", 400, [None, 1]),
        ("connection_id", 400, ["files", None, 1, ["webhook"]]),
        ("label", 400, [None, {}]),
        ("state", 400, [None, 7]),
        ("redirect_uri", 400, [None, 10**400]),
        ("expires_at", 400, ["2030-01-01T00:00:00.000Z"]),
    ]
    for field, status, values in invalid:
        for value in values:
            refusal = api.refused("POST", "/connection_bridges", status, json=BRIDGE | {field: value})
            assert status == 404 or refusal["message"].startswith(f"{field}: "), value
    for field in BRIDGE:
        body = {name: value for name, value in BRIDGE.items() if name != field}
        assert api.refused("POST", "/connection_bridges", 400, json=body)["message"].startswith(f"{field}: ")
    assert api.get("/connection_bridges")["data"] == []


def test_lone_surrogates_are_refused(api: Api) -> None:
    for field in ("label", "state", "integration_id", "connection_id", "redirect_uri"):
        body = '{"redirect_uri":"https://a.example/","integration_id":"webhook","label":"x"}'
        content = f'{body[:-1]},"{field}":"\\ud800"}}'
        refusal = api.client.post("/connection_bridges", content=content, headers={"content-type": "application/json"})
        assert refusal.status_code in (400, 404), field
    assert api.get("/connection_bridges")["data"] == []
