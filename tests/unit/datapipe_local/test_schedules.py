"""Tests of scheduled runs and their times, with a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipe_local.common.errors import BadRequestError
from datapipe_local.engine.engine import Engine
from datapipe_local.engine.schedule import SETTING, Schedule, next_time
from datapipe_local.engine.stop import Stop
from datapipe_local.services import jobs, orchestrations, schedules
from datapipe_local.services.checks import check_cron
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import JobKind
from datapipe_local.storage.store import Store
from tests.support.examples import scaled
from tests.unit.datapipe_local.resources import Resources, SetClock

EVENING = "2026-03-20T22:15:30.000Z"
TWO = "2026-03-21T02:00:00.000Z"
DAY = 24 * 3600
HOURLY, NIGHTLY = "0 * * * *", "0 2 * * *"


@pytest.fixture
def clock() -> SetClock:
    return SetClock(EVENING)


@pytest.fixture
def scheduled(store: Store, clock: SetClock) -> Context:
    """Return a service with one of everything that can have a schedule."""
    made = Resources(store, ["nightly"])
    made.sync("daily", "rows", attached=None)
    made.sync("hourly", "rows", attached=None, sync_interval=HOURLY)
    made.sync("off", "rows", attached=None, sync_interval=HOURLY, enabled=False)
    made.sync("part", "rows", sync_interval=HOURLY)
    built: Any = {"object_tag": "model.by_itself", "object_schema": "models", "object_name": "by_itself"}
    made.transform("by_itself", attached=None, cron_expression="30 * * * *", **built)
    made.transform("never", attached=None)
    # None of these can have a schedule. A stored expression must not count.
    made.transform("draft", attached=None, published=False, cron_expression="30 * * * *")
    made.transform("view", attached=None, materialization="view", cron_expression="30 * * * *")
    made.transform("part_table", cron_expression="30 * * * *")
    made.export("out_hourly", "by_itself", orchestration_workflow_id=None, sync_interval=HOURLY)
    made.export("out_never", "by_itself", orchestration_workflow_id=None)
    made.export("out_off", "by_itself", orchestration_workflow_id=None, sync_interval=HOURLY, enabled=False)
    made.export("out_part", "by_itself", sync_interval=HOURLY)
    return Context(store, Mock(), clock)


@pytest.fixture
def schedule(scheduled: Context) -> Schedule:
    """Return the schedule, with its first due times."""
    schedule = Schedule(scheduled)
    schedule.fire()
    return schedule


def stored(context: Context) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (row["kind"], row["subject_id"]): (row["cron_expression"], row["due_at"])
        for row in context.store.database.rows("SELECT * FROM schedules")
    }


def effective(context: Context) -> dict[tuple[str, str], str]:
    return {(entry.kind, entry.subject_id): entry.cron_expression for entry in schedules.effective(context)}


def pending_jobs(context: Context) -> set[tuple[str, str]]:
    return {(job.kind, job.subject_id) for job in context.store.jobs.all()}


def runs(context: Context) -> list[tuple[str, str]]:
    return [(run.orchestration_id, run.due_at) for run in context.store.orchestration_runs.all("ORDER BY seq")]


def test_resources_with_an_effective_schedule(scheduled: Context) -> None:
    assert effective(scheduled) == {
        ("elt_stream_run", "daily.rows"): "0 0 * * *",
        ("elt_stream_run", "hourly.rows"): HOURLY,
        ("materialization", "by_itself"): "30 * * * *",
        ("reverse_etl_sync_run", "out_hourly"): HOURLY,
        ("orchestration", "nightly"): NIGHTLY,
    }
    # A stream with its own schedule has it even if its sync is attached, but not if its sync is disabled.
    for stream in ("daily.rows", "part.rows", "off.rows"):
        scheduled.store.elt_streams.update(stream, sync_interval="*/5 * * * *")
    own = {subject for (_, subject), cron in effective(scheduled).items() if cron == "*/5 * * * *"}
    assert own == {"daily.rows", "part.rows"}
    scheduled.store.transforms.update("by_itself", deleted_at=EVENING)
    assert ("materialization", "by_itself") not in effective(scheduled)


def test_no_run_starts_beside_an_unfinished_one(scheduled: Context, clock: SetClock, schedule: Schedule) -> None:
    clock.moment = later(TWO, -600)
    schedule.fire()
    orchestrations.request_run(scheduled, "nightly")
    jobs.add(scheduled, JobKind.ELT_STREAM_RUN, "hourly.rows", clock.now())
    before = scheduled.store.jobs.all()
    clock.moment = TWO
    assert schedule.fire() is not None
    assert [job for job in scheduled.store.jobs.all() if job.subject_id == "hourly.rows"] == before
    assert len(runs(scheduled)) == 1
    # Once that run ended, the next time counts again.
    scheduled.store.orchestration_runs.update(scheduled.store.orchestration_runs.all()[0].id, finished_at=clock.now())
    clock.forward(DAY)
    schedule.fire()
    assert runs(scheduled)[1:] == [("nightly", later(TWO, DAY))]


def test_a_sync_without_its_source_does_not_start(
    scheduled: Context, clock: SetClock, schedule: Schedule, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    scheduled.store.transforms.update("by_itself", object_schema=None, object_name=None)
    for moment in ("2026-03-20T22:59:59.000Z", "2026-03-20T23:00:00.000Z"):
        clock.moment = moment
        schedule.fire()
    assert pending_jobs(scheduled) == {("elt_stream_run", "hourly.rows")}
    reason = "its source, the transform 'by_itself', is not in"
    assert f"Skipped: reverse_etl_sync_run of out_hourly: {reason}" in caplog.text


@pytest.mark.parametrize(
    ("seconds", "due_times"),
    [
        (-0.001, []),
        (0, [TWO]),
        (50, [TWO]),
        (61, []),
        # Earlier runs were missed as well.
        (2 * DAY + 50, [later(TWO, 2 * DAY)]),
        (2 * DAY + 61, []),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_starts_when_due_or_up_to_a_minute_later(
    scheduled: Context, clock: SetClock, seconds: float, due_times: list[str], restarted: bool
) -> None:
    clock.moment = later(TWO, -5)
    schedule = Schedule(scheduled)
    schedule.fire()
    clock.moment = later(TWO, seconds)
    # Once only.
    for following in (Schedule(scheduled) if restarted else schedule, schedule, Schedule(scheduled)):
        following.fire()
        assert runs(scheduled) == [("nightly", due_at) for due_at in due_times]


def test_a_clock_that_is_set_back_delays_nothing(scheduled: Context, clock: SetClock) -> None:
    clock.moment = "2038-01-19T03:14:07.000Z"
    schedule = Schedule(scheduled)
    schedule.fire()
    assert stored(scheduled)["orchestration", "nightly"][1] == "2038-01-20T02:00:00.000Z"
    clock.moment = EVENING
    assert schedule.fire() == "2026-03-20T22:30:00.000Z"
    clock.moment = "2038-01-19T03:14:07.000Z"
    schedule.fire()
    # The same for a process that did not see the wrong time.
    clock.moment = EVENING
    assert Schedule(scheduled).fire() == "2026-03-20T22:30:00.000Z"


def insert_copy(context: Context, what: str, subject: str, **more: Any) -> None:
    records = getattr(context.store, what)
    records.insert(replace(records.get(subject), id="new", **more))


CHANGES_WITH_EFFECT: dict[str, Callable[[Context], object]] = {
    "other interval": lambda context: context.store.elt_syncs.update("hourly", sync_interval="16 22 * * *"),
    "disabled": lambda context: context.store.elt_syncs.update("hourly", enabled=False),
    "new stream": lambda context: insert_copy(context, "elt_streams", "daily.rows", name="new"),
    "new transform": lambda context: insert_copy(context, "transforms", "by_itself", name="new", object_tag=None),
    "new reverse ETL sync": lambda context: insert_copy(context, "reverse_etl_syncs", "out_hourly"),
    "new orchestration": lambda context: orchestrations.create(context, name="New", cron_schedule=HOURLY),
}


@pytest.mark.parametrize("change", CHANGES_WITH_EFFECT)
def test_changes_take_effect_at_once(scheduled: Context, schedule: Schedule, change: str) -> None:
    before = effective(scheduled)
    scheduled.wake.clear()
    CHANGES_WITH_EFFECT[change](scheduled)
    assert scheduled.wake.is_set()
    due_at = schedule.fire()
    assert {key: cron for key, (cron, _) in stored(scheduled).items()} == effective(scheduled) != before
    assert due_at == ("2026-03-20T22:16:00.000Z" if change == "other interval" else "2026-03-20T22:30:00.000Z")


def test_changes_without_effect_do_not_wake_the_engine(scheduled: Context, schedule: Schedule) -> None:
    scheduled.wake.clear()
    scheduled.store.elt_streams.update("hourly.rows", loaded=True, full_refresh_requested=True)
    scheduled.store.elt_syncs.update("hourly", enabled=True, updated_at=TWO)
    assert not scheduled.wake.is_set()


@pytest.mark.parametrize("cron", ["0 3 * * *", "0 0 30 2 *"], ids=["later", "never"])
def test_a_schedule_changed_when_due_does_not_start(
    scheduled: Context, clock: SetClock, schedule: Schedule, cron: str
) -> None:
    clock.moment = TWO
    scheduled.store.orchestrations.update("nightly", cron_schedule=cron)
    schedule.fire()
    assert runs(scheduled) == []
    assert stored(scheduled)["orchestration", "nightly"][1] > TWO


def test_schedules_can_be_off(scheduled: Context, clock: SetClock, schedule: Schedule) -> None:
    scheduled.store.set(SETTING, False)
    clock.moment = TWO
    assert schedule.fire() is None
    scheduled.store.set(SETTING, True)
    clock.forward(3600)
    assert schedule.fire() is not None
    clock.forward(DAY - 3600)
    Engine(scheduled, {}, schedules=False)._step(Stop())
    assert runs(scheduled) == []


@pytest.mark.parametrize(
    ("cron", "now", "expected"),
    [
        ("30 6 29 2 *", "2026-03-20T22:15:30.123Z", "2028-02-29T06:30:00.000Z"),
        ("15 22 * * *", "2026-03-20T22:15:00.000Z", "2026-03-21T22:15:00.000Z"),
        ("15 22 * * *", "2026-03-20T22:14:59.999Z", "2026-03-20T22:15:00.000Z"),
    ],
)
def test_times_are_utc(cron: str, now: str, expected: str) -> None:
    assert next_time(cron, now) == expected


FIELD = st.one_of(
    st.sampled_from("* ? L */7 1-5 mon sun-tue jan 1#2 L5 W R H 29 31 0".split()),  # noqa: SIM905 - one line
    st.text("0123456789*/,-#LWRH?jansu ", max_size=12),
    st.text(max_size=4),
)


@settings(max_examples=scaled(300))
@given(st.one_of(st.lists(FIELD, min_size=5, max_size=5).map(" ".join), st.text()))
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    with suppress(BadRequestError):
        check_cron("cron_schedule", text)
        due_at = next_time(text, EVENING)
        assert due_at > EVENING
        assert due_at.endswith((":00.000Z", "59.999Z"))


CRON = st.sampled_from([None, HOURLY, NIGHTLY])
ATTACHMENT = st.sampled_from([None, "nightly"])
SYNC = {"enabled": st.booleans(), "sync_interval": CRON, "orchestration_workflow_id": ATTACHMENT}
#: Columns that schedules depend on, and the resources to change.
COLUMNS: dict[str, tuple[list[str], dict[str, st.SearchStrategy[Any]]]] = {
    "elt_syncs": (["daily", "hourly", "off", "part"], SYNC),
    "elt_streams": (["daily.rows", "off.rows", "part.rows"], {"sync_interval": CRON}),
    "transforms": (
        ["by_itself", "never", "draft", "view", "part_table"],
        {
            "cron_expression": CRON,
            "orchestration_workflow_id": ATTACHMENT,
            "materialization": st.sampled_from(["view", "table"]),
            "deleted_at": st.sampled_from([None, EVENING]),
            "published_version_id": st.sampled_from([None, "some"]),
        },
    ),
    "reverse_etl_syncs": (["out_hourly", "out_off", "out_part"], SYNC),
    "orchestrations": (["nightly"], {"cron_schedule": st.sampled_from([HOURLY, NIGHTLY])}),
}
CHANGES = st.one_of(
    *(
        st.tuples(st.just(what), st.sampled_from(ids), st.fixed_dictionaries({column: values}))
        for what, (ids, columns) in COLUMNS.items()
        for column, values in columns.items()
    ),
    st.tuples(st.just("DELETE"), st.sampled_from(["elt_streams", "elt_syncs", "reverse_etl_syncs"]), st.just({})),
)


class UndoneError(Exception):
    """Rolls an example back."""


@settings(max_examples=scaled(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.lists(CHANGES, min_size=1, max_size=2), max_size=8))
def test_stored_schedules_follow_all_changes(scheduled: Context, changes: Any) -> None:
    schedule = Schedule(scheduled)
    database = scheduled.store.database
    with suppress(UndoneError), scheduled.store.transaction():
        for some in changes:
            for what, subject, fields in some:
                if what == "DELETE":
                    database.run(f"DELETE FROM {subject} WHERE seq = (SELECT min(seq) FROM {subject})")  # noqa: S608 - a table name of the test
                else:
                    getattr(scheduled.store, what).update(subject, **fields)
            schedule.fire()
            assert {key: cron for key, (cron, _) in stored(scheduled).items()} == effective(scheduled)
        raise UndoneError


def test_the_engine_sleeps_until_the_next_due_time(scheduled: Context, clock: SetClock) -> None:
    clock.moment = "2026-03-20T22:29:59.500Z"
    assert Engine(scheduled, {})._step(Stop()) == 0.5


def test_a_defect_blocks_no_requested_run(scheduled: Context, clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(scheduled, {})
    with monkeypatch.context() as broken:
        broken.setattr(schedules, "start", Mock(side_effect=ZeroDivisionError))
        engine._step(Stop())
        clock.moment = TWO
        orchestrations.request_run(scheduled, "nightly")
        assert engine._step(Stop()) <= 1
        (run,) = scheduled.store.orchestration_runs.all()
        assert run.status == "RUNNING"
    # The scheduled time still counts. Its run is refused, as the requested one has not ended.
    clock.forward(1)
    engine._step(Stop())
    assert stored(scheduled)["orchestration", "nightly"][1] == later(TWO, DAY)
