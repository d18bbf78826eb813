"""Tests of OpenLineage events of tasks on the local service."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import Asset
from openlineage.client.serde import Serde

import airflow_provider_datapipe.lineage
from airflow_provider_datapipe.api.endpoints import (
    elt_streams,
    elt_syncs,
    query_previews,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.assets import elt_stream_asset
from airflow_provider_datapipe.decorators.query import CheckDecoratedOperator, QueryDecoratedOperator
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.lineage.assets import convert_asset_to_openlineage
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.query_previews import DatapipeThresholdCheckOperator, QueryPreviewOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator
from airflow_provider_datapipe.operators.transforms import (
    TransformDeployOperator,
    TransformPublishOperator,
    TransformRematerializeOperator,
)
from airflow_provider_datapipe.operators.webhooks import WebhookIngestOperator
from tests.contract.seeds import FILES, MODES, NIGHTLY, OUT, connect, elt_sync, mapped, reverse_etl_sync, transform
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.raw_server import RawServer
from tests.support.tasks import Memory, context_of, copy_of, first_event, recreated_trigger

FOLDER = Path(airflow_provider_datapipe.lineage.__file__).parent
FACET_SCHEMA = json.loads((FOLDER / "service_runs.schema.json").read_text())
JOINED = "{{raw.shop.orders}} o JOIN {{raw.shop.people}} ON people.id = o.person"
TOTALS = f"SELECT people.name, sum(o.total) AS spent FROM {JOINED} GROUP BY ALL"  # noqa: S608 - SQL of this test
MODEL = {"folder_path": "core/daily", "materialization": "table", "publish": False}
ATTACHED = {"orchestration_workflow_id": "nightly"}
SPENT = mapped("name", "spent")
SPENT["mappings"][0]["destination_property_id"] = "who"
SOURCES = {"orders.csv": "id,person,total\n1,1,10\n2,1,20\n3,2,5\n", "people.csv": "id,name\n1,Ada\n2,Ben\n"}
HOOKS = {"authentication": {"method": "none"}, "tables": [{"name": "events"}]}
SEED = {
    "connections": [FILES, OUT, {"id": "hooks", "integration_id": "webhook", "label": "Hooks", "settings": HOOKS}],
    "elt_syncs": [elt_sync("shop", "orders", "people"), elt_sync("broken", "orders", "nowhere")],
    "transforms": [
        transform("totals", TOTALS, **MODEL),
        transform("rich", "SELECT * FROM {{model.core.daily.totals}} WHERE spent > 9", **MODEL),
        transform("wrong", "SELECT error('not today') AS name FROM {{raw.shop.people}}", **MODEL),
    ],
    "reverse_etl_syncs": [
        reverse_etl_sync("spent", "totals", object_type_id="people", sync_interval=None, operation=SPENT, **ATTACHED)
    ],
    "orchestrations": [NIGHTLY],
}


@pytest.fixture(scope="module")
def service(running: LocalService) -> LocalService:
    """Load the streams of the shop, and publish the table of the totals."""
    with pytest.MonkeyPatch.context() as patch:
        connect(patch, running)
        as_run(EltSyncRunOperator(task_id="t", sync_id="shop"))
        as_run(TransformPublishOperator(task_id="t", transform_id="totals"))
    return running


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service)
    # Each test stands for another event, with its own request budget.
    monkeypatch.setattr("airflow_provider_datapipe.lineage.asking._budgets", {})


@pytest.fixture
def namespace(service: LocalService) -> str:
    return f"datapipe://{service.base_url.removeprefix('http://')}"


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Return a function that counts the warnings about lineage."""
    caplog.set_level(logging.WARNING)
    return lambda: len([each for each in caplog.records if "OpenLineage" in each.message])


def as_run(task: Any) -> Any:
    """Run a task. Return the last of its objects, which the listener gets. A deferred task has several."""
    memory = Memory()
    method, arguments = "execute", dict[str, Any]()
    while True:
        try:
            getattr(task, method)(context_of(memory), **arguments)
        except TaskDeferred as deferral:
            method = deferral.method_name
            arguments = {"event": asyncio.run(first_event(recreated_trigger(deferral)))}
            task = copy_of(task)
        except DatapipeError:
            return task
        else:
            return task


def reported(lineage: Any) -> dict[str, Any]:
    """Return the lineage as JSON, as the client sends it."""
    return {
        part: [Serde.to_dict(each) for each in value]
        if isinstance(value, list)
        else {name: Serde.to_dict(facet) for name, facet in value.items()}
        for part in ("inputs", "outputs", "run_facets", "job_facets")
        for value in (getattr(lineage, part),)
    }


def at_start(task: Any) -> dict[str, Any]:
    return reported(task.get_openlineage_facets_on_start())


def at_end(task: Any) -> dict[str, Any]:
    return reported(as_run(task).get_openlineage_facets_on_complete(None))


def on_failure(task: Any) -> dict[str, Any]:
    return reported(as_run(task).get_openlineage_facets_on_failure(None))


def names(datasets: list[dict[str, Any]]) -> list[str]:
    return sorted(each["name"] for each in datasets)


def full_names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in datasets]


def flow(lineage: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the inputs and of the outputs."""
    return names(lineage["inputs"]), names(lineage["outputs"])


def rows(datasets: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each.get("outputFacets", {}).get("outputStatistics", {}).get("rowCount") for each in datasets}


def columns(dataset: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("type") for each in dataset["facets"]["schema"]["fields"]}


def made_from(dataset: dict[str, Any]) -> dict[str, list[str]]:
    fields = dataset["facets"]["columnLineage"]["fields"]
    return {
        name: [f"{origin['name']}:{origin['field']}" for origin in each["inputFields"]] for name, each in fields.items()
    }


@MODES
def test_lineage_of_streams(namespace: str, *, deferrable: bool) -> None:
    task = EltSyncRunOperator(task_id="t", sync_id="shop", deferrable=deferrable)
    before = at_start(task)
    assert before["run_facets"] == {}
    assert {each["namespace"] for part in ("inputs", "outputs") for each in before[part]} == {namespace}
    assert flow(before) == (["connections/files/orders", "connections/files/people"], ["shop.orders", "shop.people"])

    after = at_end(task)
    assert names(after["inputs"]) == names(before["inputs"])
    assert rows(after["outputs"]) == {"shop.orders": 3, "shop.people": 2}
    assert {each["facets"]["dataSource"]["name"] for each in after["inputs"]} == {"files"}
    facet = after["run_facets"]["datapipe_runs"]
    jsonschema.validate({"datapipe_runs": facet}, FACET_SCHEMA, format_checker=jsonschema.FormatChecker())
    assert facet["service"] == namespace
    assert {run["resourceId"] for run in facet["runs"]} == {"shop.orders", "shop.people"}
    assert all(run["runId"] and run["outcome"] == "succeeded" for run in facet["runs"])

    one = at_start(as_run(EltStreamRunOperator(task_id="t", stream_id="shop.people")))
    assert rows(one["outputs"]) == {"shop.people": 2}


@MODES
def test_lineage_of_transforms(*, deferrable: bool) -> None:
    task = TransformPublishOperator(task_id="t", transform_id="totals", deferrable=deferrable)
    assert names(at_start(task)["inputs"]) == ["shop.orders", "shop.people"]

    after = at_end(task)
    assert flow(after) == (["shop.orders", "shop.people"], ["core_daily.totals"])
    (table,) = after["outputs"]
    assert columns(table) == {"name": "VARCHAR", "spent": columns(table)["spent"]}
    assert made_from(table) == {"name": ["shop.people:name"], "spent": ["shop.orders:total"]}
    assert "FROM shop.orders o JOIN shop.people ON people.id" in after["job_facets"]["sql"]["query"]
    assert "{{" not in after["job_facets"]["sql"]["query"]
    assert after["run_facets"]["datapipe_runs"]["runs"][0]["resourceId"] == "totals"

    by_name: dict[str, Any] = {"transform_name": "rich", "folder_path": "core/daily"}
    rich = at_end(TransformPublishOperator(task_id="t", deferrable=deferrable, **by_name))
    assert names(rich["inputs"]) == ["core_daily.totals"]
    assert made_from(rich["outputs"][0]) == {name: [f"core_daily.totals:{name}"] for name in ("name", "spent")}


def test_lineage_of_a_rebuild_is_that_of_the_published_sql() -> None:
    arguments: dict[str, Any] = {"task_id": "t", "name": "edited", "folder_path": "core"}
    as_run(TransformDeployOperator(sql_template="SELECT id FROM {{raw.shop.orders}}", **arguments))
    draft = TransformDeployOperator(sql_template="SELECT id FROM {{raw.shop.people}}", publish=False, **arguments)
    # The draft is not built: the table in the warehouse has the published SQL.
    for lineage in (at_start(draft), at_end(draft)):
        assert flow(lineage) == (["shop.people"], [])
        assert lineage["job_facets"]["sql"]["query"] == "SELECT id FROM shop.people"

    task = TransformRematerializeOperator(task_id="t", transform_name="edited", folder_path="core")
    for lineage in (at_start(task), at_end(task)):
        assert flow(lineage) == (["shop.orders"], ["core.edited"])

    same = TransformDeployOperator(sql_template="SELECT id FROM {{raw.shop.people}}", **arguments)
    for _ in range(2):  # the second task finds no difference
        assert flow(at_end(copy_of(same))) == (["shop.people"], ["core.edited"])


def test_renamed_transform_has_its_new_name_after_the_run() -> None:
    sql = "SELECT id FROM {{raw.shop.orders}}"
    as_run(TransformDeployOperator(task_id="t", name="before", folder_path="core", sql_template=sql))
    same: dict[str, Any] = {"task_id": "t", "transform_name": "before", "folder_path": "core"}
    for new_name, outputs in ("before", ["core.before"]), ("after", []):
        task = TransformPublishOperator(new_name=new_name, **same)
        assert flow(at_start(task)) == (["shop.orders"], outputs)
        assert names(at_end(task)["outputs"]) == [f"core.{new_name}"]


def test_lineage_of_a_folder_of_transforms(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT id FROM {{raw.shop.orders}}")
    sql = "SELECT id FROM {{model.many.NAME}}"
    for name, before in (("two", "one"), ("three", "two"), ("four", "three")):
        (tmp_path / f"{name}.sql").write_text(sql.replace("NAME", before))
    lineage = at_end(TransformBulkDeployOperator(task_id="t", folder=str(tmp_path), folder_path="many"))
    assert flow(lineage) == (["shop.orders"], ["many.four", "many.one", "many.three", "many.two"])


@MODES
def test_lineage_of_reverse_etl(*, deferrable: bool) -> None:
    task = ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="spent", deferrable=deferrable)
    before, after = at_start(task), at_end(task)
    for each in (before, after):
        assert flow(each) == (["core_daily.totals"], ["connections/out/people"])
        (there,) = each["outputs"]
        assert columns(there) == {"who": None, "spent": None}
        assert made_from(there) == {"who": ["core_daily.totals:name"], "spent": ["core_daily.totals:spent"]}
    assert set(rows(before["outputs"]).values()) == {None}
    assert rows(after["outputs"])["connections/out/people"] is not None


def test_lineage_of_reverse_etl_of_a_source_table() -> None:
    sync = reverse_etl_sync("names", "raw.shop.people", object_type_id="names", operation=mapped("name"))
    del sync["id"]
    with closing(DatapipeHook()) as hook:
        made = hook.send(reverse_etl_syncs.create(**sync))
    lineage = at_start(ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id=made.id))
    assert names(lineage["inputs"]) == ["shop.people"]
    assert made_from(lineage["outputs"][0]) == {"name": ["shop.people:name"]}


@pytest.mark.slow
@MODES
def test_lineage_of_queries(*, deferrable: bool) -> None:
    sql = "SELECT count(*) AS n FROM {{raw.shop.orders}} -- {{raw.shop.people}}"
    task = QueryPreviewOperator(task_id="t", sql_template=sql, deferrable=deferrable)
    assert names(at_start(task)["inputs"]) == ["shop.orders"]
    lineage = at_end(task)
    assert flow(lineage) == (["shop.orders"], [])
    assert lineage["job_facets"]["sql"]["query"] == "SELECT count(*) AS n FROM shop.orders -- {{raw.shop.people}}"
    run = lineage["run_facets"]["datapipe_runs"]["runs"][0]
    assert lineage["run_facets"]["externalQuery"]["externalQueryId"] == run["runId"]

    most = "SELECT max(id) FROM shop.people"
    check = DatapipeThresholdCheckOperator(task_id="t", sql_template=sql, min_threshold=0, max_threshold=most)
    lineage = at_end(check)
    assert names(lineage["inputs"]) == ["shop.orders", "shop.people"]
    assert lineage["job_facets"]["sql"]["query"].endswith(f";\n{most}")


@pytest.mark.parametrize("operator", [QueryDecoratedOperator, CheckDecoratedOperator])
def test_returned_sql_is_reported_after_the_function_call(operator: Any) -> None:
    task = operator(task_id="t", python_callable=lambda: "SELECT count(*) AS n FROM {{raw.shop.orders}}")
    before = at_start(task)
    assert (before["inputs"], before["job_facets"]) == ([], {})
    assert names(at_end(task)["inputs"]) == ["shop.orders"]


@MODES
def test_lineage_of_failed_runs_contains_the_error(*, deferrable: bool) -> None:
    lineage = on_failure(EltSyncRunOperator(task_id="t", sync_id="broken", deferrable=deferrable))
    assert rows(lineage["outputs"])["broken.orders"] == 3
    assert "nowhere.csv" in lineage["run_facets"]["errorMessage"]["message"]
    facet = lineage["run_facets"]["datapipe_runs"]
    jsonschema.validate({"datapipe_runs": facet}, FACET_SCHEMA)
    assert {run["name"]: run["outcome"] for run in facet["runs"]} == {"orders": "succeeded", "nowhere": "failed"}

    lineage = on_failure(TransformPublishOperator(task_id="t", transform_id="wrong", deferrable=deferrable))
    assert names(lineage["inputs"]) == ["shop.people"]
    assert "not today" in lineage["run_facets"]["errorMessage"]["message"]
    assert lineage["run_facets"]["errorMessage"]["programmingLanguage"] == "SQL"
    assert "error('not today')" in lineage["job_facets"]["sql"]["query"]


def test_lineage_of_a_failure_before_the_run_is_empty() -> None:
    lineage = on_failure(EltSyncRunOperator(task_id="t", sync_id="shop", streams=["orders", "no such"]))
    assert lineage == {"inputs": [], "outputs": [], "run_facets": {}, "job_facets": {}}


def test_lineage_warehouse_sets_the_namespace(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service, lineage_warehouse="snowflake://org-acct/ANALYTICS")
    lineage = at_start(EltStreamRunOperator(task_id="t", stream_id="shop.orders"))
    assert full_names(lineage["outputs"]) == [("snowflake://org-acct", "ANALYTICS.shop.orders")]
    assert lineage["inputs"][0]["namespace"].startswith("datapipe://")


@pytest.mark.slow
def test_number_of_requests_for_lineage(service: LocalService) -> None:
    for task, before_run, after_run in (
        (EltSyncRunOperator(task_id="t", sync_id="shop"), 2, 1),
        (TransformPublishOperator(task_id="t", transform_id="totals"), 2, 4),
        (ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="spent"), 3, 3),
        (QueryPreviewOperator(task_id="t", sql_template="SELECT 1"), 0, 0),
    ):
        for over, most in ((False, before_run), (True, after_run)):
            ran = as_run(task) if over else task
            before = len(service.journal_requests())
            ran.get_openlineage_facets_on_complete(None)
            assert len(service.journal_requests()) - before == most, (task, over)


def test_failed_request_omits_only_its_part_of_the_lineage(service: LocalService, warned: Callable[[], int]) -> None:
    task = as_run(TransformPublishOperator(task_id="t", transform_id="totals"))
    service.faults([{"path": "/transforms/{id}/schema", "status": 503}])
    lineage = reported(task.get_openlineage_facets_on_complete(None))
    assert flow(lineage) == (["shop.orders", "shop.people"], ["core_daily.totals"])
    assert lineage["outputs"][0].get("facets", {}) == {}
    assert "sql" in lineage["job_facets"]
    assert warned() == 1


@pytest.fixture
def silent(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    """Return a service that does not answer, with a connection of a short timeout."""

    def stay_silent(_: Any, over: threading.Event) -> None:
        over.wait()

    with RawServer(stay_silent) as server:
        connect(monkeypatch, service, "silent", host=server.url, timeout=0.3)
        yield server


def test_silent_service_costs_one_timeout(silent: RawServer, warned: Callable[[], int]) -> None:
    task = as_run(EltSyncRunOperator(task_id="t", sync_id="shop"))
    task.datapipe_conn_id = "silent"
    lineage = reported(task.get_openlineage_facets_on_complete(None))
    assert silent.requests == 1
    assert lineage["outputs"] == []
    # The lineage contains the values that the task itself knows.
    assert len(lineage["run_facets"]["datapipe_runs"]["runs"]) == 2
    assert warned() == 1


def test_silent_service_costs_one_timeout_for_all_assets(silent: RawServer, warned: Callable[[], int]) -> None:
    assets = [elt_stream_asset(name, datapipe_conn_id="silent") for name in ("a", "b", "c")]
    assert [convert_asset_to_openlineage(asset, None) for asset in assets] == [None] * 3
    assert silent.requests == 1
    # A task is a new event. Airflow converts its outlets after it.
    EltStreamRunOperator(task_id="t", stream_id="a", datapipe_conn_id="silent").get_openlineage_facets_on_start()
    assert convert_asset_to_openlineage(assets[0], None) is None
    assert silent.requests == 2
    assert warned() == 2


@pytest.mark.parametrize(("host", "extra"), [("", {}), ("https://h.example", {"ca_bundle": "/no/such.pem"})])
def test_unusable_connection_is_one_warning(
    service: LocalService, monkeypatch: pytest.MonkeyPatch, warned: Callable[[], int], host: str, extra: dict[str, Any]
) -> None:
    connect(monkeypatch, service, host=host, **extra)
    assert EltStreamRunOperator(task_id="t", stream_id="x").get_openlineage_facets_on_start() is None
    assert warned() == 1


def test_errors_of_asset_conversion_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no lineage")

    monkeypatch.setattr("airflow_provider_datapipe.lineage.tasks.lineage_of_task", broken)
    with caplog.at_level(logging.WARNING):
        assert convert_asset_to_openlineage(elt_stream_asset("a"), None) is None
    assert "datapipe://datapipe_default/elt_streams/a" in caplog.text


def test_lineage_of_a_file_sent_to_a_webhook(
    service: LocalService, namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connection = {"conn_type": "datapipe_webhook", "host": f"{service.base_url}/webhooks/hooks"}
    monkeypatch.setenv("AIRFLOW_CONN_HOOKS", json.dumps(connection))
    file, table = tmp_path / "events.jsonl", "webhooks/hooks/events"
    file.write_text('{"id": 1}\n{"id": 2}\n')
    arguments: dict[str, Any] = {"task_id": "t", "webhook_conn_id": "hooks", "endpoint": "events", "source": str(file)}
    task = WebhookIngestOperator(**arguments)
    for lineage, count in ((at_start(task), None), (at_end(task), 2)):
        assert full_names(lineage["inputs"]) == [("file", str(file))]
        assert full_names(lineage["outputs"]) == [(namespace, table)]
        assert rows(lineage["outputs"]) == {table: count}

    with file.open("a") as more:
        more.write('{"id": 3}\nno JSON\n')
    assert rows(on_failure(WebhookIngestOperator(batch_size=1, **arguments))["outputs"]) == {table: 3}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a collector of hook lineage, as in a deployment with a plugin that reads it."""
    from airflow.providers.common.compat import sdk

    # Without a reader, Airflow uses a subclass that stores nothing.
    collector = type(sdk.get_hook_lineage_collector()).__mro__[1]()
    monkeypatch.setattr(sdk, "get_hook_lineage_collector", lambda: collector, raising=False)
    return collector


def test_hook_reports_runs_to_the_lineage_collector(service: LocalService, collector: Any) -> None:
    as_run(TransformPublishOperator(task_id="t", transform_id="totals"))
    as_run(QueryPreviewOperator(task_id="t", sql_template="SELECT 1"))
    # Operators report more detailed lineage themselves.
    assert not collector.has_collected

    with closing(DatapipeHook()) as hook:
        hook.send(elt_syncs.get("shop"))
        assert not collector.has_collected
        hook.send(elt_streams.request_run("shop.orders"))
        hook.send(transforms.rematerialize("totals"))
        query = hook.send(query_previews.create(sql_template="SELECT 1"))
    found = collector.collected_assets
    uris = [f"datapipe://datapipe_default/{path}" for path in ("elt_streams/shop.orders", "transforms/totals")]
    assert [each.asset.uri for each in found.outputs] == uris
    job = {"sql": "SELECT 1", "job_id": query.query_execution_id}
    assert [(each.key, each.value) for each in found.extra] == [("sql_job", job)]
    datasets = [convert_asset_to_openlineage(each.asset, each.context) for each in found.outputs]
    assert [each and each.name for each in datasets] == ["shop.orders", "core_daily.totals"]


@since("3.2", "a collector that stores nothing without a reader")
def test_hook_reports_nothing_without_a_reader(service: LocalService) -> None:
    with closing(DatapipeHook()) as hook:
        hook.send(query_previews.create(sql_template="SELECT 1"))
    from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

    assert not get_hook_lineage_collector().collected_assets.extra


def test_lineage_errors_do_not_fail_requests_of_the_hook(
    service: LocalService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.providers.common.compat.lineage import hook as lineage_hook

    def broken() -> Any:
        raise RuntimeError("no collector")

    monkeypatch.setattr(lineage_hook, "get_hook_lineage_collector", broken)
    with closing(DatapipeHook()) as hook, caplog.at_level(logging.WARNING):
        assert hook.send(query_previews.create(sql_template="SELECT 1")).query_execution_id
    assert "was not reported" in caplog.text


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("datapipe://datapipe_default/reverse_etl_syncs/spent", "connections/out/people"),
        ("datapipe://datapipe_default/elt_syncs/shop", None),
        ("datapipe://datapipe_default/transforms/nothing", None),
        ("datapipe://no_such_connection_/elt_streams/shop.orders", None),
    ],
)
def test_assets_are_converted_to_datasets(uri: str, name: str | None) -> None:
    dataset = convert_asset_to_openlineage(Asset(uri), None)
    assert (dataset and dataset.name) == name


def test_lineage_of_an_orchestration_ignores_drafts() -> None:
    arguments: dict[str, Any] = {"task_id": "t", "name": "drafted", "folder_path": "core"}
    deployed = TransformDeployOperator(sql_template="SELECT id FROM {{raw.shop.orders}}", **arguments)
    transform_id = deployed.execute(context_of(Memory()))["resource_id"]
    with closing(DatapipeHook()) as hook:
        hook.send(transforms.attach_orchestration(transform_id, **ATTACHED))
        as_run(TransformDeployOperator(sql_template="SELECT id FROM {{raw.shop.people}}", publish=False, **arguments))
        lineage = at_start(OrchestrationRunOperator(task_id="t", orchestration_id="nightly"))
        hook.send(transforms.detach_orchestration(transform_id))
    assert "core.drafted" in names(lineage["outputs"])
    assert "shop.orders" in names(lineage["inputs"])
    assert "shop.people" not in names(lineage["inputs"])


def test_lineage_of_an_orchestration_has_attached_resources() -> None:
    with closing(DatapipeHook()) as hook:
        hook.send(elt_syncs.attach_orchestration("shop", **ATTACHED))
        hook.send(transforms.attach_orchestration("totals", **ATTACHED))
    lineage = at_end(OrchestrationRunOperator(task_id="t", orchestration_name="Nightly", timeout=60))
    assert names(lineage["inputs"]) == ["connections/files/orders", "connections/files/people"]
    outputs = ["connections/out/people", "core_daily.totals", "shop.orders", "shop.people"]
    assert names(lineage["outputs"]) == outputs
    assert lineage["run_facets"]["datapipe_runs"]["runs"][0]["runId"]
