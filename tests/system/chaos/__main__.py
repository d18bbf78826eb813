"""
Complete chaos test: ``python -m tests.system.chaos``, or ``make chaos``.

Each fault for each kind of run in each mode, and random combinations of faults. Exit status: 0 if each resource had
exactly one run, and each task ended with the state of its run.

The first cases use the hostile service of tests/support/hostile in this process, in simulated time. The others use real
components of Airflow, whose processes are killed.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

# Imported first, because it replaces clocks that other modules import.
import tests.support.simulated_time  # noqa: F401 - see above
from tests.support.processes import ProgramError, Workspace
from tests.system.airflow_api import AirflowApiError
from tests.system.chaos.cases import KINDS, Case, all_single, combined
from tests.system.chaos.hostile import hostile_cases, hostile_summary, play_hostile
from tests.system.chaos.play import CaseResult, Wave, connected, service_of
from tests.system.components import AirflowComponents
from tests.system.demo import terminated

CONFIG = {
    # Tasks that wait in their worker slots need little CPU time.
    "core.parallelism": "8",
    # The scheduler detects a killed worker by missing heartbeats.
    "scheduler.task_instance_heartbeat_timeout": "20",
    "scheduler.task_instance_heartbeat_timeout_detection_interval": "3",
}
#: Time limit of a wave in seconds: per case, and additionally.
PER_CASE, BESIDES = 10, 180


def play(cases: Sequence[Case], wave_size: int) -> list[CaseResult]:
    """Run the cases in waves, and return the results."""
    results: list[CaseResult] = []
    kills: Counter[str] = Counter()
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-chaos-"))
        dags = workspace.path / "dags"
        dags.mkdir()
        service = stack.enter_context(service_of(cases, workspace.path))
        airflow = stack.enter_context(AirflowComponents(dags, config=CONFIG, progress=say))
        stack.enter_context(connected(airflow, service))
        for number, together in enumerate(waves_of(cases, wave_size), 1):
            wave = Wave(f"wave_{number}", together, airflow, service, dags)
            begun = time.monotonic()
            played = wave.play(limit=BESIDES + PER_CASE * wave_size)
            results += played
            wrong = [result for result in played if result.faults]
            say(
                f"wave {number}: {len(played)} cases in {time.monotonic() - begun:.0f} s, {len(wrong)} wrong; killed:"
                f" {', '.join(f'{victim} {times}' for victim, times in wave.kills.items())}"
            )
            kills.update(wave.kills)
            for result in wrong:
                say(str(result))
    say(f"killed: {', '.join(f'{victim} {times}' for victim, times in kills.items())}")
    return results


def waves_of(cases: Sequence[Case], wave_size: int) -> Iterator[list[Case]]:
    """Return waves of compatible and different cases."""
    for company in sorted({case.company for case in cases}):
        those = [case for case in cases if case.company == company]
        if not company:
            # A kill during a request affects several tasks that start together.
            those.sort(key=lambda case: case.number % 7)
        for begin in range(0, len(those), wave_size):
            yield those[begin : begin + wave_size]


def summary(results: Sequence[CaseResult]) -> str:
    """Return the numbers of results by fault, and by kind and mode."""
    troubles: dict[str, list[CaseResult]] = {}
    for result in results:
        case = result.case
        several = len(case.kills) + (case.fault is not None) - any(kill.startswith("during") for kill in case.kills) > 1
        trouble = "several of these" if several else re.sub(r":\d+", "", case.trouble)
        troubles.setdefault(trouble, []).append(result)
    if killed := [result for result in results if result.case.worker and result.case.kills]:
        troubles["of these: with the worker"] = killed
    for option in sorted({result.case.option or "" for result in results} - {""}):
        troubles[f"of these: {option}"] = [result for result in results if result.case.option == option]
    columns = [f"{kind} {mode}" for kind in KINDS for mode in ("deferred", "blocking")]
    lines = [f"{'':48}{'cases':>6}{'struck':>8}{'resources':>11}{'runs':>6}{'tries':>7}{'wrong':>7}"]
    groups = {**troubles, **{column: [v for v in results if _column(v) == column] for column in columns}}
    for name, group in [*groups.items(), ("all", list(results))]:
        counts = Counter(
            cases=len(group),
            struck=sum(result.struck for result in group),
            resources=sum(len(result.runs) for result in group),
            runs=sum(sum(result.runs) for result in group),
            tries=sum(result.tries for result in group),
            wrong=sum(bool(result.faults) for result in group),
        )
        lines.append(
            f"{name:48}{counts['cases']:6}{counts['struck']:8}{counts['resources']:11}{counts['runs']:6}"
            f"{counts['tries']:7}{counts['wrong']:7}"
        )
    return "\n".join(lines)


def _column(result: CaseResult) -> str:
    return f"{result.case.kind} {'deferred' if result.case.deferrable else 'blocking'}"


def play_all_hostile(seed: int, count: int) -> int:
    """Run the cases with the hostile service, and return the number of wrong outcomes."""
    begun = time.monotonic()
    results = play_hostile(hostile_cases(seed, count), say)
    say(hostile_summary(results))
    wrong = sum(bool(result.wrong) for result in results)
    say(f"{len(results)} cases against the hostile service in {time.monotonic() - begun:.0f} s: {wrong} wrong")
    return wrong


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=4, help="chooses what is left to chance (default: %(default)s)")
    parser.add_argument("--combined", type=int, default=50, metavar="N", help="combinations (default: %(default)s)")
    parser.add_argument("--wave", type=int, default=40, metavar="N", help="cases side by side (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose task or trouble contains this")
    parser.add_argument(
        "--hostile", type=int, default=500, metavar="N", help="cases against the hostile service (default: %(default)s)"
    )
    parser.add_argument("--only-hostile", action="store_true", help="only the cases against the hostile service")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    wrong = play_all_hostile(arguments.seed, arguments.hostile)
    if arguments.only_hostile:
        return 1 if wrong else 0
    single = all_single(arguments.seed)
    cases = [*single, *combined(arguments.seed, arguments.combined, len(single))]
    cases = [case for case in cases if arguments.only in f"{case.task_id} {case.trouble}"]
    say(f"{len(cases)} cases, seed {arguments.seed}")
    begun = time.monotonic()
    try:
        results = play(cases, arguments.wave)
    except (ProgramError, AirflowApiError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    say(summary(results))
    killed_wrong = sum(bool(result.faults) for result in results)
    say(f"{len(results)} cases in {time.monotonic() - begun:.0f} s: {killed_wrong} wrong")
    return 1 if wrong or killed_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
