"""
Seconds from the end of a run to the success of its task: ``make latency``, or ``python -m tests.system.latency``.

Compares blocking and deferrable tasks with LocalExecutor and CeleryExecutor, and a trivial deferrable task as baseline.
Needs PostgreSQL and Redis (``apt-get install postgresql redis-server``) and the packages of
``tests/system/celery-requirements.txt``. Exit status: 0 if all tasks succeeded.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from importlib.metadata import distributions

from tests.benchmarks.environment import ROOT
from tests.benchmarks.table import with_table
from tests.support import postgresql
from tests.support.redis_server import PROGRAM as REDIS
from tests.system.latency.figures import BEGIN, EXECUTORS, Measurement, Results
from tests.system.latency.measure import measure
from tests.system.latency.plan import estimated_seconds

PAGE = ROOT / "docs" / "performance.md"


def executors(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in EXECUTORS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(EXECUTORS)}")
    return names


def durations(text: str) -> list[float]:
    seconds = sorted({float(each) for each in text.split(",")})
    if not all(0 < each <= 3600 for each in seconds):
        raise argparse.ArgumentTypeError("durations are seconds, more than 0 and at most 3600")
    return seconds


def missing(names: list[str]) -> list[str]:
    """Return a line for each missing program and package."""
    lines = []
    if postgresql.programs() is None:
        lines.append("PostgreSQL is missing: apt-get install postgresql")
    packages = {"asyncpg", "psycopg2-binary"}
    if "celery" in names:
        packages |= {"apache-airflow-providers-celery", "redis"}
        if shutil.which(REDIS) is None:
            lines.append("Redis is missing: apt-get install redis-server")
    if absent := packages - {one.name for one in distributions()}:
        lines.append(f"Not installed: {', '.join(sorted(absent))}. make latency installs them into .venv-celery.")
    return lines


def say(line: str) -> None:
    """Print a line at once, with the time."""
    print(time.strftime("%H:%M:%S"), line, flush=True)


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.latency", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="runs of each kind (default: %(default)s)")
    parser.add_argument("--executors", type=executors, default="local,celery", help="(default: %(default)s)")
    parser.add_argument("--durations", type=durations, default="1,5,10,60", help="of a run, s (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="the same as --runs 1 --durations 1")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    if given.quick:
        given.runs, given.durations = 1, [1.0]
    if given.runs < 1:
        parser.error("--runs is at least 1")
    if lines := missing(given.executors):
        parser.exit(2, "".join(f"{line}\n" for line in lines))
    estimate = estimated_seconds(len(given.executors), given.durations, given.runs)
    say(f"estimated time: {estimate / 60:.0f} minutes")
    begun = time.monotonic()
    measurements: list[Measurement] = []
    for executor in given.executors:
        measurements += measure(executor, given.durations, given.runs, say)
    results = Results(measurements)
    say(f"measured in {(time.monotonic() - begun) / 60:.1f} minutes\n")
    tables = results.tables()
    print(tables)
    for line in results.comparisons():
        print(line)
    if given.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), BEGIN, tables), encoding="utf-8")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
