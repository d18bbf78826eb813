"""Random states of the local service, and in-process requests to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.cli.service import Progress, Service
from tests.support.local_service import LocalService

Json = dict[str, Any]

TABLES = ("orders", "people", "Visits")
SECRET = "s3cret-of-the-settings"
CRONS = st.sampled_from(["0 3 * * *", "*/5  1-4 * * mon", "0 0 1 1 *", "59 23 31 12 7"])
ODD = st.sampled_from(
    ["null", "2026-01-01", "1e3", "0x1F", "~", "- x", "a: b", "#", "'", '"', "<<", "*a", "&a", "!x", "${HOME}", "$${A}",
     "yes", "Ä ö", " x", "x ", "\N{ZERO WIDTH NO-BREAK SPACE}x", "\N{GRINNING FACE}", "x" * 200 + " " + "y" * 54, "a/b"]
)  # fmt: skip
#: Strategy for names of orchestrations: one line, not blank.
NAMES = ODD | st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12).filter(
    str.strip
)
#: Strategy for labels of connections: any text.
LABELS = (
    ODD
    | st.sampled_from(["a\nb", "\n", "\t", " ", "\x07", "\x7f", "\x85x", "\u2028", "a\r\nb ", "\ufffe"])
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


def table(name: str) -> Json:
    """Return a table of generated data."""
    columns = [{"name": "id", "kind": "id"}, {"name": "name", "kind": "text"}, {"name": "note", "kind": "text"}]
    return {"name": name, "rows": 1, "columns": columns, "changes_per_hour": 1}


def source(connection_id: str, label: str) -> Json:
    """Return a connection of a source."""
    settings = {"tables": [table(name) for name in TABLES]}
    return {"id": connection_id, "integration_id": "generated", "label": label, "settings": settings}


def destination(connection_id: str, label: str) -> Json:
    """Return a connection of a destination."""
    settings = {"url": "http://127.0.0.1:9"}
    return {"id": connection_id, "integration_id": "http", "label": label, "settings": settings}


def operation(mode: str = "upsert") -> Json:
    """Return the operation of a reverse ETL sync."""
    return {
        "mode": mode,
        "mappings": [
            {"source_property_id": "id", "destination_property_id": "id", "primary_key": True},
            {"source_property_id": "name", "destination_property_id": "title"},
        ],
    }


@st.composite
def seeds(draw: st.DrawFn) -> Json:
    """Draw a random state of a service."""
    one_label = draw(LABELS)
    labels = [draw(LABELS | st.just(one_label)) for _ in range(4)]
    connections = [source("in.1", labels[0]), source("in.2", labels[1])]
    connections += [destination("out.1", labels[2]), destination("out.2", labels[3])]
    some_names = draw(st.lists(NAMES, min_size=1, max_size=2))
    orchestrations = [
        {"id": f"orch.{place}", "name": draw(st.sampled_from(some_names)), "cron_schedule": draw(CRONS)}
        for place in range(draw(st.integers(0, 3)))
    ]
    attached = st.none() | st.sampled_from([each["id"] for each in orchestrations]) if orchestrations else st.none()
    syncs = [draw(_sync(place, attached)) for place in range(draw(st.integers(0, 3)))]
    transforms = [
        {"id": f"model.{place}", "name": f"model_{place % 2}", "folder_path": folder, "sql_template": "SELECT 1 AS id"}
        for place, folder in enumerate(draw(st.permutations(["", "marts", "marts/eu"])))
    ]
    views = [f"{each['destination_schema_name']}.{one['name']}" for each in syncs for one in each["source_streams"]]
    sources = st.sampled_from([*(each["id"] for each in transforms), *views])
    sendings = [
        {
            "id": f"send.{place}",
            "source_id": draw(sources),
            "destination_connection_id": draw(st.sampled_from(["out.1", "out.2"])),
            "object_type_id": draw(st.sampled_from(["things", "1.0", "null"])),
            "operation": operation(draw(st.sampled_from(["upsert", "mirror", "insert"]))),
            "enabled": draw(st.booleans()),
            "sync_interval": draw(st.none() | CRONS),
            "orchestration_workflow_id": draw(attached),
            "settings": draw(st.sampled_from([{}, {"batch_size": 7}])),
        }
        for place in range(draw(st.integers(0, 3)))
    ]
    return {
        "connections": connections,
        "orchestrations": orchestrations,
        "elt_syncs": syncs,
        "transforms": transforms,
        "reverse_etl_syncs": sendings,
    }


@st.composite
def _sync(draw: st.DrawFn, place: int, attached: st.SearchStrategy[str | None]) -> Json:
    flags = ("full_sync_always", "full_sync_at_midnight", "protected_from_full_sync", "enabled_history_table")
    return {
        "id": f"sync.{place}",
        "connection_id": draw(st.sampled_from(["in.1", "in.2"])),
        "destination_schema_name": f"{draw(st.sampled_from(['raw', 'Raw', 'y']))}_{place}",
        "sync_interval": draw(st.none() | CRONS),
        "enabled": draw(st.booleans()),
        "orchestration_workflow_id": draw(attached),
        "start_date": draw(st.none() | st.just("2026-01-31")),
        "elt_settings": draw(st.dictionaries(st.sampled_from(["token", "a b", "${A}"]), VALUES, max_size=2)),
        "source_streams": [
            {
                "id": f"sync.{place}.{name}",
                "name": name,
                "table": name,
                "sync_interval": draw(st.none() | CRONS),
                "incremental_pointer_id": draw(st.none() | st.just("updated_at")),
                "excluded_columns": draw(st.sampled_from([[], ["note"]])),
                **{flag: draw(st.booleans()) for flag in flags},
            }
            for name in draw(st.lists(st.sampled_from(TABLES), unique=True, max_size=3))
        ],
    }


@contextmanager
def asked(service: LocalService) -> Iterator[Service]:
    """Yield the service object that commands use for requests."""
    with Client(Settings(base_url=service.base_url, api_key=service.api_key)) as client:
        yield Service(client, Progress(quiet=True))
