"""Named faults of a service, alone or combined, for cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.hostile import Plan, Window
from tests.support.hostile_cases import RESOURCE_KINDS, Case

GOOD = Plan(duration=200.0, delay=20.0)


@dataclass(frozen=True)
class Trouble:
    """
    Fault of the service that affects a task.

    :param faults: fields of the faults of the resource.
    :param account: fields of the faults of the whole service.
    :param case: fields of the case.
    :param kinds: kinds of resource that can have it; all if empty.
    :param passes: True if a retried task succeeds despite the fault.
    """

    faults: Mapping[str, Any] = field(default_factory=dict)
    account: Mapping[str, Any] = field(default_factory=dict)
    case: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    passes: bool = True

    def fits(self, case: Case) -> bool:
        """Return True if the case can have it."""
        return not self.kinds or RESOURCE_KINDS[case.kind] in self.kinds

    @property
    def fields(self) -> set[str]:
        """Return the fields that it sets. Troubles that set the same field can't be combined."""
        parts = {"faults": self.faults, "account": self.account, "case": self.case}
        return {f"{part}.{name}" for part, given in parts.items() for name in given}


LISTED = ("elt_stream", "reverse_etl")
ORCHESTRATION = ("orchestration",)

TROUBLES: dict[str, Trouble] = {
    "replica 3 s behind": Trouble({"lags": (0.0, 3.0)}),
    "replica 20 s behind": Trouble({"lags": (0.0, 20.0)}),
    "all replicas 8 s behind": Trouble({"lags": (8.0,)}),
    "sticky replica 12 s behind": Trouble({"lags": (0.0, 12.0), "sticky": True}),
    "start executed, 502": Trouble({"losses": ("executed_502",)}),
    "start executed, connection dropped": Trouble({"losses": ("executed_drop",)}),
    "start executed, malformed response": Trouble({"losses": ("executed_malformed",)}),
    "start executed, lost twice": Trouble({"losses": ("executed_502", "executed_drop")}),
    "start executed 20 s late": Trouble({"losses": ("late",), "late_by": 20.0}),
    "start executed 90 s late": Trouble({"losses": ("late",), "late_by": 90.0}),
    "start not executed, 502": Trouble({"losses": ("502",)}),
    "start not executed, dropped twice": Trouble({"losses": ("drop", "drop")}),
    "start lost, another run starts": Trouble({"losses": ("502",), "stranger": True}, kinds=ORCHESTRATION),
    "404 to a read": Trouble({"glitches": ((5, "404"),)}),
    "404 to the first read": Trouble({"glitches": ((0, "404"),)}),
    "404 to reads for 5 s": Trouble({"not_found": Window(40, 45)}),
    "404 to reads for a minute": Trouble({"not_found": Window(40, 100)}),
    "400 to a read": Trouble({"glitches": ((6, "400"),)}),
    "400 to reads for 30 s": Trouble({"bad_request": Window(50, 80)}),
    "malformed responses to reads": Trouble({"glitches": ((4, "malformed"), (6, "html"), (7, "empty"))}),
    "malformed responses for 3 min": Trouble({"broken": Window(60, 240), "broken_as": "html"}),
    "failing reads": Trouble({"glitches": ((2, "502"), (4, "503"), (5, "drop"), (7, "500"), (8, "429"))}),
    "another account for 20 s": Trouble(account={"other_account": Window(40, 60)}),
    "another account at the start": Trouble(account={"other_account": Window(0, 10)}),
    "401 for 30 s": Trouble(account={"other_account": Window(50, 80), "other_account_status": 401}),
    "429 with Retry-After": Trouble(
        account={"unavailable": Window(50, 90), "unavailable_status": 429, "retry_after": "10"}
    ),
    "429 with epoch seconds in Retry-After": Trouble(
        account={"unavailable": Window(50, 90), "unavailable_status": 429, "retry_after": "1763848000"}
    ),
    "429 with Retry-After 0": Trouble(
        account={"unavailable": Window(0, 50), "unavailable_status": 429, "retry_after": "0"}
    ),
    "503 with a past date in Retry-After": Trouble(
        account={"unavailable": Window(0, 50), "retry_after": "Thu, 01 Jan 1970 00:00:00 GMT"}
    ),
    "503 with an overflowing Retry-After": Trouble(account={"unavailable": Window(60, 70), "retry_after": "9" * 40}),
    "503 with a date of the far future in Retry-After": Trouble(
        account={"unavailable": Window(60, 70), "retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"}
    ),
    "503 at the start": Trouble(account={"unavailable": Window(0, 20)}),
    "503 for 10 min": Trouble(account={"unavailable": Window(60, 660)}),
    "ID format changes during the run": Trouble(account={"id_change_at": 100.0}, passes=False),
    "ID format changes at the start": Trouble(account={"id_change_at": 0.1}),
    "timestamps of whole seconds": Trouble({"timestamps": "seconds"}),
    "timestamps with nanoseconds": Trouble({"timestamps": "nanoseconds"}),
    "timestamps in lower case": Trouble({"timestamps": "lowercase"}),
    "timestamps with an offset": Trouble({"timestamps": "offset"}),
    "absent times are null": Trouble({"absent_times": "null"}),
    "absent times are zero": Trouble({"absent_times": "zero"}),
    "start times are zero": Trouble({"zero_started": True}),
    "no status while running": Trouble({"omit_status": True}, kinds=("elt_stream",)),
    "planned runs": Trouble({"planned": 2}, kinds=ORCHESTRATION),
    "planned runs, canceled": Trouble({"planned": 2, "planned_canceled": True}, kinds=ORCHESTRATION),
    "another run, attach": Trouble(case={"rival": 150.0}, kinds=LISTED),
    "another run, wait": Trouble(case={"rival": 150.0, "if_running": "wait"}, kinds=LISTED),
    "another run, fail": Trouble(case={"rival": 150.0, "if_running": "fail"}, kinds=LISTED, passes=False),
    "another run, skip": Trouble(case={"rival": 150.0, "if_running": "skip"}, kinds=LISTED, passes=False),
    "409 without a run": Trouble({"conflict": "unnamed"}, case={"rival": 150.0, "if_running": "wait"}, kinds=LISTED),
    "409 names a finished run": Trouble(
        {"conflict": "finished"}, case={"rival": 150.0, "if_running": "wait"}, kinds=LISTED, passes=False
    ),
    "409 names a missing run": Trouble(
        {"conflict": "missing"}, case={"rival": 150.0, "if_running": "wait"}, kinds=LISTED, passes=False
    ),
    "409 names a finished run, attach": Trouble(
        {"conflict": "finished"}, case={"rival": 150.0}, kinds=LISTED, passes=False
    ),
    "409 for ever": Trouble(
        {"stuck_conflict": Window()}, case={"if_running": "wait", "tries": 2}, kinds=LISTED, passes=False
    ),
    "409 for ever, attach": Trouble(
        {"stuck_conflict": Window(), "conflict": "missing"}, case={"tries": 2}, kinds=LISTED, passes=False
    ),
    "updated_at does not change": Trouble({"fixed_updated_at": True}, kinds=("transform",)),
    "updated_at does not change, the build fails": Trouble(
        {"fixed_updated_at": True},
        case={"plans": (replace(GOOD, outcome="FAILED"),), "tries": 1},
        kinds=("transform",),
        passes=False,
    ),
    "the first run fails": Trouble(case={"plans": (replace(GOOD, outcome="FAILED"), GOOD)}),
    "failed runs repeat the API key": Trouble(
        {"echo_key": True}, case={"plans": (replace(GOOD, outcome="FAILED"),), "tries": 1}, passes=False
    ),
    "rows fail and the key is repeated": Trouble(
        {"echo_key": True},
        case={"plans": (replace(GOOD, failed_rows=3),), "tries": 1},
        kinds=("reverse_etl",),
        passes=False,
    ),
    "the load goes on in slices": Trouble(
        case={"plans": (Plan(duration=60.0, delay=5.0, outcome="CHUNK_COMPLETED"),)}, kinds=("elt_stream",)
    ),
    "the run starts late": Trouble(case={"plans": (replace(GOOD, delay=900.0),)}),
    "killed before the intent is stored": Trouble(case={"killed": ("before", 1)}),
    "killed before the request": Trouble(case={"killed": ("after", 1)}),
    "killed after the request": Trouble(case={"killed": ("before", 2)}),
    "killed when the run is stored": Trouble(case={"killed": ("after", 2)}),
    "tried again soon": Trouble(case={"retry_delay": 15.0, "tries": 5}),
    "behind a proxy": Trouble(case={"proxy": True}),
    "the proxy answers 502 for 30 s": Trouble(
        account={"unavailable": Window(50, 80), "unavailable_status": 502}, case={"proxy": True}
    ),
    "the proxy asks for credentials for 30 s": Trouble(
        account={"unavailable": Window(50, 80), "unavailable_status": 407}, case={"proxy": True}
    ),
    "the run is short": Trouble(case={"plans": (Plan(duration=0.5),)}),
}


def can_be_combined(names: Sequence[str]) -> bool:
    """Return True if no two of these troubles set the same field."""
    fields = [field for name in names for field in TROUBLES[name].fields]
    return len(fields) == len(set(fields))


def with_troubles(case: Case, names: Sequence[str]) -> Case:
    """Return a copy of a case with additional troubles."""
    for name in names:
        trouble = TROUBLES[name]
        case = replace(
            case,
            faults=replace(case.faults, **trouble.faults),
            account=replace(case.account, **trouble.account),
            **trouble.case,
        )
    return case


def must_succeed(names: Sequence[str]) -> bool:
    """Return True if the last try of a task with these troubles has to succeed."""
    return all(TROUBLES[name].passes for name in names)
