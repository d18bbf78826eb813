"""Tests of the object types of destinations, and of valid and invalid reverse ETL syncs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_datapipe.api.models.reverse_etl import AvailableOperations, DestinationSchema, ObjectTypes
from airflow_provider_datapipe.api.models.settings_schema import SettingsSchema
from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.reverse_etl_home import PEOPLE, Home, body, seed
from tests.support.local_service import LocalService

Json = dict[str, Any]
SYNCS = "/reverse_etl_syncs"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Collection]:
    with Collection() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="module")
def home(folder: Path, endpoint: Collection) -> Iterator[Home]:
    with LocalService(seed(folder, endpoint.url), control=True) as service:
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
        assert "Traceback" not in service.log


def schema_of(home: Home, connection_id: str = "files", known: Json | None = None) -> Json:
    content = None if known is None else {"partial_settings": known}
    answer = home.api.post(f"{SYNCS}/settings_schema?connection_id={connection_id}&object_type=notes", content)
    SettingsSchema.model_validate(answer)
    jsonschema.Draft7Validator.check_schema(answer)
    assert answer["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert answer["type"] == "object"
    return answer


def choices(schema: Json, field: str) -> list[str] | None:
    told = schema["properties"][field]
    return [one["const"] for one in told["oneOf"]] if "oneOf" in told else told.get("enum")


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


def test_operations_are_those_of_the_object_type(home: Home) -> None:
    def offered(connection_id: str, object_type_id: str) -> dict[str, bool]:
        answer = home.api.get(
            f"{SYNCS}/available_operations", connection_id=connection_id, object_type_id=object_type_id
        )
        found = AvailableOperations.model_validate(answer).data
        assert {one.type for one in found} == {"primary"}
        return {str(one.mode): one.primary_key_required for one in found}

    everything = {"insert": False, "update": True, "upsert": True, "mirror": True}
    assert offered("files", "anything") == offered("endpoint", "anything") == offered("crm", "notes") == everything
    assert offered("crm", "contacts") == {"update": True, "upsert": True}
    # What is not offered is refused.
    wrong = body("mirror", destination_connection_id="crm", object_type_id="contacts")
    said = home.api.refused("POST", SYNCS, 400, json=wrong)["message"]
    assert said == "operation: the destination cannot mirror contacts: choose update or upsert."


def test_the_schema_of_a_destination_is_what_columns_can_become(home: Home) -> None:
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
    # What is there already need not be given again.
    assert properties(operation_mode="update")["full_name"] == ("string", False, False, False)
    # Where anything goes: what there is, and what the columns would be.
    known = properties(connection_id="files", object_type_id="known", source_id="raw.shop.people")
    assert {name: kind for name, (kind, *_) in known.items()} == {
        "id": "integer",
        "vip": "boolean",
        "tags": "array",
        "since": "string",
        "name": "string",
    }
    assert properties(connection_id="endpoint", object_type_id="x").keys() == {"id", "name"}


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"connection_id": "nope"}, 404, "'nope'"),
        ({"connection_id": "data"}, 400, "connection_id: 'data' is one of 'files', which is no destination"),
        ({"object_type_id": "nope"}, 400, "object_type_id: 'nope' is none of the connection's object types"),
        ({"operation_mode": "APPEND"}, 400, "operation_mode: 'APPEND' is no operation"),
        ({"operation_mode": "insert"}, 400, "operation_mode: the destination cannot insert contacts"),
        ({"source_id": "nope"}, 404, "'nope'"),
        ({"source_id": "draft"}, 400, "source_id: the transform 'draft' is not in the warehouse: publish it first"),
        ({"source_id": "shop.never"}, 400, "source_id: the raw view 'shop.never' is not in the warehouse"),
    ],
    ids=str,
)
def test_a_schema_that_there_is_not(home: Home, query: Json, status: int, said: str) -> None:
    right = {"connection_id": "crm", "object_type_id": "contacts", "operation_mode": "upsert", "source_id": "ones"}
    refusal = home.api.refused("GET", f"{SYNCS}/destination_schema", status, params=right | query)
    assert said in refusal["message"]
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
def test_connections_that_are_none_or_no_destination(home: Home, method: str, path: str) -> None:
    home.api.refused(method, SYNCS + path.format("nope"), 404)
    assert "no destination" in home.api.refused(method, SYNCS + path.format("data"), 400)["message"]
    home.api.refused(method, SYNCS + path.partition("?")[0], 400)


def test_choices_that_depend_on_others_come_with_these(home: Home) -> None:
    schema = schema_of(home)
    assert schema["dependencies"] == {"file": ["folder"]}
    assert choices(schema, "folder") == [".", "2026"]
    assert choices(schema, "file") is None
    assert choices(schema_of(home, known={}), "file") is None
    assert choices(schema_of(home, known={"folder": "2026"}), "file") == ["january.jsonl"]
    here = choices(schema_of(home, known={"folder": "."}), "file")
    assert here is not None
    assert "known.jsonl" in here
    # Of another kind of destination others.
    schema = schema_of(home, "endpoint")
    assert (schema["dependencies"], choices(schema, "method")) == ({"method": ["address"]}, None)
    assert choices(schema_of(home, "crm", {"address": "record"}), "method") == ["PATCH", "PUT"]
    assert choices(schema_of(home, "crm", {"address": "collection"}), "method") == ["POST", "PUT"]


def test_what_the_schema_allows_is_allowed(home: Home) -> None:
    for known in ({}, {"folder": "2026"}, {"folder": "2026", "file": "january.jsonl"}, {"folder": "2026", "file": "x"}):
        schema = schema_of(home, known={name: value for name, value in known.items() if name == "folder"})
        fits = jsonschema.Draft7Validator(schema).is_valid(known)
        answer = home.api.client.post(SYNCS, json=body(settings=known))
        assert answer.status_code == (201 if fits else 400), answer.text


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"partial_settings": {"folder": "nowhere"}}, "partial_settings.folder"),
        ({"partial_settings": {"folder": "../source"}}, "partial_settings.folder"),
        ({"partial_settings": {"folder": "away"}}, "partial_settings.folder"),
        ({"partial_settings": {"folder": ["."]}}, "partial_settings.folder"),
        ({"partial_settings": {"nope": 1}}, "partial_settings.nope"),
        ({"partial_settings": {"file": "january.jsonl"}}, "partial_settings.file"),
        ({"partial_settings": None}, "partial_settings"),
        ({"partial_settings": []}, "partial_settings"),
        ({"partial_settings": {"folder": "\0"}}, "partial_settings"),
        ({"partial": {}}, "partial"),
        ([], "body"),
    ],
    ids=str,
)
def test_partial_settings_that_are_wrong(home: Home, content: Any, field: str) -> None:
    path = f"{SYNCS}/settings_schema?connection_id=files&object_type=notes"
    said = home.api.refused("POST", path, 400, json=content)["message"]
    assert said.startswith(f"{field}: "), said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"source_id": "nope"}, "source_id: There is no transform or raw view"),
        ({"source_id": "shop.nope"}, "source_id: There is no transform or raw view"),
        ({"source_id": "draft"}, "source_id: the transform 'draft' is not in the warehouse: publish it first."),
        ({"destination_connection_id": "nope"}, "destination_connection_id: There is no connection"),
        ({"destination_connection_id": "data"}, "destination_connection_id: 'data' is one of 'files'"),
        ({"mappings": [PEOPLE[1]]}, "operation: to upsert, mark the mapping of the key with primary_key: true."),
        ({"mappings": [PEOPLE[0], PEOPLE[0]]}, "operation: the property 'id' is mapped more than once."),
        (
            {"mappings": [{**PEOPLE[0], "source_property_id": "ident"}]},
            "operation: the raw view 'shop.people' has no column 'ident': choose among id, name.",
        ),
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
        ({"settings": {"folder": "2026", "file": "x"}}, "settings.file: it is none of its choices"),
        ({"settings": {"a": {"b": 1e999}}}, "settings: "),
        (
            {"mode": "update", "destination_connection_id": "endpoint", "settings": {"address": "collection"}},
            "settings.address: to update, each record needs an address of its own",
        ),
        ({"orchestration_workflow_id": 7}, "orchestration_workflow_id: "),
    ],
    ids=str,
)
def test_syncs_that_there_cannot_be(home: Home, wrong: Json, said: str) -> None:
    content = as_bytes(body(**wrong))
    refusal = home.api.refused("POST", SYNCS, 400, content=content, headers={"content-type": "application/json"})
    assert refusal["message"].startswith(said), refusal["message"]


def as_bytes(content: Json) -> bytes:
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("mode", "mappings", "said"),
    [
        ("upsert", {"id": "id!", "name": "nickname"}, "operation: contacts has no property 'nickname': choose among"),
        ("upsert", {"id": "id!", "name": "score"}, "operation: the property 'score' of contacts can be read alone"),
        ("upsert", {"id": "id", "name": "full_name!"}, "operation: the key of contacts is id: mark these"),
        ("upsert", {"id": "id!"}, "operation: contacts requires the property 'full_name': map a column to it."),
        ("update", {"id": "id!"}, None),
        ("upsert", {"id": "id!", "NAME": "full_name"}, None),
    ],
    ids=str,
)
def test_mappings_to_what_is_declared(home: Home, mode: str, mappings: dict[str, str], said: str | None) -> None:
    told = [
        {"source_property_id": column, "destination_property_id": name.rstrip("!"), "primary_key": name.endswith("!")}
        for column, name in mappings.items()
    ]
    content = body(mode, told, destination_connection_id="crm", object_type_id="contacts")
    if said is None:
        home.post(SYNCS, content, status=201)
    else:
        assert home.api.refused("POST", SYNCS, 400, json=content)["message"].startswith(said)


def test_a_schedule_of_its_own_an_orchestration_or_both(home: Home) -> None:
    attached = body(orchestration_workflow_id="nightly")
    both = home.post(SYNCS, attached, status=201)
    # While it is attached, its own schedule is not shown.
    assert ("sync_interval" in both, both["orchestration_workflow_id"]) == (False, "nightly")
    del attached["sync_interval"]
    one = home.post(SYNCS, attached, status=201)
    assert "sync_interval" not in one
    # Its parts are what the orchestration runs.
    home.api.run_orchestration("nightly")
    for sync in (both, one):
        assert len(home.api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=sync["id"])["data"]) == 1
    # What is given when it is changed is the schedule, and nothing else is.
    changed = home.update(both["id"], sync_interval="0 5 * * *", settings={"folder": "."})
    assert (changed["sync_interval"], "orchestration_workflow_id" in changed) == ("0 5 * * *", False)
    # Settings that are not given stay.
    again = home.update(both["id"])
    assert again["settings"] == {"folder": "."}
    without = {**body(), "sync_interval": None}
    del without["sync_interval"]
    assert home.api.refused("POST", SYNCS, 400, json=without)["error_code"] == "no_schedule"
    home.api.client.delete(f"{SYNCS}/{one['id']}")


def test_a_sync_that_is_deleted_is_gone_and_what_it_wrote_stays(home: Home) -> None:
    sync_id = home.create(object_type_id="left")
    run_id = home.api.run_reverse(sync_id).id
    assert home.api.client.delete(f"{SYNCS}/{sync_id}").status_code == 204
    home.api.refused("DELETE", f"{SYNCS}/{sync_id}", 404)
    home.api.refused("GET", f"{SYNCS}/{sync_id}", 404)
    home.api.refused("GET", f"/reverse_etl_sync_runs/{run_id}", 404)
    home.api.refused("GET", f"/reverse_etl_failed_records?reverse_etl_sync_id={sync_id}", 404)
    assert sync_id not in [sync["id"] for sync in home.api.all_pages(SYNCS, limit=100)]
    assert len(home.lines("left.jsonl")) == 3


def test_a_sync_can_be_deleted_while_it_runs(home: Home, endpoint: Collection) -> None:
    endpoint.reset()
    sync_id = home.create(destination_connection_id="endpoint", object_type_id="notes")
    arrived, go_on = threading.Event(), threading.Event()

    def wait(method: str, key: str) -> int:
        arrived.set()
        assert go_on.wait(20)
        return 0

    endpoint.refuses = wait
    home.api.post(f"{SYNCS}/{sync_id}/request_run")
    try:
        assert arrived.wait(10)
        # Deactivated it still runs, so that it cannot be changed.
        home.api.post(f"{SYNCS}/{sync_id}/deactivate", status=204)
        content = {name: body()[name] for name in ("object_type_id", "operation", "sync_interval")}
        said = home.api.refused("POST", f"{SYNCS}/{sync_id}", 400, json=content)
        assert "not over" in said["message"]
        assert home.api.client.delete(f"{SYNCS}/{sync_id}").status_code == 204
    finally:
        go_on.set()
    # It notices after the record that was under way.
    other = home.create(destination_connection_id="endpoint", object_type_id="notes")
    assert home.run(other) == (3, 3, 3, 3, 0)
    deadline = time.monotonic() + 10
    while (calls := len(endpoint.calls)) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert calls == 4


def test_orchestration_does_not_wait_for_a_deleted_sync(home: Home, endpoint: Collection) -> None:
    endpoint.reset()
    sync_id = home.create(
        destination_connection_id="endpoint", object_type_id="waiting", orchestration_workflow_id="nightly"
    )
    arrived, go_on = threading.Event(), threading.Event()

    def wait(method: str, key: str) -> int:
        arrived.set()
        assert go_on.wait(20)
        return 0

    endpoint.refuses = wait
    run = home.api.post("/orchestrations/nightly/request_run")
    try:
        assert arrived.wait(10)
        assert home.api.client.delete(f"{SYNCS}/{sync_id}").status_code == 204
        assert home.api.ended(f"/orchestration_runs/{run['id']}")["status"] == "CANCELED"
    finally:
        go_on.set()


def test_a_source_that_is_deleted_makes_no_runs(home: Home) -> None:
    created = home.api.post(
        "/transforms", {"name": "passing", "sql_template": "SELECT 1 AS id, 'x' AS name", "publish": True}, status=201
    )
    sync_id = home.create(source_id=created["id"])
    assert home.run(sync_id)[0] == 1
    assert home.api.client.delete(f"/transforms/{created['id']}").status_code == 204
    said = home.api.refused("POST", f"{SYNCS}/{sync_id}/request_run", 400)
    assert said["error_code"] == "not_eligible"
    assert "was deleted" in said["message"]
    assert home.api.get(f"{SYNCS}/{sync_id}")["source_id"] == created["id"]
    assert home.api.refused("POST", SYNCS, 400, json=body(source_id=created["id"]))["message"].startswith("source_id: ")
    home.api.run_stream("spare")
    sync_id = home.create(source_id="raw.shop.spare")
    assert home.api.client.delete("/elt_streams/spare").status_code == 204
    said = home.api.refused("POST", f"{SYNCS}/{sync_id}/request_run", 400)
    assert "the raw view 'shop.spare', was deleted" in said["message"]


def test_many_at_once_are_all_answered(home: Home) -> None:
    sync_ids = [home.create(object_type_id="busy") for _ in range(2)]
    content = {name: body()[name] for name in ("object_type_id", "operation", "sync_interval")}
    content["object_type_id"] = "busy"
    asked: list[tuple[str, str, Json | None]] = [
        ("POST", "/activate", None),
        ("POST", "/request_run", None),
        ("POST", "/deactivate", None),
        ("POST", "", content),
        ("GET", "", None),
        ("POST", "/activate", None),
        ("POST", "/request_run", None),
        ("DELETE", "", None),
    ]
    statuses: list[int] = []

    def ask(number: int) -> None:
        # Each begins elsewhere; whoever deletes comes last.
        for step in range(40):
            method, path, sent = asked[(step + number) % (len(asked) - (step < 35))]
            url = f"{SYNCS}/{sync_ids[number % 2]}{path}"
            statuses.append(home.api.client.request(method, url, json=sent).status_code)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 240
    assert set(statuses) <= {200, 204, 400, 404, 409}
    assert {200, 204, 400} <= set(statuses)


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", SYNCS, '{"source_id": "\\ud800"}'),
        ("POST", SYNCS, "[" * 100_000),
        ("POST", SYNCS, '{"settings": ' + '{"a":' * 100_000),
        ("POST", f"{SYNCS}/x", "null"),
        ("POST", f"{SYNCS}/settings_schema?connection_id=files&object_type={'x' * 10_000}", "{}"),
        ("POST", f"{SYNCS}/settings_schema?connection_id=files&object_type=..", "{}"),
        ("POST", f"{SYNCS}/settings_schema?connection_id=files&object_type=%00", "{}"),
        ("POST", f"{SYNCS}/settings_schema?connection_id=files&object_type=a%2Fb", "{}"),
        ("GET", f"{SYNCS}/available_operations?connection_id=files&object_type_id=..%2F..", ""),
        ("POST", "/reverse_etl_failed_records/retry?reverse_etl_sync_id=x", '{"record_ids": null}'),
        ("POST", "/reverse_etl_failed_records/retry?reverse_etl_sync_id=x", '{"record_ids": [1]}'),
        ("POST", "/reverse_etl_failed_records/retry?reverse_etl_sync_id=x", "{}"),
        ("POST", "/reverse_etl_failed_records/retry", '{"record_ids": []}'),
        ("GET", "/reverse_etl_failed_records?reverse_etl_sync_id=x&starting_after=y", ""),
        ("GET", "/reverse_etl_failed_records?reverse_etl_sync_id=x&limit=101", ""),
        ("GET", "/reverse_etl_failed_records?reverse_etl_sync_id=x&limit=0", ""),
        ("GET", "/reverse_etl_sync_runs?reverse_etl_sync_id=x&sort_direction=up", ""),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_request(home: Home, method: str, path: str, content: str) -> None:
    home.api.refused(method, path, 400, content=content, headers={"content-type": "application/json"})


@pytest.mark.parametrize("field", ["source_property_id", "destination_property_id"])
def test_half_a_character_is_refused_before_it_is_kept(home: Home, field: str) -> None:
    content = as_bytes(body(mappings=[{**PEOPLE[0], field: "\ud800"}]))
    assert b"\\ud800" in content
    home.api.refused("POST", SYNCS, 400, content=content, headers={"content-type": "application/json"})
    content = as_bytes(body(settings={"\udfff": "x"}))
    home.api.refused("POST", SYNCS, 400, content=content, headers={"content-type": "application/json"})
