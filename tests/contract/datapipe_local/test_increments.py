"""Tests of incremental streams: merge, append and full load; no row is lost when the source changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.datapipe_local.elt_home import Home, Json
from tests.contract.datapipe_local.warehouses import changed_state

POINTER = {"incremental_pointer_id": "at"}
MERGED = {**POINTER, "incremental_primary_key_name": ["id"]}
HISTORY = {"enabled_history_table": True}
HIDDEN = {"hashed_columns": ["a"], "excluded_columns": ["b"]}


def test_new_rows_are_merged_by_key(home: Home) -> None:
    home.seed({"name": "people", **MERGED})
    home.write("people", {"id": 1, "n": "a", "at": 1}, {"id": 2, "n": "b", "at": 2}, {"id": 1, "n": "a0", "at": 0})
    assert home.run("people") == (2, "FULL", "INITIAL_SYNC")
    # Older rows are ignored. Rows as old as the cursor are added if they are new.
    home.write(
        "people",
        {"id": 1, "n": "never", "at": 1},
        {"id": 2, "n": "b", "at": 2},
        {"id": 3, "n": "tie", "at": 2},
        {"id": 1, "n": "a2", "at": 5},
        {"id": 1, "n": "a1", "at": 4},
        {"id": 4, "n": "none", "at": None},
    )
    assert home.run("people") == (3, "INCREMENTAL", "NONE")
    expected = [(1, "a2", 5), (2, "b", 2), (3, "tie", 2), (4, "none", None)]
    assert home.run("people") == (0, "INCREMENTAL", "NONE")
    assert home.rows("FROM {{raw.shop.people}}") == expected


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([{"n": "created", "at": 1}, {"n": "paid", "at": 1}], "created"),
        ([{"n": "old", "at": None}, {"n": "new", "at": 1}], "new"),
        ([{"n": "old", "at": None}, {"n": "older", "at": None}], "old"),
    ],
    ids=["equal pointers", "one null pointer", "null pointers"],
)
def test_unchanged_rows_of_one_key_change_nothing(home: Home, rows: list[dict[str, Any]], kept: str) -> None:
    home.seed({"name": "orders", **MERGED, **HISTORY})
    for latest in (1, 2):
        home.write("orders", *({"id": 1, **row} for row in rows), {"id": 2, "n": "latest", "at": latest})
        # The second pass has a greater pointer in another row.
        assert home.run("orders")[0] == 3 - latest
        assert home.run("orders") == (0, "INCREMENTAL", "NONE")
        assert home.rows("SELECT n FROM {{raw.shop.orders}} WHERE id = 1") == [(kept,)]
    assert home.rows("SELECT n, valid_to FROM {{raw.shop.orders_history}} WHERE id = 1") == [(kept, None)]


def test_new_rows_are_appended_without_a_key(home: Home) -> None:
    home.seed({"name": "events", **POINTER})
    home.write("events", *[{"n": "a", "at": 1}] * 2, {"n": "b", "at": 2}, {"n": "?", "at": None})
    assert home.run("events") == (4, "FULL", "INITIAL_SYNC")
    # Rows that the source lacks stay. Rows as old as the cursor are counted.
    home.write(
        "events", *[{"n": "b", "at": 2}] * 3, {"n": "c", "at": 2}, {"n": "d", "at": 3}, *[{"n": "?", "at": None}] * 2
    )
    assert home.run("events") == (5, "APPEND", "NONE")
    assert home.run("events") == (0, "APPEND", "NONE")
    found = [("a", 1)] * 2 + [("b", 2)] * 3 + [("c", 2), ("d", 3)] + [("?", None)] * 2
    assert home.rows("FROM {{raw.shop.events}}") == sorted(found, key=str)


def test_changed_columns_lose_no_row(home: Home) -> None:
    home.seed({"name": "people", **MERGED})
    big = 2**60 + 1
    home.load(
        "people", {"id": 1, "at": 1, "gone": "x", "i": 7, "big": big, "s": {"a": 1}, "t": "2026-01-02", "n": None}
    )
    home.write("people", {"id": 2, "at": 2, "new": True, "i": 1.5, "big": 0.5, "s": {"b": "y"}, "t": "soon", "n": 3})
    assert home.run("people") == (1, "INCREMENTAL", "NONE")
    home.load("people", {"id": 3, "at": 3, "i": "many", "s": "flat", "n": 3_000_000_000_000})
    home.load("people", {"id": 4, "at": 4, "i": [1], "s": [2], "n": 4})
    columns = "id, gone, i, big, s, CAST(t AS VARCHAR) AS t, n, new"
    found = home.rows(f"SELECT {columns} FROM {{{{raw.shop.people}}}}")  # noqa: S608 - fixed names of the test
    assert found == [
        (1, "x", "7.0", str(big), '{"a":1,"b":null}', "2026-01-02", None, None),
        (2, None, "1.5", "0.5", '{"a":null,"b":"y"}', "soon", 3, True),
        (3, None, "many", None, "flat", None, 3_000_000_000_000, None),
        (4, None, "[1]", None, "[2]", None, 4, None),
    ]


def test_full_refresh_replaces_the_table(home: Home) -> None:
    home.seed({"name": "people", **MERGED})
    home.load("people", {"id": 1, "at": 1, "x": 1}, {"id": 2, "at": 2, "x": 1})
    home.write("people", {"id": 2, "at": 2, "y": 1})
    home.api.post("/elt_streams/people/request_full_refresh", status=204)
    assert home.run("people") == (1, "FULL", "USER")
    assert home.run("people") == (0, "INCREMENTAL", "NONE")
    assert home.rows("FROM {{raw.shop.people}}") == [(2, 2, 1)]


@pytest.mark.slow
def test_full_sync_options(home: Home) -> None:
    home.seed(
        {"name": "always", **MERGED, "full_sync_always": True},
        {"name": "daily", **MERGED, "full_sync_at_midnight": True},
        {"name": "never", **MERGED, "full_sync_always": True, "protected_from_full_sync": True},
    )
    names = ("always", "daily", "never")
    for name in names:
        assert home.load(name, {"id": 1, "at": 1}) == (1, "FULL", "INITIAL_SYNC")
        home.write(name, {"id": 2, "at": 1})
    assert home.run("always") == (1, "FULL", "ALWAYS_FULL")
    assert home.run("never") == (1, "INCREMENTAL", "NONE")
    home.api.refused("POST", "/elt_streams/never/request_full_refresh", 400, code="protected_from_full_sync")
    assert home.run("daily") == (1, "INCREMENTAL", "NONE")
    with changed_state(home.service) as state:
        # As if the runs were from the day before.
        state.execute("UPDATE elt_stream_runs SET started_at = strftime('%Y-%m-%dT%H:%M:%fZ', started_at, '-1 day')")
    assert home.run("daily") == (1, "FULL", "MIDNIGHT")
    assert home.run("daily") == (0, "INCREMENTAL", "NONE")
    assert home.rows("FROM {{raw.shop.never}}") == [(1, 1), (2, 1)]
    assert home.rows("FROM {{raw.shop.daily}}") == home.rows("FROM {{raw.shop.always}}") == [(2, 1)]


def test_changed_cursor_type_forces_full_load_unless_protected(home: Home) -> None:
    home.seed({"name": "open", **MERGED}, {"name": "closed", **MERGED, "protected_from_full_sync": True})
    for name in ("open", "closed"):
        home.load(name, {"id": 1, "at": 10})
        home.write(name, {"id": 2, "at": "9 o'clock"})
    assert home.run("open") == (1, "FULL", "SCHEMA_CHANGE")
    assert home.failure("closed").startswith(
        "shop.closed needs a full refresh, and is protected from it: the pointer 'at' was "
    )
    assert home.rows("FROM {{raw.shop.closed}}") == [(1, 10)]
    # Without the cursor column, there is no way to select new rows.
    home.write("open", {"id": 2})
    assert "There is no column 'at', which is the incremental pointer or part of the key" in home.failure("open")
    assert home.rows("SELECT id FROM {{raw.shop.open}}") == [(2,)]


def test_first_load_in_slices_then_incremental(home: Home) -> None:
    home.seed({"name": "people", **MERGED, **HISTORY}, first_load_slice_rows=2)
    home.write("people", *({"id": number, "at": number} for number in range(5)))
    home.api.post("/elt_streams/people/request_run")
    url = "/elt_stream_runs?elt_stream_id=people&limit=1"
    assert home.api.until(url, lambda run: run["status"] == "COMPLETED")["rows_synced"] == 1
    assert home.load("people", {"id": 4, "at": 4}, {"id": 5, "at": 5}) == (1, "INCREMENTAL", "NONE")
    assert home.rows("FROM {{raw.shop.people}}") == [(number, number) for number in range(6)]
    assert len(home.rows("FROM {{raw.shop.people_history}}")) == 6


@pytest.mark.parametrize("options", [POINTER, {}], ids=["incremental", "full"])
@pytest.mark.parametrize("when", ["before", "during"])
def test_columns_hidden_at_a_first_load_in_slices(home: Home, options: dict[str, Any], when: str) -> None:
    def change() -> str:
        added = home.change(name="people", enabled_history_table=True, **HIDDEN, **options)
        return str(added[0]["id"]) if added else "people"

    home.seed({"name": "people", **HISTORY, **options})
    home.write("people", *({"id": number, "at": number, "a": "x", "b": "y"} for number in range(5)))
    stream = "people"
    if when == "before":
        # The history of a deleted stream stays.
        home.run("people")
        home.api.delete("/elt_streams/people")
        stream = change()
    home.api.post("/_local/seed", {"runs": {"first_load_slice_rows": 2, "minimum_duration": 0.5}})
    url = home.api.post(f"/elt_streams/{stream}/request_run")["status_url"]
    home.api.until(url, lambda run: run["status"] == "CHUNK_COMPLETED")
    if when == "during":
        change()
    home.api.until(f"/elt_stream_runs?elt_stream_id={stream}&limit=1", lambda run: run["status"] == "COMPLETED")
    if when == "during":
        assert home.api.run_stream(stream).rows_synced == 5
        assert home.latest("people")["full_sync_trigger"] == ("SCHEMA_CHANGE" if options else "NONE")
    for query in ("FROM {{raw.shop.people}}", "FROM {{raw.shop.people_history}}"):
        found = home.rows(query)
        assert len(found) == 5
        assert all(len(row[2]) == 64 and "y" not in row for row in found)


def test_history_contains_every_version_of_a_row(home: Home) -> None:
    home.seed({"name": "people", **MERGED, **HISTORY}, {"name": "whole", **HISTORY})
    versions = "SELECT * EXCLUDE (valid_from, valid_to), valid_to IS NULL AS now FROM {{raw.shop.%s_history}}"
    for name in ("people", "whole"):
        home.load(name, {"id": 1, "n": "a", "at": 1}, {"id": 2, "n": "b", "at": 1})
        home.load(name, {"id": 1, "n": "a2", "at": 2})
        home.run(name)
    # Only a full load notices deleted rows.
    assert home.rows(versions % "people") == [(1, "a", 1, False), (1, "a2", 2, True), (2, "b", 1, True)]
    assert home.rows(versions % "whole") == [(1, "a", 1, False), (1, "a2", 2, True), (2, "b", 1, False)]
    (before, after) = home.rows("SELECT valid_from, valid_to FROM {{raw.shop.people_history}} WHERE id = 1")
    assert before[0] < before[1] == after[0]
    assert after[1] is None
    started = [run["started_at"] for run in home.api.all_pages("/elt_stream_runs", elt_stream_id="people")]
    assert f"{after[0][:23]}Z" in started
    # A full refresh keeps the history unless it resets it.
    for reset, expected in ((False, 3), (True, 1)):
        home.api.post("/elt_streams/people/request_full_refresh", {"reset_history_table": reset}, status=204)
        assert home.run("people")[1:] == ("FULL", "USER")
        assert len(home.rows("FROM {{raw.shop.people_history}}")) == expected
    home.load("people", {"id": 1, "n": "a3", "at": 3, "new": {"x": 1}})
    assert home.rows("SELECT n, CAST(new AS VARCHAR) AS new FROM {{raw.shop.people_history}}") == [
        ("a2", None),
        ("a3", "{'x': 1}"),
    ]


def test_hidden_columns_are_hidden_in_old_rows_and_history(home: Home) -> None:
    home.seed({"name": "people", **MERGED, **HISTORY})
    home.load("people", {"id": 1, "at": 1, "a": "x", "b": "y"})
    home.change(name="people", hashed_columns=["a"], excluded_columns=["b"], enabled_history_table=True)
    assert home.run("people") == (1, "FULL", "SCHEMA_CHANGE")
    assert home.run("people") == (0, "INCREMENTAL", "NONE")
    for _ in range(2):
        ((_, _, hashed),) = home.rows("FROM {{raw.shop.people}}")
        assert len(hashed) == 64
        ((_, _, hashed, _, until),) = home.rows("FROM {{raw.shop.people_history}}")
        assert (len(hashed), until) == (64, None)
        home.api.post("/elt_streams/people/request_full_refresh", status=204)
        home.run("people")


def test_lists_of_records_are_substreams(home: Home) -> None:
    home.seed({"name": "orders", **MERGED})
    items = [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]
    home.load("orders", {"id": 1, "at": 1, "items": items, "tags": ["t"]}, {"id": 2, "at": 1, "items": []})
    assert home.rows("FROM {{raw.shop.orders__items}}") == [(1, "a", 1), (1, "b", 2)]
    assert home.offers()["orders"]["sub_streams"] == ["items"]
    home.change(name="orders", excluded_substreams=["items"])
    assert home.run("orders")[1:] == ("FULL", "SCHEMA_CHANGE")
    assert home.rows("FROM {{raw.shop.orders}}") == [(1, 1, ["t"]), (2, 1, None)]
    reference = {"sql_template": "FROM {{raw.shop.orders__items}}"}
    home.api.refused("POST", "/transforms/query_previews", 400, json=reference)


def test_substreams_of_streams_with_similar_names(home: Home) -> None:
    home.seed({"name": "orders"}, {"name": "orders__old"})
    for name, sku in (("orders__old", "a"), ("orders", "b")):
        home.load(name, {"id": 1, "items": [{"sku": sku}]})
    assert home.rows("FROM {{raw.shop.orders__old__items}}") == [("a",)]
    assert home.rows("FROM {{raw.shop.orders__items}}") == [("b",)]


def test_invalid_options_are_refused(home: Home) -> None:
    home.seed({"name": "people", **MERGED}, {"name": "people_history"})
    home.load("people", {"id": 1, "at": 1, "tags": ["t"]})
    for option, value, message in (
        ("hashed_columns", ["at"], "'at' is the incremental pointer"),
        ("excluded_columns", ["AT"], "'at' is the incremental pointer"),
        ("enabled_history_table", True, "shop.people_history is the place of"),
        ("excluded_substreams", ["tags"], "the stream has no substream 'tags'"),
    ):
        body = {"source_streams": [{"name": "people", option: value}]}
        refused = home.api.refused("POST", "/elt_syncs/shop/source_streams", 400, json=body)
        assert refused["message"].startswith(f"source_streams.0.{option}: {message}")


def test_tables_of_streams_cannot_be_replaced(home: Home) -> None:
    home.seed(*({"name": name, **HISTORY} for name in ("orders", "early")))
    home.load("orders", {"id": 1, "items": [{"sku": "a"}]})
    transform = {"folder_path": "shop", "sql_template": "SELECT 1 AS x", "publish": True}
    for keeps_history in (True, False):
        home.change(name="orders", enabled_history_table=keeps_history)
        for name in ("orders", "early", "Orders_History", "orders__items", *["early_history"] * keeps_history):
            refused = home.api.refused("POST", "/transforms", 400, code="name_taken", json={"name": name, **transform})
            assert refused["message"].startswith(f"name: shop.{name} is a table of the ELT stream ")
        home.change(name="early", enabled_history_table=False)
    for name in ("orders_history", "orders__items"):
        home.write(name, {"id": 2})
        home.api.refused("POST", "/elt_syncs/shop/source_streams", 400, json={"source_streams": [{"name": name}]})
    assert home.rows("SELECT id FROM {{raw.shop.orders_history}}") == [(1,)]


def test_loads_keep_transforms_with_similar_names(home: Home) -> None:
    home.seed({"name": "orders"}, {"name": "gone"})
    for name in ("orders", "gone", "late"):
        home.write(name, {"id": 1})
    home.run("gone")
    home.api.delete("/elt_streams/gone")
    transform = {"folder_path": "shop", "sql_template": "SELECT 1 AS x", "publish": True}
    # Neither the load nor the removal of a table may drop a transform as one of its substreams.
    for name in ("orders__daily", "Gone__daily"):
        refused = home.api.refused("POST", "/transforms", 400, code="name_taken", json={"name": name, **transform})
        message = f"name: shop.{name} is reserved for a substream of shop.{name[:-7].lower()}"
        assert refused["message"].startswith(message)
    for name in ("orders_daily", "late__daily"):
        home.api.post("/transforms", {"name": name, **transform}, status=201)
    message = "the transform 'late__daily' has the name of a substream of shop.late"
    late: Json = {"source_streams": [{"name": "late"}]}
    home.api.refused("POST", "/elt_syncs/shop/source_streams", 400, message=message, json=late)
    home.run("orders")
    assert home.rows("FROM {{model.shop.orders_daily}}, {{model.shop.late__daily}}") == [(1, 1)]


@pytest.mark.slow
def test_load_killed_before_its_end_is_not_repeated(home: Home) -> None:
    home.seed({"name": "events", **POINTER}, {"name": "whole"})
    for name in ("events", "whole"):
        home.load(name, {"at": 1})
        home.load(name, {"at": 1}, {"at": 2}, {"at": 2})
    with changed_state(home.service) as state:
        # The state of a process that is killed after the commit of the rows and before that of the run.
        newest = "SELECT max(seq) FROM elt_stream_runs GROUP BY elt_stream_id"
        state.execute(
            "UPDATE elt_stream_runs SET status = 'RUNNING', finished_at = NULL, rows_synced = NULL"  # noqa: S608 - fixed names of the test
            f" WHERE seq IN ({newest})"
        )
        state.execute(
            "INSERT INTO jobs (kind, subject_id, run_id, due_at, begun)"  # noqa: S608 - as above
            f" SELECT 'elt_stream_run', elt_stream_id, id, started_at, 1 FROM elt_stream_runs WHERE seq IN ({newest})"
        )
        for name in ("events", "whole"):
            # The file is not read again.
            (home.folder / f"{name}.jsonl").unlink()
    for name, rows in (("events", 2), ("whole", 3)):
        run = home.api.until(f"/elt_stream_runs?elt_stream_id={name}&limit=1", lambda run: "finished_at" in run)
        assert (run["status"], run["rows_synced"]) == ("COMPLETED", rows)
    assert home.rows("FROM {{raw.shop.events}}") == [(1,), (2,), (2,)]


def test_custom_report_is_loaded_incrementally(home: Home) -> None:
    home.seed({"name": "events", **POINTER})
    home.write("events", {"at": 1}, {"at": 2})
    report = {"elt_sync_id": "shop", "name": "doubled", "query": 'SELECT 2 * "at" AS twice FROM events'}
    home.api.post("/custom_reports", {"reports": [report]}, status=201)
    home.change(name="doubled", incremental_pointer_id="twice", enabled_history_table=True)
    stream = next(one["id"] for one in home.api.all_pages("/elt_streams") if one["name"] == "doubled")
    for rows in (2, 1):
        run = home.api.run_stream(stream)
        assert (run.status, run.rows_synced) == ("COMPLETED", rows), home.latest("doubled")
        home.write("events", {"at": 2}, {"at": 3})
    assert home.rows("FROM {{raw.shop.doubled}}") == [(2,), (4,), (6,)]
