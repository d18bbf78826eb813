"""Query previews."""

from __future__ import annotations

import pytest

from airflow_provider_datapipe.api.models.query_previews import (
    QueryPreviewCreated,
    QueryPreviewResult,
    QueryPreviewStatus,
)
from airflow_provider_datapipe.resources.query_previews import begin, read_rows
from airflow_provider_datapipe.runs.batch_wait import run_batch
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.start import StartPolicy
from airflow_provider_datapipe.runs.task_state import NoTaskState
from airflow_provider_datapipe.runs.wait import WaitPolicy
from tests.unit.runs.model_service import ModelService


def test_equal_queries_may_share_an_execution_id() -> None:
    service = ModelService(
        query_previews__create=[QueryPreviewCreated(query_execution_id="q", dw_sql="SELECT 1")],
        query_previews__status=[QueryPreviewStatus(status="RUNNING"), QueryPreviewStatus(status="DONE")],
        query_previews__result=[QueryPreviewResult(rows=({"n": 1},), num_rows_total=1)],
    )
    batch = service.run(begin({"sql_template": "SELECT 1", "min_threshold": "SELECT 1"}))
    service.run(run_batch(batch, NoTaskState(), StartPolicy(), WaitPolicy(), alone=True, clock=service.clock))
    results = service.run(read_rows(batch, 1))
    assert results.keys() == {"sql_template", "min_threshold"}
    assert [each["rows"] for each in results.values()] == [[{"n": 1}]] * 2


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("RUNNING", Outcome.RUNNING),
        ("DONE", Outcome.SUCCEEDED),
        ("FAILED", Outcome.FAILED),
        # An unknown status does not end the query.
        ("QUEUED", Outcome.RUNNING),
    ],
)
def test_outcome_of_each_query_status(status: str, outcome: Outcome) -> None:
    reference = RunRef("query_preview", "q", "SELECT 1", run_id="q")
    assert KINDS["query_preview"].read(reference, QueryPreviewStatus(status=status)).outcome is outcome
