"""Checks of rows, compared with Airflow's SQL check operators."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.sql.operators.sql import (
    SQLCheckOperator,
    SQLThresholdCheckOperator,
    SQLValueCheckOperator,
)
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_datapipe.operators.query_previews import (
    DatapipeCheckOperator,
    DatapipeThresholdCheckOperator,
    DatapipeValueCheckOperator,
)
from airflow_provider_datapipe.resources.checks import (
    CheckFailedError,
    bound,
    check_threshold,
    check_truth,
    check_value,
    first_row,
    number_of,
    tolerance_of,
)

SQL = "SELECT 1 FROM {{raw.a.b}}"
#: Text that Python cannot parse as a number.
WORDS = st.sampled_from(["x", "", "True", "no number", "1,5"])
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.0, 0.5, -1.5, 1e9, 95.0, 100.0, 105.0]))
VALUES = st.one_of(NUMBERS, WORDS, st.booleans(), st.none())
ROWS = st.lists(VALUES, max_size=3)


class Rows:
    """Database with one row for each query."""

    def __init__(self, rows: Mapping[Any, list[Any] | None]) -> None:
        self._rows = rows

    def get_first(self, sql: Any, *_: Any) -> list[Any] | None:
        return self._rows[sql]


def passes_in_airflow(operator: Any, rows: Mapping[Any, list[Any] | None]) -> bool:
    operator.get_db_hook = lambda: Rows(rows)
    try:
        operator.execute({})
    # Airflow's operators raise Python errors for values that they cannot compare, so the task fails, too.
    except (AirflowException, TypeError, IndexError):
        return False
    return True


def results(rows: Mapping[str, list[Any] | None]) -> Any:
    def row(values: list[Any] | None) -> list[dict[str, Any]]:
        return [{f"c{number}": value for number, value in enumerate(values)}] if values else []

    return {
        purpose: {"query_execution_id": purpose, "rows": row(values), "num_rows_total": 1, "is_complete": True}
        for purpose, values in rows.items()
    }


def passes(operator: Any, rows: Mapping[str, list[Any] | None]) -> bool:
    result, error = operator._evaluate(results(rows))
    assert result["passed"] == (error is None)
    assert error is None or isinstance(error, CheckFailedError)
    return error is None


@given(ROWS)
def test_truth_of_values_is_that_of_airflow(row: list[Any]) -> None:
    theirs = passes_in_airflow(SQLCheckOperator(task_id="t", sql=SQL, conn_id="c"), {SQL: row or None})
    assert passes(DatapipeCheckOperator(task_id="t", sql_template=SQL), {"sql_template": row}) == theirs


@given(ROWS, st.one_of(NUMBERS, WORDS), st.one_of(st.none(), st.sampled_from([0.0, 0.05, 1.0])))
@example([95, 105], 100, 0.05)
@example([94], 100, 0.05)
@example([-105], -100, 0.05)
@example(["x"], "x", None)
def test_value_check_equals_that_of_airflow(row: list[Any], wanted: Any, tolerance: float | None) -> None:
    theirs = SQLValueCheckOperator(task_id="t", sql=SQL, conn_id="c", pass_value=wanted, tolerance=tolerance)
    ours = DatapipeValueCheckOperator(task_id="t", sql_template=SQL, pass_value=wanted, tolerance=tolerance)
    assert passes(ours, {"sql_template": row}) == passes_in_airflow(theirs, {SQL: row or None})


@given(st.lists(st.one_of(NUMBERS, st.none()), max_size=2), NUMBERS, NUMBERS, st.booleans())
@example([2], 2, 2, False)
@example([2], 2, 2, True)
def test_threshold_check_equals_that_of_airflow(row: list[Any], least: float, most: float, by_query: bool) -> None:
    low, high = ("SELECT low", "SELECT high") if by_query else (least, most)
    theirs = SQLThresholdCheckOperator(task_id="t", sql=SQL, conn_id="c", min_threshold=low, max_threshold=high)
    there: dict[Any, Any] = {SQL: row or None, "SELECT low": [least], "SELECT high": [most]}
    ours = DatapipeThresholdCheckOperator(task_id="t", sql_template=SQL, min_threshold=low, max_threshold=high)
    here = {"sql_template": row, "min_threshold": [least], "max_threshold": [most]}
    assert passes(ours, here) == passes_in_airflow(theirs, there)


def test_numeric_text_counts_as_a_number() -> None:
    # Unlike Airflow, whose drivers return decimals: a service may send decimals as text.
    for value in ("0", "0.00", 0, 0.0, None, "", False):
        with pytest.raises(CheckFailedError, match="total = "):
            check_truth(SQL, {"total": value})
    check_truth(SQL, {"total": "0.01"})
    assert number_of("the value", SQL, {"total": "2.50"}) == 2.5
    check_value(SQL, {"total": "2.50"}, 2.5, None)


@pytest.mark.parametrize(
    ("value", "wanted", "tolerance", "is_equal"),
    [
        (2**53 + 1, 2**53, None, False),
        (str(2**53 + 1), str(2**53), None, False),
        (2**53 + 1, str(2**53 + 1), 0, True),
        ("12345678901234567890123456789012345678.01", "12345678901234567890123456789012345678.02", None, False),
        ("2024_01", "202401", None, False),
        (202401, "2024_01", None, False),
        ("2024_01", "2024_01", None, True),
        ("0.10", 0.1, None, True),
        (1e22, 10**22, None, True),
        (95, 100, "0.05", True),
        ("94.99", 100, 0.05, False),
        ("Infinity", 100, 0.05, False),
    ],
)
def test_numbers_are_compared_exactly(value: Any, wanted: Any, tolerance: Any, *, is_equal: bool) -> None:
    operator = DatapipeValueCheckOperator(task_id="t", sql_template=SQL, pass_value=wanted, tolerance=tolerance)
    assert passes(operator, {"sql_template": [value]}) == is_equal


@pytest.mark.parametrize(("value", "most", "passed"), [(2**53 + 1, 2**53, False), ("1e400", float("inf"), True)])
def test_a_threshold_is_compared_exactly(value: Any, most: Any, *, passed: bool) -> None:
    operator = DatapipeThresholdCheckOperator(task_id="t", sql_template=SQL, min_threshold=0, max_threshold=most)
    assert passes(operator, {"sql_template": [value]}) == passed


def test_messages_name_the_value_and_the_query() -> None:
    with pytest.raises(CheckFailedError, match=r"zero rows: SELECT 1 FROM \{\{raw\.a\.b\}\}"):
        first_row(SQL, [])
    with pytest.raises(CheckFailedError, match=r"^The check failed: b = 0 of SELECT 1 FROM"):
        check_truth(SQL, {"a": 1, "b": 0})
    with pytest.raises(CheckFailedError, match=r"n = 3 should be '4' within 10\.0%: SELECT 1"):
        check_value(SQL, {"n": 3}, 4, Decimal("0.1"))
    with pytest.raises(CheckFailedError, match=r"3 is not between 4 and 5: SELECT 1"):
        check_threshold(SQL, Decimal(3), Decimal(4), Decimal(5))
    with pytest.raises(CheckFailedError, match=r"the value is 'x', not a number"):
        number_of("the value", SQL, {"n": "x"})
    long = "SELECT " + "x" * 10_000
    with pytest.raises(CheckFailedError) as failure:
        check_truth(long, {"a": "", "b": "y" * 10_000})
    assert len(str(failure.value)) < 1_000


@pytest.mark.parametrize("value", ["", "x", -1, "-0.1", [1], "inf", "0_1"])
def test_invalid_tolerance_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="tolerance must be"):
        tolerance_of(value)


def test_a_threshold_is_a_number_or_sql() -> None:
    assert [bound("least", value) for value in (1, "2.5", "SELECT 1", True)] == [1.0, 2.5, "SELECT 1", 1.0]
    wrong: tuple[Any, ...] = (None, "", [])
    for value in wrong:
        with pytest.raises(ValueError, match="least must be"):
            bound("least", value)
