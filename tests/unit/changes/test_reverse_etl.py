"""Changes of reverse ETL syncs: a sync stays active or inactive, despite failed requests and killed workers."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidInputError, InvalidRequestError, TransportError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ObjectType, ObjectTypes, ReverseEtlSyncWithSettings
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.resources.base import Change
from airflow_provider_datapipe.resources.reverse_etl_syncs import (
    DeactivatedSyncs,
    Definition,
    NotRestoredError,
    reactivate,
    restore,
    update,
)
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError
from airflow_provider_datapipe.runs.task_state import AirflowTaskState, NoTaskState, TaskState
from tests.support.tasks import Memory
from tests.unit.changes.fake_service import ID, INSERT, NAME, KilledError, Service, body_of, build, run
from tests.unit.changes.test_creations import reverse_etl_sync as created
from tests.unit.runs.model_service import page, run_of


def service_of(**more: Any) -> Service:
    return Service("reverse_etl_sync", **more)


def state_of(service: Service) -> tuple[bool, str]:
    return service.resource["enabled"], service.resource["operation"]["mode"]


def asked(service: Service) -> list[str]:
    return [name.partition(".")[2] for name in service.asked]


def one_try(service: Service, task_state: TaskState | None = None, *, enabled: Any = None, **wanted: Any) -> Change:
    earlier = DeactivatedSyncs(task_state or NoTaskState())
    flow = update("x", Definition(**wanted), enabled=enabled, deactivated=earlier, wait_for_run=60)
    result = service.run(flow)
    assert earlier.pending == ()
    return result


def test_an_active_sync_is_deactivated_for_an_update() -> None:
    service = service_of()
    result = one_try(service, operation=INSERT)
    assert asked(service) == ["get", "deactivate", "update", "activate", "get"]
    assert (result["action"], result["changed"], result["details"]["enabled"]) == ("updated", True, True)
    assert result["details"]["operation"]["mode"] == "insert"
    assert "secret" not in str(result)


def test_an_inactive_sync_stays_inactive() -> None:
    service = service_of(enabled=False)
    assert one_try(service, operation=INSERT)["changed"]
    assert not service.resource["enabled"]
    assert "activate" not in asked(service)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"operation": {"mode": "upsert", "mappings": [NAME | {"primary_key": False}, ID]}},
        {"sync_interval": "0 5 * * *", "settings": '{"key": "secret"}', "object_type_id": "contact"},
    ],
)
def test_update_without_a_difference_sends_no_change(wanted: dict[str, Any]) -> None:
    service = service_of()
    result = one_try(service, **wanted)
    assert asked(service) == ["get"]
    assert (result["action"], result["changed"]) == ("none", False)


def test_a_setting_is_corrected_from_one_to_true() -> None:
    service = service_of()
    service.resource["settings"] = {"flag": 1}
    assert one_try(service, settings={"flag": True})["changed"]
    assert service.resource["settings"] == {"flag": True}


@pytest.mark.parametrize(
    ("wanted", "schedule"),
    [
        ({"sync_interval": "0 6 * * *"}, {"sync_interval": "0 6 * * *"}),
        ({"orchestration_id": "o"}, {"orchestration_workflow_id": "o"}),
        (
            {"orchestration_id": "o", "sync_interval": "0 6 * * *"},
            {"orchestration_workflow_id": "o", "sync_interval": "0 6 * * *"},
        ),
        ({"operation": INSERT}, {"sync_interval": "0 5 * * *"}),
    ],
)
def test_a_given_schedule_is_the_whole_schedule(wanted: dict[str, Any], schedule: dict[str, str]) -> None:
    service = service_of()
    one_try(service, **wanted)
    (body,) = (body_of(each) for each in service.requests if each.endpoint.name == "reverse_etl_syncs.update")
    assert {name: body[name] for name in ("sync_interval", "orchestration_workflow_id") if name in body} == schedule


#: How one request may fail, and whether the task sees it.
FAILURES = ["unsent", "lost", "refused", "killed before", "killed"]


@pytest.mark.parametrize(
    ("fail_at", "failure", "enabled", "afterwards"),
    itertools.product(range(1, 6), FAILURES, [True, False], [None, True, False]),
)
def test_single_failure_does_not_change_the_activation(
    fail_at: int, failure: str, *, enabled: bool, afterwards: bool | None
) -> None:
    service = service_of(enabled=enabled, fail_at=fail_at, failure=failure)
    task_state, failed = AirflowTaskState(Memory(), life=2), False
    try:
        one_try(service, task_state, operation=INSERT, enabled=afterwards)
    except DatapipeError:
        failed = True
        # No retry is necessary to restore the activation, unless the task should change it.
        assert service.resource["enabled"] in (enabled, afterwards)
    except KilledError:
        failed = True
    if failed:
        one_try(service, task_state, operation=INSERT, enabled=afterwards)
    assert state_of(service) == (enabled if afterwards is None else afterwards, "insert")
    # The task state is empty for the next execution of the task.
    assert not DeactivatedSyncs(task_state).was_active("x")


def test_retry_restores_the_activation_first() -> None:
    service, task_state = service_of(fail_at=2, failure="killed"), AirflowTaskState(Memory(), life=2)
    with pytest.raises(KilledError):
        one_try(service, task_state, operation=INSERT)
    assert not service.resource["enabled"]
    with pytest.raises(InvalidInputError):
        one_try(service, task_state, sync_interval="soon")
    assert service.resource["enabled"]
    service.fail(2, "killed")
    with pytest.raises(KilledError):
        one_try(service, task_state, operation=INSERT)
    assert asked(service) == ["get", "deactivate"]
    service.fail(3, "unsent")
    with pytest.raises(TransportError):
        one_try(service, task_state, operation=INSERT)
    assert asked(service)[-2:] == ["update", "activate"]
    assert service.resource["enabled"]


@pytest.mark.parametrize(("killed_at", "polls"), [(0, 1), (2, 2), (3, 2)])
def test_stale_response_does_not_leave_a_sync_inactive(killed_at: int, polls: int) -> None:
    """The service always shows the sync as active."""
    service, task_state = service_of(fail_at=killed_at, failure="killed"), AirflowTaskState(Memory(), 2)

    def send(request: Request[Any]) -> Any:
        answer = service.send(request)
        is_shown = isinstance(answer, ReverseEtlSyncWithSettings)
        return answer.model_copy(update={"enabled": True}) if is_shown else answer

    for _ in range(polls):
        flow = update(
            "x", Definition(operation=INSERT), enabled=None, deactivated=DeactivatedSyncs(task_state), wait_for_run=0
        )
        with suppress(KilledError):
            run_blocking(flow, send, service.sleep)
    assert state_of(service) == (True, "insert")


@pytest.mark.parametrize("down_from", [2, 3, 4])
def test_unreachable_service_is_reported_and_a_retry_restores(down_from: int) -> None:
    service, task_state = service_of(fail_at=down_from, failure="down"), AirflowTaskState(Memory(), life=2)
    with pytest.raises(NotRestoredError, match="reverse ETL sync x, which was active, could not be activated again"):
        one_try(service, task_state, operation=INSERT)
    assert service.resource["enabled"] == (down_from == 2)
    service.failure = ""
    one_try(service, task_state, operation=INSERT)
    assert service.resource["enabled"]


def test_an_abandoned_update_can_be_restored() -> None:
    service, earlier = service_of(fail_at=3, failure="killed"), DeactivatedSyncs(NoTaskState())
    flow = update("x", Definition(operation=INSERT), enabled=None, deactivated=earlier, wait_for_run=0)
    with pytest.raises(KilledError):
        service.run(flow)
    assert (earlier.pending, service.resource["enabled"]) == (("x",), False)
    service.run(reactivate(earlier))
    assert (earlier.pending, service.resource["enabled"]) == (("x",), True)
    service.run(restore(earlier))
    assert earlier.pending == ()


def test_update_waits_for_an_active_run() -> None:
    service = service_of()
    service.going = 4
    assert one_try(service, operation=INSERT)["changed"]
    assert service.paused == 15
    assert service.resource["enabled"]


def test_the_wait_for_an_active_run_is_limited() -> None:
    service = service_of()
    service.going = 1000
    # The error is not permanent. For a permanent error, a retry policy would leave a paused schedule paused.
    with pytest.raises(RunConflictError, match=r"still active after 60 s (?s:.*)still active") as refused:
        one_try(service, operation=INSERT)
    assert isinstance(refused.value.__cause__, InvalidRequestError)
    assert service.paused == 60
    assert service.resource["enabled"]


def test_update_waits_for_a_run_that_starts_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of()
    shown = iter(["COMPLETED", "RUNNING", "COMPLETED"])
    execute = service.execute

    def next_run(request: Request[Any]) -> Any:
        if request.endpoint.name == "reverse_etl_sync_runs.list":
            service.going = 2
            return page(run_of("reverse_etl", status=next(shown)))
        if asked(service).count("update") == 4:
            service.going = 0
        return execute(request)

    service.going = 2
    monkeypatch.setattr(service, "execute", next_run)
    assert one_try(service, operation=INSERT)["changed"]
    assert service.paused == 5


def test_an_invalid_definition_is_refused_before_any_change() -> None:
    service = service_of()
    with pytest.raises(InvalidInputError, match=r"sync_interval"):
        one_try(service, sync_interval="soon")
    assert asked(service) == ["get"]


def test_a_result_shows_no_settings() -> None:
    listed, made = [page()], [build("reverse_etl_sync", id="new")]
    result, _ = run(created("update"), reverse_etl_syncs__list=listed, reverse_etl_syncs__create=made)
    assert (result["id"], result["action"]) == ("new", "created")
    assert "secret" not in str(result)


def test_a_sync_is_identified_by_the_id_of_its_transform() -> None:
    there = build("reverse_etl_sync", source_id="v", transform_id="t")
    assert run(created("keep"), reverse_etl_syncs__list=[page(there)])[0]["id"] == "x"


def test_all_pages_are_searched_for_an_existing_sync() -> None:
    other = build("reverse_etl_sync", id="u", source_id="u")
    first: Page[Any] = Page(data=(other,), has_more=True, next_cursor="u")
    listed = [first, page(build("reverse_etl_sync"))]
    assert run(created("keep"), reverse_etl_syncs__list=listed)[0]["id"] == "x"


def by_type_name(*names: str) -> Change:
    types = [ObjectType(id=f"id{i}", name=name, type="standard", associations=()) for i, name in enumerate(names)]
    result, _ = run(
        created("keep", object_type_id=None, object_type_name="Contact"),
        reverse_etl_syncs__list=[page(build("reverse_etl_sync", object_type_id="id1"))],
        reverse_etl_syncs__object_types=[ObjectTypes(data=tuple(types))],
    )
    return result


def test_an_object_type_can_be_given_by_name() -> None:
    assert by_type_name("Deal", "Contact")["id"] == "x"
    with pytest.raises(UnknownNameError, match=r"no object type named 'Contact'\. It has: Contacts"):
        by_type_name("Deal", "Contacts")
    with pytest.raises(AmbiguousNameError, match="id0, id1"):
        by_type_name("Contact", "Contact")
