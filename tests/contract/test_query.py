"""Tests of queries and checks against the local service, blocking and deferred."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from math import inf
from typing import Any, ClassVar

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.sdk import DAG, task

from airflow_provider_datapipe.api.errors import InvalidRequestError
from airflow_provider_datapipe.operators.query_previews import (
    DatapipeCheckOperator,
    DatapipeThresholdCheckOperator,
    DatapipeValueCheckOperator,
    QueryPreviewOperator,
)
from airflow_provider_datapipe.resources.checks import CheckFailedError
from airflow_provider_datapipe.runs.errors import RunFailedError, RunTimeoutError
from tests.contract.seeds import MODES, connect, transform
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of, run

pytestmark = pytest.mark.usefixtures("service")

SEED = {"transforms": [transform("numbers", "SELECT value FROM generate_series(1, 1500) AS numbers(value)")]}
NO_ROWS = "SELECT 1 WHERE false"
COUNT = "SELECT count(*) AS rows FROM {{model.numbers}}"
#: Query that runs until its time limit.
ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = -1"


def preview(sql: str, **more: Any) -> QueryPreviewOperator:
    return QueryPreviewOperator(task_id="t", sql_template=sql, **more)


@MODES
def test_result_contains_rows_and_their_total(*, deferrable: bool) -> None:
    sql = "SELECT value, 'ä' AS \"a b\", NULL AS none FROM {{model.numbers}} ORDER BY value"
    result = run(preview(sql, max_rows=2, deferrable=deferrable))
    rows = [{"value": value, "a b": "ä", "none": None} for value in (1, 2)]
    assert (result["rows"], result["num_rows_total"], result["is_complete"]) == (rows, 1500, False)
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize(("most", "expected"), [("0", 0), (100, 100), ("5000", 1000)])
def test_max_rows_limits_the_result(most: int | str, expected: int) -> None:
    result = run(preview("FROM {{model.numbers}}", max_rows=most))
    # The service has its own limit of 1000 rows.
    assert (len(result["rows"]), result["is_complete"]) == (expected, False)


def test_a_query_without_rows_is_complete() -> None:
    result = run(preview("SELECT 1 AS one WHERE false"))
    assert (result["rows"], result["num_rows_total"], result["is_complete"]) == ([], 0, True)


@pytest.mark.parametrize("most", [-1, "x", ""])
def test_invalid_arguments_are_refused_without_a_request(most: Any, service: LocalService) -> None:
    with pytest.raises(ValueError, match="max_rows"):
        run(preview("SELECT 1", max_rows=most))
    with pytest.raises(ValueError, match="sql_template is empty"):
        run(preview(""))
    assert service.journal_requests() == []


def test_rendered_retry_on_failure_is_validated_before_the_query(service: LocalService) -> None:
    retry: Any = "{{ params.retry }}"
    task = DatapipeValueCheckOperator(task_id="t", sql_template="SELECT 1", pass_value=1, retry_on_failure=retry)
    task.render_template_fields({"params": {"retry": "maybe"}})
    with pytest.raises(ValueError, match=r"retry_on_failure .*'maybe'"):
        run(task)
    assert service.journal_requests() == []


@MODES
def test_error_of_a_failed_query_has_its_cause(*, deferrable: bool) -> None:
    memory = Memory()
    problem = r"query preview SELECT CAST\('x' AS INTEGER\) \(\S+\): the run failed: .*'x'"
    with pytest.raises(RunFailedError, match=problem):
        run(preview("SELECT CAST('x' AS INTEGER)", deferrable=deferrable), memory)
    assert memory.pushed["return_value"]["status"] == "FAILED"
    problem = r"Unknown reference \{\{model\.number\}\} \(did you mean model\.numbers"
    with pytest.raises(InvalidRequestError, match=problem):
        run(preview("FROM {{model.number}}", deferrable=deferrable))


def test_task_state_keys_contain_no_sql() -> None:
    class Keys(Memory):
        asked: ClassVar[list[str]] = []

        def get(self, key: str) -> Any:
            self.asked.append(key)
            return super().get(key)

    assert run(preview("SELECT 'ä' AS long" + " " * 200), Keys())["rows"] == [{"long": "ä"}]
    assert Keys.asked
    assert all(re.fullmatch(r"datapipe\.query_preview\.[\w-]+", key, re.ASCII) for key in Keys.asked)


@MODES
def test_timeout_ends_the_wait_for_a_query(*, deferrable: bool) -> None:
    with pytest.raises(RunTimeoutError, match="did not end in time; it is running"):
        run(preview(ENDLESS, timeout=0.5, deferrable=deferrable))


def test_query_with_a_lost_response_is_started_again(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service, retry_budget=20)
    service.faults([{"method": "POST", "path": "/transforms/query_previews", "drop": True, "when": "after"}])
    assert run(preview(COUNT))["rows"] == [{"rows": 1500}]
    assert sum(each["method"] == "POST" for each in service.journal_requests()) == 2


@MODES
def test_each_try_of_a_check_runs_its_query(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    for _ in range(2):
        task = DatapipeCheckOperator(task_id="t", sql_template="SELECT 1 AS a, 0 AS b", deferrable=deferrable)
        with pytest.raises(CheckFailedError, match="b = 0 of SELECT 1 AS a, 0 AS b"):
            run(task, memory)
    assert memory.pushed["return_value"]["passed"] is False
    assert memory.pushed["return_value"]["row"] == {"a": 1, "b": 0}
    assert memory.kept == {}
    assert sum(each["method"] == "POST" for each in service.journal_requests()) == 2


@pytest.mark.parametrize(
    "task",
    [
        DatapipeCheckOperator(task_id="t", sql_template=NO_ROWS),
        DatapipeValueCheckOperator(task_id="t", sql_template=NO_ROWS, pass_value=1),
        DatapipeThresholdCheckOperator(task_id="t", sql_template=NO_ROWS, min_threshold=0, max_threshold=2),
        DatapipeThresholdCheckOperator(task_id="t", sql_template="SELECT 1", min_threshold=NO_ROWS, max_threshold=2),
    ],
)
def test_checks_fail_without_rows(task: Any) -> None:
    with pytest.raises(CheckFailedError, match="returned zero rows: SELECT 1 WHERE false"):
        run(task)


@MODES
def test_value_check_with_tolerance(*, deferrable: bool) -> None:
    def check(**more: Any) -> Any:
        return run(DatapipeValueCheckOperator(task_id="t", sql_template=COUNT, deferrable=deferrable, **more))

    assert check(pass_value="1500")["passed"]
    assert check(pass_value=1600, tolerance="0.1")["row"] == {"rows": 1500}
    with pytest.raises(CheckFailedError, match="rows = 1500 should be '1600'"):
        check(pass_value=1600)


@pytest.mark.slow
@MODES
def test_thresholds_can_be_queries(*, deferrable: bool) -> None:
    def check(least: Any, most: Any, **more: Any) -> Any:
        arguments = {"min_threshold": least, "max_threshold": most, "deferrable": deferrable} | more
        return run(DatapipeThresholdCheckOperator(task_id="t", sql_template=COUNT, **arguments))

    result = check("SELECT 1000.5::DECIMAL(9, 2)", COUNT)
    assert (result["min_threshold"], result["value"], result["max_threshold"]) == (1000.5, 1500, 1500)
    with pytest.raises(CheckFailedError, match="1500 is not between 0 and 10"):
        check("0", 10)
    with pytest.raises(AirflowFailException, match="1500 is not between 0 and 10"):
        check(0, 10, retry_on_failure=False)
    with pytest.raises(RunFailedError, match="no_such_column"):
        check("SELECT no_such_column", 10)


@MODES
@pytest.mark.parametrize(
    ("value", "sql"),
    [(Decimal("1.5"), "SELECT 1.5"), (date(2026, 1, 2), "SELECT DATE '2026-01-02'"), ("a", "SELECT 'a'")],
)
def test_decorated_function_may_return_non_json_values(value: Any, sql: str, deferrable: bool) -> None:
    with DAG("d", schedule=None):

        @task.datapipe_query_value_check(deferrable=deferrable)
        def same() -> dict[str, Any]:
            return {"sql_template": sql, "pass_value": value}

        made: Any = same()
    assert run(made.operator)["passed"]


@MODES
def test_decorated_function_may_return_infinite_thresholds(*, deferrable: bool) -> None:
    with DAG("d", schedule=None):

        @task.datapipe_query_threshold_check(deferrable=deferrable)
        def many() -> dict[str, Any]:
            return {"sql_template": COUNT, "min_threshold": 0.5, "max_threshold": inf}

        made: Any = many()
    assert (result := run(made.operator))["passed"]
    assert (result["min_threshold"], result["max_threshold"]) == (0.5, inf)


def test_on_kill_logs_that_a_retry_starts_another_query(capsys: pytest.CaptureFixture[str]) -> None:
    task = preview(ENDLESS, deferrable=True)
    with pytest.raises(TaskDeferred):
        task.execute(context_of(Memory()))
    task.on_kill()
    assert "if this task runs again, it starts another one" in capsys.readouterr().out
