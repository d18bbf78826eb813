"""Changes of reverse ETL syncs: whatever fails, and wherever a worker is killed, a sync stays as active as it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import (
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.reverse_etl import (
    FailedRecord,
    FailedRecordCount,
    FailedRecords,
    ObjectType,
    ObjectTypes,
    ReverseEtlSyncRun,
    ReverseEtlSyncWithSettings,
)
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.changes.change import Change, IfExists, ResourceExistsError
from airflow_provider_datapipe.changes.reverse_etl import (
    Definition,
    Earlier,
    NotRestoredError,
    create,
    reactivate,
    restore,
    retry_failed,
    update,
)
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError
from airflow_provider_datapipe.runs.records import NoRecords, TaskStateRecords
from airflow_provider_datapipe.runs.steps import drive
from tests.support.tasks import Memory
from tests.unit.runs.model_service import ModelService, page

ID = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}
NAME = {"source_property_id": "name", "destination_property_id": "name"}
UPSERT = {"mode": "upsert", "mappings": [ID, NAME]}
INSERT = {"mode": "insert", "mappings": [ID]}
REFUSED = InvalidRequestError("no", status=400)


class KilledError(BaseException):
    """The end of the process."""


class Service:
    """
    A service with one sync.

    :param fail_at: which of its requests fails, from 1.
    :param failure: how; what is ``lost`` or ``killed`` was carried out before.
    """

    def __init__(self, *, enabled: bool, fail_at: int = 0, failure: str = "") -> None:
        self.sync = sync(enabled=enabled)
        self.asked: list[str] = []
        self.going = 0
        self._fail_at, self._failure = fail_at, failure
        self.paused = 0.0

    def send(self, request: Request[Any]) -> Any:
        self.asked.append(request.endpoint.name.partition(".")[2])
        fails = self._failure if len(self.asked) == self._fail_at or self._failure == "down" else ""
        if self._failure == "down" and len(self.asked) < self._fail_at:
            fails = ""
        if fails in ("unsent", "down"):
            raise TransportError("away", sent=False)
        if fails == "refused":
            raise REFUSED
        if fails == "killed before":
            raise KilledError
        answer = self._carry_out(request)
        if fails == "lost":
            raise TransportError("lost", sent=True)
        if fails == "killed":
            raise KilledError
        return answer

    def sleep(self, seconds: float) -> None:
        self.paused += seconds

    def _carry_out(self, request: Request[Any]) -> Any:
        match request.endpoint.name:
            case "reverse_etl_syncs.activate" | "reverse_etl_syncs.deactivate" as name:
                self.sync = self.sync.model_copy(update={"enabled": name.endswith(".activate")})
                return None
            case "reverse_etl_syncs.update":
                if self.sync.enabled or self.going > 0:
                    raise InvalidRequestError("still active", status=400)
                assert request.body is not None
                self.sync = sync(**self.sync.model_dump(mode="json", exclude_none=True) | request.body.as_json())
                return self.sync
            case "reverse_etl_sync_runs.list":
                self.going -= 1
                return page(run("RUNNING" if self.going > 0 else "COMPLETED"))
            case name:
                assert name == "reverse_etl_syncs.get"
                return self.sync


def run(status: str) -> ReverseEtlSyncRun:
    fields = {"id": "r", "reverse_etl_sync_id": "s", "started_at": "2026-01-01T00:00:00Z", "status": status}
    return ReverseEtlSyncRun.model_validate(fields)


def sync(**more: Any) -> ReverseEtlSyncWithSettings:
    fields = {
        "id": "s",
        "enabled": True,
        "source_type": "Transform",
        "source_id": "t",
        "destination_connection_id": "c",
        "destination_integration_id": "crm",
        "object_type_id": "contact",
        "sync_interval": "0 4 * * *",
        "operation": UPSERT,
        "settings": {"key": "secret"},
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    return ReverseEtlSyncWithSettings.model_validate(fields | more)


def one_try(service: Service, records: Any, *, enabled: Any = None, **wanted: Any) -> Change:
    earlier = Earlier(records)
    steps = update("s", Definition(**wanted), enabled=enabled, earlier=earlier, wait_for_run=60)
    result = drive(steps, service.send, service.sleep)
    assert earlier.pending == ()
    return result


def test_what_is_active_is_deactivated_for_it_and_active_again() -> None:
    service = Service(enabled=True)
    result = one_try(service, NoRecords(), operation=INSERT)
    assert service.asked == ["get", "deactivate", "update", "activate", "get"]
    assert (result["action"], result["changed"], result["details"]["enabled"]) == ("updated", True, True)
    assert result["details"]["operation"]["mode"] == "insert"
    assert "secret" not in str(result)


def test_what_is_not_active_stays_so() -> None:
    service = Service(enabled=False)
    assert one_try(service, NoRecords(), operation=INSERT)["changed"]
    assert not service.sync.enabled
    assert "activate" not in service.asked


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"operation": {"mode": "upsert", "mappings": [NAME | {"primary_key": False}, ID]}},
        {"sync_interval": "0 4 * * *", "settings": '{"key": "secret"}', "object_type_id": "contact"},
    ],
)
def test_what_is_as_it_is_to_be_is_left_alone(wanted: dict[str, Any]) -> None:
    service = Service(enabled=True)
    result = one_try(service, NoRecords(), **wanted)
    assert service.asked == ["get"]
    assert (result["action"], result["changed"]) == ("none", False)


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        ({"sync_interval": "0 5 * * *"}, {"sync_interval": "0 5 * * *"}),
        ({"orchestration_id": "o"}, {"orchestration_workflow_id": "o"}),
        ({"orchestration_id": "o", "sync_interval": "0 5 * * *"}, {"orchestration_workflow_id": "o"}),
        ({"operation": INSERT}, {"sync_interval": "0 4 * * *"}),
    ],
)
def test_what_is_given_of_a_schedule_is_the_schedule(wanted: dict[str, Any], sent: dict[str, str]) -> None:
    service = Service(enabled=True)
    bodies: list[dict[str, Any]] = []

    def send(request: Request[Any]) -> Any:
        if request.endpoint.name == "reverse_etl_syncs.update" and request.body:
            bodies.append(request.body.as_json())
        return service.send(request)

    steps = update("s", Definition(**wanted), enabled=None, earlier=Earlier(NoRecords()), wait_for_run=0)
    drive(steps, send, service.sleep)
    (body,) = bodies
    assert sent.items() <= body.items()
    assert ("sync_interval" in body) == ("orchestration_id" not in wanted or "sync_interval" in wanted)


#: How one request may fail, and whether the task sees it.
FAILURES = ["unsent", "lost", "refused", "killed before", "killed"]


@pytest.mark.parametrize(
    ("fail_at", "failure", "enabled", "afterwards"),
    itertools.product(range(1, 6), FAILURES, [True, False], [None, True, False]),
)
def test_one_failure_anywhere_leaves_it_as_active_as_it_was(
    fail_at: int, failure: str, *, enabled: bool, afterwards: bool | None
) -> None:
    service = Service(enabled=enabled, fail_at=fail_at, failure=failure)
    records, failed = TaskStateRecords(Memory(), life=2), False
    try:
        one_try(service, records, operation=INSERT, enabled=afterwards)
    except DatapipeError:
        failed = True
        # Without another try, too. What is to be deactivated anyway may be.
        assert service.sync.enabled in (enabled, afterwards)
    except KilledError:
        failed = True
    if failed:
        one_try(service, records, operation=INSERT, enabled=afterwards)
    assert service.sync.enabled == (enabled if afterwards is None else afterwards)
    assert service.sync.operation is not None
    assert service.sync.operation.mode == "insert"
    # Nothing is left of it for the next time that the task runs.
    assert not Earlier(records).was_active("s")


def test_a_retry_restores_what_the_failed_try_could_not() -> None:
    service, records = Service(enabled=True, fail_at=2, failure="killed"), TaskStateRecords(Memory(), life=2)
    with pytest.raises(KilledError):
        one_try(service, records, operation=INSERT)
    assert not service.sync.enabled
    with pytest.raises(InvalidInputError):
        one_try(service, records, sync_interval="soon")
    assert service.sync.enabled
    service._fail_at = 6
    with pytest.raises(KilledError):
        one_try(service, records, operation=INSERT)
    assert service.asked[-2:] == ["get", "deactivate"]
    service._fail_at, service._failure = 9, "unsent"
    with pytest.raises(TransportError):
        one_try(service, records, operation=INSERT)
    assert service.asked[-2:] == ["update", "activate"]
    assert service.sync.enabled


@pytest.mark.parametrize(("killed_at", "looks"), [(None, 1), (2, 2), (3, 2)])
def test_an_answer_that_is_old_does_not_leave_it_deactivated(killed_at: int | None, looks: int) -> None:
    """The service shows it as it was at first, however often it is asked."""
    service, records = Service(enabled=True, fail_at=killed_at or 0, failure="killed"), TaskStateRecords(Memory(), 2)

    def send(request: Request[Any]) -> Any:
        answer = service.send(request)
        is_shown = isinstance(answer, ReverseEtlSyncWithSettings)
        return answer.model_copy(update={"enabled": True}) if is_shown else answer

    for _ in range(looks):
        steps = update("s", Definition(operation=INSERT), enabled=None, earlier=Earlier(records), wait_for_run=0)
        with suppress(KilledError):
            drive(steps, send, service.sleep)
    assert service.sync.enabled
    assert service.sync.operation is not None
    assert service.sync.operation.mode == "insert"


@pytest.mark.parametrize("down_from", [2, 3, 4])
def test_a_service_that_goes_away_is_said_and_a_retry_restores(down_from: int) -> None:
    service = Service(enabled=True, fail_at=down_from, failure="down")
    records = TaskStateRecords(Memory(), life=2)
    with pytest.raises(NotRestoredError, match="reverse ETL sync s, which was active, could not be activated again"):
        one_try(service, records, operation=INSERT)
    assert service.sync.enabled == (down_from == 2)
    service._failure = ""
    one_try(service, records, operation=INSERT)
    assert service.sync.enabled


def test_what_is_left_when_the_steps_are_left_is_restored() -> None:
    service, earlier = Service(enabled=True, fail_at=3, failure="killed"), Earlier(NoRecords())
    with pytest.raises(KilledError):
        drive(
            update("s", Definition(operation=INSERT), enabled=None, earlier=earlier, wait_for_run=0),
            service.send,
            service.sleep,
        )
    assert (earlier.pending, service.sync.enabled) == (("s",), False)
    drive(reactivate(earlier), service.send, service.sleep)
    assert (earlier.pending, service.sync.enabled) == (("s",), True)
    drive(restore(earlier), service.send, service.sleep)
    assert earlier.pending == ()


def test_a_run_that_is_going_is_waited_for() -> None:
    service = Service(enabled=True)
    service.going = 4
    assert one_try(service, NoRecords(), operation=INSERT)["changed"]
    assert service.paused == 15
    assert service.sync.enabled


def test_a_run_that_goes_on_for_long_is_not_waited_for_for_ever() -> None:
    service = Service(enabled=True)
    service.going = 1000
    # No refusal that stays: a retry policy would leave an owned schedule off for it.
    with pytest.raises(RunConflictError, match=r"still going after 60 s (?s:.*)still active") as refused:
        one_try(service, NoRecords(), operation=INSERT)
    assert isinstance(refused.value.__cause__, InvalidRequestError)
    assert service.paused == 60
    assert service.sync.enabled


def test_a_run_that_begins_after_another_has_ended_is_waited_for() -> None:
    service = Service(enabled=True)
    shown = iter(["COMPLETED", "RUNNING", "COMPLETED"])
    carry_out = service._carry_out

    def next_run(request: Request[Any]) -> Any:
        if request.endpoint.name == "reverse_etl_sync_runs.list":
            service.going = 2
            return page(run(next(shown)))
        if service.asked.count("update") == 4:
            service.going = 0
        return carry_out(request)

    service.going = 2
    service._carry_out = next_run  # type: ignore[method-assign]  # of this one service
    assert one_try(service, NoRecords(), operation=INSERT)["changed"]
    assert service.paused == 5


def test_what_breaks_a_rule_is_said_before_anything_is_changed() -> None:
    service = Service(enabled=True)
    with pytest.raises(InvalidInputError, match=r"sync_interval"):
        one_try(service, NoRecords(), sync_interval="soon")
    assert service.asked == ["get"]


def model(*listed: Any, **answers: list[Any]) -> ModelService:
    return ModelService(
        reverse_etl_syncs__list=[page(*each) if isinstance(each, list) else page(each) for each in listed] or [page()],
        **answers,
    )


def create_in(service: ModelService, if_exists: IfExists = "update", **wanted: Any) -> Change:
    steps = create(
        source_id="t",
        transform_name=None,
        folder_path=None,
        connection_id="c",
        connection_label=None,
        wanted=Definition(**{"object_type_id": "contact", "operation": UPSERT, "sync_interval": "0 4 * * *"} | wanted),
        if_exists=if_exists,
        earlier=Earlier(NoRecords()),
        wait_for_run=0,
    )
    return drive(steps, service.send, service.sleep)


def test_one_that_is_there_is_kept_or_refused() -> None:
    others = [sync(id="x", source_id="u"), sync(id="y", object_type_id="deal")]
    assert create_in(model([*others, sync()]), "keep")["id"] == "s"
    assert create_in(model([sync(source_id="v", transform_id="t")]), "keep")["id"] == "s"
    with pytest.raises(ResourceExistsError, match="There is a reverse ETL sync of t to contact of c already: s"):
        create_in(model([*others, sync()]), "fail")
    made = model(others, reverse_etl_syncs__create=[sync(id="new")])
    result = create_in(made)
    assert (result["id"], result["action"]) == ("new", "created")
    assert "secret" not in str(result)


def test_several_that_copy_the_same_are_listed() -> None:
    service = model([sync(id="a"), sync(id="b")])
    with pytest.raises(
        AmbiguousNameError, match=r"2 reverse ETL syncs copy 't' to 'contact' of connection 'c': a, b\."
    ):
        create_in(service, "keep")
    assert service.asked == ["reverse_etl_syncs.list"]


@pytest.mark.parametrize("error", [TransportError("lost", sent=True), ServerError("bad", status=502)])
@pytest.mark.parametrize("looks", [1, 2])
def test_a_creation_without_a_response_is_not_sent_again(error: DatapipeError, looks: int) -> None:
    service = model(*[[]] * looks, [sync(id="new")], reverse_etl_syncs__create=[error])
    result = create_in(service)
    assert (result["id"], result["action"], result["changed"]) == ("new", "created", True)
    assert service.asked.count("reverse_etl_syncs.create") == 1


def test_a_creation_that_came_to_nothing_is_an_error() -> None:
    lost = TransportError("lost", sent=True)
    with pytest.raises(TransportError):
        create_in(model(reverse_etl_syncs__create=[lost]))
    with pytest.raises(InvalidRequestError):
        create_in(model(reverse_etl_syncs__create=[REFUSED]))


def test_an_object_type_has_a_name() -> None:
    def kinds(*names: str) -> list[Any]:
        types = [ObjectType(id=f"id{i}", name=name, type="standard", associations=()) for i, name in enumerate(names)]
        return [ObjectTypes(data=tuple(types))]

    by_name: dict[str, Any] = {"object_type_id": None, "object_type_name": "Contact"}
    found = model([sync(object_type_id="id1")], reverse_etl_syncs__object_types=kinds("Deal", "Contact"))
    assert create_in(found, "keep", **by_name)["id"] == "s"
    with pytest.raises(UnknownNameError, match=r"no object type named 'Contact'\. There is: Contacts"):
        create_in(model(reverse_etl_syncs__object_types=kinds("Deal", "Contacts")), **by_name)
    with pytest.raises(AmbiguousNameError, match="id0, id1"):
        create_in(model(reverse_etl_syncs__object_types=kinds("Contact", "Contact")), **by_name)


class Failures:
    """A service that lists at most 100 of the records that failed, and forgets those that are to be sent again."""

    def __init__(self, failed: dict[str, str], *, forgets: bool = True) -> None:
        self.failed, self.forgets = failed, forgets
        self.retried: list[str] = []
        self.asked: list[str] = []

    def send(self, request: Request[Any]) -> Any:
        self.asked.append(request.endpoint.name.partition(".")[2])
        match self.asked[-1]:
            case "count":
                return FailedRecordCount(count=len(self.failed))
            case "list":
                limit = int(dict(request.query)["limit"])
                shown = list(self.failed.items())[:limit]
                return FailedRecords(data=tuple(FailedRecord(sync_id="s", record_id=i, error=e) for i, e in shown))
            case "retry":
                assert request.body is not None
                ids = request.body.as_json()["record_ids"]
            case _:
                ids = list(self.failed)
        self.retried += ids
        if self.forgets:
            self.failed = {i: error for i, error in self.failed.items() if i not in ids}
        return None


def retried(service: Failures, **how: Any) -> dict[str, Any]:
    given = {"record_ids": None, "reason": None, "reason_pattern": None} | how
    result = drive(retry_failed("s", **given), service.send, lambda _: None)
    assert (result["resource"], result["id"]) == ("reverse_etl_failed_records", "s")
    assert result["action"] == ("retry_requested" if result["changed"] else "none")
    details: dict[str, Any] = result["details"]
    return details


def failures(count: int, reason: Callable[[int], str]) -> dict[str, str]:
    return {f"r{number:04}": reason(number) for number in range(count)}


def test_failed_records_with_a_reason_are_resent_as_they_appear() -> None:
    every_third = failures(250, lambda number: "timed out (503)" if number % 3 else "No address.")
    service = Failures(dict(every_third))
    told = retried(service, reason="timed out")
    fitting = [record for record, error in every_third.items() if "timed" in error]
    assert service.retried == fitting
    assert told == {"failed_records": 250, "seen": 250, "requested": len(fitting)}
    # Those in the way do not fit, so that the others can't be seen.
    hidden = Failures(failures(250, lambda number: "No address." if number < 120 else "timed out"))
    assert retried(hidden, reason="timed out") == {"failed_records": 250, "seen": 100, "requested": 0}


@pytest.mark.parametrize("count", [3, 150])
def test_an_endless_list_of_records_is_not_requested_forever(count: int) -> None:
    service = Failures(failures(count, lambda _: "timed out"), forgets=False)
    told = retried(service, reason_pattern=r"tim(e|ed) out$")
    assert len(service.retried) == len(set(service.retried)) == told["requested"] == min(count, 100)


def test_the_ways_to_say_which() -> None:
    assert retried(Failures({"a": "x", "b": "y"}), record_ids="all")["requested"] == 2
    some = Failures({"a": "x", "b": "y"})
    assert retried(some, record_ids="['b', 'b']")["requested"] == 1
    assert some.retried == ["b"]
    none = Failures({"a": "x"})
    assert retried(none, record_ids=[])["requested"] == 0
    assert "retry" not in none.asked
    with pytest.raises(ValueError, match="reason_pattern is no regular expression"):
        retried(Failures({"a": "x"}), reason_pattern="(")
    with pytest.raises(ValueError, match="reason is empty"):
        retried(Failures({"a": "x"}), reason="")
    with pytest.raises(ValueError, match="record_ids must be a list of texts"):
        retried(Failures({"a": "x"}), record_ids="b")


def test_pages_are_read_to_their_end() -> None:
    first: Page[Any] = Page(data=(sync(id="x", source_id="u"),), has_more=True, next_cursor="x")
    service = ModelService(reverse_etl_syncs__list=[first, page(sync())])
    assert create_in(service, "keep")["id"] == "s"
