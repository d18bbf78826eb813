"""
Requests per second of 1, 2 and 4 triggerers with a rate limit: ``python -m tests.benchmarks.request_rate``.

Each triggerer is a process with its own event loop, and runs the released trigger. A machine of its own is a temporary
folder of its own, because the processes of a machine share a rate limit through a file in that folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.table import TABLE_END, number, table, with_table
from tests.packaging.versions import ROOT
from tests.support.many_runs import ManyRunsServer
from tests.support.processes import Workspace, wait_for
from tests.support.scripted_server import Reply
from tests.unit.runs.many_waits import many

BEGIN, END = "<!-- table: python -m tests.benchmarks.request_rate --write -->\n", TABLE_END
PAGE = ROOT / "docs" / "polling.md"
#: Waits of all triggerers together, each with one request per second if there is no limit.
WAITS = 100
#: Requests per second of the connection.
LIMIT = 20.0
#: Seconds within which all triggerers must have sent a request.
_START_LIMIT = 120.0
_HEAD = (
    "Triggerers",
    "Machines",
    "`rate_limit_shares`",
    "Accepted per second",
    "Requests per second",
    "Most in one second",
    "Refused with 429",
)


@dataclass(frozen=True, slots=True)
class Case:
    """
    A deployment.

    :param triggerers: number of triggerers.
    :param machines: number of machines on which they run.
    :param shares: value of ``[datapipe] rate_limit_shares``.
    :param limit: ``max_requests_per_second`` of the connection; None for no limit.
    :param accepted: requests that the service accepts in each second; None for all.
    """

    triggerers: int
    machines: int = 1
    shares: int = 1
    limit: float | None = LIMIT
    accepted: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """
    Requests within the measured time.

    :param requests: number of requests.
    :param most: largest number of requests within one second.
    :param refused: number of responses with status 429.
    :param seconds: measured time.
    """

    requests: int
    most: int
    refused: int
    seconds: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


CASES = (
    *(Case(count, limit=None) for count in (1, 2, 4)),
    *(Case(count) for count in (1, 2, 4)),
    *(Case(count, machines=count, shares=count) for count in (2, 4)),
    *(Case(count, machines=count, accepted=round(LIMIT)) for count in (1, 2, 4)),
)


def measure(case: Case, settle: float, window: float) -> Measured:
    """
    Count the requests of a deployment.

    :param case: the deployment.
    :param settle: seconds between the first requests and the measured time.
    :param window: measured time in seconds.
    """
    runs = many(time.time(), reverse_etl=WAITS)
    accepted: list[float] = []
    refused: list[float] = []

    def refuse(_: str, now: float) -> Reply | None:
        if case.accepted is not None and sum(at > now - 1 for at in accepted[-case.accepted :]) >= case.accepted:
            refused.append(now)
            return Reply(429, {"error_code": "too_many_requests", "message": "too many requests"})
        accepted.append(now)
        return None

    runs.fault = refuse
    with ManyRunsServer(runs) as server, Workspace("datapipe-rate-") as workspace:
        extra = {"poll_interval": 1, "max_requests_per_second": case.limit}
        connection = {"conn_type": "datapipe", "host": server.url, "password": "key", "extra": extra}
        programs = []
        for index in range(case.triggerers):
            machine = workspace.path / f"machine{index % case.machines}"
            machine.mkdir(exist_ok=True)
            env = os.environ | {
                "TMPDIR": str(machine),
                "PYTHONPATH": str(ROOT),
                "AIRFLOW_HOME": str(workspace.path / f"home{index}"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__DATAPIPE__RATE_LIMIT_SHARES": str(case.shares),
                "AIRFLOW_CONN_DATAPIPE_DEFAULT": json.dumps(connection),
            }
            own = ",".join(list(runs.reverse_etl)[index :: case.triggerers])
            command = [sys.executable, "-m", "tests.benchmarks.request_rate", "--triggerer", own]
            programs.append(workspace.start(f"triggerer{index}", command, env=env))
        firsts = [f"/reverse_etl_sync_runs/r{index}" for index in range(case.triggerers)]
        wait_for("all triggerers poll", lambda: runs.per_path.keys() >= set(firsts), limit=_START_LIMIT, watch=programs)
        time.sleep(settle)
        began = time.time()
        time.sleep(window)
        seconds = time.time() - began
        times = [each.at for each in runs.asked if began <= each.at < began + seconds]
    most = max((sum(at <= other < at + 1 for other in times) for at in times), default=0)
    return Measured(len(times), most, sum(began <= at < began + seconds for at in refused), seconds)


def report(results: Sequence[tuple[Case, Measured]]) -> str:
    """Return the table of the page."""
    rows = [
        (
            str(case.triggerers),
            str(case.machines),
            "no limit" if case.limit is None else str(case.shares),
            "all" if case.accepted is None else str(case.accepted),
            number(measured.rate),
            str(measured.most),
            "-" if case.accepted is None else f"{100 * measured.refused / max(measured.requests, 1):.1f}%",
        )
        for case, measured in results
    ]
    return table(_HEAD, rows)


async def _wait(run_ids: Sequence[str]) -> None:
    """Run the triggers of a triggerer, until the process is stopped."""
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.wait import WaitPolicy
    from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger
    from tests.unit.runs.many_waits import reverse_etl

    async def run(run_id: str) -> None:
        batch = Batch("reverse_etl", waiting=[reverse_etl(run_id)])
        trigger = DatapipeRunTrigger("datapipe_default", batch.as_dict(), WaitPolicy(poll_interval=1.0).as_dict())
        async for event in trigger.run():
            raise RuntimeError(f"{run_id}: {event.payload}")

    await asyncio.gather(*map(run, run_ids))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.request_rate", description=__doc__)
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before the measured time")
    parser.add_argument("--window", type=float, default=30.0, help="measured time in seconds")
    parser.add_argument("--write", action="store_true", help=f"write the table to docs/{PAGE.name}")
    parser.add_argument("--triggerer", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.triggerer:
        asyncio.run(_wait(chosen.triggerer.split(",")))
        return 0
    results = []
    for case in CASES:
        settle = 3.0 if case.accepted is None else chosen.settle
        results.append((case, measure(case, settle, chosen.window)))
        print(case, results[-1][1], flush=True)
    print(report(results))
    if chosen.write:
        PAGE.write_text(with_table(PAGE.read_text(), BEGIN, report(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
