"""Faults during the start of a run and the wait for it, and cases with them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.system import seeds

#: Kinds of run: each is an operator of the DAG file.
KINDS = ("elt_stream", "elt_sync", "orchestration", "transform", "reverse_etl")
STREAMS_OF_A_SYNC = 3
#: Limit of concurrent runs, in cases with a limit.
AT_A_TIME = 2
#: Slices of a load before its last run.
SLICES = 2

#: Timeout of a client in seconds. Later responses are lost.
TIMEOUT = 4.0
#: Seconds by which late responses and requests exceed the timeout.
LATE_BY = 2.0
#: Seconds for which a task searches for the run of a lost request. Longer than a request can be late.
LOST_RESPONSE_TIMEOUT = 8.0
#: Seconds of delay of a response for a kill meanwhile. Shorter than the timeout.
RESPONSE_DELAY = 3.0

#: Steps at which the process of a task is killed, in order. Steps of the wait depend on the mode.
BEFORE_THE_POST = ("begin", "before_intent", "after_intent", "before_post")
SINCE_THE_POST = ("after_post", "before_reference", "after_reference")
WAITING = {True: ("defer", "resume"), False: ("poll",)}
AT_THE_END = ("before_final", "after_final", "done")
#: Earlier steps, before and after the request for an option of the run.
AROUND_THE_OPTION = ("before_option", "after_option")

#: Faults of the request for a run.
POST_FAULTS: dict[str, dict[str, Any]] = {
    "never arrives": {"drop": True, "when": "before"},
    "answer dropped": {"drop": True, "when": "after"},
    "answer torn": {"reset": True},
    "answer garbled": {"malformed": "truncated"},
    "carried out late": {"delay": TIMEOUT + LATE_BY, "when": "before"},
    "answered late": {"delay": TIMEOUT + LATE_BY, "when": "after"},
    "502, not done": {"status": 502, "when": "before"},
    "502, but done": {"status": 502, "when": "after"},
}
#: Faults of the polls of a run.
POLL_FAULTS: dict[str, dict[str, Any]] = {
    "polls answered 503": {"status": 503, "times": 3, "skip": 1},
    "polls dropped": {"drop": True, "times": 2, "skip": 1},
}
#: Faults of the request for an option of the next run.
OPTION_FAULTS: dict[str, dict[str, Any]] = {
    "option never arrives": {"drop": True, "when": "before"},
    "option's answer dropped": {"drop": True, "when": "after"},
    "option carried out late": {"delay": TIMEOUT + LATE_BY, "when": "before"},
    "task killed, option on its way": {"delay": RESPONSE_DELAY, "when": "before"},
    "service killed, option on its way": {"delay": RESPONSE_DELAY, "when": "before"},
}
#: The response to the request is lost, and the poll that searches for its run fails.
LOST_TWICE = "answer dropped, poll refused"
#: Faults during which the process of the task or the service is killed.
FAULTS_WITH_KILL: dict[str, dict[str, Any]] = {
    "task killed, request on its way": {"delay": RESPONSE_DELAY, "when": "before"},
    "task killed, answer on its way": {"delay": RESPONSE_DELAY, "when": "after"},
    "service killed, request on its way": {"delay": RESPONSE_DELAY, "when": "before"},
    "service killed, answer on its way": {"delay": RESPONSE_DELAY, "when": "after"},
}
TRIGGERER = "triggerer killed"
FAULTS = {**POST_FAULTS, **POLL_FAULTS, LOST_TWICE: POST_FAULTS["answer dropped"], **FAULTS_WITH_KILL}

#: Servers that all tasks need: the scheduler, whose kill also ends its workers and their tasks, and the API server,
#: which receives heartbeats and final states of tasks, and stores their task state.
SERVERS = ("scheduler", "api-server")
#: Servers are killed while a task starts its run, or while it waits.
SERVER_FAULTS: dict[str, dict[str, Any] | None] = {
    f"{server} killed{moment}": fault
    for server in SERVERS
    for moment, fault in (
        (", request on its way", {"delay": RESPONSE_DELAY, "when": "before"}),
        (", answer on its way", {"delay": RESPONSE_DELAY, "when": "after"}),
        (", run active", None),
    )
}
#: Kill of both servers, one immediately after the other.
ALL_SERVERS = f"{' and '.join(SERVERS)} killed, run active"

#: Options of runs, by the kind of task. The limit applies to the runs of a sync.
FULL_REFRESH, RETRY, LIMIT = "full refresh", "retry of failed records", "two at a time"
OPTIONS = {"elt_stream": (FULL_REFRESH,), "elt_sync": (FULL_REFRESH, LIMIT), "reverse_etl": (RETRY,)}

#: Share of combinations in which the worker is killed with the process of the task.
WORKERS = 0.3
#: Share of combinations with an option, if the kind of run has one.
MORE = 0.4

_STARTERS = {
    "elt_stream": "/elt_streams/{id}/request_run",
    "elt_sync": "/elt_streams/{id}/request_run",
    "orchestration": "/orchestrations/{id}/request_run",
    "transform": "/transforms/{id}/publish",
    "reverse_etl": "/reverse_etl_syncs/{id}/request_run",
}
_OPTION_REQUESTS = {
    FULL_REFRESH: "/elt_streams/{id}/request_full_refresh",
    RETRY: "/reverse_etl_failed_records/retry_all",
}
_OPTION_ARGUMENTS: dict[str | None, dict[str, Any]] = {
    None: {},
    FULL_REFRESH: {"full_refresh": True},
    # One record is refused in each run.
    RETRY: {"retry_failed_records": True, "max_failed_rows": 1},
    LIMIT: {"max_active_streams": AT_A_TIME},
}
_ID_ARGUMENTS = {
    "elt_stream": "stream_id",
    "elt_sync": "sync_id",
    "orchestration": "orchestration_id",
    "transform": "transform_id",
    "reverse_etl": "reverse_etl_sync_id",
}


@dataclass(frozen=True)
class Case:
    """
    Task with separate resources, and its faults.

    :param number: A unique number.
    :param kind: The kind of run.
    :param deferrable: True for deferrable mode.
    :param kills: The steps at which the process of the task is killed, as ``step:n``.
    :param fault: A further fault: one of FAULTS, OPTION_FAULTS or SERVER_FAULTS, TRIGGERER or ALL_SERVERS.
    :param fails: True if its run fails.
    :param duration: The minimum duration of its runs in seconds.
    :param worker: True to kill the worker with the process of the task.
    :param in_slices: True for a load in slices, each with a separate run.
    :param option: The option of its runs, or the limit: one of OPTIONS.
    :param rival: True if another client starts a run immediately before the first request of the task.
    :param first_fails: True if the run of its first resource fails, and the next one succeeds.
    """

    number: int
    kind: str
    deferrable: bool
    kills: tuple[str, ...] = ()
    fault: str | None = None
    fails: bool = False
    duration: float = 1.5
    worker: bool = False
    in_slices: bool = False
    option: str | None = None
    rival: bool = False
    first_fails: bool = False

    @property
    def task_id(self) -> str:
        """ID of the task, and the prefix of the IDs of its resources."""
        return f"case{self.number:03}_{self.kind}_{'deferred' if self.deferrable else 'blocking'}"

    @property
    def resources(self) -> list[str]:
        if self.kind == "elt_sync":
            return [f"{self.task_id}_{number}" for number in range(STREAMS_OF_A_SYNC)]
        return [self.task_id]

    @property
    def struck(self) -> str:
        """Resource with the fault and the failed run."""
        return self.resources[len(self.resources) // 2]

    @property
    def victims(self) -> tuple[str, ...]:
        """Killed programs that other tasks use, too."""
        who, killed, _ = (self.fault or "").partition(" killed")
        return () if not killed or who == "task" else tuple(who.split(" and "))

    @property
    def is_held(self) -> bool:
        """True if the programs are killed during a request, False if they are killed during the wait."""
        return bool(self.victims) and "on its way" in (self.fault or "")

    @property
    def company(self) -> int:
        """
        Group of compatible cases.

        A killed service loses delayed requests, and a killed scheduler ends all tasks, including those that must not be
        retried. The restart of a server takes so long that runs could end that must be active at the next kill.
        """
        if set(self.victims).intersection(SERVERS):
            return 2 if self.is_held else 3
        return 1 if self.victims else 0

    @property
    def sync_id(self) -> str:
        return self.task_id if self.kind == "elt_sync" else f"sync_of_{self.task_id}"

    @property
    def trouble(self) -> str:
        who = "worker killed" if self.worker else "killed"
        kills = [f"{who} at {kill.removesuffix(':1')}" for kill in self.kills if not kill.startswith("during")]
        more = ["a rival's run"] * self.rival + ["its first run fails"] * self.first_fails
        return " + ".join([*kills, *([self.fault] if self.fault else []), *more])

    def task(self) -> dict[str, Any]:
        """Return the description of the task for the DAG file."""
        return {
            "task_id": self.task_id,
            "kind": self.kind,
            "deferrable": self.deferrable,
            "strikes": list(self.kills),
            "worker": self.worker,
            "rival": self.rival,
            # The longest runs start first.
            "priority_weight": round(10 * self.duration),
            "arguments": {_ID_ARGUMENTS[self.kind]: self.task_id, **_OPTION_ARGUMENTS[self.option]},
        }

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules of its fault for the service."""
        if self.fault is None or (self.victims and not self.is_held):
            return []
        poll = {"method": "GET", "path": "/**", "resource_id": self.struck}
        post = {"method": "POST", "path": _STARTERS[self.kind], "resource_id": self.struck}
        if self.fault in OPTION_FAULTS:
            assert self.option is not None
            return [{**post, "path": _OPTION_REQUESTS[self.option], **OPTION_FAULTS[self.fault]}]
        if held := SERVER_FAULTS.get(self.fault):
            return [{**post, **held}]
        if self.fault in POLL_FAULTS:
            return [{**poll, **FAULTS[self.fault]}]
        rules = [{**post, **FAULTS[self.fault]}]
        if self.fault == LOST_TWICE:
            # Simulate an API key that was just changed. The poll before the request succeeds.
            rules.append({**poll, "status": 401, "skip": 1})
        return rules

    def behaviour(self) -> dict[str, dict[str, Any]]:
        """Return the behavior of its runs for the service."""
        runs: dict[str, dict[str, Any]] = {each: {"minimum_duration": self.duration} for each in self.resources}
        if self.fails:
            runs[self.struck]["outcomes"] = [{"fail": "as the chaos test wants it", "times": 100}]
        if self.in_slices:
            runs[self.struck]["outcomes"] = [{"chunks": SLICES, "times": 100}]
        if self.first_fails:
            runs[self.resources[0]] = {"minimum_duration": 0, "outcomes": [{"fail": "as the chaos test wants it"}]}
        return runs


@dataclass
class _Maker:
    """Factory of cases."""

    rng: random.Random
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def make(
        self,
        kind: str,
        *,
        deferrable: bool,
        steps: Sequence[str] = (),
        fault: str | None = None,
        worker: bool = False,
        option: str | None = None,
        rival: bool = False,
    ) -> Case:
        # A later pass of a deferred task starts its own count of steps.
        in_one_pass = AT_A_TIME if option == LIMIT and deferrable else STREAMS_OF_A_SYNC
        kills = tuple(f"{step}:{self._time(kind, step, in_one_pass)}" for step in steps)
        if fault is not None and fault.startswith("task killed"):
            what = "option" if fault in OPTION_FAULTS else "post"
            kills += (f"during_{what}:{2 if kind == 'elt_sync' else 1}",)
        duration = self.rng.choice((0.0, 1.5, 3.0))
        if rival:
            # Two runs follow each other.
            duration = 2.0
        elif fault in POLL_FAULTS or not {"poll", "defer", "defer_again", "resume"}.isdisjoint(steps):
            # A shorter run could end before the wait or before the planned poll, because the service may be down.
            duration = 10.0
        elif fault == "carried out late":
            # A longer run would conflict with a repeated request.
            duration = 0.5
        elif fault in {TRIGGERER, ALL_SERVERS}:
            duration = self.rng.choice((12.0, 20.0))
        elif fault in SERVER_FAULTS:
            # Queued runs may start late.
            duration = 30.0 if SERVER_FAULTS[fault] is None else self.rng.choice((1.5, 12.0))
        elif option == LIMIT:
            # Shorter runs would never overlap.
            duration = 3.0
        number = next(self.numbers)
        fails = number % 4 == 0 and not rival and self._can_fail(kind, kills, fault)
        in_slices = kind == "elt_stream" and not fails and number % 2 == 0
        return Case(
            number, kind, deferrable, kills, fault, fails, duration, worker, in_slices, option=option, rival=rival
        )

    def first_fails(self, *, deferrable: bool) -> Case:
        """
        Return a sync with a limit that is killed with one failed run and as many active runs as the limit allows.

        These runs are still active at the retry.
        """
        kill = "defer_again:1" if deferrable else f"after_reference:{AT_A_TIME + 1}"
        number = next(self.numbers)
        return Case(number, "elt_sync", deferrable, (kill,), duration=20.0, option=LIMIT, first_fails=True)

    @staticmethod
    def _can_fail(kind: str, kills: Sequence[str], fault: str | None) -> bool:
        """
        Return True if a case can have a failed run.

        After a failed run, a retry correctly starts another one. So the task must not be killed after the possible end
        of that run. In a sync, that is the run of the second stream.
        """
        early = {f"{step}:{n}" for step in (*BEFORE_THE_POST, *AROUND_THE_OPTION) for n in (1, 2)}
        several_in_sync = kind == "elt_sync" and len(kills) > 1
        # With these faults, too, the first try does not learn of its run.
        unheard = fault == LOST_TWICE or (fault or "").startswith(("task killed", *SERVERS))
        return early.issuperset(kills) and not several_in_sync and not unheard

    def _time(self, kind: str, step: str, in_one_pass: int) -> int:
        """Return the n in ``step:n``: each stream of a sync has a separate one, and polls precede the start, too."""
        if step == "poll":
            return self.rng.randint(7, 9) if kind == "elt_sync" else self.rng.randint(2, 4)
        several = kind == "elt_sync" and step not in ("begin", "defer", "defer_again", "resume", "done")
        return self.rng.randint(1, STREAMS_OF_A_SYNC if "final" in step else in_one_pass) if several else 1


def troubles(*, deferrable: bool) -> list[tuple[tuple[str, ...], str | None]]:
    """Return each single fault of a mode: steps of a kill, and a fault."""
    steps = (*BEFORE_THE_POST, *SINCE_THE_POST, *WAITING[deferrable], *AT_THE_END)
    faults = [*FAULTS, TRIGGERER] if deferrable else [*FAULTS]
    return [*(((step,), None) for step in steps), *(((), fault) for fault in faults)]


def option_cases(maker: _Maker) -> Iterator[Case]:
    """Return a case for each fault with an option, or with a limit of the runs of a sync."""
    options = [(kind, option) for kind, options in OPTIONS.items() for option in options]
    once = {option: (kind, option) for kind, option in reversed(options)}.values()
    for deferrable in (True, False):
        for steps, fault in troubles(deferrable=deferrable):
            for position, (kind, option) in enumerate(once):
                # Faults that do not concern the option are tested in alternating modes.
                if fault is None or (position + deferrable) % 2 == 0:
                    yield maker.make(kind, deferrable=deferrable, steps=steps, fault=fault, option=option)
        for kind, option in options:
            if option == LIMIT:
                steps = ("defer_again",) if deferrable else ("after_post", "poll")
                yield maker.make(kind, deferrable=deferrable, steps=steps, option=option)
                yield maker.first_fails(deferrable=deferrable)
                continue
            for step in AROUND_THE_OPTION:
                yield maker.make(kind, deferrable=deferrable, steps=(step,), option=option)
            for fault in OPTION_FAULTS:
                yield maker.make(kind, deferrable=deferrable, fault=fault, option=option)
            if kind == "elt_sync":
                continue
            for steps in ((), *((step,) for step in (*WAITING[deferrable], *AT_THE_END))):
                yield maker.make(kind, deferrable=deferrable, steps=steps, option=option, rival=True)


def server_cases(maker: _Maker) -> Iterator[Case]:
    """Return a case for the kill of each server, at each step and for each kind, in alternating modes."""
    for number, fault in enumerate((*SERVER_FAULTS, ALL_SERVERS)):
        for position, kind in enumerate(KINDS):
            yield maker.make(kind, deferrable=(number + position) % 2 == 0, fault=fault)


def few_of_options(seed: int) -> list[Case]:
    maker = _Maker(random.Random(seed), itertools.count(801))  # noqa: S311 - no secret
    return [
        maker.make("elt_stream", deferrable=True, steps=("after_option",), option=FULL_REFRESH),
        maker.make("reverse_etl", deferrable=False, steps=("after_option",), option=RETRY),
        maker.make("reverse_etl", deferrable=True, option=RETRY, rival=True),
        replace(maker.first_fails(deferrable=False), duration=12.0),
    ]


def few_of_servers(seed: int) -> list[Case]:
    """Return cases for the kill of all servers."""
    maker = _Maker(random.Random(seed), itertools.count(901))  # noqa: S311 - no secret
    return [
        # Both tasks wait at the same time, so one kill affects both.
        replace(maker.make(kind, deferrable=deferrable, fault=ALL_SERVERS), duration=15.0)
        for kind, deferrable in (("elt_stream", True), ("orchestration", False))
    ]


def few(seed: int) -> list[Case]:
    """
    Return a case for the kill of each program at each step, distributed over all kinds and both modes.

    Faults of the service without a kill are in the cases against the hostile service.
    """
    maker = _Maker(random.Random(seed))  # noqa: S311 - no secret
    kinds = itertools.cycle(KINDS)
    cases: list[Case] = []
    # Only waits differ between the modes. Other steps are tested in alternating modes.
    for steps, fault in troubles(deferrable=True):
        if steps or fault == TRIGGERER or fault in FAULTS_WITH_KILL:
            own = {*WAITING[True], TRIGGERER}.intersection((*steps, fault))
            deferrable = bool(own) or len(cases) % 2 == 0
            cases.append(maker.make(next(kinds), deferrable=deferrable, steps=steps, fault=fault))
    cases += [maker.make(next(kinds), deferrable=False, steps=(step,)) for step in WAITING[False]]
    # Earlier failures of this test.
    cases += [
        maker.make("elt_sync", deferrable=True, steps=("after_final",)),
        maker.make("orchestration", deferrable=False, steps=("done",)),
    ]
    return cases


def all_single(seed: int) -> list[Case]:
    """Return a case for each fault, for each kind in each mode."""
    maker = _Maker(random.Random(seed))  # noqa: S311 - no secret
    single = [
        maker.make(kind, deferrable=deferrable, steps=steps, fault=fault)
        for deferrable in (True, False)
        for steps, fault in troubles(deferrable=deferrable)
        for kind in KINDS
    ]
    return [*single, *option_cases(maker), *server_cases(maker)]


def combined(seed: int, count: int, after: int) -> list[Case]:
    rng = random.Random(seed)  # noqa: S311 - no secret
    maker = _Maker(rng, itertools.count(after + 1))
    cases = []
    for _ in range(count):
        deferrable = rng.random() < 0.5
        steps = [each for each, fault in troubles(deferrable=deferrable) if fault is None]
        faults = [fault for each, fault in troubles(deferrable=deferrable) if fault is not None]
        chosen = {step for each in rng.sample(steps, rng.randint(1, 3)) for step in each}
        kind = rng.choice(KINDS)
        option = rng.choice(OPTIONS[kind]) if kind in OPTIONS and rng.random() < MORE else None
        if option in _OPTION_REQUESTS:
            faults += OPTION_FAULTS
            chosen |= set(rng.sample(AROUND_THE_OPTION, rng.randint(0, 1)))
        fault = rng.choice([*faults, *SERVER_FAULTS]) if rng.random() < 0.7 else None
        worker = rng.random() < WORKERS
        cases.append(
            maker.make(kind, deferrable=deferrable, steps=sorted(chosen), fault=fault, worker=worker, option=option)
        )
    return cases


def seed_of(cases: Sequence[Case], folder: str) -> seeds.Json:
    """Return the seed with the resources of cases."""
    seed: dict[str, list[seeds.Json]] = {
        "connections": [
            seeds.connection("rows", "files", path=folder),
            seeds.connection("exports", "jsonl", path=f"{folder}/out"),
        ],
        "transforms": [
            seeds.transform("numbers", "SELECT range AS id FROM range(20)"),
            # A record without a key is refused.
            seeds.transform("one_refused", "SELECT nullif(range, 0) AS id FROM range(20)"),
        ],
        "elt_syncs": [],
        "orchestrations": [],
        "reverse_etl_syncs": [],
    }
    for case in cases:
        name = case.task_id
        match case.kind:
            case "elt_stream" | "elt_sync":
                streams = [seeds.stream(each, f"rows_{number}") for number, each in enumerate(case.resources)]
                seed["elt_syncs"].append(seeds.elt_sync(case.sync_id, "rows", streams, destination_schema_name=name))
            case "orchestration":
                seed["orchestrations"].append(seeds.orchestration(name, cron_schedule="0 0 1 1 *"))
            case "transform":
                table = {"folder_path": "chaos", "materialization": "table", "publish": False}
                seed["transforms"].append(seeds.transform(name, "SELECT 1 AS id", **table))
            case _:
                source = "one_refused" if case.option == RETRY else "numbers"
                seed["reverse_etl_syncs"].append(seeds.reverse_etl_sync(name, source, "exports"))
    return seed
