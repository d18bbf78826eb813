"""Assets: names, outlets of tasks, and contents of asset events."""

from __future__ import annotations

import importlib
import inspect
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import Asset, AssetAlias, BaseOperator, TaskGroup
from airflow.sdk.definitions.asset import AssetUniqueKey
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import AssetResult, ErrorResponse
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_datapipe.assets import (
    alias_of,
    elt_stream_asset,
    elt_sync_asset,
    orchestration_asset,
    report,
    reverse_etl_sync_asset,
    run_of,
    transform_asset,
)
from airflow_provider_datapipe.get_provider_info import get_provider_info
from airflow_provider_datapipe.operators.base import DatapipeRunOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator, TransformPlanOperator
from airflow_provider_datapipe.operators.transforms import (
    TransformDeployOperator,
    TransformPublishOperator,
    TransformRematerializeOperator,
)
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger
from tests.support.dags import new_dag, stored_dag

STREAM = "datapipe://datapipe_default/elt_streams/orders"
STREAMS, TRANSFORMS = AssetAlias("datapipe-elt_streams"), AssetAlias("datapipe-transforms")
REFERENCES = [Asset.ref(uri=STREAM), Asset.ref(name="ELT stream orders")]
SINGLE: list[tuple[Any, str, str]] = [
    (EltStreamRunOperator, "stream_id", "elt_streams"),
    (OrchestrationRunOperator, "orchestration_id", "orchestrations"),
    (TransformPublishOperator, "transform_id", "transforms"),
    (TransformRematerializeOperator, "transform_id", "transforms"),
    (ReverseEtlRunOperator, "reverse_etl_sync_id", "reverse_etl_syncs"),
]


def result(**known: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("status", "started_at", "finished_at", "duration", "rows_failed", "rows_total", "error"))
    given = {"kind": "elt_stream", "resource_id": "orders", "name": "orders", "run_id": "r1", "outcome": "succeeded"}
    return empty | given | {"rows_synced": 7, "attached": False} | known


def events_of(
    outlets: list[Any], reported: dict[str, Any] | None = None, conn_id: str = "datapipe_default"
) -> OutletEventAccessors:
    """Return the asset events of a task with these outlets and this result."""
    events = OutletEventAccessors()
    report(outlets, events, conn_id, reported or result())
    return events


@pytest.mark.parametrize(
    ("asset", "name", "uri"),
    [
        (
            elt_stream_asset("shop.orders"),
            "ELT stream shop.orders",
            "datapipe://datapipe_default/elt_streams/shop.orders",
        ),
        (elt_sync_asset("shop"), "ELT sync shop", "datapipe://datapipe_default/elt_syncs/shop"),
        (transform_asset("t.1"), "Transform t.1", "datapipe://datapipe_default/transforms/t.1"),
        (orchestration_asset("n"), "Orchestration n", "datapipe://datapipe_default/orchestrations/n"),
        (reverse_etl_sync_asset("crm"), "Reverse ETL sync crm", "datapipe://datapipe_default/reverse_etl_syncs/crm"),
        (
            elt_stream_asset("Ä b/c?d#e", datapipe_conn_id="Eu@1"),
            "ELT stream %C3%84%20b%2Fc%3Fd%23e (Eu@1)",
            "datapipe://Eu%401/elt_streams/%C3%84%20b%2Fc%3Fd%23e",
        ),
        # Distinct from the name of stream "a" of the connection "eu".
        (elt_stream_asset("a (eu)"), "ELT stream a%20%28eu%29", "datapipe://datapipe_default/elt_streams/a%20%28eu%29"),
    ],
)
def test_name_group_and_uri(asset: Asset, name: str, uri: str) -> None:
    assert (asset.name, asset.uri, asset.group) == (name, uri, "datapipe")
    assert asset.extra["id"] in (name.rpartition(" ")[2], "Ä b/c?d#e", "a (eu)")
    # Airflow normalizes the URI with the function of this provider.
    assert Asset(uri=uri).uri == uri
    assert asset.normalized_uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "datapipe://datapipe_default/streams/orders",
        "datapipe:///elt_streams/orders",
        "datapipe://datapipe_default/elt_streams",
        "datapipe://datapipe_default/elt_streams/a/b",
        "datapipe://datapipe_default/elt_streams/a?b=c",
        "datapipe://datapipe_default/connections/a",
    ],
)
def test_invalid_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="datapipe://<connection>/<collection>/<id>"):
        Asset(uri=uri)


@pytest.mark.parametrize(("stream_id", "connection"), [("", "c"), ("s", "")])
def test_empty_id_or_connection_is_refused(stream_id: str, connection: str) -> None:
    with pytest.raises(ValueError, match="neither may be empty"):
        elt_stream_asset(stream_id, datapipe_conn_id=connection)


def test_asset_accepts_watchers() -> None:
    from airflow.sdk import AssetWatcher

    watcher = AssetWatcher(name="w", trigger=EltStreamRunEventTrigger("orders"))
    assert elt_stream_asset("orders", watchers=[watcher]).watchers == [watcher]


def test_definitions_of_an_asset_share_their_watchers() -> None:
    from airflow.sdk import AssetWatcher

    def watcher(name: str, stream_id: str = "watched") -> AssetWatcher:
        return AssetWatcher(name=name, trigger=EltStreamRunEventTrigger(stream_id))

    # Airflow removes the watchers of an asset if the definition that it reads last has none.
    before = EltStreamRunOperator(task_id="before", stream_id="watched", emit_assets=True)
    first, second, changed = watcher("first"), watcher("second"), watcher("first", "other")
    asset = elt_stream_asset("watched", watchers=[first])
    after = EltStreamRunOperator(task_id="after", stream_id="watched", emit_assets=True)
    elt_stream_asset("watched", watchers=[second])
    assert [each.watchers for each in (asset, *before.outlets, *after.outlets)] == [[first, second]] * 3
    # The name identifies a watcher.
    elt_stream_asset("watched", watchers=[changed])
    assert asset.watchers == [second, changed]
    assert elt_stream_asset("watched", datapipe_conn_id="eu").watchers == []


@pytest.mark.parametrize(("operator", "argument", "collection"), SINGLE)
def test_outlets_are_assets_or_an_alias_on_request(operator: Any, argument: str, collection: str) -> None:
    def outlets(given: str, **more: Any) -> Any:
        return operator(task_id="t", **{argument: given}, **more).outlets

    assert outlets("a") == []
    emitted = outlets("a", emit_assets=True, datapipe_conn_id="eu")
    assert [(each.uri, each.group) for each in emitted] == [(f"datapipe://eu/{collection}/a", "datapipe")]
    # The rendered ID or connection is known only at run time.
    alias = [AssetAlias(f"datapipe-{collection}")]
    assert outlets("{{ params.a }}", emit_assets=True) == alias
    assert outlets("a", emit_assets=True, datapipe_conn_id="{{ var.value.c }}") == alias


@pytest.mark.parametrize(
    ("operator", "arguments", "outlets"),
    [
        (EltStreamRunOperator, {"sync_id": "shop", "stream_name": "orders"}, [STREAMS]),
        (EltSyncRunOperator, {"sync_id": "shop"}, [elt_sync_asset("shop"), STREAMS]),
        (TransformDeployOperator, {"name": "t", "sql_template": "SELECT 1"}, [TRANSFORMS]),
        (TransformBulkDeployOperator, {"folder": "transforms"}, [TRANSFORMS]),
        # The user's outlets are kept, and no outlet is added twice.
        (
            EltStreamRunOperator,
            {"stream_id": "orders", "outlets": [Asset("mine"), elt_stream_asset("orders")]},
            [Asset("mine"), elt_stream_asset("orders")],
        ),
        (
            EltStreamRunOperator,
            {"stream_id": "orders", "outlets": [Asset(name="orders", uri=STREAM)]},
            [Asset(name="orders", uri=STREAM)],
        ),
        # A reference alone does not define the asset.
        (EltStreamRunOperator, {"stream_id": "orders", "outlets": REFERENCES}, [elt_stream_asset("orders")]),
        (EltStreamRunOperator, {"stream_id": "{{ ds }}", "outlets": REFERENCES}, [*REFERENCES, STREAMS]),
    ],
    ids=["by name", "sync", "deploy", "bulk deploy", "own outlets", "own name", "references", "references, template"],
)
def test_outlets_of_a_task(operator: Any, arguments: dict[str, Any], outlets: list[Any]) -> None:
    assert operator(task_id="t", emit_assets=True, **arguments).outlets == outlets


def test_query_preview_has_no_outlets() -> None:
    default: dict[str, Any] = {"default_args": {"emit_assets": True}}
    assert QueryPreviewOperator(task_id="t", sql_template="SELECT 1", **default).outlets == []
    assert not QueryPreviewOperator.partial(task_id="t", **default).kwargs.get("outlets")


def test_each_run_operator_declares_its_asset() -> None:
    found = {
        one
        for section in get_provider_info()["operators"]
        for name in section["python-modules"]
        for _, one in inspect.getmembers(importlib.import_module(name), inspect.isclass)
        if issubclass(one, DatapipeRunOperator) and "Datapipe" not in one.__name__
    }
    named = {operator for operator, _, _ in SINGLE} | {EltSyncRunOperator}
    assert {one for one in found if one.asset_kind is None} == {QueryPreviewOperator, TransformPlanOperator}
    assert {one for one in found if one.asset_argument is not None} == named


def test_only_published_transforms_emit_asset_events() -> None:
    items = {
        "a/built": {"id": "1", "result": "updated", "published": True, "error": None},
        "a/alike": {"id": "2", "result": "unchanged", "published": False, "error": None},
        "a/broken": {"id": "3", "result": "failed", "published": True, "error": "no such table"},
    }
    alias = alias_of("transform")
    folder = {"outcome": "partial", "counts": {}, "transforms": items}
    unpublished = result(kind="transform", resource_id="4", published=False)
    published = result(kind="transform", resource_id="5", published=True)
    for given, transforms in ((folder, ["1"]), (unpublished, []), (published, ["5"])):
        uris = [event.dest_asset_key.uri for event in events_of([alias], given, "c")[alias].asset_alias_events]
        assert uris == [f"datapipe://c/transforms/{transform}" for transform in transforms]


@pytest.mark.parametrize("how", ["task", "task's defaults", "group", "dag"])
def test_mapped_tasks_have_the_alias_when_parsed_and_executed(how: str) -> None:
    asked: dict[str, Any] = {"emit_assets": True}
    given = {"task": asked, "task's defaults": {"default_args": asked}}.get(how, {})
    defaults = asked if how == "dag" else {}
    in_group: dict[str, Any] = {"default_args": asked if how == "group" else {}}
    with new_dag(default_args=defaults) as dag, TaskGroup("g", prefix_group_id=False, **in_group):
        EltStreamRunOperator.partial(task_id="t", outlets=[Asset("mine")], **given).expand(stream_id=["a", "b"])
    assert [each["__type"] for each in stored_dag(dag).get_task("t").outlets] == ["asset", "asset_alias"]
    unmapped: Any = dag.get_task("t").unmap({"stream_id": "a", "emit_assets": True})
    assert isinstance(unmapped, BaseOperator)
    assert unmapped.outlets == [Asset("mine"), STREAMS]


def test_asset_event_contains_the_run() -> None:
    (event,) = events_of([Asset("mine"), elt_stream_asset("orders")])._dict.values()
    assert event.extra == {name: value for name, value in result().items() if name != "attached"}
    assert run_of(SimpleNamespace(extra=event.extra))["run_id"] == "r1"
    # An asset that is unknown at parsing is emitted through the alias.
    (aliased,) = events_of([STREAMS])[STREAMS].asset_alias_events
    assert (aliased.dest_asset_key.uri, aliased.extra["rows_synced"]) == (STREAM, 7)
    # Without the alias, no other asset is emitted.
    assert len(events_of([Asset("mine")])) == 0


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the mock of Airflow's answer to a request for an asset."""
    send = Mock()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Mock(send=send), raising=False)
    monkeypatch.setattr(OutletEventAccessors, "_asset_ref_cache", {})
    return send


@pytest.mark.parametrize("reference", REFERENCES)
def test_event_of_a_referenced_asset_contains_the_run(reference: Any, answer: Mock) -> None:
    answer.return_value = AssetResult(name="mine", uri=STREAM, group="")
    (event,) = events_of([reference, STREAMS])._dict.values()
    assert (event.key, event.extra["run_id"]) == (AssetUniqueKey(name="mine", uri=STREAM), "r1")


@pytest.mark.parametrize("error", [ErrorType.ASSET_NOT_FOUND, ErrorType.API_SERVER_ERROR])
def test_unreadable_referenced_asset_does_not_fail_the_task(
    error: ErrorType, answer: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    answer.return_value = ErrorResponse(error=error)
    assert len(events_of(REFERENCES)) == 0
    assert f"no result of the run: {error.value}" in caplog.text
    assert len(events_of([*REFERENCES, STREAMS])[STREAMS].asset_alias_events) == 1


def test_sync_emits_events_for_itself_and_its_loaded_streams() -> None:
    items = result(resource_id="items", name="items", outcome="failed", error="no file")
    streams = {"orders": result(), "items": items}
    events = events_of(
        [elt_sync_asset("shop"), STREAMS],
        {"sync_id": "shop", "outcome": "partial", "rows_synced": 7, "streams": streams},
    )
    assert events[elt_sync_asset("shop")].extra == {
        "kind": "elt_sync",
        "resource_id": "shop",
        "sync_id": "shop",
        "outcome": "partial",
        "rows_synced": 7,
        "streams": {
            "orders": {"run_id": "r1", "outcome": "succeeded", "rows_synced": 7},
            "items": {"run_id": "r1", "outcome": "failed", "rows_synced": 7},
        },
    }
    (reported,) = events[STREAMS].asset_alias_events
    assert reported.dest_asset_key.uri == STREAM
    assert reported.extra["sync_id"] == "shop"


@pytest.mark.parametrize(
    ("extra", "run"),
    # Airflow emits an event without content for each outlet that the DAG declares.
    [
        ({"from_trigger": True, "payload": result()}, result()),
        (result() | {"from_rest_api": True}, result() | {"from_rest_api": True}),
        ({"from_rest_api": True}, {}),
        ({}, {}),
        (None, {}),
    ],
    ids=["of a watcher", "of a client with a run", "of a user", "empty", "none"],
)
def test_run_of_an_asset_event(extra: Any, run: dict[str, Any]) -> None:
    assert run_of(SimpleNamespace(extra=extra)) == run
