"""Paused and restored schedules: the original schedule is restored field by field, despite killed processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from croniter import croniter

from airflow_provider_datapipe.api.errors import NotFoundError, TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.resources import schedules
from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs, restore
from airflow_provider_datapipe.resources.schedule_kinds import PauseContext, ScheduleNotPausableError
from airflow_provider_datapipe.resources.schedules import (
    ScheduleChangedError,
    ScheduleLostError,
    ScheduleNotRestoredError,
    ScheduleOwnedError,
    ScheduleSnapshot,
)
from airflow_provider_datapipe.runs.task_state import AirflowTaskState, NoTaskState, TaskState
from tests.support.tasks import Memory
from tests.unit.changes.fake_service import DEFAULTS, GONE, INSERT, REFUSED, KilledError, Service, body_of

OURS, THEIRS = "11 4 29 2 *", "12 5 29 2 *"
ATTACHED = {"orchestration_workflow_id": "o"}
#: Resources by kind, with fields that differ from the defaults.
RESOURCES: list[tuple[str, dict[str, Any]]] = [
    ("elt_sync", {}),
    ("elt_sync", ATTACHED),
    ("elt_sync", ATTACHED | {"streams": {"s1": "0 1 * * *", "s2": None, "s3": "30 * * * *"}}),
    ("transform", {}),
    ("transform", ATTACHED),
    ("transform", ATTACHED | {"cron_expression": None}),
    ("transform", ATTACHED | {"cron_expression": None, "materialization": "view"}),
    ("reverse_etl_sync", {}),
    ("reverse_etl_sync", ATTACHED),
    ("reverse_etl_sync", ATTACHED | {"sync_interval": None}),
    ("orchestration", {}),
]
PAUSABLE: list[tuple[str, dict[str, Any]]] = [
    ("elt_sync", ATTACHED),
    ("elt_sync", {"sync_interval": None}),
    ("reverse_etl_sync", {}),
]
ALL_CASES = [*((kind, more, False) for kind, more in RESOURCES), *((kind, more, True) for kind, more in PAUSABLE)]
#: A pause of another resource within the same DAG.
ANOTHER = ScheduleSnapshot(
    resource="transform", id="y", name="y", round="y", original={"cron_expression": "0 4 * * *"}, paused={}
)
SCHEDULE = {
    "elt_sync": "sync_interval",
    "transform": "cron_expression",
    "reverse_etl_sync": "sync_interval",
    "orchestration": "cron_schedule",
}


class Owner:
    """Snapshot, pause and restore tasks of one owner, with the values that they exchange."""

    def __init__(self, service: Service, mark: str = OURS, *, paused: bool = False, cron: str | None = None) -> None:
        self.service, self.mark, self.paused, self.cron = service, mark, paused, cron
        self.snapshot: ScheduleSnapshot | None = None
        self.begun: ScheduleSnapshot | None = None
        self.was_paused = False
        self.kept: ScheduleSnapshot | None = None
        self.task_state: TaskState = NoTaskState()

    def _drive(self, steps: Any) -> Any:
        result = self.service.run(steps)
        assert self.service.paused == 0
        return result

    def take_snapshot(self) -> ScheduleSnapshot:
        which = "elt_sync_id" if self.service.kind == "elt_sync" else f"{self.service.kind}_id"
        open_pauses = [each for each in (ANOTHER, self.begun) if each]
        flow = schedules.take_snapshot(
            schedules.find(**{which: "x"}),
            self.mark,
            paused=self.paused,
            cron_schedule=self.cron,
            open_pauses=open_pauses,
            previous=self.kept,
        )
        snapshot: ScheduleSnapshot = self._drive(flow)
        self.snapshot = self.kept = json.loads(json.dumps(snapshot))
        return snapshot

    def pause(self) -> Any:
        self.begun, self.was_paused = self.snapshot, False
        assert self.snapshot is not None
        result = self._drive(schedules.pause(self.snapshot, PauseContext(DeactivatedSyncs(self.task_state), 60)))
        self.was_paused = True
        return result

    def restore(self, if_changed: str = "fail") -> tuple[Any, list[str]]:
        assert self.snapshot is not None
        context = PauseContext(DeactivatedSyncs(self.task_state), 60)
        flow = schedules.restore(
            self.snapshot, context, pause_may_be_partial=not self.was_paused, if_changed=if_changed
        )
        result: tuple[Any, list[str]] = self._drive(flow)
        self.begun = None
        return result


def new(kind: str, more: dict[str, Any] | None = None, *, paused: bool = False) -> tuple[Service, Owner]:
    service = Service(kind, **more or {})
    return service, Owner(service, paused=paused)


def paused_by_owner(kind: str, more: dict[str, Any] | None = None) -> tuple[Service, Owner]:
    """Return a service with a resource whose schedule is paused, and the owner of the pause."""
    service, owner = new(kind, more)
    owner.take_snapshot()
    owner.pause()
    return service, owner


def is_due(service: Service) -> bool:
    """Return True if the resource's own schedule or its orchestration would start a run."""
    resource = service.resource
    if not resource.get("enabled", True):
        return False
    crons = [resource.get(each) for each in ("sync_interval", "cron_expression", "cron_schedule")]
    own = [each for each in (*crons, *service.streams.values()) if each is not None]
    return resource.get("orchestration_workflow_id") is not None or any(each not in (OURS, THEIRS) for each in own)


def marks(service: Service) -> set[Any]:
    return {value for value in (*service.resource.values(), *service.streams.values()) if value in (OURS, THEIRS)}


Case = tuple[str, dict[str, Any], bool]


@pytest.fixture(params=ALL_CASES, ids=lambda given: f"{given[0]} {given[1]}{' paused' * given[2]}")
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


def of(case: Case) -> tuple[Service, Owner]:
    return new(case[0], case[1], paused=case[2])


def test_schedule_is_restored_and_each_step_is_idempotent(case: Case) -> None:
    service, owner = of(case)
    before = service.state
    assert is_due(service) or service.resource.get("sync_interval", "") is None
    snapshot = owner.take_snapshot()
    assert service.state == before
    result = owner.pause()
    assert (result["action"], result["changed"]) == ("paused", True)
    assert not is_due(service)
    assert service.resource.get("enabled", True) is not case[2]
    paused_state = service.state
    assert (owner.pause()["action"], service.state) == ("none", paused_state)
    # A snapshot task that is cleared during the pause keeps the original schedule.
    assert owner.take_snapshot() == snapshot
    result, warnings = owner.restore()
    assert (result["action"], result["changed"], warnings) == ("restored", True, [])
    assert service.state == before
    assert owner.restore()[0]["action"] == "none"
    assert service.state == before
    # A new snapshot has a new ID.
    assert owner.take_snapshot()["round"] != snapshot["round"]


def kills_during(step: str, case: Case, failure: str, task_state: TaskState) -> Iterator[tuple[Service, Owner, Any]]:
    """Kill a step at each of its requests. The last item is a step that was not killed."""
    for nth in range(1, 30):
        service, owner = of(case)
        before = service.state
        owner.take_snapshot()
        if step == "restore":
            owner.pause()
        owner.task_state = task_state
        service.fail(nth, failure)
        try:
            getattr(owner, step)()
            is_over = True
        except KilledError:
            is_over = False
        service.fail(0, "")
        yield service, owner, before
        if is_over:
            assert nth > (3 if step == "restore" else 2)
            return
    raise AssertionError("no end of the requests")


@pytest.mark.parametrize("then", ["restore", "again", "snapshot", "snapshot without a marker"])
@pytest.mark.parametrize("has_task_state", [True, False], ids=["task state", "none"])
@pytest.mark.parametrize("failure", ["killed", "killed before"])
def test_restore_after_a_kill_during_the_pause(case: Case, failure: str, then: str, *, has_task_state: bool) -> None:
    task_state = AirflowTaskState(Memory(), 2) if has_task_state else NoTaskState()
    for service, owner, before in kills_during("pause", case, failure, task_state):
        # Another task has its own task state.
        owner.task_state = NoTaskState()
        if then == "snapshot without a marker":
            owner.begun = None
        if then.startswith("snapshot"):
            owner.take_snapshot()
        if then != "restore":
            owner.pause()
            assert not is_due(service)
        owner.restore()
        assert service.state == before


@pytest.mark.parametrize("failure", ["killed", "killed before"])
def test_restore_after_a_kill_during_the_restore(case: Case, failure: str) -> None:
    for service, owner, before in kills_during("restore", case, failure, AirflowTaskState(Memory(), 2)):
        if service.state != before or owner.begun:
            owner.restore()
        assert service.state == before


def test_own_schedule_of_an_attached_sync_is_never_active() -> None:
    service, owner = paused_by_owner("elt_sync", ATTACHED)
    owner.restore()
    assert {own for attached, own in service.schedules_over_time if attached is None} == {OURS}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("elt_sync", {"config": {"region": "us"}, "enabled": False}),
        ("transform", {"sql_template": "SELECT 2", "name": "renamed"}),
        ("reverse_etl_sync", {"operation": INSERT, "settings": {"list": "2"}}),
        ("orchestration", {"name": "renamed"}),
    ],
)
def test_other_changes_by_a_user_are_kept(kind: str, changes: dict[str, Any]) -> None:
    service, owner = paused_by_owner(kind)
    service.resource |= changes
    owner.restore()
    expected = DEFAULTS[kind] | changes
    assert {name: service.resource[name] for name in expected} == expected


def test_a_sync_deactivated_during_a_pause_stays_inactive() -> None:
    service, owner = paused_by_owner("reverse_etl_sync")
    service.resource["enabled"] = False
    _, (warning,) = owner.restore()
    assert service.resource == DEFAULTS["reverse_etl_sync"] | {"enabled": False}
    assert "enabled was changed to False in the meantime, and is kept" in warning


@pytest.mark.parametrize("kind", SCHEDULE)
def test_a_changed_schedule_is_not_overwritten(kind: str) -> None:
    service, owner = paused_by_owner(kind)
    field, was = SCHEDULE[kind], DEFAULTS[kind][SCHEDULE[kind]]
    service.resource[field] = "0 9 * * *"
    changed = service.state
    service.asked.clear()
    with pytest.raises(ScheduleChangedError, match=r"0 9 \* \* \*") as refused:
        owner.restore()
    assert all(text in str(refused.value) for text in (was, OURS, field, "Nothing was overwritten"))
    result, (line,) = owner.restore("keep")
    assert result["action"] == "none"
    assert "These values are kept" in line
    assert {name.partition(".")[2] for name in service.asked} <= {"get", "list"}
    assert service.state == changed
    result, (line,) = owner.restore("restore")
    assert (result["action"], service.resource[field]) == ("restored", was)
    assert "are restored" in line
    with pytest.raises(ValueError, match="if_changed must be"):
        owner.restore("perhaps")


def test_snapshot_of_a_schedule_changed_by_a_user_is_replaced() -> None:
    service, owner = paused_by_owner("elt_sync")
    service.resource["sync_interval"] = "0 9 * * *"
    # All tasks are cleared, although the schedule was not restored.
    assert owner.take_snapshot()["original"]["sync_interval"] == "0 9 * * *"
    owner.pause()
    owner.restore()
    assert service.resource["sync_interval"] == "0 9 * * *"


def test_snapshot_rejects_an_edited_part_of_a_paused_schedule() -> None:
    service, owner = paused_by_owner("elt_sync", {"streams": {"s1": "0 1 * * *"}})
    service.streams["s1"] = "0 9 * * *"
    with pytest.raises(ScheduleChangedError, match=r"sync_interval of stream s1 is '0 9 \* \* \*'"):
        owner.take_snapshot()
    owner.restore("restore")
    assert service.streams == {"s1": "0 1 * * *"}


def test_change_between_snapshot_and_pause_is_refused() -> None:
    service, owner = new("transform")
    owner.take_snapshot()
    service.resource["cron_expression"] = "0 9 * * *"
    with pytest.raises(ScheduleChangedError, match="Clear the task that took the snapshot"):
        owner.pause()
    assert service.resource["cron_expression"] == "0 9 * * *"


def test_restore_ignores_deleted_and_new_streams() -> None:
    service, owner = paused_by_owner("elt_sync", {"streams": {"s1": "0 1 * * *", "s2": "0 2 * * *"}})
    del service.streams["s1"]
    service.streams["s3"] = "0 7 * * *"
    _, warnings = owner.restore()
    assert service.streams == {"s2": "0 2 * * *", "s3": "0 7 * * *"}
    assert warnings == ["sync_interval of stream s1 is not restored, because the stream was deleted."]


def refuse_as_gone(_: Request[Any]) -> None:
    raise GONE


def test_a_deleted_resource_needs_no_restore() -> None:
    service, owner = paused_by_owner("transform")
    service.before["transforms.get"] = refuse_as_gone
    result, warnings = owner.restore()
    assert (result["action"], warnings) == ("none", ["Transform x was deleted, so its schedule is not restored."])


@pytest.mark.parametrize("kind", SCHEDULE)
def test_a_paused_schedule_has_one_owner(kind: str) -> None:
    service = Service(kind)
    before = service.state
    first, second = Owner(service, OURS), Owner(service, THEIRS)
    first.take_snapshot()
    second.take_snapshot()
    first.pause()
    with pytest.raises(ScheduleOwnedError, match=f"is paused already.* by {OURS[:4]}"):
        second.pause()
    with pytest.raises(ScheduleOwnedError):
        second.take_snapshot()
    # The teardown of the second owner runs, too, but changes nothing for any value of if_changed.
    owned = service.state
    for if_changed in ("fail", "keep", "restore"):
        with pytest.raises(ScheduleOwnedError, match="Nothing was changed, regardless of if_changed"):
            second.restore(if_changed)
        assert service.state == owned
    assert marks(service) == {OURS}
    first.restore()
    assert service.state == before
    second.take_snapshot()
    second.pause()
    # A repeated teardown does not affect the pause of the next owner.
    with pytest.raises(ScheduleOwnedError):
        first.restore("restore")
    assert marks(service) == {THEIRS}
    second.restore()
    assert first.restore("restore")[0]["action"] == "none"
    assert service.state == before


def test_one_of_two_simultaneous_pauses_fails() -> None:
    service = Service("elt_sync")
    before = service.state
    first, second = Owner(service, OURS), Owner(service, THEIRS)
    first.take_snapshot()
    second.take_snapshot()
    # The other owner writes immediately after this one.
    reads = iter([{}, {"sync_interval": THEIRS}])
    service.before["elt_syncs.get"] = lambda _: service.resource.update(next(reads, {}))
    with pytest.raises(ScheduleOwnedError):
        first.pause()
    with pytest.raises(ScheduleOwnedError):
        first.restore()
    second.pause()
    second.restore()
    assert service.state == before


def test_pause_by_disabling_respects_another_owner() -> None:
    service = Service("elt_sync")
    first, second = Owner(service, OURS), Owner(service, THEIRS, paused=True)
    first.take_snapshot()
    second.take_snapshot()
    first.pause()
    with pytest.raises(ScheduleOwnedError):
        second.pause()
    assert service.resource["enabled"]


def test_if_changed_keep_keeps_only_the_changed_field() -> None:
    service, owner = paused_by_owner("elt_sync", ATTACHED | {"streams": {"s1": "0 1 * * *"}})
    service.resource["sync_interval"] = "0 9 * * *"
    result, (line,) = owner.restore("keep")
    assert (result["action"], "These values are kept" in line) == ("restored", True)
    assert service.resource["sync_interval"] == "0 9 * * *"
    assert (service.resource["orchestration_workflow_id"], service.streams) == ("o", {"s1": "0 1 * * *"})


def test_an_orchestration_assigned_during_a_pause_is_kept() -> None:
    service, owner = paused_by_owner("transform")
    service.resource["orchestration_workflow_id"] = "p"
    assert owner.restore()[0]["action"] == "restored"
    assert (service.resource["orchestration_workflow_id"], service.resource["cron_expression"]) == ("p", "0 4 * * *")


@pytest.mark.parametrize("if_changed", ["fail", "keep", "restore"])
@pytest.mark.parametrize(
    ("kind", "more"), [each for each in RESOURCES if each[1].get("orchestration_workflow_id")], ids=str
)
def test_restore_without_a_deleted_orchestration(kind: str, more: dict[str, Any], if_changed: str) -> None:
    resource, streams = Service(kind, **more).state
    service, owner = paused_by_owner(kind, more)

    def refuse(request: Request[Any]) -> None:
        if body_of(request).get("orchestration_workflow_id") is not None:
            raise REFUSED
        assert body_of(request).get("sync_interval") is not None, "the service refuses it without any schedule"

    service.before = dict.fromkeys(["orchestrations.get", f"{kind}s.attach_orchestration"], refuse_as_gone)
    service.before["reverse_etl_syncs.update"] = refuse
    for _ in range(2):
        if kind == "reverse_etl_sync" and more.get("sync_interval", "") is None:
            # The interface cannot remove the last schedule of a reverse ETL sync.
            with pytest.raises(
                ScheduleNotRestoredError, match=f"without orchestration o, which was deleted.*{OURS[:4]}.* of None"
            ):
                owner.restore(if_changed)
            assert (service.resource["sync_interval"], service.resource["enabled"]) == (OURS, True)
            continue
        if if_changed == "keep":
            assert owner.restore("keep")[1][0].endswith("was deleted. All other fields are restored.")
        else:
            with pytest.raises(
                ScheduleChangedError, match=r"Orchestration o, to which .* was deleted\. All other fields are"
            ):
                owner.restore(if_changed)
        assert service.state == (resource | {"orchestration_workflow_id": None}, streams)


def test_a_failed_attachment_to_an_orchestration_is_an_error() -> None:
    service, owner = paused_by_owner("elt_sync", ATTACHED)
    # The orchestration still exists.
    service.before["elt_syncs.attach_orchestration"] = refuse_as_gone
    with pytest.raises(NotFoundError):
        owner.restore()
    assert service.resource["sync_interval"] == OURS


def test_paused_schedule_without_a_snapshot_is_an_error() -> None:
    _, owner = paused_by_owner("elt_sync")
    owner.begun = owner.kept = None
    with pytest.raises(ScheduleLostError, match="Set the schedule in the service"):
        owner.take_snapshot()


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
def test_resource_without_a_schedule_is_not_changed(kind: str, more: dict[str, Any]) -> None:
    service, owner = new(kind, more)
    assert owner.take_snapshot()["paused"] == {}
    service.asked.clear()
    assert owner.pause()["action"] == "none"
    assert owner.restore()[0]["action"] == "none"
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
def test_unrestorable_schedule_is_not_paused(kind: str, more: dict[str, Any], *, paused: bool, problem: str) -> None:
    _, owner = new(kind, more, paused=paused)
    with pytest.raises(ScheduleNotPausableError, match=problem):
        owner.take_snapshot()


def test_given_schedule_of_an_orchestration_is_restored() -> None:
    service, owner = new("orchestration")
    service.shows_schedule = False
    with pytest.raises(ScheduleNotPausableError, match="Pass it as cron_schedule"):
        owner.take_snapshot()
    owner.cron = "0 6 * * *"
    owner.take_snapshot()
    owner.pause()
    assert service.resource["cron_schedule"] == OURS
    owner.restore()
    assert service.resource["cron_schedule"] == "0 6 * * *"


def test_a_restored_schedule_is_verified() -> None:
    service, owner = paused_by_owner("transform")
    service.resource["rebuild_trigger"] = "none"
    with pytest.raises(ScheduleNotRestoredError, match="rebuild_trigger 'none' in place of 'schedule'"):
        owner.restore()


def test_a_lost_response_leaves_a_sync_active() -> None:
    service, owner = new("reverse_etl_sync")
    before = service.state
    owner.take_snapshot()
    service.fail(4, "lost")
    with pytest.raises(TransportError):
        owner.pause()
    assert service.asked[3] == "reverse_etl_syncs.update"
    assert service.resource["enabled"]
    owner.restore()
    assert service.state == before


def test_task_restores_after_a_timeout_during_an_update() -> None:
    service, owner = new("reverse_etl_sync")
    owner.take_snapshot()
    service.fail(3, "killed")
    earlier = DeactivatedSyncs(NoTaskState())
    assert owner.snapshot is not None
    with pytest.raises(KilledError):
        service.run(schedules.pause(owner.snapshot, PauseContext(earlier, 60)))
    assert not service.resource["enabled"]
    service.run(restore(earlier))
    assert service.resource["enabled"]


def test_each_owner_has_a_unique_cron_expression() -> None:
    owners = [(run, index) for run in ("r1", "r2") for index in (-1, 0, 1)]
    crons = [schedules.owner_mark("dag", run, "snapshot", index) for run, index in owners]
    assert len(set(crons)) == 6
    assert crons == [schedules.owner_mark("dag", run, "snapshot", index) for run, index in owners]
    for cron in crons:
        assert croniter.is_valid(cron)
        assert cron.endswith(" 29 2 *")
        assert schedules._MARK.fullmatch(cron)
    assert not schedules._MARK.fullmatch("0 3 29 2 1")


@pytest.mark.parametrize(
    "given", [{}, {"resource": "elt_sync"}, "None", [1], dict.fromkeys(ScheduleSnapshot.__required_keys__)]
)
def test_invalid_snapshot_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="snapshot must be"):
        schedules.read_snapshot(given)
