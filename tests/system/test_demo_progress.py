from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.system.airflow_api import TaskInstance
from tests.system.demo_checks import Check
from tests.system.demo_progress import PlainDisplay, RichDisplay, TaskLine, Watcher, rows_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOAD = TaskInstance("load", -1, None, 1, "EltSyncRunOperator", None, None)


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        ({"rows_synced": 12.0, "rows_failed": 3}, 12),
        ({"rows_synced": None}, None),
        ([{"rows_synced": 1}, {"rows_synced": 2}], 3),
        ({"streams": {"a": {"rows_synced": 1}, "b": {"rows_synced": None}}, "sync": "x"}, 1),
        ("text", None),
        (None, None),
    ],
)
def test_rows_are_found_in_results(result: object, rows: int | None) -> None:
    assert rows_of(result) == rows


def test_duration_includes_deferral_and_results_are_read_once() -> None:
    asked = []

    def result(one: TaskInstance) -> dict[str, int]:
        asked.append(one.label)
        return {"rows_synced": 5}

    watcher = Watcher(result)
    assert watcher.lines([LOAD]) == [TaskLine("load", "waiting", None, None)]
    (line,) = watcher.lines([replace(LOAD, state="deferred", start_date=NOON)])
    assert line.seconds is not None
    assert line.seconds > 0
    ended = replace(
        LOAD, state="success", start_date=NOON + timedelta(seconds=8), end_date=NOON + timedelta(seconds=10)
    )
    assert watcher.lines([ended]) == watcher.lines([ended]) == [TaskLine("load", "success", 10.0, 5)]
    assert asked == ["load"]


def test_plain_lines_appear_when_a_state_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainDisplay() as show:
        for state, rows in (("running", None), ("running", None), ("success", 1234)):
            show.tasks([TaskLine("load", state, 1.25, rows)])
        show.summary([Check("a", "1", "1"), Check("b", "1", "2")])
    lines = [line.split()[2:] for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["load", "running", "1.2", "s"], ["load", "success", "1.2", "s", "1,234", "rows"]]
    assert lines[3:] == [["1"], ["2;", "expected:", "1"]]


def test_text_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    with RichDisplay() as show:
        show.tasks([TaskLine("load[0]", "success", 1.0, 1)])
        show.step("[/] [red]")
        show.summary([Check("b", "[1]", "[2]")])
    out = capsys.readouterr().out
    assert "load[0]" in out
    assert "[/] [red]" in out
    assert "[1]" in out
