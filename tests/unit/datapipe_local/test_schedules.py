"""Tests of scheduled runs and their times, with a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipe_local.common.errors import BadRequestError
from datapipe_local.engine.engine import Engine
from datapipe_local.engine.schedule import SETTING, Schedule, next_time
from datapipe_local.engine.stop import Stop
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import GivenDocument
from datapipe_local.services import jobs, orchestrations, schedules
from datapipe_local.services.checks import check_cron
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import JobKind
from tests.support.examples import scaled
from tests.unit.datapipe_local.resources import SetClock

EVENING = "2026-03-20T22:15:30.000Z"
TWO = "2026-03-21T02:00:00.000Z"
DAY = 24 * 3600
HOURLY, NIGHTLY = "0 * * * *", "0 2 * * *"


def sync(name: str, **more: Any) -> dict[str, Any]:
    stream = {"id": f"{name}_rows", "name": "all_rows", "file": "rows.csv"}
    return {"id": name, "connection_id": "data", "destination_schema_name": name, "source_streams": [stream], **more}


def table(name: str, **more: Any) -> dict[str, Any]:
    fields = {"materialization": "table", "publish": True, "sql_template": "SELECT 1 AS x"}
    return {"id": name, "name": name, **fields, **more}


def export(name: str, **more: Any) -> dict[str, Any]:
    mapping = {"source_property_id": "x", "destination_property_id": "x", "primary_key": True}
    return {
        "id": name,
        "source_id": "by_itself",
        "destination_connection_id": "out",
        "object_type_id": name,
        "operation": {"mode": "upsert", "mappings": [mapping]},
        **more,
    }


ATTACHED = {"orchestration_workflow_id": "nightly"}
SEED: dict[str, Any] = {
    "connections": [
        {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": "."}},
        {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": "out"}},
    ],
    "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": NIGHTLY}],
    "elt_syncs": [
        sync("daily"),
        sync("hourly", sync_interval=HOURLY),
        sync("off", sync_interval=HOURLY, enabled=False),
        sync("part", sync_interval=HOURLY, **ATTACHED),
    ],
    "transforms": [
        table("by_itself"),
        table("never"),
        table("draft", publish=False),
        table("view", materialization="view"),
        table("part_table", **ATTACHED),
    ],
    "reverse_etl_syncs": [
        export("out_hourly", sync_interval=HOURLY),
        export("out_never"),
        export("out_off", sync_interval=HOURLY, enabled=False),
        export("out_part", sync_interval=HOURLY, **ATTACHED),
    ],
}


@pytest.fixture
def clock() -> SetClock:
    return SetClock(EVENING)


@pytest.fixture
def scheduled(context: Context, clock: SetClock, tmp_path: Path) -> Context:
    """Return a service with one of everything that can have a schedule, and no jobs."""
    context = replace(context, clock=clock)
    Seeding(context, GivenDocument(SEED, tmp_path)).apply()
    context.store.database.run("DELETE FROM jobs")
    context.store.transforms.update("by_itself", cron_expression="30 * * * *")
    built = {"object_tag": "model.by_itself", "object_schema": "models", "object_name": "by_itself"}
    context.store.transforms.update("by_itself", **built)
    # None of these can have a schedule. A stored expression must not count.
    for name in ("draft", "view", "part_table"):
        context.store.transforms.update(name, cron_expression="30 * * * *")
    return context


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


def owed(context: Context) -> set[tuple[str, str]]:
    return {(job.kind, job.subject_id) for job in context.store.jobs.all()}


def runs(context: Context) -> list[tuple[str, str]]:
    return [(run.orchestration_id, run.due_at) for run in context.store.orchestration_runs.all("ORDER BY seq")]


def test_resources_with_an_effective_schedule(scheduled: Context) -> None:
    assert effective(scheduled) == {
        ("elt_stream_run", "daily_rows"): "0 0 * * *",
        ("elt_stream_run", "hourly_rows"): HOURLY,
        ("materialization", "by_itself"): "30 * * * *",
        ("reverse_etl_sync_run", "out_hourly"): HOURLY,
        ("orchestration", "nightly"): NIGHTLY,
    }
    # A stream with its own schedule has it even if its sync is attached, but not if its sync is disabled.
    for stream in ("daily_rows", "part_rows", "off_rows"):
        scheduled.store.elt_streams.update(stream, sync_interval="*/5 * * * *")
    own = {subject for (_, subject), cron in effective(scheduled).items() if cron == "*/5 * * * *"}
    assert own == {"daily_rows", "part_rows"}
    scheduled.store.transforms.update("by_itself", deleted_at=EVENING)
    assert ("materialization", "by_itself") not in effective(scheduled)


def test_a_run_starts_at_its_time_and_not_before(scheduled: Context, clock: SetClock, schedule: Schedule) -> None:
    for moment in (EVENING, "2026-03-20T22:29:59.999Z"):
        clock.moment = moment
        assert schedule.fire() == "2026-03-20T22:30:00.000Z"
        assert owed(scheduled) == set()
    clock.forward(0.001)
    assert schedule.fire() == "2026-03-20T23:00:00.000Z"
    assert owed(scheduled) == {("materialization", "by_itself")}
    (job,) = scheduled.store.jobs.all()
    assert (job.due_at, job.begun, job.orchestration_run_id) == (clock.now(), False, None)
    clock.moment = "2026-03-20T23:00:00.250Z"
    assert schedule.fire() == "2026-03-20T23:30:00.000Z"
    hourly = {("elt_stream_run", "hourly_rows"), ("reverse_etl_sync_run", "out_hourly")}
    assert owed(scheduled) == {("materialization", "by_itself"), *hourly}
    clock.moment = "2026-03-21T00:00:00.000Z"
    schedule.fire()
    assert ("elt_stream_run", "daily_rows") in owed(scheduled)
    assert runs(scheduled) == []
    clock.moment = later(TWO, 12.5)
    schedule.fire()
    # The due time of an orchestration run is that of its schedule.
    assert runs(scheduled) == [("nightly", TWO)]


def test_no_run_starts_beside_an_unfinished_one(scheduled: Context, clock: SetClock, schedule: Schedule) -> None:
    clock.moment = later(TWO, -600)
    schedule.fire()
    orchestrations.request_run(scheduled, "nightly")
    jobs.add(scheduled, JobKind.ELT_STREAM_RUN, "hourly_rows", clock.now())
    before = scheduled.store.jobs.all()
    clock.moment = TWO
    assert schedule.fire() is not None
    assert [job for job in scheduled.store.jobs.all() if job.subject_id == "hourly_rows"] == before
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
    assert owed(scheduled) == {("elt_stream_run", "hourly_rows")}
    assert (
        "Not begun: reverse_etl_sync_run of out_hourly: its source, the transform 'by_itself', is not in" in caplog.text
    )


@pytest.mark.parametrize(("seconds", "expected"), [(50, [("nightly", TWO)]), (61, [])])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_starts_within_a_minute_or_is_missed(
    scheduled: Context, clock: SetClock, seconds: float, expected: list[tuple[str, str]], restarted: bool
) -> None:
    clock.moment = later(TWO, -5)
    schedule = Schedule(scheduled)
    schedule.fire()
    clock.moment = later(TWO, seconds)
    # Once only.
    for following in (Schedule(scheduled) if restarted else schedule, schedule, Schedule(scheduled)):
        following.fire()
        assert runs(scheduled) == expected


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
    "new stream": lambda context: insert_copy(context, "elt_streams", "daily_rows", name="new"),
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
    scheduled.store.elt_streams.update("hourly_rows", loaded=True, full_refresh_requested=True)
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
#: Columns that schedules depend on, and the resources to change.
COLUMNS: dict[str, tuple[list[str], dict[str, st.SearchStrategy[Any]]]] = {
    "elt_syncs": (
        ["daily", "hourly", "off", "part"],
        {"enabled": st.booleans(), "sync_interval": CRON, "orchestration_workflow_id": ATTACHMENT},
    ),
    "elt_streams": (["daily_rows", "off_rows", "part_rows"], {"sync_interval": CRON}),
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
    "reverse_etl_syncs": (
        ["out_hourly", "out_off", "out_part"],
        {"enabled": st.booleans(), "sync_interval": CRON, "orchestration_workflow_id": ATTACHMENT},
    ),
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
                    database.run(f"DELETE FROM {subject} WHERE seq = (SELECT min(seq) FROM {subject})")  # noqa: S608
                else:
                    getattr(scheduled.store, what).update(subject, **fields)
            schedule.fire()
            assert {key: cron for key, (cron, _) in stored(scheduled).items()} == effective(scheduled)
        raise UndoneError


def test_the_engine_sleeps_until_the_next_due_time(scheduled: Context, clock: SetClock) -> None:
    clock.moment = "2026-03-20T22:29:59.500Z"
    assert Engine(scheduled, {})._step(Stop()) == 0.5


def test_a_defect_in_schedules_does_not_block_requested_runs(
    scheduled: Context, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
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
