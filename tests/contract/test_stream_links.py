"""Tests of the links to the streams of a sync: one for each stream in the DAG file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk import DAG

from airflow_provider_datapipe.links import DatapipeLink, StreamLink
from airflow_provider_datapipe.operators.elt import EltSyncRunOperator
from airflow_provider_datapipe.runs.errors import RunFailedError
from tests.support.airflow_versions import dag_serialization
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, run

KEY = DatapipeLink().xcom_key
STREAM_KEYS = [StreamLink(position, "s").xcom_key for position in range(2)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with a sync of three streams, one of which fails."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "orders.csv").write_text("id,name\n1,x\n")
    streams = [
        {"id": "s1", "name": "orders", "file": "orders.csv"},
        {"id": "s2", "name": "customers", "file": "orders.csv"},
        {"id": "s3", "name": "bad", "file": "gone.csv"},
    ]
    sync = {"id": "shop", "connection_id": "files", "destination_schema_name": "shop", "sync_interval": "0 3 * * *"}
    seed = {
        "runs": {"scheduling_delay": 0, "minimum_duration": 0},
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(folder)}}
        ],
        "elt_syncs": [sync | {"enabled": True, "source_streams": streams}],
    }
    with LocalService(seed) as running:
        yield running


@pytest.fixture
def memory(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Return the task state for a task whose connections have the setting ``link``."""
    links = {
        "datapipe_default": "https://app.example.com/{resource}/{id}?from=airflow",
        "with_runs": "https://app.example.com/{id}#{run_id}",
    }
    for conn_id, link in links.items():
        extra = {"link": link, "poll_interval": 0.1}
        connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))
    return Memory()


@pytest.mark.parametrize("deferrable", [False, True])
def test_streams_of_a_sync_have_their_own_links(memory: Memory, deferrable: bool) -> None:
    task = EltSyncRunOperator(
        task_id="t", sync_id="shop", streams=["orders", "s2", "{{ 1 }}"], deferrable=deferrable, defer_after=0
    )
    task.streams = ["orders", "s2"]
    run(task, memory)
    assert {key: address for key, address in memory.pushed.items() if key.startswith("_link_")} == {
        KEY: "https://app.example.com/elt_syncs/shop?from=airflow",
        STREAM_KEYS[0]: "https://app.example.com/elt_streams/s1?from=airflow",
        STREAM_KEYS[1]: "https://app.example.com/elt_streams/s2?from=airflow",
    }


def test_stream_that_failed_is_linked(memory: Memory) -> None:
    with pytest.raises(RunFailedError):
        run(EltSyncRunOperator(task_id="t", sync_id="shop", streams=["bad"]), memory)
    assert memory.pushed[STREAM_KEYS[0]] == "https://app.example.com/elt_streams/s3?from=airflow"


def test_link_of_a_stream_has_its_run(memory: Memory) -> None:
    task = EltSyncRunOperator(task_id="t", sync_id="shop", streams="orders", datapipe_conn_id="with_runs")
    result = run(task, memory)
    run_id = result["streams"]["orders"]["run_id"]
    assert memory.pushed[STREAM_KEYS[0]] == f"https://app.example.com/s1#{quote(run_id, safe='')}"


@pytest.mark.parametrize(
    ("streams", "names"),
    [
        (None, []),
        ("orders", ["ELT stream orders"]),
        ("{{ params.streams }}", []),
        (["orders", "orders", "{{ ds }}"], ["ELT stream orders"]),
        ([f"s{number}" for number in range(20)], [f"ELT stream s{number}" for number in range(20)]),
        ([f"s{number}" for number in range(21)], []),
    ],
)
def test_links_of_streams_that_are_known_at_parse_time(streams: Any, names: list[str]) -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        EltSyncRunOperator(task_id="t", sync_id="shop", streams=streams)
    serialization = dag_serialization()
    stored = serialization.to_dict(dag)
    serialization.validate_schema(stored)
    read = serialization.from_dict(json.loads(json.dumps(stored)))
    assert [*read.task_dict["t"].operator_extra_link_dict] == [DatapipeLink.name, *names]
