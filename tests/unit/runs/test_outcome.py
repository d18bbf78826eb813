from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of, outcome_of_materialization

KNOWN = {"NOT_STARTED", "SCHEDULED", "RUNNING", "COMPLETED", "CHUNK_COMPLETED", "FAILED", "CANCELED"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("NOT_STARTED", Outcome.SCHEDULED),
        ("SCHEDULED", Outcome.SCHEDULED),
        ("RUNNING", Outcome.RUNNING),
        ("COMPLETED", Outcome.SUCCEEDED),
        ("CHUNK_COMPLETED", Outcome.PARTIAL),
        ("FAILED", Outcome.FAILED),
        ("CANCELED", Outcome.CANCELED),
    ],
)
def test_every_known_status(status: str, expected: Outcome) -> None:
    assert outcome_of(status, finished=False) is expected


@given(st.none() | st.text().filter(lambda status: status not in KNOWN), st.none() | st.integers(0))
def test_an_unknown_status_is_never_a_success(status: str | None, failed_rows: int | None) -> None:
    assert outcome_of(status, finished=False, failed_rows=failed_rows) is Outcome.RUNNING
    assert outcome_of(status, finished=True, failed_rows=failed_rows) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("status", "failed_rows", "expected"),
    [("COMPLETED", 1, Outcome.PARTIAL), ("COMPLETED", 0, Outcome.SUCCEEDED), ("FAILED", 1, Outcome.FAILED)],
)
def test_failed_rows_make_a_completed_run_partial(status: str, failed_rows: int, expected: Outcome) -> None:
    assert outcome_of(status, finished=True, failed_rows=failed_rows) is expected


@pytest.mark.parametrize(
    ("status", "is_table", "expected"),
    [
        (None, False, Outcome.SUCCEEDED),
        (None, True, Outcome.RUNNING),
        ("running", True, Outcome.RUNNING),
        ("completed", True, Outcome.SUCCEEDED),
        ("failed", True, Outcome.FAILED),
        ("failed", False, Outcome.FAILED),
        ("queued", True, Outcome.RUNNING),
    ],
)
def test_materializations(status: str | None, *, is_table: bool, expected: Outcome) -> None:
    assert outcome_of_materialization(status, is_table=is_table) is expected


def test_what_is_over() -> None:
    assert {outcome for outcome in Outcome if not outcome.is_over} == {Outcome.SCHEDULED, Outcome.RUNNING}
