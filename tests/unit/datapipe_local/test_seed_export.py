"""Test of exported seeds: they create an equal home, whose export is the same."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import Document, GivenDocument
from datapipe_local.seed.export import export
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import Clock
from datapipe_local.storage.store import Store
from datapipe_local.warehouse.warehouse import Warehouse
from tests.support.examples import scaled

#: Texts with a meaning in YAML, or in seeds.
SPECIAL = ["${HOME}", "$${HOME}", "$$${A}", "yes", "0777", "1e3", "<<", " x ", "a: b", "# x", "\n", "2026-01-31", "="]
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=20) | (
    st.sampled_from([*SPECIAL, "a\x85b", "\u2028"])
)
LINE = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=20) | st.sampled_from(
    ["${HOME}", "# x"]
)
CRON = st.sampled_from(["0 2 * * *", "*/5 * * * *", "15 4 1 1 0"])
FLAG = st.booleans()
JSON = st.recursive(
    st.none() | FLAG | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


STREAM_FLAGS = ("full_sync_always", "full_sync_at_midnight", "protected_from_full_sync", "enabled_history_table")
STREAM = some(
    sync_interval=CRON,
    incremental_pointer_id=TEXT,
    incremental_primary_key_name=st.lists(TEXT, min_size=1, max_size=2, unique=True),
    options=some(nullstr=TEXT, skip=st.integers(0, 3), header=FLAG),
    **dict.fromkeys(STREAM_FLAGS, FLAG),
)
SYNC = some(
    sync_interval=CRON,
    enabled=FLAG,
    orchestration_workflow_id=st.just("o0"),
    start_date=st.dates().map(lambda day: day.isoformat()),
    elt_settings=st.dictionaries(TEXT, JSON, max_size=2),
)
PLACES = ["view", "table"]


@st.composite
def seeds(draw: st.DrawFn) -> dict[str, Any]:
    seed: dict[str, Any] = {
        "connections": [
            {"id": "files", "integration_id": "files", "label": draw(TEXT), "settings": {"path": "/data/$x"}},
            {"id": "out", "integration_id": "jsonl", "label": draw(TEXT), "settings": {"path": "/out"}},
        ],
        "orchestrations": [{"id": "o0", "name": f"O {draw(LINE)}".strip(), "cron_schedule": draw(CRON)}],
    }
    if draw(FLAG):
        seed["runs"] = draw(
            some(schedules=FLAG, scheduling_delay=st.floats(0, 3600), minimum_duration=st.integers(0, 3600))
        )
    if draw(FLAG):
        seed["transforms_managed_by_version_control"] = draw(FLAG)
    if draw(FLAG):
        seed["limits"] = draw(some(syncs_per_connection=st.integers(0, 20)))
    seed["elt_syncs"] = [
        {
            **draw(SYNC),
            "id": f"s{number}",
            "connection_id": "files",
            "destination_schema_name": f"schema_{number}",
            "source_streams": [
                {**draw(STREAM), "id": f"s{number}.{name}", "name": name, "file": f"{name}.csv"}
                for name in draw(st.lists(st.sampled_from("abc"), unique=True))
            ],
        }
        for number in range(draw(st.integers(0, 2)))
    ]
    seed["transforms"] = [draw(transforms(number)) for number in range(draw(st.integers(0, 3)))]
    if seed["transforms"]:
        seed["reverse_etl_syncs"] = draw(st.lists(reverse(), max_size=1))
    return seed


@st.composite
def transforms(draw: st.DrawFn, number: int) -> dict[str, Any]:
    entry = {
        **draw(some(documentation=TEXT, orchestration_workflow_id=st.just("o0"), publish=FLAG)),
        "id": f"t{number}",
        "name": f"t{number}",
        "folder_path": draw(st.sampled_from(["", "a", "a/b"])),
        "materialization": draw(st.sampled_from(PLACES)),
        "sql_template": draw(st.sampled_from(["SELECT 1 AS x", "SELECT '${HOME} {' AS x\n-- more", " SELECT 2 AS x "])),
    }
    if entry["materialization"] == "table" and draw(FLAG):
        entry["cron_expression"] = draw(CRON)
    return entry


@st.composite
def reverse(draw: st.DrawFn) -> dict[str, Any]:
    return {
        **draw(some(sync_interval=CRON, enabled=FLAG, orchestration_workflow_id=st.just("o0"))),
        "id": "r",
        "source_id": "t0",
        "destination_connection_id": "out",
        "object_type_id": "things",
        "operation": {
            "mode": draw(st.sampled_from(["insert", "upsert", "update", "mirror"])),
            "mappings": [{"source_property_id": "x", "destination_property_id": draw(TEXT), "primary_key": True}],
        },
    }


@contextmanager
def contexts() -> Iterator[Context]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, warehouse = Store(folder / "state.sqlite"), Warehouse(folder / "warehouse.duckdb", folder)
        try:
            yield Context(store, warehouse, Clock())
        finally:
            warehouse.close()
            store.close()


def definitions(store: Store) -> dict[str, Any]:
    """Return all definitions and settings, without times and the IDs of versions."""
    tables = ("connections", "orchestrations", "elt_syncs", "elt_streams", "transforms", "reverse_etl_syncs")
    settings = ("schedules", "scheduling_delay", "syncs_per_connection")
    found = {
        table: [
            {name: value for name, value in asdict(record).items() if not name.endswith(("_at", "version_id"))}
            for record in getattr(store, table).all("ORDER BY seq")
        ]
        for table in tables
    }
    versions = [version.sql_template for version in store.transform_versions.all("ORDER BY seq")]
    return {**found, "sql": versions, **{name: store.setting(name, default=None) or 0 for name in settings}}


# Shrinking takes minutes, and the seeds are small.
@pytest.mark.slow
@settings(max_examples=scaled(30), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seeds())
def test_an_exported_seed_makes_the_same(seed: dict[str, Any]) -> None:
    with contexts() as first, contexts() as second:
        Seeding(first, GivenDocument(seed, Path("/"))).apply()
        exported = export(first)
        assert exported.variables == []
        Seeding(second, Document(Path("/elsewhere/seed.yaml"), exported.text)).apply()
        assert definitions(second.store) == definitions(first.store)
        assert export(second) == exported
