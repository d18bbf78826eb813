"""Tests of the links of tasks, which appear as soon as the task knows its resource."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import ANY
from urllib.parse import quote

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_provider_datapipe.api.errors import InvalidInputError, NotFoundError
from airflow_provider_datapipe.api.pages import page_template
from airflow_provider_datapipe.links import DatapipeLink, StreamLink, address_of
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationCreateOperator, OrchestrationRunOperator
from airflow_provider_datapipe.operators.query_previews import DatapipeCheckOperator
from airflow_provider_datapipe.resources.checks import CheckFailedError
from airflow_provider_datapipe.runs.conditions.base import Check
from airflow_provider_datapipe.runs.conditions.registry import condition_of
from airflow_provider_datapipe.runs.errors import LostContactError, RunFailedError
from airflow_provider_datapipe.runs.names import NameLookupError
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, EltSyncRunSensor, OrchestrationRunSensor
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor, ReverseEtlFailedRecordsSensor
from tests.contract.seeds import FILES, MODES, NIGHTLY, connect, elt_sync
from tests.support.airflow_versions import dag_serialization
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of, first_event, recreated_trigger, run

pytestmark = pytest.mark.slow

HOST = "https://app.example.com"
TEMPLATE = HOST + "/{resource}/{id}?from=airflow"
KEY = DatapipeLink().xcom_key
STREAM_KEYS = [StreamLink(position, "s").xcom_key for position in range(2)]
#: Later than any run.
FAR = "2100-01-01T00:00:00+00:00"
WITHOUT = {"datapipe_conn_id": "without_link"}
NIGHTLY_LATER = {"orchestration_name": "Nightly", "after": FAR}
SEED = {
    "runs": {"minimum_duration": 0.5},
    "connections": [FILES],
    "orchestrations": [NIGHTLY],
    "elt_syncs": [elt_sync("shop", "orders", "people", "bad")],
}


@pytest.fixture
def memory(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Return the task state of a task, and create three connections, the default one with a link template."""
    connect(monkeypatch, service, link=TEMPLATE)
    connect(monkeypatch, service, "with_runs", link=HOST + "/{id}#{run_id}")
    connect(monkeypatch, service, "without_link")
    return Memory()


def nightly(**arguments: Any) -> OrchestrationRunOperator:
    return OrchestrationRunOperator(task_id="t", orchestration_id="nightly", if_running="wait", **arguments)


def start_run() -> None:
    with pytest.raises(TaskDeferred):
        nightly(deferrable=True).execute(context_of(Memory()))


def sensor_of_newest(**arguments: Any) -> OrchestrationRunSensor:
    return OrchestrationRunSensor(task_id="t", newest=True, poke_interval=0.1, **arguments)


MISSING_STREAM = {"sync_id": "shop", "stream_name": "gone", "datapipe_conn_id": "without_link"}
#: Class and arguments of the task, raised error, and page of the link.
LINKS: dict[str, tuple[type[Any], dict[str, Any], type[BaseException], str]] = {
    "run": (OrchestrationRunOperator, {"orchestration_name": "Nightly"}, TaskDeferred, "orchestrations/nightly"),
    "missing resource": (OrchestrationRunOperator, {"orchestration_id": "no"}, NotFoundError, "orchestrations/no"),
    "missing stream": (EltStreamRunOperator, {"stream_id": "no"}, NotFoundError, "elt_streams/no"),
    "unknown name": (EltStreamRunOperator, MISSING_STREAM, NameLookupError, "elt_syncs/shop"),
    "sensor": (OrchestrationRunSensor, NIGHTLY_LATER, TaskDeferred, "orchestrations/nightly"),
    "sensor of the service": (OrchestrationRunSensor, NIGHTLY_LATER | WITHOUT, TaskDeferred, "orchestrations/nightly"),
    "sensor of a stream": (EltStreamRunSensor, {"stream_id": "no", "after": FAR}, NotFoundError, "elt_streams/no"),
    "sensor of a name": (EltStreamRunSensor, MISSING_STREAM | {"after": FAR}, NameLookupError, "elt_syncs/shop"),
    "sensor of a sync": (EltSyncRunSensor, {"sync_id": "no", "after": FAR}, NotFoundError, "elt_syncs/no"),
    "freshness": (EltStreamFreshnessSensor, {"stream_id": "no", "max_age": 60}, NotFoundError, "elt_streams/no"),
    "records": (ReverseEtlFailedRecordsSensor, {"reverse_etl_sync_id": "no"}, NotFoundError, "reverse_etl_syncs/no"),
}


@pytest.mark.parametrize("case", LINKS)
def test_link_appears_before_the_wait_and_before_an_error(case: str, memory: Memory, service: LocalService) -> None:
    kind, arguments, raised, page = LINKS[case]
    task = kind(task_id="t", deferrable=raised is TaskDeferred, **arguments)
    with pytest.raises(raised):
        task.execute(context_of(memory))
    is_named_by_service = task.datapipe_conn_id == "without_link"
    link = f"{service.base_url}/#/{page}" if is_named_by_service else f"{HOST}/{page}?from=airflow"
    assert memory.pushed == {KEY: link}
    # Airflow reads the link at the end of the task's process, and overwrites the earlier value.
    assert DatapipeLink().get_link(task, ti_key=ANY) == link


def test_id_that_has_become_a_number_is_linked(memory: Memory) -> None:
    """Simulate digits in a DAG that renders native objects."""
    task = EltStreamRunSensor(task_id="t", stream_id="{{ 7 }}", after=FAR)
    task.stream_id = cast("Any", 7)
    with pytest.raises(NotFoundError):
        task.execute(context_of(memory))
    assert memory.pushed == {KEY: f"{HOST}/elt_streams/7?from=airflow"}


def test_link_stays_when_the_task_is_resumed(memory: Memory, service: LocalService) -> None:
    assert run(nightly(deferrable=True, datapipe_conn_id="without_link"), memory)["outcome"] == "succeeded"
    assert memory.pushed[KEY] == f"{service.base_url}/#/orchestrations/nightly"


def test_changing_operator_has_a_link(memory: Memory) -> None:
    task = OrchestrationCreateOperator(task_id="t", name="Hourly", cron_schedule="0 * * * *")
    result = task.execute(context_of(memory))
    assert memory.pushed == {KEY: f"{HOST}/orchestrations/{result['id']}?from=airflow"}


def test_task_without_a_known_resource_has_no_link() -> None:
    task = EltSyncRunOperator(task_id="t", sync_id="s")
    assert DatapipeLink().get_link(task, ti_key=cast("Any", None)) == ""


@pytest.mark.parametrize("given", [None, "", 7])
def test_invalid_id_has_no_link(memory: Memory, given: Any) -> None:
    """Simulate the rendered value of a template in a DAG with native objects."""
    task = EltStreamRunOperator(task_id="t", stream_id="{{ 7 }}")
    task.stream_id = given
    with pytest.raises((ValueError, NotFoundError, InvalidInputError)):
        task.execute(context_of(memory))
    assert memory.pushed == {}


def instance_with(link: str) -> Any:
    """Return a task instance with a link of an earlier pass. Airflow stores each pushed value."""
    return SimpleNamespace(
        task_id="t",
        map_index=-1,
        xcom_pull=lambda task_ids, map_indexes, key: {("t", -1, KEY): link}[task_ids, map_indexes, key],
    )


def test_failed_pass_without_an_id_keeps_the_link(memory: Memory) -> None:
    task = EltSyncRunOperator(task_id="t", sync_id="s", deferrable=True)
    with pytest.raises(LostContactError):
        task.execute_complete(context_of(memory), {"status": "error", "message": "no connection"})
    assert DatapipeLink().get_link(task, ti_key=instance_with(f"{HOST}/s")) == f"{HOST}/s"


def test_failed_name_lookup_keeps_the_link(memory: Memory) -> None:
    task = OrchestrationRunSensor(task_id="t", orchestration_name="Nobody", after=FAR)
    with pytest.raises(NameLookupError):
        task.execute(context_of(memory))
    assert DatapipeLink().get_link(task, ti_key=instance_with(f"{HOST}/before")) == f"{HOST}/before"


def test_link_contains_the_run_of_an_operator(memory: Memory) -> None:
    task = nightly(datapipe_conn_id="with_runs")
    result = task.execute(context_of(memory))
    assert memory.pushed[KEY] == f"{HOST}/nightly#{result['run_id']}"
    assert DatapipeLink().get_link(task, ti_key=ANY) == memory.pushed[KEY]


@MODES
def test_link_contains_the_run_of_a_sensor(deferrable: bool, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    start_run()
    shown: list[str] = []
    monkeypatch.setattr(memory, "xcom_push", lambda key, value: shown.append(value))
    named: dict[str, Any] = {"orchestration_name": "Nightly", "datapipe_conn_id": "with_runs"}
    result = run(sensor_of_newest(deferrable=deferrable, **named), memory)
    assert shown[-1] == f"{HOST}/nightly#{result['run_id']}"
    # A blocking sensor pushes the link once, regardless of the number of polls.
    assert deferrable or len(shown) == len(set(shown))


def test_unreadable_connection_for_the_link_does_not_fail_a_task(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_run()
    sensor = sensor_of_newest(orchestration_id="nightly", deferrable=True)
    with pytest.raises(TaskDeferred) as deferral:
        sensor.execute(context_of(memory))
    event = asyncio.run(first_event(recreated_trigger(deferral.value)))
    # The connection is unreadable on resume: the data of the trigger is used.
    monkeypatch.delenv("AIRFLOW_CONN_DATAPIPE_DEFAULT")
    assert sensor.execute_complete(context_of(Memory()), event)["outcome"] == "succeeded"


@MODES
@pytest.mark.parametrize("conn_id", ["without_link", "datapipe_default"])
def test_query_is_linked(deferrable: bool, conn_id: str, memory: Memory, service: LocalService) -> None:
    task = DatapipeCheckOperator(
        task_id="t", sql_template="SELECT 1", deferrable=deferrable, defer_after=0, datapipe_conn_id=conn_id
    )
    page = f"query_previews/{run(task, memory)['query_execution_id']}"
    links = {"without_link": f"{service.base_url}/#/{page}", "datapipe_default": f"{HOST}/{page}?from=airflow"}
    assert memory.pushed[KEY] == links[conn_id]


def test_query_that_failed_is_linked(memory: Memory, service: LocalService) -> None:
    with pytest.raises(CheckFailedError):
        run(DatapipeCheckOperator(task_id="t", sql_template="SELECT 0", **WITHOUT), memory)
    assert memory.pushed[KEY].startswith(f"{service.base_url}/#/query_previews/")


def test_query_is_not_linked_if_the_service_names_no_pages(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.api.client.HEADER", "x-unknown")
    run(DatapipeCheckOperator(task_id="t", sql_template="SELECT 1"), memory)
    assert KEY not in memory.pushed


@MODES
def test_streams_of_a_sync_have_their_own_links(memory: Memory, deferrable: bool) -> None:
    streams = ["orders", "shop.people"]
    task = EltSyncRunOperator(
        task_id="t", sync_id="shop", streams=[*streams, "{{ 1 }}"], deferrable=deferrable, defer_after=0
    )
    task.streams = streams
    run(task, memory)
    assert {key: address for key, address in memory.pushed.items() if key.startswith("_link_")} == {
        KEY: f"{HOST}/elt_syncs/shop?from=airflow",
        STREAM_KEYS[0]: f"{HOST}/elt_streams/shop.orders?from=airflow",
        STREAM_KEYS[1]: f"{HOST}/elt_streams/shop.people?from=airflow",
    }


def test_stream_that_failed_is_linked(memory: Memory) -> None:
    with pytest.raises(RunFailedError):
        run(EltSyncRunOperator(task_id="t", sync_id="shop", streams=["bad"]), memory)
    assert memory.pushed[STREAM_KEYS[0]] == f"{HOST}/elt_streams/shop.bad?from=airflow"


def test_link_of_a_stream_has_its_run(memory: Memory) -> None:
    task = EltSyncRunOperator(task_id="t", sync_id="shop", streams="orders", datapipe_conn_id="with_runs")
    run_id = run(task, memory)["streams"]["orders"]["run_id"]
    assert memory.pushed[STREAM_KEYS[0]] == f"{HOST}/shop.orders#{quote(run_id, safe='')}"


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


def test_link_of_a_bridge_has_the_authorized_connection() -> None:
    bridge = condition_of("connection_bridge", {})
    seen = Check("connection c was authorized", is_met=True, result={"connection_id": "c"})
    assert (bridge.page(), bridge.page(seen)) == (("connection", None, None), ("connection", "c", None))


EVIL = [f"{begin}evil.example/{{resource}}/{{id}}" for begin in ("https://", "//", "@", "/\\")]
LONG = "/" + "x" * 300 + "{resource}{id}"


@pytest.mark.parametrize(
    "path", [*EVIL, "/{resource}", "/ {resource}/{id}", LONG, "javascript:{resource}{id}", "", None]
)
def test_invalid_link_template_is_ignored(path: str | None) -> None:
    assert page_template("http://127.0.0.1:8484", path) is None


def test_pages_are_below_the_base_address() -> None:
    template = page_template("https://proxy.example/datapipe/", "/#/{resource}/{id}")
    assert template == "https://proxy.example/datapipe/#/{resource}/{id}"


@pytest.mark.parametrize(
    ("template", "of", "expected"),
    [
        (TEMPLATE, ("elt_stream", "a b"), f"{HOST}/elt_streams/a%20b?from=airflow"),
        (TEMPLATE, ("reverse_etl", "{resource}"), f"{HOST}/reverse_etl_syncs/%7Bresource%7D?from=airflow"),
        ("https://a/{id}/{run_id}", ("transform", "{run_id}", "{id}"), "https://a/%7Brun_id%7D/%7Bid%7D"),
        (TEMPLATE, ("webhook", "1"), ""),
        (TEMPLATE, ("transform", None), ""),
        (None, ("transform", "1"), ""),
    ],
)
def test_link_template_is_filled(template: str | None, of: Any, expected: str) -> None:
    assert address_of(template, *of) == expected
