"""Malformed source files: the rows are right, or the run fails with a reason and leaves everything as it was."""

from __future__ import annotations

import pytest

from tests.contract.datapipe_local.malformed.source_loads import Outcomes, content_of, fault_of, load_all
from tests.support.source_files.all_cases import all_cases

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return load_all(all_cases(), tmp_path_factory.mktemp("sources"))


def test_first_load_is_right_or_fails_with_a_reason(outcomes: Outcomes) -> None:
    faults = {case.name: fault_of(case, outcomes.first[case.name]) for case in all_cases()}
    assert {name: fault for name, fault in faults.items() if fault is not None} == {}


def test_failed_first_load_leaves_no_rows(outcomes: Outcomes) -> None:
    failed = {name: outcome for name, outcome in outcomes.first.items() if outcome.status != "COMPLETED"}
    assert failed
    assert [name for name, outcome in failed.items() if outcome.table is not None and outcome.table.rows] == []


def test_later_load_is_right_or_fails_with_a_reason(outcomes: Outcomes) -> None:
    invalid = {name: outcome.message for name, outcome in outcomes.valid.items() if outcome.status != "COMPLETED"}
    assert invalid == {}
    faults = {case.name: fault_of(case, outcomes.later[case.name]) for case in all_cases() if case.may_fail}
    assert {name: fault for name, fault in faults.items() if fault is not None} == {}


def test_failed_later_load_keeps_the_table(outcomes: Outcomes) -> None:
    before = {name: content_of(outcome) for name, outcome in outcomes.valid.items()}
    assert all(rows for _, rows in before.values())
    failed = [name for name, outcome in outcomes.later.items() if outcome.status != "COMPLETED"]
    assert failed
    assert [name for name in failed if content_of(outcomes.later[name]) != before[name]] == []


def test_loads_leave_nothing_else(outcomes: Outcomes) -> None:
    """No other tables, no unpacked files, no files outside of the folders, no tracebacks."""
    names = {case.name for case in all_cases()}
    tables = [table for table in outcomes.tables if not table.startswith("_")]
    assert [table for table in tables if table.partition(".")[2] not in names] == []
    assert [path for path in outcomes.files if "scratch" in path.parts or path.name.startswith("data_")] == []
    assert "Traceback" not in outcomes.log
