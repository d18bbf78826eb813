"""Tests of lists with pages: their order, and that pages of any size contain all items."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import NIGHTLY, connection, elt_sync, reverse_etl_sync, stream, transform
from tests.contract.interface_table import ROWS

Json = dict[str, Any]
NUMBER = 5
#: More than a page has by default.
MANY = 11
#: Not in the order of the alphabet.
NAMES = ["m", "B", "z", "a", "K", *"PQRSTU"]
#: The lists, their required queries, and the sort keys of their entries.
ORDERS = {
    "/connections": ({}, "created_at"),
    "/elt_streams": ({}, "created_at"),
    "/elt_stream_runs": ({"elt_stream_id": "stream_0"}, "-started_at"),
    "/elt_syncs": ({}, "created_at"),
    "/elt_syncs/{id}/available_source_streams": ({}, "name"),
    "/integrations": ({}, "id"),
    "/orchestration_runs": ({}, "-due_at"),
    "/orchestrations": ({}, "name"),
    "/reverse_etl_sync_runs": ({"reverse_etl_sync_id": "reverse_0"}, "-started_at"),
    "/reverse_etl_syncs": ({}, "created_at"),
    "/transforms": ({}, "created_at"),
    "/transforms/{id}/versions": ({}, "-created_at"),
}
IDS = {"/elt_syncs/{id}/available_source_streams": "sync_0", "/transforms/{id}/versions": "transform_0"}


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Api]:
    with served(seed(folder)) as (_, api):
        fill(api)
        yield api


def seed(folder: Path) -> Json:
    for number in range(NUMBER):
        (folder / f"rows_{number}.csv").write_text("id\n1\n")
    return {
        "connections": [
            *(connection(f"data_{n}", "files", path=str(folder)) for n in range(MANY)),
            connection("out", "jsonl", path=str(folder / "out")),
        ],
        "orchestrations": [NIGHTLY | {"id": f"o_{n}", "name": name} for n, name in enumerate(NAMES)],
        "elt_syncs": [elt_sync(f"sync_{n}", "data_0", [stream(f"rows_{n}", id=f"stream_{n}")]) for n in range(NUMBER)],
        "transforms": [transform(f"transform_{n}", "SELECT 1 AS x", publish=True) for n in range(MANY)],
        "reverse_etl_syncs": [
            reverse_etl_sync(f"reverse_{n}", f"transform_{n}", "out", f"ones_{n}", "x") for n in range(NUMBER)
        ],
    }


def fill(api: Api) -> None:
    """Create the list items that a seed cannot contain."""
    for number in range(NUMBER):
        api.run_stream("stream_0")
        api.run_reverse("reverse_0")
        changed = api.client.patch("/transforms/transform_0", json={"sql_template": f"SELECT {number} + 1 AS x"})
        assert changed.status_code == 200, changed.text
    for number in range(MANY):
        assert api.post(f"/orchestrations/o_{number}/request_run")["status"] == "NOT_STARTED"


def test_all_lists_of_the_interface_are_tested() -> None:
    assert {row.path for row in ROWS if row.success == "page"} == ORDERS.keys()


@pytest.mark.parametrize("path", ORDERS)
def test_order_in_pages_of_any_size(api: Api, path: str) -> None:
    query, order = ORDERS[path]
    address = path.replace("{id}", IDS.get(path, ""))
    whole = api.all_pages(address, **query, limit=100)
    assert len(whole) >= (2 if path == "/integrations" else NUMBER)
    values = [str(entry[order.removeprefix("-")]).lower() for entry in whole]
    assert values == sorted(values, reverse=order.startswith("-"))
    for limit in (1, 2, 3, len(whole)):
        assert api.all_pages(address, **query, limit=limit) == whole
    assert len(api.get(address, **query)["data"]) == min(10, len(whole))


@pytest.mark.parametrize("path", ["/elt_stream_runs", "/reverse_etl_sync_runs"])
def test_runs_from_the_oldest(api: Api, path: str) -> None:
    query, _ = ORDERS[path]
    newest_first = api.all_pages(path, **query, limit=2)
    oldest_first = api.all_pages(path, **query, sort_direction="asc", limit=2)
    assert oldest_first == newest_first[::-1]
    assert len(oldest_first) == NUMBER
    # The cursor means: the first run after.
    for run, following in pairwise(oldest_first):
        page = api.get(path, **query, starting_after=run["id"], limit=1, sort_direction="asc")
        assert page["data"] == [following]
    assert api.get(path, **query, starting_after=oldest_first[-1]["id"], sort_direction="asc")["data"] == []


def test_cursors_of_other_lists_are_refused(api: Api) -> None:
    addresses = {path: path.replace("{id}", IDS.get(path, "")) for path in ORDERS}
    cursors = {path: api.get(addresses[path], **query, limit=1)["nextCursor"] for path, (query, _) in ORDERS.items()}
    for path, (query, _) in ORDERS.items():
        for other, cursor in cursors.items():
            if other != path:
                params = {**query, "starting_after": cursor}
                api.refused("GET", addresses[path], 400, code="invalid_cursor", params=params)


NO_SIZES = ("0", "101", "-1", "1000000000", "1" * 5000, "x", "1.0", "1e1", "+1", "1_0", "", " ", "\u0661", "null")


def test_page_size_is_from_1_to_100(api: Api) -> None:
    required = {"elt_stream_id": "stream_0", "reverse_etl_sync_id": "reverse_0"}
    lists = [row for row in ROWS if "limit" in row.query]
    assert len(lists) == 11
    for row in lists:
        address = row.path.replace("{id}", IDS.get(row.path, ""))
        query = {name: required[name] for name, needed in row.query.items() if needed}
        for wrong in (*NO_SIZES, ["1", "2"]):
            api.refused("GET", address, 400, message="limit", params={**query, "limit": wrong})
