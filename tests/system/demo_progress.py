"""Output of the demo: a line for each step, for each change of the state of a task, and for each check."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.system.airflow_api import TaskInstance
    from tests.system.demo_checks import Check

ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def rows_of(result: Any) -> int | None:
    """Return the number of rows in the return value of an operator, which has one or several results."""
    if isinstance(result, dict) and "rows_synced" in result:
        return None if result["rows_synced"] is None else int(result["rows_synced"])
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, list) else ()
    counts = [count for count in map(rows_of, parts) if count is not None]
    return sum(counts) if counts else None


class Display:
    """Lines of text with the time since the start."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown: dict[str, str] = {}
        self._started: dict[str, datetime] = {}

    def step(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {text}", flush=True)

    def tasks(self, instances: Iterable[TaskInstance], result: Callable[[TaskInstance], Any]) -> None:
        """
        Show the tasks whose state has changed.

        :param result: Returns the XCom of a successful task.
        """
        for one in instances:
            if one.start_date:
                # Airflow may reset the start date when a deferred task resumes.
                self._started.setdefault(one.label, one.start_date)
            state = one.state or "waiting"
            if self._shown.get(one.label) == state:
                continue
            self._shown[one.label] = state
            started = self._started.get(one.label)
            end = one.end_date if state in ENDED and one.end_date else datetime.now(UTC)
            seconds = f"{(end - started).total_seconds():.1f} s" if started else ""
            rows = rows_of(result(one)) if state == "success" else None
            moved = "" if rows is None else f"{rows:,} rows"
            self.step(f"  {one.label:32} {state:16} {seconds:>8}  {moved:>14}".rstrip())

    def summary(self, checks: list[Check]) -> None:
        print()
        for check in checks:
            verdict = "ok" if check.holds else "FAILED"
            found = "" if check.holds else f"; expected: {check.expected}"
            print(f"{verdict:7} {check.what:16} {check.found}{found}", flush=True)
