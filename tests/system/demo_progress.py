"""Progress of the demo: tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.system.airflow_api import TaskInstance
    from tests.system.demo_checks import Check

ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
COLOURS = {"success": "green", "failed": "red", "upstream_failed": "red", "running": "cyan", "deferred": "magenta"}


@dataclass(frozen=True)
class TaskLine:
    """Progress of a task."""

    label: str
    state: str
    seconds: float | None
    rows: int | None

    @property
    def time(self) -> str:
        """The time as text."""
        return "" if self.seconds is None else f"{self.seconds:.1f} s"

    @property
    def moved(self) -> str:
        """The rows as text."""
        return "" if self.rows is None else f"{self.rows:,} rows"


def rows_of(result: Any) -> int | None:
    """Return the number of rows in the return value of an operator: a result, or several in a list or by name."""
    if isinstance(result, dict) and "rows_synced" in result:
        return None if result["rows_synced"] is None else int(result["rows_synced"])
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, list) else ()
    counts = [count for count in map(rows_of, parts) if count is not None]
    return sum(counts) if counts else None


class Watcher:
    """Converter of task instances to lines."""

    def __init__(self, result: Callable[[TaskInstance], Any]) -> None:
        self._result = result
        self._begun: dict[str, datetime] = {}
        self._rows: dict[str, int | None] = {}

    def lines(self, instances: Iterable[TaskInstance]) -> list[TaskLine]:
        """Return a line for each task."""
        return [self._line(one) for one in instances]

    def _line(self, one: TaskInstance) -> TaskLine:
        if one.start_date:
            # Airflow may count anew when a deferred task comes back; we do not.
            self._begun.setdefault(one.label, one.start_date)
        begun = self._begun.get(one.label)
        if one.state == "success" and one.label not in self._rows:
            self._rows[one.label] = rows_of(self._result(one))
        end = one.end_date if one.state in ENDED and one.end_date else datetime.now(UTC)
        seconds = (end - begun).total_seconds() if begun else None
        return TaskLine(one.label, one.state or "waiting", seconds, self._rows.get(one.label))


class Display(Protocol):
    """Output of the demo."""

    def step(self, text: str) -> None:
        """Show the current step."""

    def tasks(self, lines: list[TaskLine]) -> None:
        """Show the progress of the tasks."""

    def summary(self, checks: list[Check]) -> None:
        """Show the table of checks at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class PlainDisplay:
    """Lines of text, one for each change of the state of a task."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def step(self, text: str) -> None:
        """See :class:`Display`."""
        print(f"{time.monotonic() - self._begun:6.1f} s  {text}", flush=True)

    def tasks(self, lines: list[TaskLine]) -> None:
        """See :class:`Display`."""
        for line in lines:
            if self._shown.get(line.label) != line.state:
                self._shown[line.label] = line.state
                self.step(f"  {line.label:32} {line.state:16} {line.time:>8}  {line.moved:>14}".rstrip())

    def summary(self, checks: list[Check]) -> None:
        """See :class:`Display`."""
        print()
        for check in checks:
            verdict = "ok" if check.holds else "FAILED"
            found = "" if check.holds else f"; expected: {check.expected}"
            print(f"{verdict:7} {check.what:16} {check.found}{found}", flush=True)


class RichDisplay:
    """Tables that are updated in place."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._begun = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._freeze()

    def _freeze(self) -> None:
        live, self._live = self._live, None
        if live:
            live.stop()

    def step(self, text: str) -> None:
        """See :class:`Display`."""
        # Not through the live table: it is done with when another step begins.
        self._freeze()
        self._console.print(Text.assemble((f"{time.monotonic() - self._begun:6.1f} s", "dim"), f"  {text}"))

    def tasks(self, lines: list[TaskLine]) -> None:
        """See :class:`Display`."""
        table = Table("task", "state", box=None, padding=(0, 2), header_style="bold")
        table.add_column("time", justify="right")
        table.add_column("rows", justify="right")
        for line in lines:
            state = Text(line.state, COLOURS.get(line.state, "dim"))
            # Text: the index of a mapped task, in brackets, would be taken for markup.
            table.add_row(Text(line.label), state, line.time, line.moved.removesuffix(" rows"))
        if not self._live:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(table, refresh=True)

    def summary(self, checks: list[Check]) -> None:
        """See :class:`Display`."""
        self._freeze()
        table = Table("", "check", "found", "expected")
        for check in checks:
            mark = Text("ok", "green") if check.holds else Text("FAILED", "red")
            table.add_row(mark, check.what, Text(check.found), Text("" if check.holds else check.expected))
        self._console.print(table)


def display() -> Display:
    """Return the display for the standard output."""
    return RichDisplay() if sys.stdout.isatty() else PlainDisplay()
