"""JSON of waits that worker and triggerer of different versions exchange."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.runs.baseline import Baseline
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.records import Record
from airflow_provider_datapipe.runs.reference import Reference, Target
from airflow_provider_datapipe.runs.wait import End, EndReason, WaitPolicy

REFERENCE = Reference("elt_stream", "s", "orders", run_id="r1", durations=[1.0, 2.0], stale_until=12.5)
INSTANCES: list[Any] = [
    Target("s", "orders"),
    Target("s", "orders", {"full_refresh": True}, "y"),
    Reference("elt_stream", "s", "orders"),
    REFERENCE,
    WaitPolicy(),
    WaitPolicy(poll_interval=5.0, deadline=12.0, first_interval=0.2),
    End(EndReason.TIMEOUT, REFERENCE, Outcome.RUNNING),
    Record(Baseline({"r0": True}, 2.0), 3.0, REFERENCE),
    Batch("elt_stream", queued=[Target("s", "orders")], waiting=[REFERENCE], at_a_time=2, poll_after=9.0),
]


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda each: type(each).__name__)
def test_json_is_read_as_it_was_written(instance: Any) -> None:
    assert type(instance).from_dict(json.loads(json.dumps(instance.as_dict()))) == instance


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda each: type(each).__name__)
def test_fields_of_a_later_version_are_ignored(instance: Any) -> None:
    assert type(instance).from_dict(instance.as_dict() | {"later": 1}) == instance


@pytest.mark.parametrize("instance", [Target("s", "orders"), Reference("elt_stream", "s", "orders"), WaitPolicy()])
def test_defaults_are_left_out(instance: Any) -> None:
    assert set(instance.as_dict()) <= {"kind", "resource_id", "name"}
