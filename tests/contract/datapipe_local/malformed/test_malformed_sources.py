"""Tests of malformed source files: the rows are right, or the run fails with a reason and changes nothing."""

from __future__ import annotations

import pytest

from tests.contract.datapipe_local.malformed.source_loads import Outcomes, fault_of, load_all
from tests.support.source_files.all_cases import all_cases
from tests.support.source_files.cases import Case

pytestmark = pytest.mark.slow


CASES = all_cases()
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_case_that_may_fail = pytest.mark.parametrize("case", [case for case in CASES if case.may_fail], ids=str)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return load_all(CASES, tmp_path_factory.mktemp("sources"))


@each_case
def test_first_load_is_right_or_fails_with_a_reason(case: Case, outcomes: Outcomes) -> None:
    fault = fault_of(case, outcomes.first[case.name])
    assert fault is None, fault


@each_case_that_may_fail
def test_failed_first_load_leaves_no_rows(case: Case, outcomes: Outcomes) -> None:
    outcome = outcomes.first[case.name]
    if outcome.status != "COMPLETED":
        assert outcome.table is None or not outcome.table.rows


@each_case_that_may_fail
def test_later_load_is_right_or_fails_with_a_reason(case: Case, outcomes: Outcomes) -> None:
    assert outcomes.valid[case.name].status == "COMPLETED", outcomes.valid[case.name].message
    fault = fault_of(case, outcomes.later[case.name])
    assert fault is None, fault


@each_case_that_may_fail
def test_failed_later_load_keeps_the_table(case: Case, outcomes: Outcomes) -> None:
    outcome, before = outcomes.later[case.name], outcomes.valid[case.name]
    assert before.table is not None
    assert before.table.rows
    if outcome.status != "COMPLETED":
        assert outcome.table is not None
        assert outcome.table.columns == before.table.columns
        assert sorted(outcome.table.rows, key=str) == sorted(before.table.rows, key=str)


def test_loads_leave_nothing_else(outcomes: Outcomes) -> None:
    """Check for other tables, unpacked files, files outside of the folders, and tracebacks."""
    names = {case.name for case in CASES}
    tables = [table for table in outcomes.tables if not table.startswith("_")]
    assert [table for table in tables if table.partition(".")[2] not in names] == []
    assert [path for path in outcomes.files if "scratch" in path.parts or path.name.startswith("data_")] == []
    assert "Traceback" not in outcomes.log
