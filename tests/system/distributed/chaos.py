"""Waves of tasks under kills: each wave is one DAG run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from tests.system.airflow_api import ENDED
from tests.system.components import readable
from tests.system.distributed.cases import Case
from tests.system.distributed.deployment import Deployment
from tests.system.distributed.held_service import HeldService
from tests.system.distributed.kills import Killer, Striker
from tests.system.distributed.leaks import LeakCheck
from tests.system.distributed.metadata import Metadata, TaskRow
from tests.system.distributed.plans import write_plan
from tests.system.distributed.verdict import LOST, Observed, Verdict, cause_of, judge

#: Seconds for a wave: a part for each task, and for the recovery after the kills.
LIMIT_PER_TASK, LIMIT_OF_WAVE = 20.0, 900.0
#: Seconds between two checks of a wave.
_INTERVAL = 1.0
#: Tasks that have to be running or deferred before the first kill, as a part of all.
_FIRST_KILL = 0.1
#: The most waves for kills that have not succeeded.
_MOST_FURTHER = 3
#: Lines of each task log that are shown for a wrong outcome.
_LOG_LINES = 40


@dataclass
class Stage:
    """
    The running programs.

    :param report: function that prints a line.
    """

    dags: Path
    deployment: Deployment
    service: HeldService
    killer: Killer
    leaks: LeakCheck
    report: Callable[[str], None]

    @property
    def metadata(self) -> Metadata:
        return Metadata(self.deployment.database_url)


@dataclass
class ChaosResult:
    """Verdicts on all tasks, and the kills."""

    verdicts: list[Verdict] = field(default_factory=list)
    retried: int = 0
    #: Held requests whose sender was not found in time.
    missed: int = 0
    #: Kills of components that were left when the last wave had ended.
    kills_left: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.faults]

    @property
    def causes(self) -> Counter[str]:
        """Count the failed tries by cause."""
        return Counter(cause for verdict in self.verdicts for cause in verdict.observed.causes.values())

    def states(self, retries: int) -> Counter[str]:
        """Count the tasks with so many retries by state."""
        return Counter(str(each.observed.state) for each in self.verdicts if each.case.retries == retries)


def play(
    stage: Stage,
    waves: Sequence[Sequence[Case]],
    victims: Sequence[Sequence[str]],
    interval: float,
    further: Callable[[int], Sequence[Case]],
) -> ChaosResult:
    """
    Run the waves, one after the other, and kill the victims in turn.

    :param victims: components and servers to kill, in order. A wave that ends early leaves its rest to the next one.
    :param interval: seconds between two kills.
    :param further: function that returns the tasks of a further wave, for kills that have not succeeded, from the
        number of the first task; none if no kill is missing.
    """
    result, left = ChaosResult(), list(victims)
    begun = time.monotonic()
    with Striker(stage.killer, stage.service) as striker:
        for number in range(len(waves) + _MOST_FURTHER):
            wave = waves[number] if number < len(waves) else further(len(result.verdicts))
            if not wave:
                break
            share = ceil(len(left) / max(1, len(waves) - number))
            done, verdicts = _Wave(stage, f"chaos_{number:02}", wave).play(left[:share], interval)
            del left[:done]
            result.verdicts += verdicts
            result.retried += sum(verdict.observed.try_number > 1 for verdict in verdicts)
            wrong = [verdict for verdict in verdicts if verdict.faults]
            states = dict(Counter(verdict.observed.state for verdict in verdicts))
            planned = f" of {len(waves)}" if number < len(waves) else ", for missing kills"
            stage.report(f"wave {number + 1}{planned}: {states}, {len(wrong)} wrong")
            for verdict in wrong:
                stage.report(str(verdict))
        result.missed, result.kills_left = striker.missed, len(left)
    result.seconds = time.monotonic() - begun
    return result


class _Wave:
    """Tasks that run concurrently."""

    def __init__(self, stage: Stage, dag_id: str, cases: Sequence[Case]) -> None:
        self._stage = stage
        self._dag_id = dag_id
        self._cases = cases
        self._limit = LIMIT_OF_WAVE + LIMIT_PER_TASK * len(cases)

    def play(self, victims: Sequence[Sequence[str]], interval: float) -> tuple[int, list[Verdict]]:
        """Run the tasks, and return the number of kills and the verdicts."""
        stage = self._stage
        begun = time.time()
        for case in self._cases:
            case.add_to(stage.service)
        stage.service.plan(
            {resource: moment for case in self._cases for resource, moment in case.holds().items()},
            {resource: rival for case in self._cases for resource, rival in case.rival().items()},
        )
        write_plan(stage.dags, self._dag_id, [case.task() for case in self._cases])
        run_id = stage.deployment.trigger(self._dag_id)
        kills = self._wait(run_id, victims, interval)
        observed = self._observe(run_id, begun)
        verdicts = [judge(case, observed[case.task_id]) for case in self._cases]
        for verdict in verdicts:
            if verdict.faults:
                verdict.evidence = self._evidence(verdict.case, run_id)
        return kills, verdicts

    def _wait(self, run_id: str, victims: Sequence[Sequence[str]], interval: float) -> int:
        stage, kills = self._stage, 0
        deadline, next_kill = time.monotonic() + self._limit, 0.0
        has_begun = False
        while True:
            state = stage.metadata.run_state(self._dag_id, run_id)
            tasks = stage.metadata.tasks(self._dag_id, run_id)
            active = [task for task in tasks if task.state in ("running", "deferred")]
            has_begun = has_begun or len(active) >= _FIRST_KILL * len(self._cases)
            if state in ENDED:
                return kills
            if kills < len(victims) and has_begun and time.monotonic() >= next_kill:
                if any(task.state == "deferred" for task in active):
                    stage.leaks.check_rows()
                stage.killer.kill(victims[kills])
                kills += 1
                next_kill = time.monotonic() + interval
            if time.monotonic() > deadline:
                stage.report(f"{self._dag_id} did not end within {self._limit:.0f} s")
                return kills
            time.sleep(_INTERVAL)

    def _observe(self, run_id: str, begun: float) -> dict[str, Observed]:
        metadata = self._stage.metadata
        lost = metadata.lost_tries(self._dag_id, run_id)
        results = metadata.results(self._dag_id, run_id)
        rows = {row.task_id: row for row in metadata.tasks(self._dag_id, run_id)}
        observed = {}
        for case in self._cases:
            row = rows[case.task_id]
            runs = {
                resource: [run for run in self._stage.service.resource(resource).runs if run.finished_at > begun - 600]
                for resource in case.resources
            }
            causes = dict(self._causes(run_id, row, lost))
            observed[case.task_id] = Observed(
                row.state, row.try_number, row.end_date, results.get(case.task_id), causes, runs
            )
        return observed

    def _causes(self, run_id: str, row: TaskRow, lost: Mapping[tuple[str, int], str]) -> Iterator[tuple[int, str]]:
        """Yield the cause of the end of each failed try."""
        logs = {path.name: path for path in self._stage.deployment.task_logs(self._dag_id, run_id, row.task_id)}
        last = row.try_number if row.state == "failed" else row.try_number - 1
        for number in range(1, last + 1):
            key = (self._dag_id, run_id, row.task_id, number)
            log = logs.get(f"attempt={number}.log")
            cause = cause_of(log.read_text(errors="replace").splitlines() if log else [])
            # A killed try can have logged an error before.
            if key in self._stage.killer.killed_tries:
                cause = f"{LOST} by a kill"
            elif cause.startswith(LOST) and (event := lost.get((row.task_id, number))):
                cause = f"{LOST} with the event: {event}"
            yield number, cause

    def _evidence(self, case: Case, run_id: str) -> str:
        """Return the requests about the resources of a task, and its logs."""
        resources = [self._stage.service.resource(each) for each in case.resources]
        lines = [f"  {entry}" for entry in list(self._stage.service.journal) if entry.resource in resources]
        for log in self._stage.deployment.task_logs(self._dag_id, run_id, case.task_id):
            logged = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
            lines += [f"  {log.name}:", *(f"    {readable(line)}" for line in logged)]
        return "\n".join(lines)
