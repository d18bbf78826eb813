"""Scheduled runs and their times, with a simulated clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipe_local.clock import later
from datapipe_local.engine.elt import StreamLoader
from datapipe_local.engine.engine import Engine
from datapipe_local.engine.materialization import Materializer
from datapipe_local.engine.schedule import SETTING, Schedule, next_time
from datapipe_local.engine.stop import Stop
from datapipe_local.errors import BadRequestError
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import GivenDocument
from datapipe_local.service import jobs, orchestrations, schedules
from datapipe_local.service.checks import check_cron
from datapipe_local.service.context import Context
from datapipe_local.store.records import JobKind
from tests.support.examples import scaled
from tests.unit.datapipe_local.clocks import SetClock
from tests.unit.datapipe_local.test_engine import until

EVENING = "2026-03-20T22:15:30.000Z"
MIDNIGHT = "2026-03-21T00:00:00.000Z"
TWO = "2026-03-21T02:00:00.000Z"
HOURLY = "0 * * * *"


def sync(name: str, **more: Any) -> dict[str, Any]:
    stream = {"id": f"{name}_rows", "name": "all_rows", "file": "rows.csv"}
    return {
        "id": name,
        "connection_id": "data",
        "destination_schema_name": name,
        "source_streams": [stream],
        **more,
    }


def table(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "materialization": "table",
        "publish": True,
        "sql_template": "SELECT 1 AS x",
        **more,
    }


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
    "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
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
    """A service with one of everything that can have a schedule, and nothing to do."""
    (tmp_path / "rows.csv").write_text("a\n1\n2\n")
    context = replace(context, clock=clock)
    Seeding(context, GivenDocument(SEED, tmp_path)).apply()
    # Had they just been published by a request, they would be built first.
    context.store.database.run("DELETE FROM jobs")
    context.store.transforms.update("by_itself", cron_expression="30 * * * *")
    stands = {"object_tag": "model.by_itself", "object_schema": "models", "object_name": "by_itself"}
    context.store.transforms.update("by_itself", **stands)
    # None of these can have a schedule; whatever stands there must not count.
    for name in ("draft", "view", "part_table"):
        context.store.transforms.update(name, cron_expression="30 * * * *")
    return context


def table_of(context: Context) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (row["kind"], row["subject_id"]): (row["cron_expression"], row["due_at"])
        for row in context.store.database.rows("SELECT * FROM schedules")
    }


def owed(context: Context) -> set[tuple[str, str]]:
    return {(job.kind, job.subject_id) for job in context.store.jobs.all()}


def runs(context: Context) -> list[tuple[str, str]]:
    return [(run.orchestration_id, run.due_at) for run in context.store.orchestration_runs.all("ORDER BY seq")]


def test_what_runs_by_itself(scheduled: Context) -> None:
    found = {(entry.kind, entry.subject_id): entry.cron_expression for entry in schedules.effective(scheduled)}
    assert found == {
        ("elt_stream_run", "daily_rows"): "0 0 * * *",
        ("elt_stream_run", "hourly_rows"): HOURLY,
        ("materialization", "by_itself"): "30 * * * *",
        ("reverse_etl_sync_run", "out_hourly"): HOURLY,
        ("orchestration", "nightly"): "0 2 * * *",
    }
    # A stream with a schedule of its own has it whatever its sync is a part of; not if the sync is disabled.
    for stream in ("daily_rows", "part_rows", "off_rows"):
        scheduled.store.elt_streams.update(stream, sync_interval="*/5 * * * *")
    own = {entry.subject_id for entry in schedules.effective(scheduled) if entry.cron_expression == "*/5 * * * *"}
    assert own == {"daily_rows", "part_rows"}
    scheduled.store.transforms.update("by_itself", deleted_at=EVENING)
    assert "by_itself" not in {entry.subject_id for entry in schedules.effective(scheduled)}


def test_it_begins_at_its_time_and_not_before(scheduled: Context, clock: SetClock) -> None:
    schedule = Schedule(scheduled)
    assert schedule.fire() == "2026-03-20T22:30:00.000Z"
    assert owed(scheduled) == set()
    clock.moment = "2026-03-20T22:29:59.999Z"
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
    clock.moment = MIDNIGHT
    schedule.fire()
    assert ("elt_stream_run", "daily_rows") in owed(scheduled)
    assert runs(scheduled) == []
    clock.moment = later(TWO, 12.5)
    schedule.fire()
    # A run of an orchestration was due when its schedule says so.
    assert runs(scheduled) == [("nightly", TWO)]


def test_what_is_not_over_is_not_begun_again(scheduled: Context, clock: SetClock) -> None:
    schedule = Schedule(scheduled)
    clock.moment = later(TWO, -600)
    schedule.fire()
    orchestrations.request_run(scheduled, "nightly")
    jobs.add(scheduled, JobKind.ELT_STREAM_RUN, "hourly_rows", clock.now())
    before = scheduled.store.jobs.all()
    clock.moment = TWO
    assert schedule.fire() is not None
    assert [job for job in scheduled.store.jobs.all() if job.subject_id == "hourly_rows"] == before
    assert len(runs(scheduled)) == 1
    # Once it is over, the next time is as any other.
    scheduled.store.orchestration_runs.update(scheduled.store.orchestration_runs.all()[0].id, finished_at=clock.now())
    clock.forward(24 * 3600)
    schedule.fire()
    assert runs(scheduled)[1:] == [("nightly", later(TWO, 24 * 3600))]


def test_what_has_no_source_is_not_begun(scheduled: Context, clock: SetClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    schedule = Schedule(scheduled)
    schedule.fire()
    scheduled.store.transforms.update("by_itself", object_schema=None, object_name=None)
    clock.moment = "2026-03-20T22:59:59.000Z"
    schedule.fire()
    clock.moment = "2026-03-20T23:00:00.000Z"
    schedule.fire()
    assert owed(scheduled) == {("elt_stream_run", "hourly_rows")}
    assert (
        "Not begun: reverse_etl_sync_run of out_hourly: its source, the transform 'by_itself', is not in" in caplog.text
    )


def test_what_was_missed_is_not_made_up_for(scheduled: Context, clock: SetClock) -> None:
    schedule = Schedule(scheduled)
    schedule.fire()
    # Another process would come too late as well.
    for looking, due_at in ((schedule, "2026-03-21T00:30:00.000Z"), (Schedule(scheduled), "2026-03-21T05:00:00.000Z")):
        clock.moment = later(due_at, -60 * 28)
        assert looking.fire() == due_at
        assert owed(scheduled) == set()
        clock.moment = later(due_at, 61)
        looking.fire()
        assert owed(scheduled) == set()
    assert runs(scheduled) == []


def test_a_restart_within_the_minute_misses_nothing(scheduled: Context, clock: SetClock) -> None:
    clock.moment = later(TWO, -5)
    Schedule(scheduled).fire()
    clock.moment = later(TWO, 50)
    following = Schedule(scheduled)
    following.fire()
    assert runs(scheduled) == [("nightly", TWO)]
    following.fire()
    Schedule(scheduled).fire()
    assert runs(scheduled) == [("nightly", TWO)]


def test_a_clock_that_is_set_back_keeps_nothing_waiting(scheduled: Context, clock: SetClock) -> None:
    clock.moment = "2038-01-19T03:14:07.000Z"
    schedule = Schedule(scheduled)
    schedule.fire()
    assert table_of(scheduled)["orchestration", "nightly"][1] == "2038-01-20T02:00:00.000Z"
    clock.moment = EVENING
    assert schedule.fire() == "2026-03-20T22:30:00.000Z"
    clock.moment = "2038-01-19T03:14:07.000Z"
    schedule.fire()
    # The same for a process that never saw the wrong time.
    clock.moment = EVENING
    assert Schedule(scheduled).fire() == "2026-03-20T22:30:00.000Z"


def test_changes_count_at_once(scheduled: Context, clock: SetClock) -> None:
    schedule = Schedule(scheduled)
    schedule.fire()
    scheduled.wake.clear()
    scheduled.store.elt_syncs.update("hourly", sync_interval="16 22 * * *")
    assert scheduled.wake.is_set()
    assert schedule.fire() == "2026-03-20T22:16:00.000Z"
    scheduled.wake.clear()
    scheduled.store.elt_syncs.update("hourly", enabled=False)
    assert scheduled.wake.is_set()
    assert schedule.fire() == "2026-03-20T22:30:00.000Z"
    scheduled.wake.clear()
    # What is no matter of schedules wakes nobody; nor what was written as it stood there.
    scheduled.store.elt_streams.update("hourly_rows", loaded=True, full_refresh_requested=True)
    scheduled.store.elt_syncs.update("hourly", enabled=False, updated_at=MIDNIGHT)
    assert not scheduled.wake.is_set()


def test_what_is_new_counts_at_once(scheduled: Context) -> None:
    schedule = Schedule(scheduled)
    schedule.fire()
    store = scheduled.store
    stream, table, export = (
        store.elt_streams.get("daily_rows"),
        store.transforms.get("by_itself"),
        store.reverse_etl_syncs.get("out_hourly"),
    )
    assert stream is not None
    assert table is not None
    assert export is not None
    additions: list[Callable[[], object]] = [
        lambda: store.elt_streams.insert(replace(stream, id="new", name="new")),
        lambda: store.transforms.insert(replace(table, id="new", name="new", object_tag=None)),
        lambda: store.reverse_etl_syncs.insert(replace(export, id="new")),
        lambda: orchestrations.create(scheduled, name="New", cron_schedule=HOURLY),
    ]
    for number, add in enumerate(additions, start=len(table_of(scheduled)) + 1):
        scheduled.wake.clear()
        add()
        assert scheduled.wake.is_set()
        schedule.fire()
        assert len(table_of(scheduled)) == number


def test_what_is_changed_in_its_due_moment_does_not_start(scheduled: Context, clock: SetClock) -> None:
    schedule = Schedule(scheduled)
    schedule.fire()
    clock.moment = TWO
    scheduled.store.orchestrations.update("nightly", cron_schedule="0 3 * * *")
    schedule.fire()
    assert runs(scheduled) == []


def test_an_expression_that_never_comes(scheduled: Context, clock: SetClock) -> None:
    assert next_time("0 0 30 2 *", EVENING) > "9999"
    scheduled.store.orchestrations.update("nightly", cron_schedule="0 0 30 2 *")
    clock.moment = TWO
    Schedule(scheduled).fire()
    assert runs(scheduled) == []


def test_all_of_it_can_be_off(scheduled: Context, clock: SetClock) -> None:
    schedule = Schedule(scheduled)
    schedule.fire()
    scheduled.store.set(SETTING, False)
    clock.moment = TWO
    assert schedule.fire() is None
    clock.moment = later(TWO, 3600)
    scheduled.store.set(SETTING, True)
    assert schedule.fire() is not None
    assert runs(scheduled) == []
    engine = Engine(scheduled, {}, schedules=False)
    clock.moment = later(TWO, 24 * 3600)
    engine._step(Stop())
    assert runs(scheduled) == []


def test_times_are_utc() -> None:
    assert next_time("30 6 29 2 *", "2026-03-20T22:15:30.123Z") == "2028-02-29T06:30:00.000Z"
    assert next_time("15 22 * * *", "2026-03-20T22:15:00.000Z") == "2026-03-21T22:15:00.000Z"
    assert next_time("15 22 * * *", "2026-03-20T22:14:59.999Z") == "2026-03-20T22:15:00.000Z"


FIELD = st.one_of(
    st.sampled_from(
        ["*", "?", "L", "*/7", "1-5", "mon", "sun-tue", "jan", "1#2", "L5", "W", "R", "H", "29", "31", "0"]
    ),
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


CRONS = st.sampled_from([None, HOURLY, "0 2 * * *"])
CHANGES = st.one_of(
    st.tuples(
        st.just("elt_syncs"),
        st.sampled_from(["daily", "hourly", "off", "part"]),
        st.one_of(
            st.fixed_dictionaries({"enabled": st.booleans()}),
            st.fixed_dictionaries({"sync_interval": CRONS}),
            st.fixed_dictionaries({"orchestration_workflow_id": st.sampled_from([None, "nightly"])}),
        ),
    ),
    st.tuples(
        st.just("elt_streams"),
        st.sampled_from(["daily_rows", "off_rows", "part_rows"]),
        st.fixed_dictionaries({"sync_interval": CRONS}),
    ),
    st.tuples(
        st.just("transforms"),
        st.sampled_from(["by_itself", "never", "draft", "view", "part_table"]),
        st.one_of(
            st.fixed_dictionaries({"cron_expression": CRONS}),
            st.fixed_dictionaries({"orchestration_workflow_id": st.sampled_from([None, "nightly"])}),
            st.fixed_dictionaries({"materialization": st.sampled_from(["view", "table"])}),
            st.fixed_dictionaries({"deleted_at": st.sampled_from([None, EVENING])}),
            st.fixed_dictionaries({"published_version_id": st.sampled_from([None, "some"])}),
        ),
    ),
    st.tuples(
        st.just("reverse_etl_syncs"),
        st.sampled_from(["out_hourly", "out_off", "out_part"]),
        st.one_of(
            st.fixed_dictionaries({"enabled": st.booleans()}),
            st.fixed_dictionaries({"sync_interval": CRONS}),
            st.fixed_dictionaries({"orchestration_workflow_id": st.sampled_from([None, "nightly"])}),
        ),
    ),
    st.tuples(
        st.just("orchestrations"),
        st.just("nightly"),
        st.fixed_dictionaries({"cron_schedule": st.sampled_from([HOURLY, "0 2 * * *"])}),
    ),
    st.tuples(st.just("DELETE"), st.sampled_from(["elt_streams", "elt_syncs", "reverse_etl_syncs"]), st.just({})),
)


class UndoneError(Exception):
    """Nothing of this is to stay."""


@settings(max_examples=scaled(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.lists(CHANGES, min_size=1, max_size=2), max_size=8))
def test_whatever_changes_the_next_look_knows_of_it(scheduled: Context, changes: Any) -> None:
    schedule = Schedule(scheduled)
    database = scheduled.store.database
    # The next example begins where this one did.
    with suppress(UndoneError), scheduled.store.transaction():
        for some in changes:
            for what, subject, fields in some:
                if what == "DELETE":
                    database.run(f"DELETE FROM {subject} WHERE seq = (SELECT min(seq) FROM {subject})")  # noqa: S608
                else:
                    getattr(scheduled.store, what).update(subject, **fields)
            schedule.fire()
            expected = {(entry.kind, entry.subject_id): entry[2] for entry in schedules.effective(scheduled)}
            assert {key: cron for key, (cron, _) in table_of(scheduled).items()} == expected
        raise UndoneError


@pytest.fixture
def start(scheduled: Context, tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    engines: list[Engine] = []

    def started() -> Engine:
        executors: dict[str, Any] = {
            JobKind.ELT_STREAM_RUN: StreamLoader(scheduled),
            JobKind.MATERIALIZATION: Materializer(scheduled),
        }
        engine = Engine(scheduled, executors)
        engines.append(engine)
        engine.start()
        return engine

    yield started
    for engine in engines:
        assert engine.stop()


def test_the_engine_does_what_is_due(scheduled: Context, clock: SetClock, start: Callable[[], Engine]) -> None:
    store = scheduled.store
    store.reverse_etl_syncs.update("out_hourly", enabled=False)
    store.reverse_etl_syncs.update("out_part", enabled=False)
    start()
    until(lambda: bool(table_of(scheduled)))

    def ended(count: int) -> Callable[[], bool]:
        return lambda: len(store.elt_stream_runs.all("WHERE finished_at IS NOT NULL")) == count and not store.jobs.all()

    clock.moment = "2026-03-20T23:00:00.100Z"
    scheduled.wake.set()
    # It was asleep until half past ten, and could not know that it is eleven by now: that was missed.
    until(lambda: table_of(scheduled)["materialization", "by_itself"][1] == "2026-03-20T23:30:00.000Z")
    until(ended(1))
    assert [run.elt_stream_id for run in store.elt_stream_runs.all()] == ["hourly_rows"]
    clock.moment = "2026-03-20T23:30:00.100Z"
    scheduled.wake.set()
    until(lambda: getattr(store.transforms.get("by_itself"), "materialization_status", None) == "completed")
    clock.moment = TWO
    scheduled.wake.set()
    until(lambda: len(store.orchestration_runs.all("WHERE finished_at IS NOT NULL")) == 1)
    (run,) = store.orchestration_runs.all()
    assert (run.orchestration_id, run.status, run.due_at) == ("nightly", "COMPLETED", TWO)
    # The hour at midnight was missed, too.
    until(ended(2))
    assert [run.elt_stream_id for run in store.elt_stream_runs.all("ORDER BY seq")] == ["hourly_rows", "part_rows"]
    assert all(run.status == "COMPLETED" for run in store.elt_stream_runs.all())


def test_the_engine_sleeps_no_longer_than_until_the_next_is_due(scheduled: Context, clock: SetClock) -> None:
    engine = Engine(scheduled, {})
    clock.moment = "2026-03-20T22:29:59.500Z"
    assert engine._step(Stop()) == 0.5


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
    # It is still in time, and begins; but that run is not over.
    clock.forward(1)
    engine._step(Stop())
    assert table_of(scheduled)["orchestration", "nightly"][1] == later(TWO, 24 * 3600)
