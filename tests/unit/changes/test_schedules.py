"""Schedules that are taken off and put back: wherever a process ends, what was there is there again, field by field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import InvalidRequestError, NotFoundError, TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.changes import schedules
from airflow_provider_datapipe.changes.reverse_etl import Earlier, restore
from airflow_provider_datapipe.changes.schedule_kinds import Means, NotHoldableError
from airflow_provider_datapipe.changes.schedules import (
    Noted,
    NotPutBackError,
    ScheduleChangedError,
    ScheduleLostError,
    ScheduleOwnedError,
)
from airflow_provider_datapipe.runs.records import NoRecords, TaskStateRecords
from airflow_provider_datapipe.runs.steps import drive
from tests.support.tasks import Memory
from tests.unit.changes.schedule_model import (
    ALL,
    ATTACHED,
    DEFAULTS,
    OURS,
    THEIRS,
    THINGS,
    UPSERT,
    KilledError,
    Owner,
    Service,
    is_due,
    marks,
)


@pytest.fixture(params=ALL, ids=lambda given: f"{given[0]} {given[1]}{' paused' * given[2]}")
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], bool]:
    chosen: tuple[str, dict[str, Any], bool] = request.param
    return chosen


def new(case: tuple[str, dict[str, Any], bool]) -> tuple[Service, Owner]:
    kind, more, paused = copy.deepcopy(case)
    service = Service(kind, more)
    return service, Owner(service, paused=paused)


def test_a_removed_schedule_is_restored_field_by_field(case: Any) -> None:
    service, owner = new(case)
    before = service.state
    assert is_due(service) or service.thing.get("sync_interval", "") is None
    owner.note()
    assert service.state == before
    result = owner.take_off()
    assert (result["action"], result["changed"]) == ("taken_off", True)
    assert not is_due(service)
    assert service.thing.get("enabled", True) is not case[2]
    result, said = owner.put_back()
    assert (result["action"], result["changed"], said) == ("put_back", True, [])
    assert service.state == before


def test_each_step_can_be_done_again(case: Any) -> None:
    service, owner = new(case)
    before = service.state
    noted = owner.note()
    owner.take_off()
    taken = service.state
    assert (owner.take_off()["action"], service.state) == ("none", taken)
    # Cleared while it is off: what was there before is remembered, and not that it is off.
    assert owner.note() == noted
    owner.put_back()
    assert service.state == before
    assert owner.put_back()[0]["action"] == "none"
    assert service.state == before
    # A new round notes anew.
    assert owner.note()["round"] != noted["round"]


@pytest.mark.parametrize("records", ["records", "none"])
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_killed_anywhere_while_it_is_taken_off(case: Any, *, is_carried_out: bool, records: str) -> None:
    kills = 0
    for nth in range(1, 30):
        for then in ("put_back", "again", "note"):
            service, owner = new(case)
            before = service.state
            owner.records = TaskStateRecords(Memory(), 2) if records == "records" else NoRecords()
            owner.note()
            service.asked.clear()
            service.kill_at, service.is_carried_out = nth, is_carried_out
            try:
                owner.take_off()
            except KilledError:
                kills += 1
            else:
                assert kills >= 6
                return
            service.kill_at = 0
            # Another task has records of its own.
            owner.records = NoRecords()
            if then == "note":
                owner.note()
            if then in ("note", "again"):
                owner.take_off()
                assert not is_due(service)
            owner.put_back()
            assert service.state == before
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_killed_anywhere_while_it_is_put_back(case: Any, *, is_carried_out: bool) -> None:
    for nth in range(1, 30):
        service, owner = new(case)
        before = service.state
        owner.note()
        owner.take_off()
        service.asked.clear()
        service.kill_at, service.is_carried_out = nth, is_carried_out
        owner.records = TaskStateRecords(Memory(), 2)
        try:
            owner.put_back()
        except KilledError:
            service.kill_at = 0
            owner.put_back()
            assert service.state == before
        else:
            assert nth > 3
            return
    raise AssertionError("it never came to its end")


def test_an_attached_sync_is_at_no_moment_on_its_own_schedule() -> None:
    service, owner = new(("elt_sync", ATTACHED, False))
    owner.note()
    owner.take_off()
    owner.put_back()
    assert {own for attached, own in service.always_on_schedule if attached is None} == {OURS}


def test_what_somebody_else_has_changed_besides_stays() -> None:
    for kind, changes in (
        ("elt_sync", {"config": {"region": "us"}, "enabled": False}),
        ("transform", {"sql_template": "SELECT 2", "name": "renamed"}),
        ("reverse_etl_sync", {"operation": {**UPSERT, "mode": "insert"}, "settings": {"list": "2"}}),
        ("orchestration", {"name": "renamed"}),
    ):
        service, owner = new((kind, {}, False))
        before = dict(service.thing)
        owner.note()
        owner.take_off()
        service.thing = service.thing | changes
        owner.put_back()
        shown = {name: service.thing[name] for name in before}
        if kind == "reverse_etl_sync":
            shown["operation"] = json.loads(json.dumps(shown["operation"]))
        assert shown == before | changes


def test_a_sync_deactivated_meanwhile_stays_deactivated() -> None:
    service, owner = new(("reverse_etl_sync", {}, False))
    before = dict(service.thing)
    owner.note()
    owner.take_off()
    service.thing["enabled"] = False
    _, said = owner.put_back()
    assert service.thing == before | {"enabled": False}
    (line,) = said
    assert "set enabled to False, and it stays so" in line


SCHEDULE = {
    "elt_sync": "sync_interval",
    "transform": "cron_expression",
    "reverse_etl_sync": "sync_interval",
    "orchestration": "cron_schedule",
}


@pytest.mark.parametrize("kind", SCHEDULE)
def test_a_schedule_that_somebody_has_changed_is_not_overwritten(kind: str) -> None:
    service, owner = new((kind, {}, False))
    field, was = SCHEDULE[kind], DEFAULTS[kind][SCHEDULE[kind]]
    owner.note()
    owner.take_off()
    service.thing[field] = "0 9 * * *"
    changed = service.state
    service.asked.clear()
    with pytest.raises(ScheduleChangedError, match=r"0 9 \* \* \*") as refused:
        owner.put_back()
    assert all(text in str(refused.value) for text in (was, OURS, field, "Nothing was overwritten"))
    result, (line,) = owner.put_back("keep")
    assert result["action"] == "none"
    assert "That is kept" in line
    assert {name.partition(".")[2] for name in service.asked} <= {"get", "list"}
    assert service.state == changed
    result, (line,) = owner.put_back("restore")
    assert (result["action"], service.thing[field]) == ("put_back", was)
    assert "is put back" in line
    with pytest.raises(ValueError, match="if_changed must be"):
        owner.put_back("perhaps")


def test_a_note_that_somebody_has_overtaken_is_forgotten() -> None:
    service, owner = new(("elt_sync", {}, False))
    owner.note()
    owner.take_off()
    service.thing["sync_interval"] = "0 9 * * *"
    # Put back it was not; now all of it is cleared.
    assert owner.note()["original"]["sync_interval"] == "0 9 * * *"
    owner.take_off()
    owner.put_back()
    assert service.thing["sync_interval"] == "0 9 * * *"


def test_recording_rejects_an_edited_part_of_a_removed_schedule() -> None:
    service, owner = new(("elt_sync", {"streams": {"s1": "0 1 * * *"}}, False))
    owner.note()
    owner.take_off()
    service.streams["s1"] = "0 9 * * *"
    with pytest.raises(ScheduleChangedError, match=r"sync_interval of stream s1 is '0 9 \* \* \*'"):
        owner.note()
    owner.put_back("restore")
    assert service.streams == {"s1": "0 1 * * *"}


def test_a_change_between_noting_and_taking_off_is_refused() -> None:
    service, owner = new(("transform", {}, False))
    owner.note()
    service.thing["cron_expression"] = "0 9 * * *"
    with pytest.raises(ScheduleChangedError, match="Clear the task that noted it"):
        owner.take_off()
    assert service.thing["cron_expression"] == "0 9 * * *"


def test_streams_that_are_gone_and_new_ones_are_left_alone() -> None:
    service, owner = new(("elt_sync", {"streams": {"s1": "0 1 * * *", "s2": "0 2 * * *"}}, False))
    owner.note()
    owner.take_off()
    del service.streams["s1"]
    service.streams["s3"] = "0 7 * * *"
    _, said = owner.put_back()
    assert service.streams == {"s2": "0 2 * * *", "s3": "0 7 * * *"}
    assert said == ["sync_interval of stream s1 is gone."]


def test_a_thing_that_is_gone_needs_nothing() -> None:
    service, owner = new(("transform", {}, False))
    owner.note()
    owner.take_off()
    service._answer = lambda: (_ for _ in ()).throw(NotFoundError("gone", status=404))  # type: ignore[method-assign]
    result, said = owner.put_back()
    assert (result["action"], said) == ("none", ["Transform x is gone."])


def two(service: Service) -> tuple[Owner, Owner]:
    return Owner(service, OURS), Owner(service, THEIRS)


@pytest.mark.parametrize("kind", SCHEDULE)
def test_what_is_owned_is_not_owned_by_another(kind: str) -> None:
    service = Service(kind, {})
    before = service.state
    first, second = two(service)
    first.note()
    second.note()
    first.take_off()
    with pytest.raises(ScheduleOwnedError, match=f"{OURS[:4]}.* is what another DAG run"):
        second.take_off()
    with pytest.raises(ScheduleOwnedError):
        second.note()
    # Its teardown runs all the same, and does nothing, whatever it is told to do with what somebody has changed.
    owned = service.state
    for if_changed in ("fail", "keep", "restore"):
        with pytest.raises(ScheduleOwnedError, match="left as it is, whatever if_changed says"):
            second.put_back(if_changed)
        assert service.state == owned
    assert marks(service) == {OURS}
    first.put_back()
    assert service.state == before
    second.note()
    second.take_off()
    second.put_back()
    assert service.state == before


def test_of_two_that_take_it_in_the_same_moment_one_loses() -> None:
    service = Service("elt_sync", {})
    before = service.state
    first, second = two(service)
    first.note()
    second.note()
    # The other one writes right after this one.
    reads = iter([{}, {"sync_interval": THEIRS}])
    original = service.send

    def send(request: Request[Any]) -> Any:
        if request.endpoint.name == "elt_syncs.get":
            service.thing |= next(reads, {})
        return original(request)

    service.send = send  # type: ignore[method-assign]
    with pytest.raises(ScheduleOwnedError):
        first.take_off()
    with pytest.raises(ScheduleOwnedError):
        first.put_back()
    second.take_off()
    second.put_back()
    assert service.state == before


def test_a_repeated_teardown_leaves_the_next_owner_alone() -> None:
    service = Service("elt_sync", {})
    before = service.state
    first, second = two(service)
    first.note()
    first.take_off()
    first.put_back()
    second.note()
    second.take_off()
    with pytest.raises(ScheduleOwnedError):
        first.put_back("restore")
    assert marks(service) == {THEIRS}
    second.put_back()
    assert first.put_back("restore")[0]["action"] == "none"
    assert service.state == before


def test_who_disables_sees_first_whether_another_owns_it() -> None:
    service = Service("elt_sync", {})
    first, second = Owner(service, OURS), Owner(service, THEIRS, paused=True)
    first.note()
    second.note()
    first.take_off()
    with pytest.raises(ScheduleOwnedError):
        second.take_off()
    assert service.thing["enabled"]


def test_what_is_kept_is_what_somebody_has_changed_and_no_more() -> None:
    service, owner = new(("elt_sync", ATTACHED | {"streams": {"s1": "0 1 * * *"}}, False))
    owner.note()
    owner.take_off()
    service.thing["sync_interval"] = "0 9 * * *"
    result, (line,) = owner.put_back("keep")
    assert (result["action"], "That is kept" in line) == ("put_back", True)
    assert service.thing["sync_interval"] == "0 9 * * *"
    assert (service.thing["orchestration_workflow_id"], service.streams) == ("o", {"s1": "0 1 * * *"})


def test_an_orchestration_assigned_meanwhile_is_kept() -> None:
    service, owner = new(("transform", {}, False))
    owner.note()
    owner.take_off()
    service.thing["orchestration_workflow_id"] = "p"
    assert owner.put_back()[0]["action"] == "put_back"
    assert (service.thing["orchestration_workflow_id"], service.thing["cron_expression"]) == ("p", "0 4 * * *")


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_the_record_of_the_task_counts_without_a_marker(case: Any, *, is_carried_out: bool) -> None:
    # The task that takes it off was killed anywhere, and its retry before it could say that it had begun.
    for nth in range(1, 30):
        service, owner = new(case)
        before = service.state
        owner.note()
        service.asked.clear()
        service.kill_at, service.is_carried_out = nth, is_carried_out
        try:
            owner.take_off()
        except KilledError:
            is_over = False
        else:
            is_over = True
        service.kill_at, owner.begun = 0, None
        owner.note()
        owner.take_off()
        assert not is_due(service)
        owner.put_back()
        assert service.state == before
        if is_over:
            return
    raise AssertionError("it never came to its end")


def _without_orchestrations(service: Service) -> None:
    carry_out = service._carry_out

    def refuse(name: str, request: Request[Any]) -> Any:
        body = request.body.as_json() if request.body is not None else {}
        if name == "orchestrations.get" or name.endswith(".attach_orchestration"):
            raise NotFoundError("no such orchestration", status=404)
        if name == "reverse_etl_syncs.update":
            if body.get("orchestration_workflow_id") is not None:
                raise InvalidRequestError("no such orchestration", status=400)
            assert body.get("sync_interval") is not None, "the service refuses it without any schedule"
        return carry_out(name, request)

    service._carry_out = refuse  # type: ignore[method-assign]  # of this one service


@pytest.mark.parametrize("if_changed", ["fail", "keep", "restore"])
@pytest.mark.parametrize(
    ("kind", "more"), [each for each in THINGS if each[1].get("orchestration_workflow_id")], ids=str
)
def test_an_orchestration_that_is_gone_keeps_nothing_else_off(kind: str, more: dict[str, Any], if_changed: str) -> None:
    service, owner = new((kind, more, False))
    thing, streams = service.state
    owner.note()
    owner.take_off()
    _without_orchestrations(service)
    for _ in range(2):
        if kind == "reverse_etl_sync" and more.get("sync_interval", "") is None:
            # Nothing in the interface takes away its last schedule.
            with pytest.raises(NotPutBackError, match=f"without orchestration o, which is gone.*{OURS[:4]}.* of None"):
                owner.put_back(if_changed)
            assert (service.thing["sync_interval"], service.thing["enabled"]) == (OURS, True)
            continue
        if if_changed == "keep":
            assert owner.put_back("keep")[1][0].endswith("is gone. All else is put back.")
        else:
            with pytest.raises(ScheduleChangedError, match=r"Orchestration o, to which .* is gone\. All else is put"):
                owner.put_back(if_changed)
        assert service.state == (thing | {"orchestration_workflow_id": None}, streams)


def test_an_orchestration_that_is_there_is_not_taken_for_gone() -> None:
    service, owner = new(("elt_sync", ATTACHED, False))
    owner.note()
    owner.take_off()
    carry_out = service._carry_out

    def refuse(name: str, request: Request[Any]) -> Any:
        if name == "elt_syncs.attach_orchestration":
            raise NotFoundError("not now", status=404)
        return None if name == "orchestrations.get" else carry_out(name, request)

    service._carry_out = refuse  # type: ignore[method-assign]  # of this one service
    with pytest.raises(NotFoundError):
        owner.put_back()
    assert service.thing["sync_interval"] == OURS


def test_what_was_taken_off_and_nobody_knows_is_said() -> None:
    _, owner = new(("elt_sync", {}, False))
    owner.note()
    owner.take_off()
    owner.begun = owner.kept = None
    with pytest.raises(ScheduleLostError, match="Give it its schedule again"):
        owner.note()


def test_the_note_of_the_task_itself_counts_while_it_is_off() -> None:
    _, owner = new(("elt_sync", {}, False))
    noted = owner.note()
    owner.take_off()
    owner.begun = None
    assert owner.note() == noted
    owner.put_back()
    assert owner.note()["round"] != noted["round"]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("elt_sync", {"enabled": False}),
        ("reverse_etl_sync", {"enabled": False}),
        ("reverse_etl_sync", {"sync_interval": None}),
        ("transform", {"cron_expression": None}),
        ("transform", {"cron_expression": None, "materialization": "view", "status": "draft"}),
    ],
)
def test_what_is_on_no_schedule_is_left_alone(kind: str, more: dict[str, Any]) -> None:
    service, owner = new((kind, more, False))
    assert owner.note()["held"] == {}
    service.asked.clear()
    assert owner.take_off()["action"] == "none"
    assert owner.put_back()[0]["action"] == "none"
    assert service.asked == []


@pytest.mark.parametrize(
    ("kind", "more", "paused", "problem"),
    [
        ("elt_sync", {"sync_interval": None}, False, "paused=True"),
        ("transform", {"cron_expression": None, "rebuild_trigger": "upstream"}, False, "rebuild_trigger 'upstream'"),
        ("transform", {}, True, "Only ELT syncs"),
        ("orchestration", {}, True, "Only ELT syncs"),
    ],
)
def test_what_could_not_be_put_back_is_not_taken_off(
    kind: str, more: dict[str, Any], *, paused: bool, problem: str
) -> None:
    _, owner = new((kind, more, paused))
    with pytest.raises(NotHoldableError, match=problem):
        owner.note()


def test_a_hidden_orchestration_schedule_is_restored_as_given() -> None:
    service, owner = new(("orchestration", {}, False))
    service.shows_schedule = False
    with pytest.raises(NotHoldableError, match="give cron_schedule"):
        owner.note()
    owner.cron = "0 6 * * *"
    owner.note()
    owner.take_off()
    assert service.thing["cron_schedule"] == OURS
    owner.put_back()
    assert service.thing["cron_schedule"] == "0 6 * * *"


def test_a_service_that_shows_other_values_is_not_trusted() -> None:
    service, owner = new(("transform", {}, False))
    owner.note()
    owner.take_off()
    service.thing["rebuild_trigger"] = "none"
    with pytest.raises(NotPutBackError, match="rebuild_trigger 'none' in place of 'schedule'"):
        owner.put_back()


def test_a_lost_answer_leaves_a_sync_active() -> None:
    service, owner = new(("reverse_etl_sync", {}, False))
    before = service.state
    owner.note()
    carry_out = service._carry_out

    def lost(name: str, request: Request[Any]) -> Any:
        answer = carry_out(name, request)
        if name.endswith(".update"):
            raise TransportError("lost", sent=True)
        return answer

    service._carry_out = lost  # type: ignore[method-assign]  # of this one service
    with pytest.raises(TransportError):
        owner.take_off()
    assert service.thing["enabled"]
    service._carry_out = carry_out  # type: ignore[method-assign]  # of this one service
    owner.put_back()
    assert service.state == before


def some() -> Iterator[str]:
    yield from (schedules.never("dag", run, "note", index) for run in ("r1", "r2") for index in (-1, 0, 1))


def test_each_owner_has_a_mark_of_its_own_and_always_the_same() -> None:
    from croniter import croniter

    assert len(set(some())) == 6
    assert list(some()) == list(some())
    for cron in some():
        assert croniter.is_valid(cron)
        assert cron.endswith(" 29 2 *")
        assert schedules._NEVER.fullmatch(cron)
    assert not schedules._NEVER.fullmatch("0 3 29 2 1")


@pytest.mark.parametrize("given", [{}, {"resource": "elt_sync"}, "None", [1], dict.fromkeys(Noted.__required_keys__)])
def test_a_note_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="noted must be"):
        schedules.read_note(given)


def test_what_is_left_pending_can_be_activated() -> None:
    # A task that is out of time in the middle of an update.
    service, owner = new(("reverse_etl_sync", {}, False))
    owner.note()
    service.asked.clear()
    service.kill_at = 3
    earlier = Earlier(NoRecords())
    assert owner.noted is not None
    with pytest.raises(KilledError):
        drive(schedules.take_off(owner.noted, Means(earlier, 60)), service.send, service.sleep)
    assert not service.thing["enabled"]
    service.kill_at = 0
    drive(restore(earlier), service.send, service.sleep)
    assert service.thing["enabled"]
