"""Runs with earlier runs that end in real time: number of polls and detection delay of each kind of wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.adapters.histories import WAYS, Histories, Way
from tests.benchmarks.figures import part
from tests.benchmarks.plan import Plan
from tests.benchmarks.session import Session
from tests.support.processes import ProgramError

#: Seconds within which the end of the last run must be detected. The longest poll interval is a minute.
_SLACK = 75.0


@dataclass(frozen=True, slots=True)
class Followed:
    """Results of one kind of wait."""

    interval: float | None
    is_shared: bool
    typical: float
    count: int
    requests: int
    delays: Sequence[float]
    bad: int
    said: Sequence[str]

    def delay(self, share: float) -> float | None:
        """Return the delay within which a share of the ends was noticed, in seconds."""
        return part(self.delays, share)


def measure_by_history(
    typical: float, group: int, python: str = sys.executable, ways: Sequence[Way] = WAYS
) -> list[Followed]:
    """
    Wait for the same runs with all kinds of waits, concurrently and with one server.

    :raises ProgramError: the stub or the client has failed, or an end was not detected.
    """
    histories = Histories(typical, group, ways)
    plan = Plan(
        Histories.name,
        histories.count,
        histories={"typical": typical, "group": group, "ways": [list(way) for way in ways]},
    )
    with Session(plan, python) as session:
        began = time.monotonic()
        session.ask_stub("begin", at=time.time())
        session.send_to_client("go")
        reported = None
        deadline = began + histories.longest + _SLACK
        while reported is None or reported["what"] != "done":
            reported = session.receive_from_client(max(0.0, deadline - time.monotonic()))
            if reported is None:
                raise ProgramError("Not all ends were seen in time.")
        asked = dict(session.ask_stub("asked")[1]["asked"])
    seen: dict[int, list[tuple[float, str | None]]] = {}
    for run, at, said in reported["events"]:
        seen.setdefault(run // group, []).append((at - began - histories.ends(run), said))
    return [
        Followed(
            interval=interval,
            is_shared=is_shared,
            typical=typical,
            count=group,
            requests=asked.get(number, 0),
            delays=sorted(delay for delay, said in seen.get(number, ()) if said is None),
            bad=sum(said is not None for _, said in seen.get(number, ())),
            said=[said for _, said in seen.get(number, ()) if said is not None][:3],
        )
        for number, (interval, is_shared) in enumerate(ways)
    ]
