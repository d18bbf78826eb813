"""Tests of requests that create, change and delete ELT syncs and streams, also during runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_datapipe.api.models.elt_syncs import AddedSourceStreams, AvailableStream, EltSync
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream, transform
from tests.contract.datapipe_local.transform_calls import rows
from tests.contract.datapipe_local.warehouses import changed_state, tables_in, tables_of
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

CRON = "10 1 1 1 *"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    (folder / "people.csv").write_text("id,name,email\n1,Ada,ada@example.com\n2,Bob,\n")
    (folder / "Weekly Sales.jsonl").write_text('{"week": 1, "sum": 10.5}\n')
    (folder / "\u65e5\u672c.csv").write_text("a\n1\n")
    (folder / "notes.txt").write_text("nothing to load")
    (folder / "below").mkdir()
    (folder / "below" / "deep.csv").write_text("a\n1\n")
    return folder


@pytest.fixture(scope="module")
def controlled(folder: Path) -> Iterator[LocalService]:
    deep = stream("deep", "below/deep.csv", sync_interval=CRON, incremental_pointer_id="a", full_sync_always=True)
    streams = [deep, stream("staff", "people.csv", hashed_columns=["email"]), stream("gone")]
    options = {"orchestration_workflow_id": "yearly", "start_date": "2026-01-31", "elt_settings": {"depth": 2}}
    seed = {
        "connections": [
            connection("data", "files", path=str(folder)),
            connection("lost", "files", path=str(folder / "lost")),
            connection("out", "jsonl", path=str(folder / "out")),
        ],
        "orchestrations": [{"id": "yearly", "name": "Yearly", "cron_schedule": "0 0 1 1 *"}],
        "elt_syncs": [elt_sync("shop", "data", streams, **options), elt_sync("lost", "lost")],
        "transforms": [
            transform("people", "SELECT 1 AS x", folder_path="taken", publish=True),
            transform("n", "SELECT count(*) AS n FROM {{raw.shop.staff}}"),
        ],
    }
    with served(seed, control=True) as (service, _):
        yield service


def wanted(schema: str = "new", **more: Any) -> dict[str, Any]:
    return {"connection_id": "data", "destination_schema_name": schema, "sync_interval": CRON, **more}


def available(api: Api, sync_id: str) -> dict[str, AvailableStream]:
    path = f"/elt_syncs/{sync_id}/available_source_streams"
    listed = [AvailableStream.model_validate(entry) for entry in api.all_pages(path, limit=2)]
    names = [entry.name for entry in listed]
    assert names == sorted(set(names), key=str.lower)
    return {entry.name: entry for entry in listed}


def add(api: Api, sync_id: str, *streams: dict[str, Any]) -> dict[str, str]:
    answer = api.post(f"/elt_syncs/{sync_id}/source_streams", {"source_streams": streams}, status=201)
    return {stream.name: stream.id for stream in AddedSourceStreams.model_validate(answer).source_streams}


def test_a_sync_is_created_with_streams_and_run(api: Api) -> None:
    settings = {"sourceSettings": {"a": [1, None, "\u00e9"]}}
    made = api.post("/elt_syncs", wanted(elt_settings=settings, start_date="2026-02-28"), status=201)
    sync = EltSync.model_validate(made)
    assert made == api.get(f"/elt_syncs/{sync.id}")
    assert (sync.enabled, sync.status, sync.sync_interval, sync.config) == (True, "NOT_STARTED", CRON, settings)
    assert (made["start_date"], sync.source_streams) == ("2026-02-28T00:00:00.000Z", ())
    streams = add(api, sync.id, {"name": "weekly_sales"}, {"name": "People", "excluded_columns": ["NAME"]})
    # Streams have the names of the source.
    assert set(streams) == {"weekly_sales", "people"}
    assert api.run_stream(streams["people"]).rows_synced == 2
    assert api.run_stream(streams["weekly_sales"]).rows_synced == 1
    # Changed options apply to the next run.
    assert add(api, sync.id, {"name": "people", "excluded_columns": [], "hashed_columns": ["email"]}) == {}
    assert rows(api, "FROM new.people ORDER BY id") == [{"id": 1, "email": "ada@example.com"}, {"id": 2, "email": None}]
    assert api.run_stream(streams["people"]).rows_synced == 2
    hashed = hashlib.sha256(b"ada@example.com").hexdigest()
    ada, bob = rows(api, "FROM new.people ORDER BY id")
    assert (ada, bob["email"]) == ({"id": 1, "name": "Ada", "email": hashed}, None)


def test_invalid_syncs_are_refused(api: Api) -> None:
    before = api.all_pages("/elt_syncs")
    deep: Any = {}
    for _ in range(60):
        deep = {"a": deep}
    invalid_settings: list[Any] = [None, [], deep, {"a": "\0"}]
    refused = (
        *((wanted(name), "destination_schema_name") for name in ("shop", "SHOP", "a b", "", "x" * 10_000, "__x")),
        (wanted("information_schema"), "destination_schema_name"),
        ({"connection_id": "data"}, "destination_schema_name"),
        # DuckDB could not distinguish them from databases.
        *((wanted(name), f"destination_schema_name: {name!r} is ") for name in ("warehouse", "temp", "SYSTEM")),
        *((wanted(sync_interval=value), "sync_interval") for value in ("often", None)),
        (wanted(connection_id="out"), "connection_id"),
        *((wanted(start_date=value), "start_date") for value in ("2026-02-30", "2026-02-28T00:00:00Z", None, 20260228)),
        *((wanted(elt_settings=value), "elt_settings") for value in invalid_settings),
        (wanted(shoes=1), "shoes"),
    )
    for body, named in refused:
        api.refused("POST", "/elt_syncs", 400, message=named, json=body)
    for content in (b'{"connection_id": "data", "elt_settings": {"a": 1e400}}', b'"\\ud800"', b"[" * 100_000, b"{"):
        api.refused("POST", "/elt_syncs", 400, content=content, headers={"content-type": "application/json"})
    half = b'{"connection_id":"data","destination_schema_name":"h","sync_interval":"0 0 * * *","elt_settings":%b}'
    for settings in (b'{"a":"\\ud800"}', b'{"a":1e400}', b'{"a":NaN}', b'{"\\udfff":1}'):
        api.refused("POST", "/elt_syncs", 400, content=half % settings, headers={"content-type": "application/json"})
    api.refused("POST", "/elt_syncs", 404, json=wanted(connection_id="nobody"))
    assert api.all_pages("/elt_syncs") == before


def test_a_sync_is_changed(api: Api) -> None:
    path = "/elt_syncs/shop"
    before = EltSync.model_validate(api.get(path))
    assert (before.config, str(before.start_date)[:10]) == ({"depth": 2}, "2026-01-31")
    changed = EltSync.model_validate(api.post(path, {"sync_interval": CRON}))
    # While it is attached to an orchestration, its own schedule is not shown.
    assert (changed.sync_interval, changed.config) == (None, {"depth": 2})
    api.client.delete(f"{path}/orchestration").raise_for_status()
    changed = EltSync.model_validate(api.post(path, {"elt_settings": {}}))
    assert (changed.sync_interval, changed.config) == (CRON, None)
    assert EltSync.model_validate(api.post(path, {})).updated_at >= changed.updated_at
    for body in ({"sync_interval": "x"}, {"sync_interval": None}, {"elt_settings": None}, {"start_date": "2026-01-01"}):
        api.refused("POST", path, 400, json=body)
    api.refused("POST", path, 400, json={"destination_schema_name": "other"})
    api.refused("POST", "/elt_syncs/nobody", 404, json={})


def test_available_streams_are_those_of_the_source(api: Api, folder: Path) -> None:
    there = available(api, "shop")
    # `people.csv` is already a stream with another name.
    assert set(there) == {"below", "deep", "gone", "staff", "weekly_sales", "\u65e5\u672c.csv"}
    assert {name for name, one in there.items() if one.retired} == {"gone"}
    assert there["gone"].retirement_details is not None
    assert {name for name, one in there.items() if not one.is_selectable} == {"\u65e5\u672c.csv"}
    (folder / "gone.csv").write_text("a\n1\n")
    try:
        assert not available(api, "shop")["gone"].retired
    finally:
        (folder / "gone.csv").unlink()
    body: dict[str, Any] = {"source_streams": [{"name": "\u65e5\u672c.csv"}]}
    assert "source_streams.0.name" in api.refused("POST", "/elt_syncs/shop/source_streams", 400, json=body)["message"]
    # A retired stream can be changed if the change needs no columns of the source.
    assert add(api, "shop", {"name": "gone", "full_sync_always": True}) == {}
    body = {"source_streams": [{"name": "gone", "excluded_columns": ["a"]}]}
    assert "gone.csv" in api.refused("POST", "/elt_syncs/shop/source_streams", 400, json=body)["message"]
    for path in ("/elt_syncs/lost/available_source_streams", "/elt_syncs/nobody/available_source_streams"):
        api.refused("GET", path, 404 if "nobody" in path else 400)
    api.refused("POST", "/elt_syncs/lost/source_streams", 400, json={"source_streams": [{"name": "people"}]})
    for query in ("limit=0", "limit=101", "starting_after=x", "sort=name"):
        api.refused("GET", f"/elt_syncs/shop/available_source_streams?{query}", 400)


def test_load_options_of_the_seed(api: Api) -> None:
    deep = api.get("/elt_streams/deep")
    assert (deep["sync_interval"], deep["incremental_pointer_id"], deep["full_sync_always"]) == (CRON, "a", True)
    assert api.run_stream("staff").rows_synced == 2
    assert len(rows(api, "FROM shop.staff ORDER BY id")[0]["email"]) == 64


def test_a_stream_cannot_have_the_place_of_a_transform(api: Api) -> None:
    sync = api.post("/elt_syncs", wanted("taken"), status=201)["id"]
    body = {"source_streams": [{"name": "weekly_sales"}, {"name": "people"}]}
    api.refused("POST", f"/elt_syncs/{sync}/source_streams", 400, message="source_streams.1.name", json=body)
    assert api.get(f"/elt_syncs/{sync}")["source_streams"] == []


def test_a_stream_is_deleted_and_its_table_stays(service: LocalService, api: Api) -> None:
    run = api.run_stream("staff")
    api.post("/transforms/n/publish")
    api.delete("/elt_streams/staff")
    for path in ("/elt_streams/staff", f"/elt_stream_runs/{run.id}", "/elt_stream_runs?elt_stream_id=staff"):
        api.refused("GET", path, 404)
    api.refused("DELETE", "/elt_streams/staff", 404)
    assert "people" in available(api, "shop")
    assert tables_of(service) == {"shop.staff": 2}
    # Tables of deleted streams are deleted with the sync, too.
    assert api.run_stream("deep").status == "COMPLETED"
    api.delete("/elt_syncs/shop", removeDataReferences="true")
    assert tables_of(service) == {}


@pytest.mark.parametrize("with_tables", [True, False])
def test_a_sync_is_deleted_during_its_runs(service: LocalService, api: Api, with_tables: bool) -> None:
    api.run_stream("staff")
    service.runs({"minimum_duration": 0.4})
    url = api.post("/elt_streams/staff/request_run")["status_url"]
    run = api.until(url, lambda run: run["status"] == "RUNNING")
    orchestrated = api.post("/orchestrations/yearly/request_run")
    api.until(f"/orchestration_runs/{orchestrated['id']}", lambda run: run["status"] == "RUNNING")
    query = {"removeDataReferences": "true"} if with_tables else {}
    assert api.client.delete("/elt_syncs/shop", params=query).status_code == 204
    api.refused("GET", f"/elt_stream_runs/{run['id']}", 404)
    # The orchestration run does not wait for the deleted stream.
    assert api.ended(f"/orchestration_runs/{orchestrated['id']}")["status"] in {"FAILED", "CANCELED"}
    # The same names can be used at once.
    sync = api.post("/elt_syncs", wanted("shop"), status=201)["id"]
    streams = add(api, sync, {"name": "people"})
    assert api.run_stream(streams["people"]).status == "COMPLETED"
    assert tables_of(service) == {"shop.people": 2, **({} if with_tables else {"shop.staff": 2})}


def test_concurrent_requests_are_like_sequential_ones(api: Api) -> None:
    def at_once(path: str, body: Any) -> list[httpx.Response]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda _: api.client.post(path, json=body), range(8)))

    answers = at_once("/elt_syncs", wanted("same"))
    assert sorted(answer.status_code for answer in answers) == [201] + [400] * 7
    sync = next(answer.json()["id"] for answer in answers if answer.status_code == 201)
    answers = at_once(f"/elt_syncs/{sync}/source_streams", {"source_streams": [{"name": "people"}]})
    assert {answer.status_code for answer in answers} == {201}
    assert sum(len(answer.json()["source_streams"]) for answer in answers) == 1
    one = {"elt_sync_id": sync, "name": "Report", "query": "SELECT 1 AS one"}
    answers = at_once("/custom_reports", {"reports": [one]})
    names = [answer.json()["results"][0]["source_stream_name"] for answer in answers]
    assert sorted(names) == ["report", *(f"report_{number}" for number in range(2, 9))]

    # Up to the limit of syncs of a connection, which has eight more.
    def create(number: int) -> int:
        return api.client.post("/elt_syncs", json=wanted(f"s{number}")).status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(create, range(12)))
    assert sorted(statuses) == [201] * 8 + [409] * 4
    assert len(api.all_pages("/elt_syncs", connection_id="data")) == 10


def test_syncs_are_deleted_and_created_again_during_loads(service: LocalService) -> None:
    """Check that the last created sync owns the table."""

    def churn(schema: str) -> None:
        own = Api(service)
        for _ in range(6):
            sync = own.post("/elt_syncs", wanted(schema), status=201)["id"]
            stream = add(own, sync, {"name": "people"})["people"]
            own.post(f"/elt_streams/{stream}/request_run")
            own.delete(f"/elt_syncs/{sync}", removeDataReferences="true")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(churn, ("one", "two")))
    service.restart()
    assert tables_of(service) == {}


def test_a_started_deletion_of_tables_ends_at_the_next_start(service: LocalService, api: Api) -> None:
    for name in ("staff", "deep"):
        assert api.run_stream(name).status == "COMPLETED"
    # The state after a kill between the response and the deletion.
    with changed_state(service) as state:
        state.execute("INSERT INTO doomed_tables (schema_name, name) VALUES ('shop', 'staff')")
    service.kill()
    assert tables_in(service) == {"shop.deep": 1}
    service.start()
    # A later table with the same name stays.
    assert api.run_stream("staff").status == "COMPLETED"
    service.restart()
    assert tables_of(service) == {"shop.deep": 1, "shop.staff": 2}
