"""Tests of reverse ETL syncs and their runs: sent records, refused records, retries, deletion."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.reverse_etl_home import PEOPLE, Home, body, change, seed
from tests.contract.datapipe_local.seeds import connection, transform
from tests.support.processes import wait_for

Json = dict[str, Any]
SYNCS = "/reverse_etl_syncs"
THREE = {1: "Ada", 2: "Bob", 3: "Cyd"}
TRANSFORMS = {
    "narrow": "SELECT id, name FROM {{raw.shop.people}}",
    "odd": "SELECT * FROM (VALUES (1, 'a'), (1, 'b'), (NULL, 'c'), (2, 'd|e')) AS t (id, name)",
}
#: Column names without regard to case.
TO_PARTNER: Json = {
    "destination_connection_id": "partner",
    "mappings": [
        {"source_property_id": "id", "destination_property_id": "person_id", "primary_key": True},
        {"source_property_id": "NAME", "destination_property_id": "full_name"},
    ],
}


@pytest.fixture(scope="module")
def home(folder: Path, endpoint: Collection, partner: Partner) -> Iterator[Home]:
    content = seed(folder, endpoint.url)
    content["connections"].append(connection("partner", "http", url=partner.url))
    content["transforms"] += [transform(name, sql) for name, sql in TRANSFORMS.items()]
    misspelt = [{"source_property_id": "nam", "destination_property_id": "n"}]
    # The interface refuses these. A seed can contain them, because its transforms are published later.
    content["reverse_etl_syncs"] = [
        {**body(source_id="draft"), "id": "too_early"},
        {**body(source_id="narrow", mode="insert", mappings=misspelt), "id": "misspelt"},
    ]
    with served(content) as (service, _):
        home = Home(service, folder)
        home.load(THREE)
        for name in TRANSFORMS:
            home.api.post(f"/transforms/{name}/publish")
        yield home


@pytest.fixture(autouse=True)
def fresh(home: Home, endpoint: Collection, partner: Partner) -> None:
    endpoint.reset()
    partner.reset()
    if home.people != THREE:
        home.load(THREE)


def shown(home: Home, sync_id: str) -> Json:
    return home.api.get(f"{SYNCS}/{sync_id}")


def test_create_and_list(home: Home) -> None:
    created = home.post(SYNCS, body(settings={"folder": "."}), status=201)
    assert created["enabled"] is True
    assert (created["source_type"], created["source_id"]) == ("RawView", "shop.people")
    assert "transform_id" not in created
    assert created["settings"] == {"folder": "."}
    assert created["operation"] == body()["operation"]
    assert created["destination_integration_id"] == "jsonl"
    assert shown(home, created["id"]) == created
    assert home.run(created["id"])[3] == 3
    of_transform = home.post(SYNCS, body(source_id="ones"), status=201)
    assert (of_transform["source_type"], of_transform["transform_id"]) == ("Transform", "ones")
    listed = home.api.all_pages(SYNCS, limit=2)
    assert [ReverseEtlSync.model_validate(one).id for one in listed][-2:] == [created["id"], of_transform["id"]]
    assert all("settings" not in one for one in listed)


def test_activate_deactivate_and_update(home: Home) -> None:
    sync_id = home.create(settings={"folder": "."})
    path = f"{SYNCS}/{sync_id}"
    active = shown(home, sync_id)
    home.api.refused("POST", path, 400, code="sync_still_active", json=change())
    assert shown(home, sync_id) == active
    home.deactivate(sync_id)
    idle = shown(home, sync_id)
    assert idle["enabled"] is False
    home.deactivate(sync_id)
    assert shown(home, sync_id) == idle
    home.api.refused("POST", f"{path}/request_run", 400, code="not_eligible", message="deactivated")

    content = change(mode="mirror", object_type_id="other", settings={}, sync_interval="*/5 * * * *")
    updated = home.post(path, content)
    assert {name: updated[name] for name in content} == content
    assert updated["enabled"] is False
    assert (updated["id"], updated["created_at"]) == (active["id"], active["created_at"])
    assert updated["updated_at"] >= active["updated_at"]
    assert shown(home, sync_id) == updated
    home.activate(sync_id)
    again = shown(home, sync_id)
    assert (again["enabled"], again["sync_interval"]) == (True, "*/5 * * * *")
    assert again["updated_at"] >= updated["updated_at"]
    home.activate(sync_id)
    assert shown(home, sync_id) == again
    assert home.run(sync_id)[0] == 3


def test_request_run_returns_the_url_of_the_requested_run(home: Home) -> None:
    path = f"{SYNCS}/{home.create()}/request_run"
    answer = home.api.post(path)
    assert answer.keys() == {"status_url"}
    assert answer["status_url"].startswith("/reverse_etl_sync_runs?")
    first = home.api.ended(answer["status_url"])
    assert first["status"] == "COMPLETED"
    second = home.api.post(path)["status_url"]
    assert home.api.ended(second)["id"] != first["id"]
    assert home.api.first(answer["status_url"]) == home.api.get(f"/reverse_etl_sync_runs/{first['id']}")


def test_conflict_names_the_active_run(home: Home, endpoint: Collection) -> None:
    sync_id = home.create(destination_connection_id="endpoint")
    path = f"{SYNCS}/{sync_id}/request_run"
    with endpoint.held() as arrived:
        url = home.api.post(path)["status_url"]
        assert arrived.wait(10)
        active = home.api.refused("POST", path, 409)["active_run_id"]
    run = home.api.ended(url)
    assert (run["id"], run["status"]) == (active, "COMPLETED")
    assert len(home.api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=sync_id)["data"]) == 1


def test_syncs_that_are_not_eligible(home: Home) -> None:
    home.api.refused("POST", f"{SYNCS}/too_early/request_run", 400, code="not_eligible", message="'draft'")
    early = home.create(source_id="raw.shop.never")
    home.api.refused("POST", f"{SYNCS}/{early}/request_run", 400, message="run its stream first")
    assert home.api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=early)["data"] == []
    home.api.run_stream("never")
    assert home.run(early)[0] == 3


def test_only_new_changed_and_retried_records_are_sent(home: Home, partner: Partner) -> None:
    sync_id = home.create(**TO_PARTNER)
    partner.rule = lambda record: (422, {"message": "no Bobs"}) if record["full_name"] == "Bob" else (200, {})
    assert home.run(sync_id) == (3, 3, 3, 2, 1)
    assert {path for path, _ in partner.received} == {"/people"}
    assert partner.records[0] == {"person_id": 1, "full_name": "Ada"}
    assert home.failures(sync_id) == {"2": "no Bobs"}
    listed = home.api.get("/reverse_etl_failed_records", reverse_etl_sync_id=sync_id, limit=1)["data"]
    assert listed == [{"sync_id": sync_id, "record_id": "2", "error": "no Bobs"}]

    partner.received.clear()
    assert home.run(sync_id) == (3, 3, 0, 0, 0)
    assert partner.records == []
    assert home.failures(sync_id) == {"2": "no Bobs"}

    assert home.run(sync_id, {1: "Ada L.", 2: "Bob", 3: "Cyd", 4: "Dan"}) == (4, 4, 2, 2, 0)
    assert sorted(record["person_id"] for record in partner.records) == [1, 4]

    # A retry removes the failure. The next run sends the record. IDs without a failure change nothing.
    partner.received.clear()
    home.retry(sync_id)
    home.retry(sync_id, "1", "nope")
    assert home.failures(sync_id) == {"2": "no Bobs"}
    home.retry(sync_id, "2", "nope")
    assert home.failures(sync_id) == {}
    assert partner.records == []
    assert home.run(sync_id) == (4, 4, 1, 0, 1)
    assert home.failures(sync_id) == {"2": "no Bobs"}

    partner.reset()
    home.retry_all(sync_id)
    assert home.run(sync_id) == (4, 4, 1, 1, 0)
    assert partner.records == [{"person_id": 2, "full_name": "Bob"}]
    assert home.failures(sync_id) == {}

    # A correction in the source resolves the failure.
    partner.rule = lambda record: (400, {"error": "too short"}) if len(record["full_name"]) < 3 else (200, {})
    assert home.run(sync_id, {1: "Al"}) == (1, 1, 1, 0, 1)
    assert home.run(sync_id, {1: "Ali"}) == (1, 1, 1, 1, 0)
    assert home.failures(sync_id) == {}


@pytest.mark.slow
def test_destination_500_fails_the_run_and_the_next_one_resumes(home: Home, partner: Partner) -> None:
    sync_id = home.create(**TO_PARTNER)
    home.load({n: f"Q{n}" for n in range(200, 204)})
    partner.rule = lambda record: (500, {}) if record["person_id"] > 201 else (200, {})
    run = home.api.run_reverse(sync_id)
    assert run.status == "FAILED"
    assert run.error == (
        f"The destination {partner.url}/people answered 500 Internal Server Error for record '202': correct the cause,"
        " then run the sync again."
    )
    assert (run.synced_rows, run.failed_rows) == (2, 0)
    partner.reset()
    assert home.run(sync_id)[2:] == (2, 2, 0)
    assert [record["person_id"] for record in partner.records] == [202, 203]


def test_rows_with_equal_or_null_keys(home: Home) -> None:
    # The first row of a key is the record. A row without a key is a failed record.
    sync_id = home.create(source_id="odd", object_type_id="odd")
    assert home.run(sync_id) == (4, 3, 3, 2, 1)
    assert sorted(line["name"] for line in home.lines("odd.jsonl")) == ["a", "d|e"]
    assert list(home.failures(sync_id).values()) == ["The key column id is null: the record has no key."]


def test_without_a_key_each_row_is_a_record(home: Home) -> None:
    mappings = [{name: value for name, value in one.items() if name != "primary_key"} for one in PEOPLE]
    sync_id = home.create(mode="insert", mappings=mappings, object_type_id="inserts")
    assert home.run(sync_id, {1: "Ada", 2: "Bob"}) == (2, 2, 2, 2, 0)
    assert home.run(sync_id, {1: "Ada", 2: "Bobby"}) == (2, 2, 1, 1, 0)


def test_column_that_the_source_lacks_fails_the_run(home: Home) -> None:
    error = "models.narrow has no column 'nam' (did you mean 'name'?): it has id, name. Correct the mapping."
    assert home.failure("misspelt") == error
    # The transform itself cannot be read any more.
    sync_id = home.create(source_id="narrow", object_type_id="narrow")
    home.write("id,nom\n1,Ada\n")
    error = "The source, the transform 'narrow', cannot be read: Binder Error: "
    assert home.failure(sync_id).startswith(error)
    home.api.refused("GET", "/transforms/narrow/schema", 400)


def test_own_schedule_orchestration_or_both(home: Home) -> None:
    attached = body(orchestration_workflow_id="nightly")
    both = home.post(SYNCS, attached, status=201)
    # While the sync is attached, its own schedule is not shown.
    assert ("sync_interval" in both, both["orchestration_workflow_id"]) == (False, "nightly")
    del attached["sync_interval"]
    one = home.post(SYNCS, attached, status=201)
    assert "sync_interval" not in one
    home.api.run_orchestration("nightly")
    for sync in (both, one):
        assert len(home.api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=sync["id"])["data"]) == 1
    # A change replaces the schedule. Settings that it does not contain stay.
    changed = home.update(both["id"], sync_interval="0 5 * * *", settings={"folder": "."})
    assert (changed["sync_interval"], "orchestration_workflow_id" in changed) == ("0 5 * * *", False)
    assert home.update(both["id"])["settings"] == {"folder": "."}
    without = body()
    del without["sync_interval"]
    home.api.refused("POST", SYNCS, 400, code="no_schedule", json=without)
    home.api.delete(f"{SYNCS}/{one['id']}")


def test_deleted_sync_leaves_its_file(home: Home) -> None:
    sync_id = home.create(object_type_id="left")
    run_id = home.api.run_reverse(sync_id).id
    home.api.delete(f"{SYNCS}/{sync_id}")
    home.api.refused("DELETE", f"{SYNCS}/{sync_id}", 404)
    for path in (f"{SYNCS}/{sync_id}", f"/reverse_etl_sync_runs/{run_id}"):
        home.api.refused("GET", path, 404)
    home.api.refused("GET", f"/reverse_etl_failed_records?reverse_etl_sync_id={sync_id}", 404)
    assert sync_id not in [sync["id"] for sync in home.api.all_pages(SYNCS, limit=100)]
    assert len(home.lines("left.jsonl")) == 3


def test_delete_during_a_run(home: Home, endpoint: Collection) -> None:
    sync_id = home.create(destination_connection_id="endpoint", object_type_id="notes")
    with endpoint.held() as arrived:
        home.api.post(f"{SYNCS}/{sync_id}/request_run")
        assert arrived.wait(10)
        # The run of a deactivated sync continues, and prevents changes.
        home.deactivate(sync_id)
        home.api.refused("POST", f"{SYNCS}/{sync_id}", 400, message="has an active run", json=change())
        home.api.delete(f"{SYNCS}/{sync_id}")
    # The run ends after the record that it was sending.
    other = home.create(destination_connection_id="endpoint", object_type_id="notes")
    assert home.run(other) == (3, 3, 3, 3, 0)
    wait_for("all requests", lambda: len(endpoint.calls) >= 4, limit=60)
    assert len(endpoint.calls) == 4


def test_orchestration_does_not_wait_for_a_deleted_sync(home: Home, endpoint: Collection) -> None:
    to = {"destination_connection_id": "endpoint", "object_type_id": "waiting"}
    sync_id = home.create(**to, orchestration_workflow_id="nightly")
    with endpoint.held() as arrived:
        run = home.api.post("/orchestrations/nightly/request_run")
        assert arrived.wait(10)
        home.api.delete(f"{SYNCS}/{sync_id}")
        assert home.api.ended(f"/orchestration_runs/{run['id']}")["status"] == "CANCELED"


def test_deleted_source_is_not_eligible(home: Home) -> None:
    passing = {"name": "passing", "sql_template": "SELECT 1 AS id, 'x' AS name", "publish": True}
    source = home.api.post("/transforms", passing, status=201)["id"]
    sync_id = home.create(source_id=source)
    assert home.run(sync_id)[0] == 1
    home.api.delete(f"/transforms/{source}")
    home.api.refused("POST", f"{SYNCS}/{sync_id}/request_run", 400, code="not_eligible", message="was deleted")
    assert shown(home, sync_id)["source_id"] == source
    home.api.refused("POST", SYNCS, 400, message="source_id: ", json=body(source_id=source))
    home.api.run_stream("spare")
    sync_id = home.create(source_id="raw.shop.spare")
    home.api.delete("/elt_streams/spare")
    message = "the raw view 'shop.spare', was deleted"
    home.api.refused("POST", f"{SYNCS}/{sync_id}/request_run", 400, message=message)


def test_concurrent_requests_are_all_answered(home: Home) -> None:
    sync_ids = [home.create(object_type_id="busy") for _ in range(2)]
    requests: list[tuple[str, str, Json | None]] = [
        ("POST", "/activate", None),
        ("POST", "/request_run", None),
        ("POST", "/deactivate", None),
        ("POST", "", change(object_type_id="busy")),
        ("GET", "", None),
        ("POST", "/activate", None),
        ("POST", "/request_run", None),
        ("DELETE", "", None),
    ]
    statuses: list[int] = []

    def send(number: int) -> None:
        # Each thread starts with another request. Only the last steps delete.
        for step in range(40):
            method, path, sent = requests[(step + number) % (len(requests) - (step < 35))]
            url = f"{SYNCS}/{sync_ids[number % 2]}{path}"
            statuses.append(home.api.client.request(method, url, json=sent).status_code)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 240
    assert set(statuses) <= {200, 204, 400, 404, 409}
    assert {200, 204, 400} <= set(statuses)
