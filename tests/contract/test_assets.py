"""Tests of asset events: successful tasks emit them, failed tasks do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_datapipe.assets import alias_of, elt_stream_asset, reverse_etl_sync_asset
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.runs.errors import RunPartialError
from tests.contract.seeds import MODES
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of, copy_of, first_event, recreated_trigger
from tests.system.resources import seed_of

pytestmark = pytest.mark.usefixtures("service")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[LocalService]:
    """Start a service with a stream and a reverse ETL sync."""
    with LocalService(seed_of(["orders"], folder, ["crm"]), control=True) as service:
        yield service


def run(task: Any) -> tuple[Any, OutletEventAccessors]:
    """Run a task like Airflow, which drops the asset events of a pass that defers."""
    memory = Memory()
    method, arguments = "execute", dict[str, Any]()
    while True:
        events = OutletEventAccessors()
        try:
            context = context_of(memory) | {"outlet_events": events}
            return getattr(task, method)(context, **arguments), events
        except TaskDeferred as deferral:
            method = deferral.method_name
            arguments = {"event": asyncio.run(first_event(recreated_trigger(deferral)))}
            task = copy_of(task)


@MODES
def test_known_assets_are_emitted_with_the_run(deferrable: bool) -> None:
    task = EltStreamRunOperator(task_id="t", stream_id="orders", emit_assets=True, deferrable=deferrable)
    result, events = run(task)
    extra = events[elt_stream_asset("orders")].extra
    assert extra == {name: value for name, value in result.items() if name != "attached"}
    assert (extra["outcome"], extra["rows_synced"]) == ("succeeded", 2)


@MODES
def test_asset_unknown_at_parsing_is_emitted_through_the_alias(deferrable: bool) -> None:
    task = EltStreamRunOperator(
        task_id="t", sync_id="orders", stream_name="rows", emit_assets=True, deferrable=deferrable
    )
    result, events = run(task)
    (reported,) = events[alias_of("elt_stream")].asset_alias_events
    assert reported.dest_asset_key.uri == elt_stream_asset("orders").uri
    assert reported.extra["run_id"] == result["run_id"]


def test_only_the_declared_outlet_of_the_run_is_emitted() -> None:
    outlets = [elt_stream_asset("orders"), elt_stream_asset("items")]
    _, events = run(EltStreamRunOperator(task_id="t", stream_id="orders", outlets=outlets))
    assert [getattr(asset, "uri", None) for asset in events] == [outlets[0].uri]


@pytest.mark.parametrize("shown", [10, 0])
def test_failed_task_emits_no_asset_event_but_logs_records(
    service: LocalService, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"sync_id": "crm", "record_id": "customer-17", "error": "no e-mail"}
    failing = {"rewrite": {"failed_rows": 2, "total_rows": 5}, "times": "always"}
    service.faults(
        [
            {"path": "/reverse_etl_sync_runs/*", **failing},
            {"path": "/reverse_etl_sync_runs", **failing},
            {"path": "/reverse_etl_failed_records", "status": 200, "body": {"data": [record]}, "times": "always"},
        ]
    )
    task = ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="crm", emit_assets=True, show_failed_records=shown)
    events = OutletEventAccessors()
    with pytest.raises(RunPartialError) as raised:
        task.execute(context_of(Memory()) | {"outlet_events": events})
    assert task.outlets == [reverse_etl_sync_asset("crm")]
    assert len(events) == 0
    output = capsys.readouterr().out
    assert ("First 1 failed records of reverse ETL sync crm:\n  customer-17: no e-mail" in output) == bool(shown)
    assert ("customer-17" in output + str(raised.value)) == bool(shown)
    assert "2 of 5 rows failed" in str(raised.value)
    assert len(service.journal_requests("/reverse_etl_failed_records")) == bool(shown)
