"""Tests of each reverse ETL operation: the state of the destination and the counts of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.reverse_etl_home import PEOPLE, Home, seed
from tests.contract.datapipe_local.seeds import operation

Json = dict[str, Any]
#: Creates a sync with a mode to a destination with objects. Returns its ID, and a function that reads the objects.
Start = Callable[[str, list[Json]], tuple[str, Callable[[], list[Json]]]]

BEFORE = [{"id": 2, "name": "Old", "vip": True}, {"id": 9, "name": "Theirs"}]


@pytest.fixture(scope="module")
def home(folder: Path, endpoint: Collection) -> Iterator[Home]:
    with served(seed(folder, endpoint.url)) as (service, _):
        yield Home(service, folder)


@pytest.fixture(autouse=True)
def fresh(endpoint: Collection) -> None:
    endpoint.reset()


@pytest.fixture(params=["files", "endpoint"])
def start(request: pytest.FixtureRequest, home: Home, endpoint: Collection) -> Start:
    def to_files(mode: str, objects: list[Json]) -> tuple[str, Callable[[], list[Json]]]:
        name = f"{mode}_{len(list(home.file('').glob('*')))}"
        home.file("").mkdir(exist_ok=True)
        home.file(f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
        sync_id = home.create(mode=mode, object_type_id=name)
        return sync_id, lambda: home.lines(f"{name}.jsonl")

    def to_endpoint(mode: str, objects: list[Json]) -> tuple[str, Callable[[], list[Json]]]:
        endpoint.reset(*objects)
        # Other properties stay unchanged, as in a file.
        settings = {} if mode == "insert" else {"address": "record", "method": "PATCH" if mode == "update" else "PUT"}
        sync_id = home.create(mode=mode, destination_connection_id="endpoint", settings=settings)
        return sync_id, lambda: list(endpoint.objects.values())

    return to_files if request.param == "files" else to_endpoint


People = dict[int, str]
ADDED = {9: "Theirs", 1: "Ada", 2: "Bob", 3: "Cyd"}
#: For each mode the steps: the people of the source, the counts of the run, the names of the objects after it.
STEPS: dict[str, list[tuple[People, tuple[int, ...], People]]] = {
    "insert": [
        ({1: "Ada", 2: "Bob", 3: "Cyd"}, (3, 3, 3, 3, 0), ADDED),
        ({1: "Ada L.", 3: "Cyd", 4: "Dan"}, (3, 3, 1, 1, 0), {**ADDED, 4: "Dan"}),
    ],
    "update": [
        ({1: "Ada", 2: "Bob", 3: "Cyd"}, (3, 3, 1, 1, 0), {2: "Bob", 9: "Theirs"}),
        # The record 9 is new, and 3 is gone from the source.
        ({1: "Ada L.", 2: "Bobby", 9: "Ours"}, (3, 3, 2, 2, 0), {2: "Bobby", 9: "Ours"}),
    ],
    "upsert": [
        ({1: "Ada", 2: "Bob", 3: "Cyd"}, (3, 3, 3, 3, 0), ADDED),
        ({1: "Ada L.", 3: "Cyd", 4: "Dan"}, (3, 3, 2, 2, 0), {**ADDED, 1: "Ada L.", 4: "Dan"}),
    ],
    "mirror": [
        ({1: "Ada", 2: "Bob", 3: "Cyd"}, (3, 3, 3, 3, 0), ADDED),
        ({1: "Ada L.", 3: "Cyd", 4: "Dan"}, (3, 3, 3, 3, 0), {1: "Ada L.", 3: "Cyd", 4: "Dan", 9: "Theirs"}),
        ({2: "Bob again"}, (1, 1, 4, 4, 0), {2: "Bob again", 9: "Theirs"}),
    ],
}


@pytest.mark.parametrize("mode", STEPS)
def test_operation(home: Home, start: Start, mode: str) -> None:
    # An insert expects that the object 2 is new.
    sync_id, objects = start(mode, BEFORE[1:] if mode == "insert" else BEFORE)
    for people, counts, expected in STEPS[mode]:
        assert home.run(sync_id, people) == counts
        found = objects()
        assert {one["id"]: one["name"] for one in found} == expected
        assert len(found) == len(expected)
        assert home.run(sync_id) == (len(people), len(people), 0, 0, 0)
    # An update keeps other properties.
    assert mode != "update" or objects()[0] == {"id": 2, "name": "Bobby", "vip": True}
    assert home.failures(sync_id) == {}


def test_refused_deletion_is_a_failed_record(home: Home, endpoint: Collection) -> None:
    home.load({1: "Ada", 2: "Bob", 3: "Cyd"})
    sync_id = home.create(mode="mirror", destination_connection_id="endpoint")
    # A record that was never accepted is not deleted. Its failure is resolved once the source lacks it.
    endpoint.refuses = lambda method, key: 422 if key == "3" or method == "DELETE" else 0
    assert home.run(sync_id) == (3, 3, 3, 2, 1)
    assert home.failures(sync_id) == {"3": "refused with 422"}
    assert home.run(sync_id, {1: "Ada"}) == (1, 1, 1, 0, 1)
    error = "The source no longer has the record, and it could not be deleted: refused with 422"
    assert home.failures(sync_id) == {"2": error}
    assert home.run(sync_id) == (1, 1, 0, 0, 0)
    endpoint.refuses = lambda method, key: 0
    home.retry_all(sync_id)
    assert home.run(sync_id) == (1, 1, 1, 1, 0)
    assert list(endpoint.objects) == ["1"]
    assert endpoint.calls[-1] == ("DELETE", "/people/2")
    assert home.failures(sync_id) == {}


def test_mirror_deletes_a_record_whose_update_was_refused(home: Home, endpoint: Collection) -> None:
    home.load({1: "Ada", 2: "Bob"})
    sync_id = home.create(mode="mirror", destination_connection_id="endpoint")
    assert home.run(sync_id) == (2, 2, 2, 2, 0)
    endpoint.refuses = lambda method, key: 422 if method == "POST" else 0
    assert home.run(sync_id, {1: "Ada", 2: "Bobby"}) == (2, 2, 1, 0, 1)
    assert home.run(sync_id, {1: "Ada"}) == (1, 1, 1, 1, 0)
    assert list(endpoint.objects) == ["1"]
    # A record that the destination lacks already counts as deleted.
    endpoint.reset()
    assert home.run(sync_id, {2: "Bob"}) == (1, 1, 2, 2, 0)
    assert list(endpoint.objects) == ["2"]


def test_settings_choose_the_address_and_method(home: Home, endpoint: Collection) -> None:
    home.load({1: "Ada"})
    sent = []
    for settings in ({}, {"address": "collection", "method": "PUT"}, {"address": "record"}):
        endpoint.reset({"id": 1})
        home.run(home.create(destination_connection_id="endpoint", settings=settings))
        sent += endpoint.calls
    assert sent == [("POST", "/people"), ("PUT", "/people"), ("PATCH", "/people/1")]


def test_keys_that_are_not_path_segments_fail(home: Home, endpoint: Collection) -> None:
    endpoint.reset({"id": "a/b?c"})
    home.load({1: "..", 2: "a/b?c", 3: "."})
    mappings = [{"source_property_id": "name", "destination_property_id": "id", "primary_key": True}]
    sync_id = home.create(mode="update", mappings=mappings, destination_connection_id="endpoint")
    assert home.run(sync_id) == (3, 3, 3, 1, 2)
    assert list(home.failures(sync_id)) == [".", ".."]
    assert endpoint.calls == [("PATCH", "/people/a/b?c")]


def test_keys_of_all_kinds(home: Home, endpoint: Collection) -> None:
    keys = ["", "a\nb", "❤", "x" * 10_000, "'; DROP TABLE reverse_etl_records; --", "a|b"]
    listed = ", ".join("'" + key.replace("'", "''") + "'" for key in keys)
    keyed = {"name": "keys", "sql_template": f"SELECT unnest([{listed}]) AS id", "publish": True}
    created = home.api.post("/transforms", keyed, status=201)
    to = {"operation": operation("id", mode="mirror"), "source_id": created["id"], "object_type_id": "keys"}
    to_file, to_endpoint = home.create(**to), home.create(**to, destination_connection_id="endpoint")
    assert home.run(to_file) == (6, 6, 6, 6, 0)
    assert {line["id"] for line in home.lines("keys.jsonl")} == set(keys)
    endpoint.refuses = lambda method, key: 422
    assert home.run(to_endpoint) == (6, 6, 6, 0, 6)
    assert home.failures(to_endpoint).keys() == set(keys)
    home.retry(to_endpoint, *keys[:5])
    assert list(home.failures(to_endpoint)) == ["a|b"]
    # All of them are deleted.
    home.api.client.patch(f"/transforms/{created['id']}", json={"sql_template": "SELECT 'z' AS id", "publish": True})
    assert home.run(to_file) == (1, 1, 7, 7, 0)
    assert home.lines("keys.jsonl") == [{"id": "z"}]


def test_new_object_type_receives_all_records(home: Home) -> None:
    home.load({1: "Ada", 2: "Bob"})
    sync_id = home.create(object_type_id="moved")
    assert home.run(sync_id) == (2, 2, 2, 2, 0)
    # The same target: records are sent only if a mapping changes them.
    home.update(sync_id, object_type_id="moved", mode="mirror")
    assert home.run(sync_id) == (2, 2, 0, 0, 0)
    more = [*PEOPLE, {"source_property_id": "name", "destination_property_id": "title"}]
    home.update(sync_id, object_type_id="moved", mode="mirror", mappings=more)
    assert home.run(sync_id) == (2, 2, 2, 2, 0)
    assert home.lines("moved.jsonl")[0] == {"id": 1, "name": "Ada", "title": "Ada"}
    # Another target: the records of the first one stay there.
    home.update(sync_id, object_type_id="moved_on", mode="mirror")
    assert home.run(sync_id, {1: "Ada"}) == (1, 1, 1, 1, 0)
    assert len(home.lines("moved.jsonl")) == 2
    assert home.lines("moved_on.jsonl") == [{"id": 1, "name": "Ada"}]


def test_file_settings_choose_folder_and_file(home: Home) -> None:
    home.load({1: "Ada"})
    home.file("2026").mkdir(parents=True, exist_ok=True)
    home.file("2026/old.jsonl").write_text('{"id": 1, "name": "?"}\nno JSON\n[1]\n{"id": "01"}')
    home.run(home.create(object_type_id="folder", settings={"folder": "2026"}))
    home.run(home.create(object_type_id="folder", settings={"folder": "2026", "file": "old.jsonl"}))
    assert home.lines("2026/folder.jsonl") == [{"id": 1, "name": "Ada"}]
    # Lines that are not records, and records with other keys, stay unchanged.
    assert home.file("2026/old.jsonl").read_text() == '{"id": 1, "name": "Ada"}\nno JSON\n[1]\n{"id": "01"}\n'


def test_two_syncs_write_to_one_file(home: Home) -> None:
    home.load({1: "Ada", 2: "Bob"})
    titles = [PEOPLE[0], {"source_property_id": "name", "destination_property_id": "title"}]
    sync_ids = [home.create(object_type_id="shared", mappings=mappings) for mappings in (PEOPLE, titles)]
    urls = [home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"] for sync_id in sync_ids]
    assert [home.api.ended(url)["synced_rows"] for url in urls] == [2, 2]
    assert [sorted(line.items()) for line in home.lines("shared.jsonl")] == [
        [("id", 1), ("name", "Ada"), ("title", "Ada")],
        [("id", 2), ("name", "Bob"), ("title", "Bob")],
    ]
    assert list(home.file("").glob(".*")) == []
