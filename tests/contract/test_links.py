"""Tests of the link of a task, which appears as soon as the task knows its resource."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import ANY

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_datapipe.api.errors import InvalidInputError, NotFoundError
from airflow_provider_datapipe.api.pages import page_template
from airflow_provider_datapipe.changes.checks import CheckFailedError
from airflow_provider_datapipe.links import DatapipeLink, address_of
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator, EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.operators.orchestration_changes import OrchestrationCreateOperator
from airflow_provider_datapipe.operators.query import DatapipeCheckOperator
from airflow_provider_datapipe.runs.condition import Check, Condition
from airflow_provider_datapipe.runs.conditions import condition_of
from airflow_provider_datapipe.runs.errors import LostContactError
from airflow_provider_datapipe.runs.names import NameLookupError
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Reference
from airflow_provider_datapipe.runs.verdict import result_of
from airflow_provider_datapipe.runs.wait import End, EndReason
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, OrchestrationRunSensor
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of, run

pytestmark = pytest.mark.slow


TEMPLATE = "https://app.example.com/{resource}/{id}?from=airflow"
KEY = DatapipeLink().xcom_key
#: No run is as late.
FAR = "2100-01-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    """Return a service with an orchestration whose runs take at least 1.5 s."""
    seed = {
        "runs": {"minimum_duration": 1.5},
        "orchestrations": [{"id": "nightly.1", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
    }
    with LocalService(seed) as running:
        yield running


@pytest.fixture
def memory(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Return the task state for a task whose connection has a link template."""
    connection = {
        "conn_type": "datapipe",
        "host": service.base_url,
        "password": service.api_key,
        "extra": {"link": TEMPLATE},
    }
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    return Memory()


@pytest.fixture
def without_link(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of the pages of a service whose connection has no link template."""
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    return f"{service.base_url}/#"


def test_service_names_its_pages(without_link: str) -> None:
    memory = Memory()
    task = OrchestrationRunOperator(task_id="t", orchestration_id="nightly.1", if_running="wait", deferrable=True)
    with pytest.raises(TaskDeferred):
        task.execute(context_of(memory))
    assert memory.pushed == {KEY: f"{without_link}/orchestrations/nightly.1"}


def test_link_of_the_connection_takes_precedence(memory: Memory) -> None:
    task = EltStreamRunOperator(task_id="t", stream_id="gone")
    with pytest.raises(NotFoundError):
        task.execute(context_of(memory))
    assert memory.pushed[KEY].startswith("https://app.example.com/")


@pytest.mark.parametrize(("found", "arguments"), [(EltStreamRunOperator, {}), (EltStreamRunSensor, {"after": FAR})])
def test_sync_of_a_name_is_linked_if_the_stream_is_not_found(
    without_link: str, found: Any, arguments: dict[str, str]
) -> None:
    memory = Memory()
    with pytest.raises((NotFoundError, NameLookupError)):
        found(task_id="t", sync_id="shop", stream_name="gone", **arguments).execute(context_of(memory))
    assert memory.pushed == {KEY: f"{without_link}/elt_syncs/shop"}


def test_link_stays_when_the_task_is_resumed(without_link: str) -> None:
    memory = Memory()
    task = OrchestrationRunOperator(task_id="t", orchestration_id="nightly.1", if_running="wait", deferrable=True)
    assert run(task, memory)["outcome"] == "succeeded"
    assert memory.pushed[KEY] == f"{without_link}/orchestrations/nightly.1"


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/{resource}/{id}",
        "//evil.example/{resource}/{id}",
        "@evil.example/{resource}/{id}",
        "/\\evil.example/{resource}/{id}",
        "/{resource}",
        "/ {resource}/{id}",
        "/" + "x" * 300 + "{resource}{id}",
        "javascript:{resource}{id}",
        "",
        None,
    ],
)
def test_unusable_address_of_pages_is_ignored(path: str | None) -> None:
    assert page_template("http://127.0.0.1:8484", path) is None


def test_pages_are_below_the_base_address() -> None:
    template = page_template("https://proxy.example/datapipe/", "/#/{resource}/{id}")
    assert template == "https://proxy.example/datapipe/#/{resource}/{id}"


def test_a_run_shows_its_link_before_it_waits(memory: Memory) -> None:
    task = OrchestrationRunOperator(task_id="t", orchestration_name="Nightly", deferrable=True)
    with pytest.raises(TaskDeferred):
        task.execute(context_of(memory))
    expected = "https://app.example.com/orchestrations/nightly.1?from=airflow"
    assert memory.pushed == {KEY: expected}
    # What Airflow asks for when the process of the task ends, and stores in place of what was there.
    assert DatapipeLink().get_link(task, ti_key=ANY) == expected


def test_a_change_shows_its_link(memory: Memory) -> None:
    task = OrchestrationCreateOperator(task_id="t", name="Hourly", cron_schedule="0 * * * *")
    result = task.execute(context_of(memory))
    assert memory.pushed == {KEY: f"https://app.example.com/orchestrations/{result['id']}?from=airflow"}


def test_a_task_that_never_knew_has_no_link() -> None:
    task = EltSyncRunOperator(task_id="t", sync_id="s")
    assert DatapipeLink().get_link(task, ti_key=cast("Any", None)) == ""


def test_failed_pass_without_an_id_keeps_the_link(memory: Memory) -> None:
    """Simulate a trigger that could not wait. Airflow stores each pushed value."""
    task = EltSyncRunOperator(task_id="t", sync_id="s", deferrable=True)
    with pytest.raises(LostContactError):
        task.execute_complete(context_of(memory), {"status": "error", "message": "no connection"})
    shown = {("t", -1, KEY): "https://app.example.com/elt_syncs/s"}
    instance: Any = SimpleNamespace(
        task_id="t", map_index=-1, xcom_pull=lambda task_ids, map_indexes, key: shown[task_ids, map_indexes, key]
    )
    assert DatapipeLink().get_link(task, ti_key=instance) == "https://app.example.com/elt_syncs/s"


def test_a_run_that_is_refused_shows_its_link(memory: Memory) -> None:
    task = OrchestrationRunOperator(task_id="t", orchestration_id="gone")
    with pytest.raises(NotFoundError):
        task.execute(context_of(memory))
    assert memory.pushed == {KEY: "https://app.example.com/orchestrations/gone?from=airflow"}


def test_what_is_not_there_shows_its_link(memory: Memory) -> None:
    task = EltStreamRunOperator(task_id="t", stream_id="gone")
    with pytest.raises(NotFoundError):
        task.execute(context_of(memory))
    assert memory.pushed == {KEY: "https://app.example.com/elt_streams/gone?from=airflow"}


@pytest.mark.parametrize("given", [None, "", 7])
def test_what_is_no_id_has_no_link(memory: Memory, given: Any) -> None:
    """Simulate the rendered value of a template in a DAG with native objects."""
    task = EltStreamRunOperator(task_id="t", stream_id="{{ 7 }}")
    task.stream_id = given
    with pytest.raises((ValueError, NotFoundError, InvalidInputError)):
        task.execute(context_of(memory))
    assert memory.pushed == {}


def test_a_run_is_in_the_link_once_it_is_known(
    memory: Memory, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "https://app.example.com/{resource}/{id}#{run_id}"
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection | {"extra": {"link": template}}))
    task = OrchestrationRunOperator(task_id="t", orchestration_name="Nightly", if_running="wait")
    result = task.execute(context_of(memory))
    expected = f"https://app.example.com/orchestrations/nightly.1#{result['run_id']}"
    assert DatapipeLink().get_link(task, ti_key=ANY) == expected
    assert memory.pushed[KEY] == expected


def test_a_sensor_shows_its_link_before_it_waits(memory: Memory) -> None:
    task = OrchestrationRunSensor(task_id="t", orchestration_name="Nightly", after=FAR, deferrable=True)
    with pytest.raises(TaskDeferred):
        task.execute(context_of(memory))
    expected = "https://app.example.com/orchestrations/nightly.1?from=airflow"
    assert memory.pushed == {KEY: expected}
    assert DatapipeLink().get_link(task, ti_key=ANY) == expected


def test_a_sensor_for_what_is_not_there_shows_its_link(memory: Memory) -> None:
    task = EltStreamRunSensor(task_id="t", stream_id="gone", after=FAR)
    with pytest.raises(NotFoundError):
        task.execute(context_of(memory))
    assert memory.pushed == {KEY: "https://app.example.com/elt_streams/gone?from=airflow"}


def test_failed_name_lookup_keeps_the_link(memory: Memory) -> None:
    task = OrchestrationRunSensor(task_id="t", orchestration_name="Nobody", after=FAR)
    with pytest.raises(NameLookupError):
        task.execute(context_of(memory))
    shown: Any = SimpleNamespace(task_id="t", map_index=-1, xcom_pull=lambda **_: "https://app.example.com/before")
    assert DatapipeLink().get_link(task, ti_key=shown) == "https://app.example.com/before"


@pytest.mark.parametrize("deferrable", [False, True])
def test_query_is_linked_on_pages_that_the_service_names(without_link: str, deferrable: bool) -> None:
    memory = Memory()
    task = DatapipeCheckOperator(task_id="t", sql_template="SELECT 1", deferrable=deferrable, defer_after=0)
    result = run(task, memory)
    assert memory.pushed[KEY] == f"{without_link}/query_previews/{result['query_execution_id']}"


def test_query_that_failed_is_linked(without_link: str) -> None:
    memory = Memory()
    with pytest.raises(CheckFailedError):
        run(DatapipeCheckOperator(task_id="t", sql_template="SELECT 0"), memory)
    assert memory.pushed[KEY].startswith(f"{without_link}/query_previews/")


def test_link_of_a_query_has_the_address_of_the_setting(memory: Memory) -> None:
    result = run(DatapipeCheckOperator(task_id="t", sql_template="SELECT 1"), memory)
    expected = f"https://app.example.com/query_previews/{result['query_execution_id']}?from=airflow"
    assert memory.pushed[KEY] == expected


def test_query_is_not_linked_if_the_service_names_no_pages(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.api.client.HEADER", "x-unknown")
    run(DatapipeCheckOperator(task_id="t", sql_template="SELECT 1"), memory)
    assert KEY not in memory.pushed


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_run_that_a_sensor_has_found_is_in_its_link(
    deferrable: bool, memory: Memory, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "https://app.example.com/{resource}/{id}#{run_id}"
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection | {"extra": {"link": template}}))
    operator = OrchestrationRunOperator(task_id="o", orchestration_id="nightly.1", if_running="wait", deferrable=True)
    with pytest.raises(TaskDeferred):
        operator.execute(context_of(Memory()))
    sensor = OrchestrationRunSensor(
        task_id="t", orchestration_name="Nightly", newest=True, deferrable=deferrable, poke_interval=0.2
    )
    result = run(sensor, memory)
    assert memory.pushed[KEY] == f"https://app.example.com/orchestrations/nightly.1#{result['run_id']}"


def test_an_id_that_has_become_a_number_is_linked_to_as_well(memory: Memory) -> None:
    """Simulate digits in a DAG that renders native objects."""
    task = EltStreamRunSensor(task_id="t", stream_id="{{ 7 }}", after=FAR)
    task.stream_id = cast("Any", 7)
    with pytest.raises(NotFoundError):
        task.execute(context_of(memory))
    assert memory.pushed == {KEY: "https://app.example.com/elt_streams/7?from=airflow"}


def test_a_link_is_shown_once_however_often_it_looks(
    memory: Memory, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    extra = {"extra": {"link": "https://app.example.com/{id}#{run_id}"}}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection | extra))
    shown: list[str] = []
    monkeypatch.setattr(memory, "xcom_push", lambda key, value: shown.append(value))
    started = OrchestrationRunOperator(task_id="o", orchestration_id="nightly.1", if_running="wait", deferrable=True)
    with pytest.raises(TaskDeferred):
        started.execute(context_of(Memory()))
    sensor = OrchestrationRunSensor(task_id="t", orchestration_id="nightly.1", newest=True, poke_interval=0.2)
    result = sensor.execute(context_of(memory))
    assert shown[-1] == f"https://app.example.com/nightly.1#{result['run_id']}"
    assert len(shown) == len(set(shown))


def test_a_link_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the data of the trigger if the connection is unreadable on resume."""
    monkeypatch.delenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", raising=False)
    reference = Reference("orchestration", "o", "o", run_id="r")
    result = result_of(End(EndReason.RUN_OVER, reference, Outcome.SUCCEEDED))
    end = End(EndReason.RUN_OVER, reference, Outcome.SUCCEEDED, result)
    check = Check("it is over", is_met=True, ends=(end,))
    sensor = OrchestrationRunSensor(task_id="t", orchestration_id="o", after=FAR, deferrable=True)
    event = {"status": "success", "check": json.loads(json.dumps(check.as_dict()))}
    assert sensor.execute_complete(context_of(Memory()), event) == result


@pytest.mark.parametrize(
    ("condition", "page"),
    [
        (condition_of("sync", {"sync_id": "s", "max_age": 60}), ("elt_sync", "s", None)),
        (condition_of("fresh", {"kind": "elt_stream", "stream_id": "s", "max_age": 60}), ("elt_stream", "s", None)),
        (condition_of("last_run", {"kind": "orchestration", "orchestration_name": "n"}), ("orchestration", None, None)),
        (
            condition_of("failed_records", {"reverse_etl_sync_id": "r", "at_most": 0}),
            ("reverse_etl_sync", "r", None),
        ),
        (condition_of("connection_bridge", {}), ("connection", None, None)),
    ],
)
def test_what_a_sensor_is_about(condition: Condition, page: tuple[Any, ...]) -> None:
    assert condition.page() == page


def test_a_connection_that_was_authorized_is_in_the_link() -> None:
    seen = Check("connection c was authorized", is_met=True, result={"connection_id": "c"})
    assert condition_of("connection_bridge", {}).page(seen) == ("connection", "c", None)


@pytest.mark.parametrize(
    ("template", "kind", "resource_id", "expected"),
    [
        (TEMPLATE, "elt_stream", "a b", "https://app.example.com/elt_streams/a%20b?from=airflow"),
        (
            TEMPLATE,
            "reverse_etl",
            "{resource}",
            "https://app.example.com/reverse_etl_syncs/%7Bresource%7D?from=airflow",
        ),
        (TEMPLATE, "query_preview", "1", "https://app.example.com/query_previews/1?from=airflow"),
        (TEMPLATE, "webhook", "1", ""),
        (TEMPLATE, "transform", None, ""),
        (None, "transform", "1", ""),
    ],
)
def test_filling_a_template(template: str | None, kind: str, resource_id: str | None, expected: str) -> None:
    assert address_of(template, kind, resource_id) == expected


def test_an_id_that_looks_like_a_placeholder_is_one_id() -> None:
    assert address_of("https://a/{id}/{run_id}", "transform", "{run_id}", "{id}") == "https://a/%7Brun_id%7D/%7Bid%7D"
