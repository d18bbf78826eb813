"""Tests of the object types of destinations, and of valid and invalid reverse ETL syncs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_datapipe.api.models.reverse_etl_syncs import AvailableOperations, DestinationSchema, ObjectTypes
from airflow_provider_datapipe.api.models.settings_schema import SettingsSchema
from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.reverse_etl_home import PEOPLE, Home, body, change, seed

Json = dict[str, Any]
SYNCS = "/reverse_etl_syncs"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def home(folder: Path, endpoint: Collection) -> Iterator[Home]:
    with served(seed(folder, endpoint.url)) as (service, _):
        home = Home(service, folder)
        home.load({1: "Ada", 2: "Bob", 3: "Cyd"})
        home.file("2026").mkdir(parents=True)
        home.file("2026/january.jsonl").write_text('{"id": 1}\n')
        home.file("known.jsonl").write_text('{"id": 1, "vip": true, "tags": []}\n{"id": 2, "since": "2026"}\n')
        home.file(".hidden.jsonl").touch()
        home.file("not a type.jsonl").touch()
        home.file("readme.txt").touch()
        home.file("away").symlink_to("/etc")
        yield home


def schema_of(home: Home, connection_id: str = "files", known: Json | None = None) -> Json:
    content = None if known is None else {"partial_settings": known}
    answer = home.api.post(f"{SYNCS}/settings_schema?connection_id={connection_id}&object_type=notes", content)
    SettingsSchema.model_validate(answer)
    jsonschema.Draft7Validator.check_schema(answer)
    assert answer["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert answer["type"] == "object"
    return answer


def choices(schema: Json, field: str) -> list[str] | None:
    reported = schema["properties"][field]
    return [one["const"] for one in reported["oneOf"]] if "oneOf" in reported else reported.get("enum")


def test_object_types_are_files_or_declared_types(home: Home) -> None:
    home.create(object_type_id="to_come")
    found = ObjectTypes.model_validate(home.api.get(f"{SYNCS}/object_types", connection_id="files")).data
    assert {"known", "to_come"} <= {one.id for one in found}
    assert [one.id for one in found] == sorted({one.id for one in found})
    assert not {"readme", ".hidden", "not a type"} & {one.id for one in found}
    declared = home.api.get(f"{SYNCS}/object_types", connection_id="crm")["data"]
    assert declared == [
        {"id": "contacts", "name": "Contacts", "type": "declared", "associations": []},
        {"id": "notes", "name": "notes", "type": "declared", "associations": []},
    ]


def test_available_operations_of_object_types(home: Home) -> None:
    def offered(connection: str, object_type: str) -> dict[str, bool]:
        query = {"connection_id": connection, "object_type_id": object_type}
        answer = home.api.get(f"{SYNCS}/available_operations", **query)
        found = AvailableOperations.model_validate(answer).data
        assert {one.type for one in found} == {"primary"}
        return {str(one.mode): one.primary_key_required for one in found}

    everything = {"insert": False, "update": True, "upsert": True, "mirror": True}
    assert offered("files", "anything") == offered("endpoint", "anything") == offered("crm", "notes") == everything
    assert offered("crm", "contacts") == {"update": True, "upsert": True}
    # What is not offered is refused.
    wrong = body("mirror", destination_connection_id="crm", object_type_id="contacts")
    message = home.api.refused("POST", SYNCS, 400, json=wrong)["message"]
    assert message == "operation: the destination cannot mirror contacts: choose update or upsert."


def test_destination_schema(home: Home) -> None:
    def properties(**query: str) -> dict[str, tuple[str, bool, bool, bool]]:
        query = {"connection_id": "crm", "object_type_id": "contacts", "operation_mode": "MERGE"} | query
        answer = home.api.get(f"{SYNCS}/destination_schema", **{"source_id": "ones", **query})
        found = DestinationSchema.model_validate(answer).data
        return {one.id: (one.property_type, one.readonly, one.is_required, one.is_primary_key) for one in found}

    declared = properties()
    assert declared == {
        "id": ("integer", False, True, True),
        "full_name": ("string", False, True, False),
        "score": ("number", True, False, False),
    }
    assert properties(operation_mode="upsert") == properties(operation_mode="Upsert") == declared
    # Required properties of existing records are optional in an update.
    assert properties(operation_mode="update")["full_name"] == ("string", False, False, False)
    # Without declared properties: existing properties, and the columns of the source.
    known = properties(connection_id="files", object_type_id="known", source_id="raw.shop.people")
    types = {"id": "integer", "vip": "boolean", "tags": "array", "since": "string", "name": "string"}
    assert {name: kind for name, (kind, *_) in known.items()} == types
    assert properties(connection_id="endpoint", object_type_id="x").keys() == {"id", "name"}


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"connection_id": "nope"}, 404, "'nope'"),
        (
            {"connection_id": "data"},
            400,
            "connection_id: 'data' has the integration 'files', which is not a destination",
        ),
        ({"object_type_id": "nope"}, 400, "object_type_id: 'nope' is not an object type of the connection"),
        ({"operation_mode": "APPEND"}, 400, "operation_mode: 'APPEND' is not an operation"),
        ({"operation_mode": "insert"}, 400, "operation_mode: the destination cannot insert contacts"),
        ({"source_id": "nope"}, 404, "'nope'"),
        ({"source_id": "draft"}, 400, "source_id: the transform 'draft' is not in the warehouse: publish it first"),
        ({"source_id": "shop.never"}, 400, "source_id: the raw view 'shop.never' is not in the warehouse"),
    ],
    ids=str,
)
def test_invalid_destination_schema_queries(home: Home, query: Json, status: int, message: str) -> None:
    right = {"connection_id": "crm", "object_type_id": "contacts", "operation_mode": "upsert", "source_id": "ones"}
    home.api.refused("GET", f"{SYNCS}/destination_schema", status, message=message, params=right | query)
    for name in right:
        rest = {other: value for other, value in right.items() if other != name}
        assert name in home.api.refused("GET", f"{SYNCS}/destination_schema", 400, params=rest)["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/object_types?connection_id={}"),
        ("GET", "/available_operations?object_type_id=x&connection_id={}"),
        ("POST", "/settings_schema?object_type=x&connection_id={}"),
    ],
)
def test_connection_must_be_a_destination(home: Home, method: str, path: str) -> None:
    home.api.refused(method, SYNCS + path.format("nope"), 404)
    assert "not a destination" in home.api.refused(method, SYNCS + path.format("data"), 400)["message"]
    home.api.refused(method, SYNCS + path.partition("?")[0], 400)


def test_settings_schema_has_dependent_choices(home: Home) -> None:
    schema = schema_of(home)
    assert schema["dependencies"] == {"file": ["folder"]}
    assert choices(schema, "folder") == [".", "2026"]
    assert choices(schema, "file") is None
    assert choices(schema_of(home, known={}), "file") is None
    assert choices(schema_of(home, known={"folder": "2026"}), "file") == ["january.jsonl"]
    here = choices(schema_of(home, known={"folder": "."}), "file")
    assert here is not None
    assert "known.jsonl" in here
    # Another kind of destination has other settings.
    schema = schema_of(home, "endpoint")
    assert (schema["dependencies"], choices(schema, "method")) == ({"method": ["address"]}, None)
    assert choices(schema_of(home, "crm", {"address": "record"}), "method") == ["PATCH", "PUT"]
    assert choices(schema_of(home, "crm", {"address": "collection"}), "method") == ["POST", "PUT"]


def test_settings_schema_matches_the_validation(home: Home) -> None:
    for known in ({}, {"folder": "2026"}, {"folder": "2026", "file": "january.jsonl"}, {"folder": "2026", "file": "x"}):
        schema = schema_of(home, known={name: value for name, value in known.items() if name == "folder"})
        fits = jsonschema.Draft7Validator(schema).is_valid(known)
        answer = home.api.client.post(SYNCS, json=body(settings=known))
        assert answer.status_code == (201 if fits else 400), answer.text


PARTIAL: list[tuple[Any, str]] = [
    *(({"folder": folder}, ".folder") for folder in ("nowhere", "../source", "away", ["."])),
    ({"nope": 1}, ".nope"),
    ({"file": "january.jsonl"}, ".file"),
    (None, ""),
    ([], ""),
    ({"folder": "\0"}, ""),
]


@pytest.mark.parametrize(("settings", "field"), PARTIAL, ids=str)
def test_invalid_partial_settings(home: Home, settings: Any, field: str) -> None:
    path = f"{SYNCS}/settings_schema?connection_id=files&object_type=notes"
    message = home.api.refused("POST", path, 400, json={"partial_settings": settings})["message"]
    assert message.startswith(f"partial_settings{field}: "), message


INVALID: list[tuple[Json, str]] = [
    ({"source_id": 1}, "source_id: "),
    ({"source_id": "nope"}, "source_id: There is no transform or raw view"),
    ({"source_id": "shop.nope"}, "source_id: There is no transform or raw view"),
    ({"source_id": "draft"}, "source_id: the transform 'draft' is not in the warehouse: publish it first."),
    ({"destination_connection_id": "nope"}, "destination_connection_id: There is no connection"),
    ({"destination_connection_id": "data"}, "destination_connection_id: 'data' has the integration 'files'"),
    ({"surprise": 1}, "surprise: "),
    ({"mode": "delete"}, "operation.mode: "),
    ({"mappings": []}, "operation: "),
    ({"mappings": [PEOPLE[1]]}, "operation: to upsert, mark the mapping of the key with primary_key: true."),
    ({"mappings": [PEOPLE[0], PEOPLE[0]]}, "operation: the property 'id' is mapped more than once."),
    (
        {"mappings": [{**PEOPLE[0], "source_property_id": "ident"}]},
        "operation: the raw view 'shop.people' has no column 'ident': choose among id, name.",
    ),
    ({"mappings": [{**PEOPLE[0], "source_property_id": "\ud800"}]}, ""),
    ({"mappings": [{**PEOPLE[0], "destination_property_id": "\ud800"}]}, ""),
    ({"mappings": [{**PEOPLE[0], "destination_property_id": ""}]}, "operation.mappings.destination_property_id: "),
    ({"mappings": [{**PEOPLE[0], "destination_property_id": "x" * 301}]}, "operation.mappings.destination_"),
    ({"mappings": [{**PEOPLE[0], "primary_key": "yes"}]}, "operation.mappings.0.primary_key: "),
    ({"mappings": [{**PEOPLE[0], "primary_key": None}]}, "operation.mappings.0.primary_key: "),
    ({"mappings": [{**PEOPLE[0], "key": True}]}, "operation.mappings.0.key: "),
    (
        {"mode": "insert", "mappings": [PEOPLE[1]], "destination_connection_id": "endpoint"}
        | {"settings": {"address": "record"}},
        "operation: to insert, mark the mapping of the key",
    ),
    ({"settings": None}, "settings: "),
    ({"settings": {"\udfff": "x"}}, ""),
    ({"settings": {"a": {"b": 1e999}}}, "settings: "),
    ({"settings": {"fold": "."}}, "settings.fold: "),
    ({"settings": {"folder": 7}}, "settings.folder: "),
    ({"settings": {"folder": "nowhere"}}, "settings.folder: "),
    ({"settings": {"file": "x.jsonl"}}, "settings.file: "),
    ({"settings": {"folder": "2026", "file": "x"}}, "settings.file: the value is not one of the choices"),
    (
        {"mode": "update", "destination_connection_id": "endpoint", "settings": {"address": "collection"}},
        "settings.address: an update needs the URL of each record",
    ),
    ({"object_type_id": "../people"}, "object_type_id: "),
    ({"object_type_id": ""}, "object_type_id: "),
    ({"destination_connection_id": "crm", "object_type_id": "nope"}, "object_type_id: "),
    ({"sync_interval": "every day"}, "sync_interval: "),
    ({"sync_interval": "0 0 4 * * *"}, "sync_interval: "),
    ({"sync_interval": None}, "sync_interval: "),
    ({"orchestration_workflow_id": "nope"}, "orchestration_workflow_id: "),
    ({"orchestration_workflow_id": 7}, "orchestration_workflow_id: "),
]


@pytest.mark.parametrize(("wrong", "message"), INVALID, ids=lambda value: str(value)[:60])
def test_invalid_syncs_are_refused(home: Home, wrong: Json, message: str) -> None:
    before = home.api.all_pages(SYNCS)

    def check(path: str, content: Json) -> None:
        refused = home.api.refused("POST", path, 400, json=content)
        assert refused["message"].startswith(message), refused["message"]

    check(SYNCS, body(**wrong))
    assert home.api.all_pages(SYNCS) == before
    destination = wrong.get("destination_connection_id", "files")
    if "source_id" in wrong or destination in ("nope", "data"):
        return
    # A change is checked in the same way.
    sync_id = home.create(destination_connection_id=destination, object_type_id="notes")
    home.deactivate(sync_id)
    unchanged = home.api.get(f"{SYNCS}/{sync_id}")
    rest = {name: value for name, value in wrong.items() if name != "destination_connection_id"}
    check(f"{SYNCS}/{sync_id}", change(**rest))
    assert home.api.get(f"{SYNCS}/{sync_id}") == unchanged
    home.api.delete(f"{SYNCS}/{sync_id}")


@pytest.mark.parametrize(
    ("mode", "mappings", "message"),
    [
        ("upsert", {"id": "id!", "name": "nickname"}, "operation: contacts has no property 'nickname': choose among"),
        ("upsert", {"id": "id!", "name": "score"}, "operation: the property 'score' of contacts is read-only"),
        ("upsert", {"id": "id", "name": "full_name!"}, "operation: the key of contacts is id: mark exactly these"),
        ("upsert", {"id": "id!"}, "operation: contacts requires the property 'full_name': map a column to it."),
        ("update", {"id": "id!"}, None),
        ("upsert", {"id": "id!", "NAME": "full_name"}, None),
    ],
    ids=str,
)
def test_mappings_to_declared_properties(home: Home, mode: str, mappings: dict[str, str], message: str | None) -> None:
    reported = [
        {"source_property_id": column, "destination_property_id": name.rstrip("!"), "primary_key": name.endswith("!")}
        for column, name in mappings.items()
    ]
    content = body(mode, reported, destination_connection_id="crm", object_type_id="contacts")
    if message is None:
        home.post(SYNCS, content, status=201)
    else:
        assert home.api.refused("POST", SYNCS, 400, json=content)["message"].startswith(message)


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        *(
            ("POST", f"{SYNCS}/settings_schema?connection_id=files&object_type={object_type}", "{}")
            for object_type in ("x" * 10_000, "..", "%00", "a%2Fb")
        ),
        ("GET", f"{SYNCS}/available_operations?connection_id=files&object_type_id=..%2F..", ""),
        *(
            ("POST", "/reverse_etl_failed_records/retry?reverse_etl_sync_id=x", content)
            for content in ('{"record_ids": null}', '{"record_ids": [1]}', "{}")
        ),
        ("POST", "/reverse_etl_failed_records/retry", '{"record_ids": []}'),
        ("GET", "/reverse_etl_failed_records?reverse_etl_sync_id=x&starting_after=y", ""),
        ("GET", "/reverse_etl_sync_runs?reverse_etl_sync_id=x&sort_direction=up", ""),
    ],
    ids=lambda value: str(value)[:60],
)
def test_malformed_requests_are_refused(home: Home, method: str, path: str, content: str) -> None:
    home.api.refused(method, path, 400, content=content, headers=JSON)
