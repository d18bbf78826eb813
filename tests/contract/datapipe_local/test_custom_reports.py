"""Tests of custom reports: queries as streams, and their access limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.custom_reports import CustomReportResult, CustomReportResults
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream, transform
from tests.contract.datapipe_local.transform_calls import rows
from tests.support.local_service import LocalService


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    (folder / "people.csv").write_text("id,name,secret\n1,Ada,x\n2,Bob,NA\n")
    (folder / "orders.jsonl").write_text('{"person": 1, "sum": 10}\n{"person": 1, "sum": 2}\n{"person": 2, "sum": 5}\n')
    (folder / "late.csv").write_text("a\n" + "1\n" * 30_000 + "x\n")
    return folder


@pytest.fixture(scope="module")
def controlled(folder: Path) -> Iterator[LocalService]:
    streams = [stream("people", excluded_columns=["secret"]), stream("bought", "orders.jsonl")]
    seed = {
        "connections": [connection("data", "files", path=str(folder))],
        "elt_syncs": [elt_sync("shop", "data", streams), elt_sync("other", "data")],
        "custom_reports": [
            {"id": "seeded", "elt_sync_id": "other", "name": "Seeded One", "query": "SELECT 1 AS one"},
            {"elt_sync_id": "other", "name": "Waiting", "query": "SELECT 2 AS two", "add_as_source_stream": False},
        ],
        "transforms": [transform("totals", "SELECT 1 AS x", folder_path="shop", publish=True)],
    }
    with served(seed, control=True) as (service, _):
        yield service


def report(api: Api, query: str, name: str = "Report", *, sync: str = "shop", **more: Any) -> CustomReportResult:
    body = {"reports": [{"elt_sync_id": sync, "name": name, "query": query}], **more}
    (result,) = CustomReportResults.model_validate(api.post("/custom_reports", body, status=201)).results
    return result


def streams(api: Api, sync: str = "shop") -> dict[str, str]:
    return {stream["name"]: stream["id"] for stream in api.get(f"/elt_syncs/{sync}")["source_streams"]}


@pytest.mark.slow
def test_a_report_is_a_stream(api: Api, folder: Path) -> None:
    query = "SELECT name, sum(sum) AS total FROM people JOIN bought ON person = id GROUP BY ALL; -- by person"
    made = report(api, query, "Spend by Person")
    assert (made.source_stream_name, made.error) == ("spend_by_person", None)
    stream = streams(api)["spend_by_person"]
    assert api.run_stream(stream).rows_synced == 2
    (folder / "orders.jsonl").write_text('{"person": 1, "sum": 3}\n')
    assert api.run_stream(stream).rows_synced == 1
    assert rows(api, "FROM shop.spend_by_person") == [{"name": "Ada", "total": 3}]
    (folder / "orders.jsonl").write_text('{"person": 1, "sun": 3}\n')
    try:
        assert api.run_stream(stream).status == "FAILED"
    finally:
        (folder / "orders.jsonl").write_text('{"person": 1, "sum": 10}\n{"person": 1, "sum": 2}\n')
    error = api.stream_status("shop", "spend_by_person")["latest_sync"]["error_message"]
    assert error.startswith("The query of the custom report 'Spend by Person' failed: ")
    assert "\n" not in error


def test_names_in_queries_ignore_case(api: Api) -> None:
    query = 'WITH late AS (FROM People UNION ALL FROM people) SELECT a.id FROM late a JOIN "PEOPLE" b USING (id)'
    assert report(api, query).error is None
    assert api.run_stream(streams(api)["report"]).rows_synced == 4


def test_types_are_those_of_the_whole_file(api: Api) -> None:
    assert report(api, "SELECT count(a) AS n, max(a) AS last FROM late").source_stream_name == "report"
    assert api.run_stream(streams(api)["report"]).rows_synced == 1


def test_names_of_reports_are_made_unique(api: Api) -> None:
    one = "SELECT 1 AS one"
    # A stream's, what the source offers, a transform's place, other reports'.
    assert report(api, one, "People").source_stream_name == "people_2"
    assert report(api, one, "LATE").source_stream_name == "late_2"
    assert report(api, one, "Totals").source_stream_name == "totals_2"
    names = [report(api, one, "Big  (deal)").source_stream_name for _ in range(3)]
    assert names == ["big_deal", "big_deal_2", "big_deal_3"]
    assert report(api, one, "2nd \u00c9t\u00e9 " + "x" * 100).source_stream_name == "n_2nd_ete_" + "x" * 53
    assert report(api, one, "Big deal", sync="other").source_stream_name == "big_deal"
    for name in ("", "!", "\u65e5\u672c", "x" * 10_000, "a\0b", "Information Schema"):
        error = report(api, one, name).error
        assert error is not None
        assert error.error_code == "unknown"


def test_a_report_is_added_as_a_stream_later(api: Api) -> None:
    made = report(api, "SELECT 1 AS one", "Later", add_as_source_stream=False)
    assert "later" not in streams(api)
    there = {one["name"]: one for one in api.get("/elt_syncs/shop/available_source_streams")["data"]}
    assert (there["later"]["preselect"], there["later"]["is_selectable"]) == (False, True)
    assert report(api, "SELECT 1 AS one", "Later").source_stream_name == "later_2"
    add = {"source_streams": [{"name": made.source_stream_name, "hashed_columns": ["one"]}]}
    (added,) = api.post("/elt_syncs/shop/source_streams", add, status=201)["source_streams"]
    assert api.run_stream(added["id"]).rows_synced == 1
    # Deleted as a stream, it can be added again.
    api.delete(f"/elt_streams/{added['id']}")
    (again,) = api.post("/elt_syncs/shop/source_streams", add, status=201)["source_streams"]
    assert again["id"] != added["id"]
    wrong = {"source_streams": [{"name": "later", "hashed_columns": ["two"]}]}
    assert api.refused("POST", "/elt_syncs/shop/source_streams", 400, json=wrong)["error_code"] == "unknown_column"


def test_reports_of_the_seed(api: Api) -> None:
    assert set(streams(api, "other")) == {"seeded_one"}
    assert api.run_stream(streams(api, "other")["seeded_one"]).rows_synced == 1
    available = {one["name"] for one in api.get("/elt_syncs/other/available_source_streams")["data"]}
    assert {"seeded_one", "waiting"} <= available


FORBIDDEN = (
    *("SELECT secret FROM people", "SELECT * FROM 'people.csv'", "SELECT * FROM '{folder}/people.csv'"),
    "SELECT * FROM read_csv('/etc/passwd', columns = {'a': 'VARCHAR'})",
    *("SELECT * FROM read_text('{folder}/people.csv')", "SELECT * FROM glob('/*')"),
    "WITH c AS (COPY (SELECT 1 AS a) TO '{folder}/people.csv') FROM c",
    "WITH c AS (INSERT INTO people VALUES (1) RETURNING *) FROM c",
    *("SELECT * FROM seeded_one", "SELECT * FROM shop.people", "SELECT * FROM nobody", "SELECT 1 AS a; SELECT 2 AS a"),
    *("CREATE TABLE x AS SELECT 1 AS a", "INSERT INTO people VALUES (1)", "COPY (SELECT 1 AS a) TO '/tmp/never'"),
    *("ATTACH '/tmp/never'", "SET enable_external_access = true", "INSTALL httpfs", "PRAGMA database_list"),
    *("DROP VIEW people", "EXPLAIN ANALYZE SELECT 1", "SELECT", "", "-- nothing", "SELECT 1 AS a\0"),
    *("(" * 10_000, "SELECT " + "1+" * 50_000 + "1", "x" * 200_000),
)


@pytest.mark.slow
def test_a_query_reaches_nothing_but_its_streams(api: Api, folder: Path) -> None:
    for query in FORBIDDEN:
        result = report(api, query.replace("{folder}", str(folder)))
        assert result.error is not None, result
        assert (result.error.error_code, result.error.message[:7]) == ("invalid_query", "query: ")
        assert "\n" not in result.error.message
    assert set(streams(api)) == {"people", "bought"}


@pytest.mark.slow
def test_an_endless_query_ends_with_its_stream(service: LocalService, api: Api) -> None:
    endless = "SELECT count(*) AS n FROM range(1000000000000000) WHERE random() < 2"
    # As many as the service runs at a time.
    made = [report(api, endless, f"Endless {letter}").source_stream_name for letter in "abcdefgh"]
    ids = streams(api)
    urls = [api.post(f"/elt_streams/{ids[str(name)]}/request_run")["status_url"] for name in made]
    for url in urls:
        api.until(url, lambda run: run["status"] == "RUNNING")
    sync = api.get("/elt_syncs/other")["source_streams"][0]["id"]
    waiting = api.post(f"/elt_streams/{sync}/request_run")["status_url"]
    api.delete(f"/elt_streams/{ids[str(made[0])]}")
    assert api.ended(waiting)["status"] == "COMPLETED"
    api.delete("/elt_syncs/shop")
    # A stop does not wait for the query. The next process continues it.
    sync = api.get("/elt_syncs/other")["id"]
    name = report(api, endless, "Endless", sync=sync).source_stream_name
    url = api.post(f"/elt_streams/{streams(api, sync)[str(name)]}/request_run")["status_url"]
    run = api.until(url, lambda run: run["status"] == "RUNNING")
    assert service.stop() == 0
    assert "could not be interrupted" not in service.log
    service.start()
    assert api.first(url) == run


def test_invalid_requests_are_refused(api: Api) -> None:
    one = {"elt_sync_id": "shop", "name": "x", "query": "SELECT 1 AS one"}
    for body, named in (
        ({}, "reports"),
        ({"reports": None}, "reports"),
        ({"reports": [{**one, "query": None}]}, "reports.0.query"),
        ({"reports": [{**one, "elt_sync_id": 1}]}, "reports.0.elt_sync_id"),
        ({"reports": [{**one, "shoes": 1}]}, "reports.0.shoes"),
        ({"reports": [one], "add_as_source_stream": "no"}, "add_as_source_stream"),
        ({"reports": [one], "add_as_source_stream": None}, "add_as_source_stream"),
        ({"reports": [one] * 101}, "reports"),
    ):
        assert named in api.refused("POST", "/custom_reports", 400, json=body)["message"]
    assert set(streams(api)) == {"people", "bought"}
    assert api.post("/custom_reports", {"reports": []}, status=201) == {"results": []}
    odd = b'{"reports": [{"elt_sync_id": "shop", "name": "x", "query": "SELECT \'\\ud800\'"}]}'
    api.refused("POST", "/custom_reports", 400, content=odd, headers={"content-type": "application/json"})


def test_a_report_is_deleted_with_its_sync(api: Api) -> None:
    assert report(api, "SELECT 1 AS one").error is None
    api.delete("/elt_syncs/shop")
    error = report(api, "SELECT 1 AS one").error
    assert error is not None
    assert error.error_code == "not_found"
