"""Cases of the chaos test against the hostile service, in this process and in simulated time."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace

from tests.support.hostile_cases import OPTIONS, TASK_KINDS, Case, play, wrong_outcomes
from tests.support.hostile_troubles import TROUBLES, can_be_combined, must_succeed, with_troubles

#: Limit of faults per case.
_MOST_TROUBLES = 3


@dataclass(frozen=True)
class HostileCase:
    """Task and the faults of its service."""

    case: Case
    names: tuple[str, ...]


@dataclass(frozen=True)
class HostileResult:
    """Result of a case."""

    of: HostileCase
    wrong: tuple[str, ...]
    evidence: str


def hostile_cases(seed: int, count: int) -> list[HostileCase]:
    """Return each fault with each applicable kind of task, and then combinations of faults."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    cases = list(_single(chance))
    # Shuffled, so that a part of the cases contains all faults.
    chance.shuffle(cases)
    del cases[count:]
    while len(cases) < count:
        case = _task(chance, chance.choice(TASK_KINDS))
        fitting = [name for name, trouble in TROUBLES.items() if trouble.fits(case)]
        names = chance.sample(fitting, chance.randint(2, _MOST_TROUBLES))
        if can_be_combined(names):
            cases.append(HostileCase(with_troubles(case, names), tuple(names)))
    return cases


def _single(chance: random.Random) -> Iterator[HostileCase]:
    for name, trouble in TROUBLES.items():
        for kind in TASK_KINDS:
            case = _task(chance, kind)
            if trouble.fits(case):
                yield HostileCase(with_troubles(case, [name]), (name,))


def _task(chance: random.Random, kind: str) -> Case:
    (known,) = [each for each in TASK_KINDS if each == kind]
    case = Case(known, deferrable=chance.random() < 0.5, seed=chance.randrange(1000))
    return replace(case, option=kind in OPTIONS and chance.random() < 0.5)


def play_hostile(cases: Sequence[HostileCase], say: Callable[[str], None]) -> list[HostileResult]:
    results = []
    for each in cases:
        # Tasks log hours of simulated time.
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            played = play(each.case)
        wrong = wrong_outcomes(played, must_succeed=must_succeed(each.names))
        results.append(HostileResult(each, tuple(wrong), str(played) if wrong else ""))
        if wrong:
            say(f"wrong: {', '.join(each.names)}: {'; '.join(wrong)}\n  {results[-1].evidence}")
    return results


def hostile_summary(results: Sequence[HostileResult]) -> str:
    """Return the numbers of cases and of wrong outcomes, by fault, and by kind and mode."""
    cases: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    kinds = [f"{kind} {mode}" for kind in TASK_KINDS for mode in ("deferred", "blocking")]
    for result in results:
        case = result.of.case
        groups = [*result.of.names, f"{case.kind} {'deferred' if case.deferrable else 'blocking'}", "all"]
        cases.update(groups)
        wrong.update(groups if result.wrong else [])
    lines = [f"{'hostile service':56}{'cases':>6}{'wrong':>7}"]
    lines += [f"{name:56}{cases[name]:6}{wrong[name]:7}" for name in (*TROUBLES, *kinds, "all")]
    return "\n".join(lines)
