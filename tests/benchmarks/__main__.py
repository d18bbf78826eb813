"""
Benchmarks: ``python -m tests.benchmarks [imports | waits | histories | report]``.

Without a command, runs the measurements of ``make bench``, which take some minutes, and prints the tables.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.adapters import ADAPTERS
from tests.benchmarks.by_history import measure_by_history
from tests.benchmarks.environment import Machine, versions
from tests.benchmarks.imports import IMPORTABLE, measure_imports
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import PAGE, report, write
from tests.benchmarks.results import FOLDER, Keeper, Results
from tests.benchmarks.waits import Limits, Waited, measure_waits
from tests.support.processes import ProgramError

#: Distribution whose version is also reported.
_AIRFLOW = "apache-airflow"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    made.set_defaults(set="main", python=sys.executable)
    # No default in the parser of a command: it would override an option before the command.
    common.add_argument("--set", default=argparse.SUPPRESS, help="set of results to which the new ones are added")
    for each in (made, common):
        each.add_argument("--python", type=_absolute, default=argparse.SUPPRESS, help="measured interpreter")
    words = made.add_subparsers(dest="word")
    imports = words.add_parser("imports", parents=[common], help="cost of the imports of a DAG file")
    imports.add_argument("--repetitions", type=int, default=5)
    waits = words.add_parser("waits", parents=[common], help="cost and delay of many concurrent waits")
    waits.add_argument("--count", type=_counts, default=[100, 500, 1000], help="numbers of waits, such as 100,500")
    waits.add_argument("--latency", type=float, default=0.0, help="latency of the service in seconds")
    waits.add_argument("--poll", type=float, default=1.0, help="poll interval in seconds")
    waits.add_argument("--ramp", type=float, default=1.0, help="seconds within which the triggers start")
    waits.add_argument("--window", type=float, default=8.0, help="duration of the measured window in seconds")
    waits.add_argument("--start-limit", type=float, default=30.0, help="time limit of the start in seconds")
    waits.add_argument("--finish-limit", type=float, default=30.0, help="time limit of the detection of all ends")
    waits.add_argument("--repetitions", type=int, default=1)
    waits.add_argument("--only", help="parts of names, such as streams,dbt (default: all without adaptive intervals)")
    histories = words.add_parser("histories", parents=[common], help="poll intervals for runs with earlier runs")
    histories.add_argument("--typical", type=float, default=60.0, help="typical duration of a run in seconds")
    histories.add_argument("--group", type=int, default=100, help="number of runs per poll interval")
    reported = words.add_parser("report", parents=[common], help="tables of a set of results")
    reported.add_argument("--write", action="store_true", help=f"write the tables into docs/{PAGE.name}")
    return made


def main(arguments: Sequence[str]) -> int:
    # Exit with cleanup, so that started processes are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = parser().parse_args(arguments)
    if chosen.word is None:
        chosen.set = time.strftime("default-%Y%m%dT%H%M%S")
        for word in ("imports --repetitions 3", "waits --window 5"):
            measured = parser().parse_args([*word.split(), "--set", chosen.set, "--python", chosen.python])
            _measure(measured)
        print("\n" + report(Results.read(FOLDER / f"{chosen.set}.jsonl")))
        return 0
    if chosen.word == "report":
        text = report(Results.read(FOLDER / f"{chosen.set}.jsonl"))
        write(text) if chosen.write else print(text)
        return 0
    _measure(chosen)
    return 0


def _measure(chosen: argparse.Namespace) -> None:
    keeper = Keeper(FOLDER / f"{chosen.set}.jsonl")
    wanted = {_AIRFLOW, *(each.distribution for each in IMPORTABLE)}
    found = versions(chosen.python, sorted(wanted))
    for missing in sorted(wanted - found.keys()):
        print(f"skipped: {missing} is not installed", flush=True)
    keeper.keep(Machine.this(found))
    match chosen.word:
        case "imports":
            names = [each.name for each in IMPORTABLE if each.distribution in found]
            for imported in measure_imports(names, chosen.repetitions, chosen.python):
                keeper.keep(imported)
                print(f"import {imported.name}: {1e3 * imported.cpu:.1f} ms of CPU", flush=True)
        case "waits":
            _measure_waits(
                chosen, keeper, [name for name in _names(chosen.only) if ADAPTERS[name].distribution in found]
            )
        case _:
            for followed in measure_by_history(chosen.typical, chosen.group, chosen.python):
                keeper.keep(followed)
                way = "adaptive" if followed.interval is None else f"every {followed.interval:g} s"
                print(
                    f"{way}{' of one sync' if followed.is_shared else ''}: {followed.requests} requests, "
                    f"{len(followed.delays)} ends, p50 {followed.delay(0.5)} s",
                    flush=True,
                )


def _measure_waits(chosen: argparse.Namespace, keeper: Keeper, names: list[str]) -> None:
    limits = Limits(chosen.window, chosen.start_limit, chosen.finish_limit)
    # Alternate the adapters, so that a slow period of the machine affects all of them.
    for _ in range(chosen.repetitions):
        for count in chosen.count:
            for name in names:
                began = time.monotonic()
                plan = Plan(name, count, chosen.poll, chosen.latency, chosen.ramp)
                try:
                    waited = measure_waits(plan, limits, chosen.python)
                except (ProgramError, subprocess.SubprocessError) as error:
                    keeper.keep_failure(name, count, chosen.latency, str(error))
                    outcome = f"not measured: {error}"
                else:
                    keeper.keep(waited)
                    outcome = _line(waited)
                print(f"{time.monotonic() - began:5.1f} s  N={count} {name}: {outcome}", flush=True)


def _line(waited: Waited) -> str:
    cpu = waited.cpu_per_check
    lag = waited.lag
    return (
        f"{'-' if cpu is None else f'{1e3 * cpu:.3f}'} ms per check, "
        f"lag p99 {'-' if lag is None else f'{1e3 * lag.p99:.1f}'} ms, "
        f"detection delay p99 {waited.delay_p99 if waited.delay_p99 is None else round(waited.delay_p99, 2)} s, "
        f"{waited.events} events, {waited.bad} bad"
    )


def _names(only: str | None) -> list[str]:
    if only is None:
        return [name for name, adapter in ADAPTERS.items() if not adapter.is_adaptive]
    return [name for name in ADAPTERS if any(part in name for part in only.split(","))]


def _absolute(path: str) -> str:
    # Do not resolve links, because the interpreter of an environment is a link.
    return str(Path(path).absolute())


def _counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
