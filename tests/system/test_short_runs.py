"""Short deferred tasks without retries on LocalExecutor; ``python -m tests.system.short_runs`` runs more of them."""

from __future__ import annotations

from collections import Counter

from tests.system.short_runs.__main__ import run

#: Without the minimum deferral time, the scheduler fails one of seven such tasks.
TASKS = 24


def test_scheduler_fails_no_short_deferred_task() -> None:
    result = run(TASKS, TASKS)
    assert result.states == Counter(success=TASKS), result.mismatches
    assert result.deferred == TASKS
    assert result.mismatches == []
