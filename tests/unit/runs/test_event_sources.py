"""Events about ended runs, for random histories of overlapping runs, polls and restarts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pendulum
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError, ServerError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.reverse_etl_syncs import FailedRecordCount
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import Flow, run_blocking
from airflow_provider_datapipe.runs.events import cursors
from airflow_provider_datapipe.runs.events.cursors import EventCursor, SeenRun, take
from airflow_provider_datapipe.runs.events.event_sources import (
    EVENT_SOURCES,
    EventSource,
    FailedRecordsEventSource,
    StreamEventSource,
    Subscription,
    SyncEventSource,
    TransformEventSource,
)
from tests.support.examples import scaled
from tests.unit.runs.model_service import page, run_of, stream, transform

EPOCH = pendulum.datetime(2026, 1, 1)
#: Seconds since the epoch.
NOW = EPOCH.timestamp()
PAGE = 4


def at(seconds: float) -> str:
    return EPOCH.add(seconds=seconds).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@dataclass
class Run:
    number: int
    resource: str
    began: float | None
    ended: float | None = None
    status: str = "RUNNING"
    rows: int = 1
    #: When a planned run is due.
    due: float = 0.0

    @property
    def listed_at(self) -> float:
        return self.due or self.began or 0.0

    @property
    def run_id(self) -> str:
        return f"r{self.number}"


@dataclass
class Service:
    """A service with streams of one sync, or orchestrations."""

    kind: str
    resources: list[str]
    now: float = 0.0
    runs: list[Run] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    #: Index of the next request that fails. Negative: none.
    fails_at: int = -1
    status: int = 500
    #: Resources whose runs cannot be listed.
    broken: set[str] = field(default_factory=set)
    #: Runs that a lagging replica shows as active ("going") or omits ("absent").
    stale: dict[str, str] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    #: The format of run IDs.
    prefix: str = ""

    def shown(self, run: Run) -> Any:
        is_stale = self.stale.get(run.run_id) == "going" and run.began is not None
        ended = None if is_stale or run.began is None else run.ended
        times = {"started_at": run.began, "finished_at": ended}
        if self.kind == "orchestration":
            times["due_at"] = run.listed_at
        fields: dict[str, Any] = {name: None if seconds is None else at(seconds) for name, seconds in times.items()}
        fields |= {"status": "RUNNING" if is_stale else run.status, "rows_synced": run.rows}
        return run_of(self.kind, self.prefix + run.run_id, of=run.resource, **fields)

    def answer(self, request: Request[Any]) -> Any:
        self.fails_at -= 1
        if self.fails_at == -1:
            raise ServerError("it fails", status=self.status)
        self.asked[request.endpoint.name] += 1
        match request.endpoint.name:
            case "elt_streams.list":
                return page(*(stream(each, each) for each in self.resources))
            case "elt_syncs.status":
                return {"source_streams": [self._snapshots(each) for each in self.resources]}
            case "elt_stream_runs.list" | "orchestration_runs.list":
                return self._page(request)
        run_id = request.path.rpartition("/")[2]
        for run in self.runs:
            if self.prefix + run.run_id == run_id and run.run_id not in self.gone:
                return self.shown(run)
        if not run_id.startswith(self.prefix):
            raise InvalidRequestError("invalid run id", status=400)
        raise NotFoundError("no such run", status=404)

    def _page(self, request: Request[Any]) -> Any:
        query = dict(request.query)
        resource = query.get("elt_stream_id") or query.get("orchestration_id")
        if resource in self.broken:
            raise ServerError("it fails", status=500)
        hidden = self.gone | {run_id for run_id, how in self.stale.items() if how == "absent"}
        newest_first = sorted(self.runs, key=lambda run: (run.listed_at, run.number), reverse=True)
        runs = [run for run in newest_first if resource in (None, run.resource) and run.run_id not in hidden]
        ids = [self.prefix + run.run_id for run in runs]
        after = query.get("starting_after")
        # A cursor of an unknown ID starts at the newest run.
        begin = ids.index(after) + 1 if after in ids else 0
        end = begin + min(int(query["limit"]), PAGE)
        cursor = ids[begin:end][-1] if ids[begin:end] else None
        return Page(data=tuple(map(self.shown, runs[begin:end])), has_more=end < len(runs), next_cursor=cursor)

    def _snapshots(self, resource: str) -> dict[str, Any]:
        runs = [run for run in self.runs if run.resource == resource]
        going = [run for run in runs if run.ended is None]
        over = [run for run in runs if run.ended is not None]
        active = {"status": "RUNNING", "started_at": at(going[-1].began or 0)} if going else None
        latest = None
        if over:
            last = max(over, key=lambda run: run.ended or 0)
            latest = {"status": last.status, "started_at": at(last.began or 0), "finished_at": at(last.ended or 0)}
        return {"name": resource, "active_sync": active, "latest_sync": latest}


def poll(
    service: Service, source: EventSource, *subscriptions: Subscription
) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Run one poll. Cursors pass through JSON, as in Airflow's store."""
    steps: Flow[Any] = source.poll(subscriptions, (EPOCH.timestamp() + service.now))
    answer: Any = None
    failure: DatapipeError | None = None
    while True:
        try:
            step = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            return [(events, json.loads(json.dumps(cursor))) for events, cursor in stop.value]
        assert isinstance(step, Request)
        answer = failure = None
        try:
            answer = service.answer(step)
        except DatapipeError as error:
            failure = error


class Watcher:
    """
    Watcher that has seen the current state.

    :param polls: number of polls so far.
    """

    def __init__(self, service: Service, source: EventSource, polls: int = 3) -> None:
        self.service, self.source = service, source
        self.cursor: dict[str, Any] | None = None
        for _ in range(polls):
            self.poll()
        service.asked.clear()

    def poll(self) -> list[str]:
        """Run one poll. Return the IDs of the reported runs."""
        ((events, self.cursor),) = poll(self.service, self.source, Subscription(self.cursor))
        return [event["run_id"] for event in events]


class Watching(RuleBasedStateMachine):
    """Watcher that is killed before it stores its events, or after its events and before its cursor."""

    @initialize(
        kind=st.sampled_from(["elt_stream", "elt_sync", "orchestration", "all_orchestrations"]),
        history=st.lists(st.booleans(), max_size=12),
        broken=st.sets(st.sampled_from(["b", "c"])),
    )
    def begin(self, kind: str, history: list[bool], broken: set[str]) -> None:
        self.kind = kind
        self.overlaps = kind in ("orchestration", "all_orchestrations")
        names = ["a", "b", "c"] if kind in ("elt_sync", "all_orchestrations") else ["a"]
        self.service = Service("orchestration" if self.overlaps else "elt_stream", names)
        for number, is_over in enumerate(history):
            self._start(names[number % len(names)])
            if is_over:
                self._end(self.service.runs[-1], "COMPLETED")
        #: Runs that ended before the watcher started. It must not report them.
        self.before = {run.run_id for run in self.service.runs if run.ended is not None}
        self.stored: dict[str, Any] | None = None
        self.reported: Counter[str] = Counter()
        self.rows: dict[str, float] = {}
        self.killed_between = 0
        self.was_stale = False
        self.wake()
        self.service.broken = broken if kind == "elt_sync" else set()
        self.poll(stores=True)
        if self.service.broken:
            # Runs end before the watcher can read their streams for the first time. This response is current.
            for run in self.begun()[::2]:
                self._end(run, "COMPLETED")
            self.service.broken = set()
            self.poll(stores=True)

    def wake(self) -> None:
        self.source = EVENT_SOURCES[self.kind]({"elt_sync": "y", "all_orchestrations": "all"}.get(self.kind, "a"))
        self.cursor = self.stored

    def _start(self, resource: str, back: float = 0, after: float = 10) -> None:
        self.service.now += after
        # Runs with equal times are indistinguishable after a change of their IDs.
        began = max(0.0, self.service.now - back) + len(self.service.runs) / 1000
        self.service.runs.append(Run(len(self.service.runs), resource, began))

    def _end(self, run: Run, status: str) -> None:
        self.service.now += 10
        run.ended, run.status = self.service.now, status

    def begun(self) -> list[Run]:
        return [run for run in self.going() if run.began is not None]

    def going(self) -> list[Run]:
        return [run for run in self.service.runs if run.ended is None and run.run_id not in self.service.gone]

    @rule(
        number=st.integers(0, 2),
        back=st.sampled_from([0, 0, 0, 10, 200]),
        after=st.sampled_from([10, 10, 400, 4000, 90000]),
    )
    def start(self, number: int, back: float, after: float) -> None:
        resource = self.service.resources[number % len(self.service.resources)]
        if self.overlaps:
            # Runs of orchestrations overlap, and are listed by their due time.
            self._start(resource, back, after)
        elif not any(run.resource == resource for run in self.going()):
            self._start(resource, after=after)

    @precondition(lambda self: self.begun())
    @rule(data=st.data(), status=st.sampled_from(["COMPLETED", "COMPLETED", "FAILED", "ODD"]))
    def end(self, data: st.DataObject, status: str) -> None:
        self._end(data.draw(st.sampled_from(self.begun())), status)

    @precondition(lambda self: self.overlaps)
    @rule(number=st.integers(0, 2), ahead=st.sampled_from([500, 100_000]))
    def plan(self, number: int, ahead: float) -> None:
        self.service.now += 10
        resource = self.service.resources[number % len(self.service.resources)]
        due = self.service.now + ahead
        self.service.runs.append(Run(len(self.service.runs), resource, None, status="NOT_STARTED", due=due))

    def planned(self) -> list[Run]:
        return [run for run in self.going() if run.began is None]

    @precondition(lambda self: self.planned())
    @rule(data=st.data(), is_canceled=st.booleans())
    def start_or_cancel_planned_run(self, data: st.DataObject, is_canceled: bool) -> None:
        """Cancel a planned run, or start it early or late."""
        self.service.now += 10
        run = data.draw(st.sampled_from(self.planned()))
        if is_canceled:
            run.ended, run.status = self.service.now, "CANCELED"
        else:
            run.began, run.status = self.service.now, "RUNNING"

    @rule()
    def change_id_format(self) -> None:
        """Change the IDs between two polls. The poll after the change gets current data."""
        self.service.prefix = "" if self.service.prefix else "v2."
        self.poll(stores=True)

    @precondition(lambda self: self.going())
    @rule(data=st.data(), rarely=st.integers(0, 5))
    def vanish(self, data: st.DataObject, rarely: int) -> None:
        if rarely:
            return
        run = data.draw(st.sampled_from(self.going()))
        run.ended = self.service.now
        self.service.gone.add(run.run_id)

    @rule(
        stores=st.booleans(),
        fails_at=st.sampled_from([-1, -1, 0, 1, 2, 3]),
        stale=st.sampled_from(["", "going", "absent"]),
    )
    def poll(self, *, stores: bool, fails_at: int = -1, stale: str = "") -> None:
        self.service.fails_at = fails_at
        # A replica may show earlier states of the newest runs. The status is never older than the list, and the list
        # lags for one poll at most: a run that two lists omit is found only after the next change.
        if stale == "going" or (stale and (self.kind != "elt_sync" or not self.was_stale)):
            self.service.stale = {run.run_id: stale for run in self.service.runs[-2:]}
        self.was_stale = bool(stale)
        try:
            ((events, self.cursor),) = poll(self.service, self.source, Subscription(self.cursor))
        except ServerError:
            return
        finally:
            self.service.fails_at = -1
            self.service.stale = {}
        for event in events:
            self.reported[event["run_id"].removeprefix(self.service.prefix)] += 1
        if stores:
            self.stored = self.cursor
        elif events:
            self.killed_between += 1
            self.wake()

    @rule()
    def restart(self) -> None:
        """Restart the watcher, unless the cursor in memory has changes without an event that are not stored."""
        if self.stored is not None and self.cursor == self.stored:
            self.wake()

    @invariant()
    def no_run_from_before_the_watcher_is_reported(self) -> None:
        if hasattr(self, "reported"):
            assert not self.before & self.reported.keys()

    def teardown(self) -> None:
        if not hasattr(self, "reported"):
            return
        for _ in range(2):
            self.poll(stores=True)
        ended = {
            run.run_id for run in self.service.runs if run.ended is not None and run.run_id not in self.service.gone
        }
        assert ended - self.before <= self.reported.keys()
        assert self.reported.keys() <= ended | self.service.gone
        if not self.killed_between:
            assert all(times == 1 for times in self.reported.values())
        assert len(json.dumps(self.stored)) < 20_000


TestWatching = Watching.TestCase
TestWatching.settings = settings(max_examples=scaled(300), stateful_step_count=30)


def seen(number: int, moment: float, *, is_over: bool = True, is_slice: bool = False, rows: int = 1) -> SeenRun:
    payload = {"run_id": f"r{number}", "rows_synced": rows}
    return SeenRun(f"r{number}", at(moment), at(moment), is_over, is_slice, payload)


def test_rows_of_slices_are_added_to_the_last_run_of_the_load() -> None:
    _, cursor = take(None, [], now=NOW)
    reported, cursor = take(cursor, [seen(1, 0, is_slice=True, rows=5)], now=NOW)
    assert reported == []
    cursor = EventCursor(**json.loads(json.dumps(cursor.as_dict())))
    reported, cursor = take(
        cursor, [seen(3, 2, rows=2), seen(2, 1, is_slice=True, rows=4), seen(1, 0, is_slice=True, rows=5)], now=NOW
    )
    assert reported == [{"run_id": "r3", "rows_synced": 11}]
    assert take(cursor, [seen(4, 3), seen(3, 2)], now=NOW)[0] == [{"run_id": "r4", "rows_synced": 1}]


def test_size_of_a_cursor_is_bounded() -> None:
    runs = [seen(number, number / 100, is_over=number % 2 == 0) for number in range(2000)]
    reported, cursor = take(EventCursor(), runs, now=NOW)
    assert len(reported) == 1000
    assert len(cursor.reported) == cursors.MOST_REPORTED
    assert len(cursor.going) == cursors.MOST_GOING
    assert take(cursor, runs, now=NOW)[0] == []


def test_runs_with_equal_times_are_matched_by_their_ends() -> None:
    _, cursor = take(None, [seen(1, 0), seen(2, 0, is_over=False), seen(3, 9)], now=NOW)
    ended = [seen(4, 0), seen(5, 0), seen(6, 9)]
    ended[0].payload["finished_at"], ended[1].payload["finished_at"] = at(20), at(10)
    reported, cursor = take(cursor, ended, now=NOW)
    assert [event["run_id"] for event in reported] == ["r4"]
    assert take(cursor, ended, now=NOW)[0] == []


@pytest.mark.parametrize("formats", [("v2.", "v2.", "v2."), ("v2.", "v3.", "v3."), ("v2.", "", "")])
def test_new_id_format_with_a_lagging_list_repeats_no_event(formats: tuple[str, str, str]) -> None:
    service = Service("elt_stream", ["a"], runs=[Run(number, "a", number, number + 0.5, "OK") for number in range(3)])
    watcher = Watcher(service, StreamEventSource("a"), 1)
    for prefix, stale in zip(formats, ("r2", None, None), strict=True):
        service.prefix, service.stale = prefix, {stale: "absent"} if stale else {}
        assert watcher.poll() == []
    service.runs.append(Run(3, "a", 3, 3.5, "OK"))
    assert watcher.poll() == [f"{formats[-1]}r3"]


def test_a_sync_costs_one_request_while_nothing_changes() -> None:
    service = Service("elt_stream", ["a", "b", "c"], runs=[Run(number, "abc"[number], number) for number in range(3)])
    watcher = Watcher(service, SyncEventSource("y"))
    for _ in range(10):
        assert watcher.poll() == []
    assert service.asked == {"elt_syncs.status": 10}
    service.runs[1].ended, service.runs[1].status = 100.0, "COMPLETED"
    assert watcher.poll() == ["r1"]
    assert service.asked["elt_stream_runs.list"] == 1


@pytest.mark.parametrize(("stale", "polls"), [("going", 3), ("absent", 1)])
def test_a_list_behind_the_status_of_its_sync_is_requested_again(stale: str, polls: int) -> None:
    service = Service("elt_stream", ["a", "b"], runs=[Run(0, "a", 1.0)])
    watcher = Watcher(service, SyncEventSource("y"))
    service.runs[0].ended, service.runs[0].status = 100.0, "COMPLETED"
    service.stale = {"r0": stale}
    reported: list[str] = []
    for _ in range(polls):
        reported = watcher.poll()
        # The watcher polls a known active run directly if the list omits it. This response lags, too.
        assert reported == [] or stale == "absent"
    service.stale = {}
    assert reported + watcher.poll() == ["r0"]


def test_events_interrupted_by_an_error_are_reported_later() -> None:
    service = Service("elt_stream", ["a", "b"])
    watcher = Watcher(service, SyncEventSource("y"))
    service.runs = [Run(0, "a", 1.0, 2.0, "COMPLETED"), Run(1, "b", 1.0, 2.0, "COMPLETED")]
    for _ in range(3):
        # The second list fails, after the status and the first list.
        service.fails_at, service.status = 2, 503
        with pytest.raises(ServerError):
            watcher.poll()
    assert sorted(watcher.poll()) == ["r0", "r1"]


def test_an_unreadable_stream_holds_back_no_event_of_another(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("elt_stream", ["a", "b"])
    watcher = Watcher(service, SyncEventSource("y"))
    service.runs = [Run(0, "a", 1.0, 2.0, "COMPLETED"), Run(1, "b", 1.0, 2.0, "COMPLETED")]
    reported = []
    for fails_at in (2, 2, -1, -1):
        service.fails_at = fails_at
        reported.append(watcher.poll())
    assert reported[0] == ["r0"]
    assert [run_id for ids in reported[1:] for run_id in ids] == ["r1"]
    assert caplog.text.count("ELT stream b cannot be read") == 1


def test_an_unreadable_stream_does_not_stop_a_new_watcher() -> None:
    runs = [Run(0, "b", -9000), Run(1, "b", 1.0, 2.0, "COMPLETED"), Run(2, "a", 1.0, 2.0, "COMPLETED")]
    service = Service("elt_stream", ["a", "b"], now=100, runs=runs)
    source = SyncEventSource("y")
    stored = [Watcher(service, source).cursor, None]
    service.broken = {"b"}
    service.runs.append(Run(3, "a", 90.0, 95.0, "COMPLETED"))
    polled = poll(service, source, *(Subscription(cursor) for cursor in stored))
    assert [[event["run_id"] for event in events] for events, _ in polled] == [["r3"], []]
    service.now, service.broken = 200, set()
    service.runs[0].ended, service.runs[0].status = 150.0, "COMPLETED"
    service.runs.append(Run(4, "b", 160.0, 170.0, "COMPLETED"))
    polled = poll(service, source, *(Subscription(cursor) for _, cursor in polled))
    assert [[event["run_id"] for event in events] for events, _ in polled] == [["r0", "r4"]] * 2


def test_an_added_stream_is_reported_from_its_first_run() -> None:
    service = Service("elt_stream", ["a"])
    watcher = Watcher(service, SyncEventSource("y"), 1)
    service.resources.append("b")
    service.runs.append(Run(0, "b", 1.0, 2.0, "COMPLETED"))
    ((reported, _),) = poll(service, watcher.source, Subscription(watcher.cursor))
    assert [(event["run_id"], event["name"], event["sync_id"]) for event in reported] == [("r0", "b", "y")]


def test_a_stream_of_another_sync_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("elt_stream", ["orders", "items"])
    source = SyncEventSource("y")
    watched = [Subscription(options={"stream_id": stream_id}) for stream_id in ("Orders", "zzz", "items")]
    for _ in range(30):
        poll(service, source, *watched)
    warnings = [each.getMessage().partition(" has ")[2] for each in caplog.records]
    assert warnings == [
        "no stream with the ID Orders, so a watcher sends no events. Did you mean orders?",
        "no stream with the ID zzz, so a watcher sends no events. Check stream_id and sync_id.",
    ]
    # A stream that the service adds, and deletes again.
    service.resources.append("zzz")
    poll(service, source, *watched)
    service.resources.remove("zzz")
    poll(service, source, *watched)
    assert caplog.text.count("the ID zzz") == 2


def test_watchers_of_one_resource_share_its_list() -> None:
    service = Service("orchestration", ["a", "b"])
    every, one = EVENT_SOURCES["all_orchestrations"]("all"), EVENT_SOURCES["orchestration"]("b")
    cursors_of = [Watcher(service, source).cursor for source in (every, one)]
    service.runs = [Run(0, "a", 1.0, 2.0, "COMPLETED"), Run(1, "b", 3.0, 4.0, "FAILED")]
    (of_all, _), (none, _) = poll(service, every, Subscription(cursors_of[0]), Subscription())
    ((of_b, _),) = poll(service, one, Subscription(cursors_of[1]))
    assert [event["run_id"] for event in of_all] == ["r0", "r1"]
    assert [(event["run_id"], event["outcome"]) for event in of_b] == [("r1", "failed")]
    assert none == []
    assert service.asked == {"orchestration_runs.list": 2}


def test_a_rare_orchestration_costs_one_request_per_poll() -> None:
    service = Service("orchestration", ["a", "b"], runs=[Run(0, "a", 1.0, 2.0, "COMPLETED")])
    watcher = Watcher(service, EVENT_SOURCES["orchestration"]("a"))
    service.runs += [Run(number, "b", number * 600.0, number * 600.0 + 1, "COMPLETED") for number in range(1, 500)]
    service.now = 300_000
    watcher.poll()
    assert service.asked == {"orchestration_runs.list": 1}


@pytest.mark.parametrize(("kind", "key"), [("orchestration", "a"), ("all_orchestrations", "all")])
def test_first_poll_finds_an_active_run_before_many_others(kind: str, key: str) -> None:
    service = Service("orchestration", ["a", "b"], now=10_900, runs=[Run(0, "a", 1.0)])
    service.runs += [Run(number, "b", number * 60.0, number * 60.0 + 1, "COMPLETED") for number in range(1, 180)]
    watcher = Watcher(service, EVENT_SOURCES[kind](key), 1)
    service.now, service.runs[0].ended, service.runs[0].status = 11_000, 10_950.0, "COMPLETED"
    assert watcher.poll() == ["r0"]


def one_poll(
    source: EventSource, answer: Any, subscription: Subscription
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    ((events, cursor),) = run_blocking(source.poll([subscription], NOW), lambda _: answer, lambda _: None)
    return events, json.loads(json.dumps(cursor))


def test_finished_builds_of_a_transform_are_reported_once() -> None:
    source, cursor, reported = TransformEventSource("t"), None, []
    changes = [(1, "completed"), (1, "completed"), (2, "running"), (3, "completed"), (4, "failed"), (5, "completed")]
    for changed, status in changes:
        answer = transform(materialization_status=status, updated_at=at(changed))
        events, cursor = one_poll(source, answer, Subscription(cursor))
        reported += [(event["outcome"], event["finished_at"]) for event in events]
    assert reported == [("succeeded", at(3)), ("failed", at(4)), ("succeeded", at(5))]


def test_failed_records_are_reported_once_per_threshold_crossing() -> None:
    source, cursor, reported = FailedRecordsEventSource("r"), None, []
    for count in (4, 5, 9, 4, 0, 5):
        events, cursor = one_poll(source, FailedRecordCount(count=count), Subscription(cursor, {"threshold": 5}))
        reported += [event["rows_failed"] for event in events]
    assert reported == [5, 5]
