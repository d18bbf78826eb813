"""The link of a task: there as soon as the task knows what it works on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import ANY

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_datapipe.api.errors import InvalidInputError, NotFoundError
from airflow_provider_datapipe.links import DatapipeLink, address_of
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator, EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.operators.orchestration_changes import OrchestrationCreateOperator
from airflow_provider_datapipe.runs.errors import LostContactError
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of

TEMPLATE = "https://app.example.com/{resource}/{id}?from=airflow"
KEY = DatapipeLink().xcom_key


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    """Return a service with an orchestration that takes a while."""
    seed = {
        "runs": {"minimum_duration": 5},
        "orchestrations": [{"id": "nightly.1", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
    }
    with LocalService(seed) as running:
        yield running


@pytest.fixture
def memory(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Return the memory of a task whose connection has a template."""
    connection = {
        "conn_type": "datapipe",
        "host": service.base_url,
        "password": service.api_key,
        "extra": {"link": TEMPLATE},
    }
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    return Memory()


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


def test_a_pass_that_ends_before_it_knows_leaves_the_link_as_it_is(memory: Memory) -> None:
    """As when the trigger could not wait: Airflow stores whatever is given."""
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
    """As a template may render to, in a DAG that renders native objects."""
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
        (TEMPLATE, "query_preview", "1", ""),
        (TEMPLATE, "transform", None, ""),
        (None, "transform", "1", ""),
    ],
)
def test_filling_a_template(template: str | None, kind: str, resource_id: str | None, expected: str) -> None:
    assert address_of(template, kind, resource_id) == expected


def test_an_id_that_looks_like_a_placeholder_is_one_id() -> None:
    assert address_of("https://a/{id}/{run_id}", "transform", "{run_id}", "{id}") == "https://a/%7Brun_id%7D/%7Bid%7D"
