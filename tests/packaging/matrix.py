"""
Tests with all supported versions of Airflow and Python: ``python -m tests.packaging.matrix``.

Runs pytest in a separate environment for each pair. Prints a table of the results, and the reasons of skipped tests.
Exit status: 0 if all tests passed, 1 if a test failed or an environment could not be created.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.table import table
from tests.packaging.counts import Counts
from tests.packaging.environments import FOLDER, NoPythonError, NotThereError, environment
from tests.packaging.versions import ROOT, airflow_in, airflows, pythons

_LOCAL = ["tests/unit/datapipe_local", "tests/contract/datapipe_local"]
SUITES = {
    # Unit and contract tests.
    "provider": ["tests/unit", "tests/contract", *(f"--ignore={folder}" for folder in _LOCAL)],
    "local": _LOCAL,
    "system": ["tests/system"],
    # Short suite for differences of older Airflow versions, before each merge with the oldest pair.
    "lowest": [
        "tests/unit/airflow",
        # Commands of a page that do not depend on the version.
        "--ignore=tests/unit/airflow/test_examples_docs.py",
        "tests/unit/test_imports.py",
        "tests/contract/test_airflow_discovery.py",
        "tests/contract/test_links.py",
        "tests/contract/test_operators.py",
        "tests/contract/test_sensors.py",
    ],
    "lowest system": ["tests/system/test_bad_input.py", "tests/system/test_sensors.py"],
}
LOWEST = ["lowest", "lowest system"]
#: Suites that start processes of Airflow.
ALONE = frozenset({"system", "lowest system"})
NOT_RUN = "-"


class Cell(NamedTuple):
    """Pair of versions."""

    airflow: str
    python: str

    @property
    def name(self) -> str:
        return f"airflow-{self.airflow}-python-{self.python}"


class Ran(NamedTuple):
    """Result of one suite."""

    cell: Cell
    suite: str
    status: int
    counts: Counts | None
    seconds: float

    def __str__(self) -> str:
        return str(self.counts) if self.counts else f"pytest ended with {self.status}"


def suites_of(cell: Cell) -> list[str]:
    """
    Return the default suites of a pair.

    Suites with real components take long, so they run with the oldest Python of each Airflow, and with the newest pair.
    The local service does not depend on Airflow, so its suite runs once for each Python, and with the oldest pair.
    """
    oldest, newest = next(iter(airflows())), list(airflows())[-1]
    suites = ["provider"]
    if cell.airflow == newest or cell == (oldest, pythons()[0]):
        suites.append("local")
    if cell.python == pythons()[0] or cell == (newest, pythons()[-1]):
        suites.append("system")
    return suites


def run(cell: Cell, suite: str, python: Path, workers: int) -> Ran:
    folder = FOLDER / "results" / cell.name
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{suite}.xml"
    written.unlink(missing_ok=True)
    spread = ["-n", str(workers), "--dist", "loadfile"] if workers and suite not in ALONE else []
    begun = time.monotonic()
    with (folder / f"{suite}.log").open("w") as log:
        done = subprocess.run(  # noqa: S603 - command of this module
            [
                str(python),
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--continue-on-collection-errors",
                f"--junitxml={written}",
                *spread,
                *SUITES[suite],
            ],
            cwd=ROOT,
            env={**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    counts = Counts.read(written) if written.exists() else None
    return Ran(cell, suite, done.returncode, counts, time.monotonic() - begun)


def report(cells: Sequence[Cell], ran: Sequence[Ran], missing: dict[Cell, str]) -> Iterator[str]:
    """Yield the report as lines of Markdown."""
    suites = [suite for suite in SUITES if any(one.suite == suite for one in ran)]
    reported = {(one.cell, one.suite): str(one) for one in ran}
    pinned = airflows()
    yield table(
        ["Airflow", "Python", *suites],
        [
            [
                str(airflow_in(pinned[cell.airflow])),
                cell.python,
                *(reported.get((cell, suite), "not there" if cell in missing else NOT_RUN) for suite in suites),
            ]
            for cell in cells
        ],
    )
    for cell, why in missing.items():
        yield f"{cell.name}: {why}\n"
    for airflow in pinned:
        reasons: Counter[str] = Counter()
        for one in ran:
            if one.counts and one.cell.airflow == airflow:
                # Maximum number of skipped tests with this reason in one environment.
                reasons |= one.counts.reasons
        yield from (f"Airflow {airflow}: skipped {count}: {reason}\n" for reason, count in sorted(reasons.items()))
    for one in ran:
        yield from (
            f"{one.cell.name}: {one.suite}: failed: {name}\n" for name in (one.counts.names if one.counts else [])
        )


def main(arguments: Sequence[str] | None = None) -> int:
    supported = airflows()
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.matrix", description=__doc__)
    parser.add_argument("--airflow", action="append", choices=list(supported), help="only this one; several times")
    parser.add_argument("--python", action="append", choices=pythons(), help="only this one; several times")
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="only this one; several times")
    parser.add_argument(
        "--workers", type=int, default=3, help="processes of pytest, where Airflow's are not beside them"
    )
    parser.add_argument("--lowest", action="store_true", help="what differs, on the oldest of all")
    asked = parser.parse_args(arguments)
    if asked.lowest:
        cells = [Cell(next(iter(supported)), pythons()[0])]
        asked.suite = LOWEST
    else:
        cells = [
            Cell(airflow, python)
            for airflow in supported
            if not asked.airflow or airflow in asked.airflow
            for python in pythons()
            if not asked.python or python in asked.python
        ]

    ran: list[Ran] = []
    missing: dict[Cell, str] = {}
    wrong = False
    for cell in cells:
        try:
            python = environment(cell.airflow, supported[cell.airflow], cell.python)
        except NotThereError as error:
            missing[cell] = str(error)
            # A missing Python is tolerated, except for the oldest one.
            wrong |= asked.lowest or not isinstance(error, NoPythonError)
            continue
        suites = asked.suite or suites_of(cell)
        run_suite = partial(run, cell, python=python, workers=asked.workers)
        # The system tests of the short suite wait half of the time.
        with ThreadPoolExecutor(len(suites) if asked.lowest else 1) as pool:
            for one in pool.map(run_suite, suites):
                ran.append(one)
                wrong |= one.status != 0
                print(f"{cell.name}: {one.suite}: {one}, {one.seconds:.0f} s", flush=True)
    print()
    print("\n".join(report(cells, ran, missing)))
    return int(wrong or not ran)


if __name__ == "__main__":
    sys.exit(main())
