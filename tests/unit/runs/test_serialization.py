"""JSON of waits that a worker and a triggerer of different provider versions exchange."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.runs.batch import Batch, WaitingForOtherRun
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.task_state import KnownRuns, StartRecord
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason, WaitPolicy

STREAM = RunTarget("s", "orders")
REFERENCE = RunRef("elt_stream", "s", "orders", run_id="r1", durations=[1.0, 2.0], stale_until=12.5)
END = WaitOutcome(
    WaitOutcomeReason.RUN_OVER, REFERENCE, Outcome.FAILED, None, "a detail", [{"record_id": "1", "error": "no"}]
)
INSTANCES: list[Any] = [
    STREAM,
    RunTarget("s", "orders", {"full_refresh": True}, "y"),
    RunRef("elt_stream", "s", "orders"),
    REFERENCE,
    WaitPolicy(),
    WaitPolicy(5.0, 2_000.0, 60.0, 70.0, 2.0, 30.0, 0.5, 90.0),
    WaitOutcome(WaitOutcomeReason.TIMEOUT, REFERENCE, Outcome.RUNNING),
    END,
    StartRecord(KnownRuns({"r0": True}, 2.0), 3.0, REFERENCE),
    StartRecord(KnownRuns(), 3.0, None, {"full_refresh": True}),
    Batch("elt_stream", [STREAM], [REFERENCE], [WaitingForOtherRun(REFERENCE, STREAM)], [END], 2, {"a": 1}, 8.0, 9.0),
]


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda each: type(each).__name__)
def test_json_of_earlier_and_later_versions_is_read(instance: Any) -> None:
    stored = json.loads(json.dumps(instance.as_dict()))
    assert type(instance).from_dict(stored) == instance
    assert type(instance).from_dict(stored | {"of_a_later_version": 1}) == instance


@pytest.mark.parametrize("instance", [STREAM, RunRef("elt_stream", "s", "orders"), WaitPolicy()])
def test_default_values_are_omitted(instance: Any) -> None:
    assert set(instance.as_dict()) <= {"kind", "resource_id", "name"}


@pytest.mark.parametrize(
    ("instance", "fields"),
    [
        (WaitPolicy(), set(WaitPolicy.__slots__)),
        (WaitOutcome(WaitOutcomeReason.TIMEOUT, REFERENCE, Outcome.RUNNING), {"records", "cause"}),
        (StartRecord(KnownRuns(), 3.0), {"options"}),
        (Batch("elt_stream", [STREAM]), {"note", "lost_since", "poll_after"}),
    ],
)
def test_fields_missing_in_json_of_an_earlier_version(instance: Any, fields: set[str]) -> None:
    stored = {name: value for name, value in instance.as_dict().items() if name not in fields}
    assert type(instance).from_dict(stored) == instance
