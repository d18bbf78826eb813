"""Runs of orchestrations: what they consist of, and in which order it is done."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from datapipe_local.clock import later
from datapipe_local.engine import orchestration
from datapipe_local.engine.plan import plan
from datapipe_local.service import jobs, orchestrations
from datapipe_local.service.context import Context
from datapipe_local.store.records import (
    Connection,
    EltStream,
    EltSync,
    ItemState,
    JobKind,
    Orchestration,
    OrchestrationItem,
    OrchestrationRun,
    ReverseEtlSync,
    Transform,
    TransformVersion,
)
from datapipe_local.store.store import Store
from tests.support.examples import scaled
from tests.unit.datapipe_local.clocks import SetClock

NOW = "2026-03-20T22:15:30.000Z"
STREAM, TABLE, EXPORT = JobKind.ELT_STREAM_RUN, JobKind.MATERIALIZATION, JobKind.REVERSE_ETL_SYNC_RUN


class Made:
    """Puts resources into a store as they would be there after many requests."""

    def __init__(self, store: Store) -> None:
        self.store = store
        for name in ("nightly", "weekly"):
            store.orchestrations.insert(
                Orchestration(id=name, name=name, cron_schedule="0 2 * * *", created_at=NOW, updated_at=NOW)
            )
        store.connections.insert(
            Connection(id="data", integration_id="files", label="Data", settings={}, created_at=NOW)
        )

    def sync(self, name: str, *streams: str, attached: str | None = "nightly", enabled: bool = True) -> None:
        times: dict[str, Any] = {"created_at": NOW, "updated_at": NOW}
        self.store.elt_syncs.insert(
            EltSync(
                id=name,
                connection_id="data",
                destination_schema_name=name,
                sync_interval=None,
                enabled=enabled,
                orchestration_workflow_id=attached,
                **times,
            )
        )
        for stream in streams:
            self.store.elt_streams.insert(
                EltStream(id=f"{name}.{stream}", elt_sync_id=name, name=stream, origin={}, **times)
            )

    def transform(
        self, name: str, *references: str, attached: str | None = "nightly", published: bool = True, **more: Any
    ) -> None:
        sql = " ".join(f"{{{{{reference}}}}}" for reference in references)
        version = TransformVersion(id=f"v_{name}", transform_id=name, sql_template=sql, created_at=NOW)
        self.store.transforms.insert(
            Transform(
                id=name,
                name=name,
                folder_path="",
                status="published" if published else "draft",
                materialization="table",
                latest_version_id=version.id,
                published_version_id=version.id if published else None,
                orchestration_workflow_id=attached,
                created_at=NOW,
                updated_at=NOW,
                **more,
            )
        )
        self.store.transform_versions.insert(version)

    def export(self, name: str, source_id: str, **more: Any) -> None:
        self.store.reverse_etl_syncs.insert(
            ReverseEtlSync(
                **{
                    "id": name,
                    "enabled": True,
                    "source_id": source_id,
                    "destination_connection_id": "data",
                    "object_type_id": name,
                    "sync_interval": None,
                    "orchestration_workflow_id": "nightly",
                    "operation": {},
                    "settings": {},
                    "created_at": NOW,
                    "updated_at": NOW,
                    **more,
                }
            )
        )


@pytest.fixture
def made(context: Context) -> Made:
    return Made(context.store)


def planned(context: Context, orchestration_id: str = "nightly") -> dict[str, set[str]]:
    return {item.subject[1]: {need for _, need in item.needs} for item in plan(context, orchestration_id)}


def test_a_part_needs_what_it_is_computed_from_and_nothing_else(context: Context, made: Made) -> None:
    made.sync("shop", "orders", "people")
    made.sync("apart", "rows", attached="weekly")
    # In the wrong order on purpose.
    made.transform("top", "model.mid", "raw.apart.rows")
    made.transform("mid", "model.base", attached=None)
    made.transform("base", "raw.shop.orders")
    made.transform("constant")
    made.export("top_out", "top")
    made.export("raw_out", "shop.people", source_type="RawView")
    assert planned(context) == {
        "shop.orders": set(),
        "shop.people": set(),
        "constant": set(),
        "base": {"shop.orders"},
        "raw_out": {"shop.people"},
        "top": {"mid", "base", "shop.orders", "apart.rows"},
        "top_out": {"top", "mid", "base", "shop.orders", "apart.rows"},
    }
    seen: set[str] = set()
    for item in plan(context, "nightly"):
        assert {need for _, need in item.needs} - seen <= {"mid", "apart.rows"}
        seen.add(item.subject[1])
    assert planned(context, "weekly") == {"apart.rows": set()}


def test_what_cannot_run_is_left_out(context: Context, made: Made) -> None:
    made.sync("off", "rows", enabled=False)
    made.sync("shop", "orders", "own")
    made.store.elt_streams.update("shop.own", sync_interval="* * * * *")
    made.transform("draft", published=False)
    made.transform("gone", deleted_at=NOW)
    made.transform("there")
    made.export("of_draft", "draft")
    made.export("of_gone", "gone")
    made.export("of_nothing", "shop.nothing", source_type="RawView")
    made.export("off_out", "there", enabled=False)
    assert planned(context) == {"shop.orders": set(), "there": set()}


def test_a_table_that_was_renamed_is_known_by_both_names(context: Context, made: Made) -> None:
    # It stands there by its old name until the new one is built.
    made.transform("new", object_tag="model.old")
    made.transform("reads_old", "model.old")
    made.transform("reads_new", "model.NEW")
    assert planned(context) == {"new": set(), "reads_old": {"new"}, "reads_new": {"new"}}


def test_the_running_run_stays_first_when_the_clock_is_set_back(context: Context, made: Made) -> None:
    made.sync("shop", "orders")
    clock = SetClock(NOW)
    context = replace(context, clock=clock)
    first = orchestrations.request_run(context, "nightly")
    orchestration.advance(context)
    clock.forward(-3600)
    second = orchestrations.request_run(context, "nightly")
    orchestration.advance(context)
    assert [run.id for run in context.store.orchestration_runs.all("WHERE started_at IS NOT NULL")] == [first.id]
    jobs.end(context, context.store.jobs.all()[0], failed=False)
    clock.forward(7200)
    orchestration.advance(context)
    orchestration.advance(context)
    assert context.store.orchestration_runs.get(second.id).started_at is not None  # type: ignore[union-attr]


def test_nothing_of_a_deleted_orchestration_is_begun_any_more(context: Context, made: Made) -> None:
    made.sync("shop", "orders")
    made.transform("base", "raw.shop.orders")
    orchestrations.request_run(context, "nightly")
    orchestration.advance(context)
    orchestrations.delete(context, "nightly", cron_schedule="0 5 * * *")
    assert context.store.orchestration_runs.all() == []
    assert context.store.orchestration_items.all() == []
    (job,) = context.store.jobs.all()
    assert job.subject_id == "shop.orders"
    jobs.end(context, job, failed=False)
    assert orchestration.advance(context) is None
    assert context.store.jobs.all() == []


class Runs(RuleBasedStateMachine):
    """
    A run with items that need each other at random, and whatever can happen while it is going.

    Streams stand for items of any kind: what kind it is makes no difference once a run is planned.
    """

    store: Store

    @initialize(data=st.data(), size=st.integers(0, 7))
    def begin(self, data: st.DataObject, size: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self._folder.name) / "state.sqlite")
        self.clock = SetClock(NOW)
        self.context = Context(self.store, Mock(), self.clock)
        made = Made(self.store)
        made.sync("s", *(f"i{position}" for position in range(size)))
        self.run_id = "run"
        self.store.orchestration_runs.insert(
            OrchestrationRun(id="run", orchestration_id="nightly", status="RUNNING", due_at=NOW, started_at=NOW)
        )
        self.needs: list[set[int]] = []
        for position in range(size):
            near = data.draw(st.sets(st.integers(0, position - 1), max_size=3)) if position else set()
            self.needs.append(near.union(*(self.needs[need] for need in near)))
            self.store.orchestration_items.insert(
                OrchestrationItem(
                    run_id="run",
                    position=position,
                    job_kind=STREAM,
                    subject_id=f"s.i{position}",
                    depends_on=sorted(self.needs[position]),
                    state=ItemState.WAITING,
                )
            )
        self.started: set[int] = set()
        self.ended: dict[int, bool] = {}
        self.deleted: set[int] = set()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self._folder.cleanup()

    @property
    def run(self) -> OrchestrationRun:
        run = self.store.orchestration_runs.get("run")
        assert run is not None
        return run

    def own_jobs(self) -> list[int]:
        return [
            int(job.orchestration_position or 0)
            for job in self.store.jobs.all("WHERE orchestration_run_id = 'run' ORDER BY seq")
        ]

    def others_jobs(self) -> list[str]:
        return [job.subject_id for job in self.store.jobs.all("WHERE orchestration_run_id IS NULL ORDER BY seq")]

    @rule()
    def look(self) -> None:
        """As the dispatcher does; and again, which must change nothing."""
        orchestration.advance(self.context)
        before = (self.store.orchestration_items.all(), self.store.jobs.all(), self.run)
        orchestration.advance(self.context)
        assert (self.store.orchestration_items.all(), self.store.jobs.all(), self.run) == before
        # Everything begins as soon as it can.
        for position, needs in enumerate(self.needs):
            can = all(self.ended.get(need) for need in needs) and position not in self.deleted
            if can and f"s.i{position}" not in self.others_jobs():
                assert position in self.started | set(self.own_jobs())

    @precondition(lambda self: bool(self.own_jobs()))
    @rule(data=st.data(), failed=st.booleans())
    def end(self, data: st.DataObject, failed: bool) -> None:
        position = data.draw(st.sampled_from(self.own_jobs()))
        job = jobs.get(self.context, STREAM, f"s.i{position}")
        assert job is not None
        jobs.end(self.context, job, failed=failed)
        self.ended[position] = not failed

    @rule(data=st.data())
    def somebody_else_begins(self, data: st.DataObject) -> None:
        free = [
            f"s.i{position}"
            for position in range(len(self.needs))
            if position not in self.deleted and jobs.get(self.context, STREAM, f"s.i{position}") is None
        ]
        if free:
            jobs.add(self.context, STREAM, data.draw(st.sampled_from(free)), NOW)

    @precondition(lambda self: bool(self.others_jobs()))
    @rule(data=st.data())
    def somebody_else_ends(self, data: st.DataObject) -> None:
        job = jobs.get(self.context, STREAM, data.draw(st.sampled_from(self.others_jobs())))
        assert job is not None
        jobs.end(self.context, job, failed=True)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a stream with what is owed on it, as its endpoint does."""
        left = [position for position in range(len(self.needs)) if position not in self.deleted]
        if left:
            position = data.draw(st.sampled_from(left))
            self.started |= set(self.own_jobs())
            self.store.database.run("DELETE FROM jobs WHERE subject_id = ?", f"s.i{position}")
            self.store.database.run("DELETE FROM elt_streams WHERE id = ?", f"s.i{position}")
            self.deleted.add(position)

    @invariant()
    def only_what_it_may(self) -> None:
        if not hasattr(self, "needs"):
            return
        for position in set(self.own_jobs()) - self.started:
            # It began after all that it needs had been done, and while nobody else was at it.
            assert all(self.ended.get(need) is True for need in self.needs[position])
            assert position not in self.deleted
            self.started.add(position)
        states = {item.position: item.state for item in self.store.orchestration_items.all()}
        for position, ok in self.ended.items():
            assert states[position] == (ItemState.COMPLETED if ok else ItemState.FAILED)
        for position, state in states.items():
            hopeless = any(
                self.ended.get(need) is False or states[need] == ItemState.CANCELED for need in self.needs[position]
            )
            if state == ItemState.CANCELED:
                assert hopeless or position in self.deleted
                assert position not in self.ended
        if self.run.finished_at is not None:
            self.check_end(states)

    def check_end(self, states: dict[int, str]) -> None:
        assert set(states.values()) <= {ItemState.COMPLETED, ItemState.FAILED, ItemState.CANCELED}
        assert self.own_jobs() == []
        done = all(state == ItemState.COMPLETED for state in states.values())
        assert (self.run.status == "COMPLETED") is done
        assert (self.run.status == "FAILED") is (False in self.ended.values())
        if not done and self.run.status != "FAILED":
            assert self.run.status == "CANCELED"
            assert self.deleted
        # Nobody is left out who could have been done.
        for position, needs in enumerate(self.needs):
            if position not in self.deleted and all(self.ended.get(need) for need in needs):
                assert position in self.ended

    @rule()
    def everything_ends(self) -> None:
        """Whatever happened before, a run comes to its end once everybody else's has."""
        for _ in range(2 * len(self.needs) + 2):
            for subject in self.others_jobs():
                job = jobs.get(self.context, STREAM, subject)
                assert job is not None
                jobs.end(self.context, job, failed=False)
            orchestration.advance(self.context)
            self.only_what_it_may()
            for position in self.own_jobs():
                job = jobs.get(self.context, STREAM, f"s.i{position}")
                assert job is not None
                jobs.end(self.context, job, failed=False)
                self.ended[position] = True
        assert self.run.finished_at is not None


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=scaled(60), stateful_step_count=25)


def test_a_run_takes_as_long_as_it_is_told_to(context: Context, made: Made) -> None:
    clock = SetClock(NOW)
    context = replace(context, clock=clock)
    context.store.set("minimum_duration", 10)
    run = orchestrations.request_run(context, "nightly")
    assert orchestration.advance(context) == later(NOW, 10)
    clock.forward(10)
    orchestration.advance(context)
    ended = context.store.orchestration_runs.get(run.id)
    assert ended is not None
    assert (ended.status, ended.finished_at) == ("COMPLETED", later(NOW, 10))
