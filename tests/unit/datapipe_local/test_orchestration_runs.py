"""Tests of orchestration runs: their items, and the order of these."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from datapipe_local.engine import orchestration_runs
from datapipe_local.engine.orchestration_plan import plan
from datapipe_local.services import elt_tables, jobs, orchestrations
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import ItemState, Job, JobKind, OrchestrationItem, OrchestrationRun
from datapipe_local.storage.store import Store
from datapipe_local.warehouse.warehouse import Place
from tests.support.examples import scaled
from tests.unit.datapipe_local.resources import NOW, Resources, SetClock

STREAM = JobKind.ELT_STREAM_RUN


@pytest.fixture
def made(context: Context) -> Resources:
    return Resources(context.store)


def planned(context: Context, orchestration_id: str = "nightly") -> dict[str, set[str]]:
    return {item.subject[1]: {need for _, need in item.needs} for item in plan(context, orchestration_id)}


def test_an_item_needs_its_sources_only(context: Context, made: Resources) -> None:
    made.sync("shop", "orders", "people")
    made.sync("apart", "rows", attached="weekly")
    # Not in the order of their dependencies.
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


@pytest.mark.parametrize("part", ["orders_history", "orders__items"])
def test_readers_of_histories_and_substreams_need_the_stream(context: Context, made: Resources, part: str) -> None:
    made.sync("shop", "orders")
    elt_tables.note_parts(context, "shop", "shop.orders", [Place("shop", part)])
    made.transform("reader", f"raw.shop.{part}")
    made.export("out", f"shop.{part}", source_type="RawView")
    assert planned(context) == {"shop.orders": set(), "reader": {"shop.orders"}, "out": {"shop.orders"}}


def test_a_stream_owns_the_name_of_an_abandoned_history(context: Context, made: Resources) -> None:
    made.sync("shop", "orders", "orders_history")
    elt_tables.note_parts(context, "shop", "shop.orders", [Place("shop", "orders_history")])
    made.transform("reader", "raw.shop.orders_history")
    assert planned(context)["reader"] == {"shop.orders_history"}


def test_resources_that_cannot_run_are_not_items(context: Context, made: Resources) -> None:
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


def test_a_renamed_table_has_both_names_until_its_build(context: Context, made: Resources) -> None:
    made.transform("new", object_tag="model.old")
    made.transform("reads_old", "model.old")
    made.transform("reads_new", "model.NEW")
    assert planned(context) == {"new": set(), "reads_old": {"new"}, "reads_new": {"new"}}


def test_the_running_run_stays_first_if_the_clock_is_set_back(context: Context, made: Resources) -> None:
    made.sync("shop", "orders")
    clock = SetClock()
    context = replace(context, clock=clock)
    first = orchestrations.request_run(context, "nightly")
    orchestration_runs.advance(context)
    clock.forward(-3600)
    second = orchestrations.request_run(context, "nightly")
    orchestration_runs.advance(context)
    assert [run.id for run in context.store.orchestration_runs.all("WHERE started_at IS NOT NULL")] == [first.id]
    jobs.end(context, context.store.jobs.all()[0], failed=False)
    clock.forward(7200)
    orchestration_runs.advance(context)
    orchestration_runs.advance(context)
    assert [run.id for run in context.store.orchestration_runs.all("WHERE finished_at IS NULL")] == [second.id]


def test_a_run_lasts_its_minimum_duration(context: Context, made: Resources) -> None:
    clock = SetClock()
    context = replace(context, clock=clock)
    context.store.set("minimum_duration", 10)
    orchestrations.request_run(context, "nightly")
    assert orchestration_runs.advance(context) == later(NOW, 10)
    clock.forward(10)
    orchestration_runs.advance(context)
    (ended,) = context.store.orchestration_runs.all()
    assert (ended.status, ended.finished_at) == ("COMPLETED", later(NOW, 10))


class Runs(RuleBasedStateMachine):
    """
    A run with random dependencies between its items, and requested runs of the same streams.

    All items are streams: the kind of an item has no effect on a planned run.
    """

    store: Store

    @initialize(data=st.data(), size=st.integers(0, 7))
    def begin(self, data: st.DataObject, size: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self._folder.name) / "state.sqlite")
        self.context = Context(self.store, Mock(), SetClock())
        Resources(self.store).sync("s", *(f"i{position}" for position in range(size)))
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

    @property
    def left(self) -> list[int]:
        return [position for position in range(len(self.needs)) if position not in self.deleted]

    def own_jobs(self) -> dict[int, Job]:
        found = self.store.jobs.all("WHERE orchestration_run_id = 'run' ORDER BY seq")
        return {int(job.orchestration_position or 0): job for job in found}

    def other_jobs(self) -> dict[str, Job]:
        found = self.store.jobs.all("WHERE orchestration_run_id IS NULL ORDER BY seq")
        return {job.subject_id: job for job in found}

    @rule()
    def advance(self) -> None:
        """Advance as the engine does. Once more must change nothing."""
        states = []
        for _ in range(2):
            orchestration_runs.advance(self.context)
            states.append((self.store.orchestration_items.all(), self.store.jobs.all(), self.run))
        assert states[0] == states[1]
        # Each item begins as soon as possible.
        for position in self.left:
            can = all(self.ended.get(need) for need in self.needs[position])
            if can and f"s.i{position}" not in self.other_jobs():
                assert position in self.started | self.own_jobs().keys()

    @precondition(lambda self: bool(self.own_jobs()))
    @rule(data=st.data(), failed=st.booleans())
    def end(self, data: st.DataObject, failed: bool) -> None:
        position = data.draw(st.sampled_from(list(self.own_jobs())))
        jobs.end(self.context, self.own_jobs()[position], failed=failed)
        self.ended[position] = not failed

    @rule(data=st.data())
    def begin_by_request(self, data: st.DataObject) -> None:
        subjects = [f"s.i{position}" for position in self.left]
        free = [subject for subject in subjects if jobs.get(self.context, STREAM, subject) is None]
        if free:
            jobs.add(self.context, STREAM, data.draw(st.sampled_from(free)), NOW)

    @precondition(lambda self: bool(self.other_jobs()))
    @rule(data=st.data())
    def end_by_request(self, data: st.DataObject) -> None:
        jobs.end(self.context, data.draw(st.sampled_from(list(self.other_jobs().values()))), failed=True)

    @precondition(lambda self: bool(self.left))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a stream with its jobs, as its endpoint does."""
        position = data.draw(st.sampled_from(self.left))
        self.started |= self.own_jobs().keys()
        self.store.database.run("DELETE FROM jobs WHERE subject_id = ?", f"s.i{position}")
        self.store.database.run("DELETE FROM elt_streams WHERE id = ?", f"s.i{position}")
        self.deleted.add(position)

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "needs"):
            return
        for position in self.own_jobs().keys() - self.started:
            # It began after the success of its dependencies, and while the stream had no other job.
            assert all(self.ended.get(need) is True for need in self.needs[position])
            assert position not in self.deleted
            self.started.add(position)
        states = {item.position: item.state for item in self.store.orchestration_items.all()}
        for position, ok in self.ended.items():
            assert states[position] == (ItemState.COMPLETED if ok else ItemState.FAILED)
        for position, state in states.items():
            if state == ItemState.CANCELED:
                needs = self.needs[position]
                hopeless = any(self.ended.get(need) is False or states[need] == ItemState.CANCELED for need in needs)
                assert hopeless or position in self.deleted
                assert position not in self.ended
        if self.run.finished_at is not None:
            self.check_end(states)

    def check_end(self, states: dict[int, str]) -> None:
        assert set(states.values()) <= {ItemState.COMPLETED, ItemState.FAILED, ItemState.CANCELED}
        assert self.own_jobs() == {}
        done = all(state == ItemState.COMPLETED for state in states.values())
        assert (self.run.status == "COMPLETED") is done
        assert (self.run.status == "FAILED") is (False in self.ended.values())
        if self.run.status not in {"COMPLETED", "FAILED"}:
            assert self.run.status == "CANCELED"
            assert self.deleted
        for position in self.left:
            if all(self.ended.get(need) for need in self.needs[position]):
                assert position in self.ended

    @rule(failed=st.booleans())
    def end_all(self, failed: bool) -> None:
        """A run ends once all other jobs have ended."""
        for _ in range(2 * len(self.needs) + 2):
            for job in self.other_jobs().values():
                jobs.end(self.context, job, failed=False)
            orchestration_runs.advance(self.context)
            self.check()
            for position, job in self.own_jobs().items():
                jobs.end(self.context, job, failed=failed)
                self.ended[position] = not failed
        assert self.run.finished_at is not None


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=scaled(60), stateful_step_count=25)
