"""Tests of the page about the hook, against the local service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from tests.support.documents import blocks, pages
from tests.support.local_service import LocalService
from tests.support.tasks import run

PAGE = "docs/hook.md"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalService]:
    """Return a service with orders, a disabled sync and a transform, and create its connection."""
    (tmp_path / "orders.csv").write_text("id\n1\n2\n")
    streams = [{"id": "o", "name": "orders", "file": "orders.csv"}]
    syncs = [
        {"id": name, "connection_id": "files", "destination_schema_name": name, "enabled": name != "closed"}
        for name in ("shop", "closed")
    ]
    seed: dict[str, Any] = {
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(tmp_path)}}
        ],
        "elt_syncs": [{**syncs[0], "source_streams": streams}, syncs[1]],
        "transforms": [
            {"id": "customer_value", "name": "customer_value", "sql_template": "SELECT 1", "documentation": "Old."}
        ],
    }
    with LocalService(seed, control=True) as running:
        connection = {"conn_type": "datapipe", "host": running.base_url, "password": running.api_key}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
        yield running


def names_of(file: str) -> dict[str, Any]:
    (block,) = [block for block in blocks() if (block.page, block.file) == (PAGE, file)]
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102 - our own docs
    return names


def test_the_tasks_of_the_page_do_as_it_says(service: LocalService) -> None:
    hook = DatapipeHook("shop")
    loaded = loads(hook, 4)
    tasks = {task.task_id: task for task in names_of("dags/looked_after.py")["dag"].tasks}
    assert run(tasks["disabled_syncs"]) == ["closed"]
    rows = run(tasks["rows_of_the_last_runs"])
    assert (set(rows.values()), set(rows) < set(loaded), len(rows)) == ({2}, True, 3)
    assert run(tasks["documented"]) == "Old."
    assert run(tasks["documented"]) == "One row for each customer."
    hook.close()


def test_the_coroutines_of_the_page_do_as_it_says(service: LocalService) -> None:
    names = names_of("plugins/counting.py")
    assert asyncio.run(names["how_much_there_is"]()) == {"syncs": 2, "transforms": 1}
    assert [asyncio.run(names["is_enabled"](sync)) for sync in ("shop", "closed")] == [True, False]


def test_page_lists_all_public_methods_of_the_hook() -> None:
    told = {name for row in table() for name in row.partition("|")[0].replace("await ", "").split("`") if "(" in name}
    names = {name.partition("(")[0] for name in told}
    # What operators and triggers use, and Airflow.
    inner = {"run", "run_together", "aget_settings", "test_connection"}
    there = {name for name, each in vars(DatapipeHook).items() if callable(each) and not name.startswith("_")}
    assert names == there - inner


def table() -> list[str]:
    rows = pages()[PAGE].partition("| Method |")[2].partition("\n\n")[0].splitlines()[2:]
    return [row.removeprefix("| ") for row in rows]


def loads(hook: DatapipeHook, times: int) -> list[str]:
    from airflow_provider_datapipe.operators.elt import EltStreamRunOperator

    task = EltStreamRunOperator(
        task_id="load", stream_id="o", datapipe_conn_id=hook.datapipe_conn_id, poll_interval=0.05
    )
    return [run(task)["run_id"] for _ in range(times)]
