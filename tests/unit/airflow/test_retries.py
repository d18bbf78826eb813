"""Retry policy: retried failures and retry delays."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, cast

import pytest

from tests.support.airflow_versions import older_than

if older_than("3.3"):
    pytest.skip("RetryPolicy: since Airflow 3.3", allow_module_level=True)

from airflow.sdk import RetryAction

from airflow_provider_datapipe.api import errors
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.resources.schedule_kinds import ScheduleNotPausableError
from airflow_provider_datapipe.resources.schedules import ScheduleOwnedError
from airflow_provider_datapipe.retries import DatapipeRetryPolicy
from airflow_provider_datapipe.runs.errors import LostContactError, RunConflictError, RunFailedError, RunPartialError
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError
from airflow_provider_datapipe.webhook.delivery import IngestError
from tests.support.dags import new_dag, stored_dag
from tests.support.documents import blocks, names_of


def refused(status: int, retry_after: float | None = None) -> errors.ApiError:
    return errors.class_of_status(status)("refused", status=status, retry_after=retry_after)


#: Failures that a retry cannot change.
PERMANENT = [
    *(refused(status) for status in (400, 401, 403, 404, 405, 413, 415, 422)),
    errors.ConfigurationError("no host"),
    errors.InvalidInputError("no such field"),
    UnknownNameError("none"),
    AmbiguousNameError("two"),
    ScheduleNotPausableError("no schedule that could be restored"),
]
OTHER = [
    *(refused(status) for status in (408, 409, 425, 429, 500, 503)),
    errors.TransportError("no answer", sent=True),
    errors.ProtocolError("no JSON"),
    LostContactError("lost"),
    RunFailedError("failed"),
    RunConflictError("a run is going"),
    ScheduleOwnedError("another's"),
    ValueError("an argument, or an answer that a task of one's own could not read"),
    OSError("a disc"),
]


@pytest.mark.parametrize("failure", [*PERMANENT, *OTHER])
def test_only_permanent_failures_fail_at_once(failure: Exception) -> None:
    decision = DatapipeRetryPolicy().evaluate(failure, 1, 3)
    assert decision.action is (RetryAction.FAIL if failure in PERMANENT else RetryAction.DEFAULT)
    assert failure in OTHER or type(failure).__name__ in (decision.reason or "")


@pytest.mark.parametrize(("status", "asked", "waited"), [(429, 90, 90), (503, 0.5, 0.5), (429, 86_400, 3600)])
def test_retry_after_sets_the_retry_delay(status: int, asked: float, waited: float) -> None:
    decision = DatapipeRetryPolicy().evaluate(refused(status, asked), 1, 3)
    assert decision.action is RetryAction.RETRY
    assert decision.retry_delay == timedelta(seconds=waited)


def test_retry_after_of_0_does_not_replace_the_retry_delay() -> None:
    assert DatapipeRetryPolicy().evaluate(refused(429, 0), 1, 3).action is RetryAction.DEFAULT


@pytest.mark.parametrize(("status", "action"), [(401, RetryAction.FAIL), (500, RetryAction.DEFAULT)])
def test_ingest_error_is_classified_by_its_cause(status: int, action: RetryAction) -> None:
    stopped = IngestError("2 of 3 batches were accepted", result=cast("Any", None))
    stopped.__cause__ = refused(status)
    assert DatapipeRetryPolicy().evaluate(stopped, 1, 3).action is action
    assert DatapipeRetryPolicy().evaluate(IngestError("", cast("Any", None)), 1, 3).action is RetryAction.DEFAULT


def test_retry_failed_runs_false_fails_at_once() -> None:
    policy = DatapipeRetryPolicy(retry_failed_runs=False)
    assert policy.evaluate(RunPartialError("refused rows"), 1, 3).action is RetryAction.FAIL
    assert policy.evaluate(LostContactError("lost"), 1, 3).action is RetryAction.DEFAULT


def test_longest_delay_must_be_positive() -> None:
    with pytest.raises(ValueError, match="longest_delay must be more than 0"):
        DatapipeRetryPolicy(longest_delay=timedelta(0))


def test_dag_and_policy_serialization_round_trip() -> None:
    policy = DatapipeRetryPolicy(longest_delay=timedelta(minutes=5), retry_failed_runs=False)
    with new_dag(default_args={"retry_policy": policy}) as dag:
        EltStreamRunOperator(task_id="t", stream_id="s")
    assert stored_dag(dag).task_ids == ["t"]
    again = DatapipeRetryPolicy.deserialize(json.loads(json.dumps(policy.serialize())))
    assert vars(again) == vars(policy)


def test_dag_of_the_runs_page_has_the_retry_policy() -> None:
    (block,) = (block for block in blocks() if block.page == "docs/runs.md" and "DatapipeRetryPolicy" in block.text)
    (task,) = names_of(block.text)["dag"].tasks
    assert isinstance(task.retry_policy, DatapipeRetryPolicy)
    assert (task.retries, task.retry_delay) == (5, timedelta(minutes=5))
