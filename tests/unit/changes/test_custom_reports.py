"""Custom reports: results of each report, and creation without duplicates."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidInputError, ProtocolError, TransportError
from airflow_provider_datapipe.api.models.custom_reports import CustomReportResults
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.resources.custom_reports import ReportsResult, check_policy, create, error_of, settle
from airflow_provider_datapipe.runs.task_state import AirflowTaskState, NoTaskState
from tests.support.tasks import Memory
from tests.unit.changes.fake_service import BROKEN, GONE, LOST, body_of
from tests.unit.runs.model_service import ModelService, page


def named(*names: str) -> Any:
    """Return a page of streams."""
    return page(*(SimpleNamespace(name=name) for name in names))


def report(name: str, sync: str = "s", query: str = "SELECT 1") -> dict[str, str]:
    return {"elt_sync_id": sync, "name": name, "query": query}


def answer(request: Request[Any]) -> CustomReportResults:
    """Create each report, except those with "Wrong" in their names."""
    results = [
        {"elt_sync_id": one["elt_sync_id"], "name": one["name"]}
        | (
            {"error": {"error_code": "invalid_query", "message": "no such table"}}
            if "Wrong" in one["name"]
            else {"source_stream_name": f"made_{one['name'].lower()}"}
        )
        for one in body_of(request)["reports"]
    ]
    return CustomReportResults.model_validate({"results": results})


def service(*answers: Any, streams: list[list[str]] | None = None, offered: tuple[str, ...] = ()) -> ModelService:
    return ModelService(
        custom_reports__create=list(answers) or [answer],
        elt_streams__list=[named(*names) for names in streams or [[]]],
        elt_syncs__available_source_streams=[named(*offered)],
    )


def created(
    asked: ModelService, reports: Any, records: Any = None, *, as_stream: Any = True, if_exists: str = "keep"
) -> ReportsResult:
    steps = create(reports, add_as_source_stream=as_stream, if_exists=if_exists, records=records or NoTaskState())
    return asked.run(steps)


def sent(asked: ModelService) -> list[list[str]]:
    bodies = [body_of(request) for request in asked.requests if request.endpoint.name == "custom_reports.create"]
    return [[one["name"] for one in body["reports"]] for body in bodies]


def actions(result: ReportsResult) -> list[tuple[str, str, str | None]]:
    return [(one["name"], one["action"], one["source_stream_name"]) for one in result["reports"]]


def test_each_report_has_a_result_in_order() -> None:
    result = created(service(), [report("A"), report("Wrong"), report("B", "t")])
    assert actions(result) == [("A", "created", "made_a"), ("Wrong", "failed", None), ("B", "created", "made_b")]
    assert (result["created"], result["failed"]) == (2, 1)
    assert json.loads(json.dumps(result)) == result
    assert result["reports"][1]["error"] == {"error_code": "invalid_query", "message": "no such table"}


def test_retry_creates_failed_reports_and_cleared_task_all() -> None:
    memory = Memory()
    reports = json.dumps([report("A"), report("Wrong")])
    first = service()
    created(first, reports, AirflowTaskState(memory, life=2))
    again = service()
    result = created(again, reports, AirflowTaskState(memory, life=2), if_exists="create")
    assert sent(again) == [["Wrong"]]
    assert actions(result)[0] == ("A", "none", "made_a")
    settle(AirflowTaskState(memory, life=2), succeeded=True)
    # First a retry of a worker that was killed before it reported its success, then a cleared task.
    late, cleared = service(), service()
    created(late, reports, AirflowTaskState(memory, life=2))
    settle(AirflowTaskState(memory, life=2), succeeded=True)
    created(cleared, reports, AirflowTaskState(memory, life=4))
    assert (sent(late), sent(cleared)) == ([["Wrong"]], [["A", "Wrong"]])


def test_another_query_is_another_report() -> None:
    memory = Memory()
    created(service(), [report("A")], AirflowTaskState(memory, life=2))
    changed = service()
    created(changed, [report("A", query="SELECT 2")], AirflowTaskState(memory, life=2))
    assert sent(changed) == [["A"]]


@pytest.mark.parametrize("stream", ["spend_by_day", "SpendByDay", "spend-by-day"])
def test_stream_with_the_name_counts_as_the_report(stream: str) -> None:
    there = service(streams=[["other", stream]])
    result = created(there, [report("Spend by Day")])
    assert actions(result) == [("Spend by Day", "none", stream)]
    assert (sent(there), result["created"]) == ([], 0)
    forced = service(streams=[["other", stream]])
    assert created(forced, [report("Spend by Day")], if_exists="create")["created"] == 1
    assert forced.asked == ["custom_reports.create"]


def test_offered_table_counts_as_a_report_without_a_stream() -> None:
    assert created(service(offered=("orders",)), [report("Orders")])["created"] == 1
    assert created(service(offered=("orders",)), [report("Orders")], as_stream="False")["created"] == 0


def test_missing_sync_is_left_to_the_service() -> None:
    asked = ModelService(elt_streams__list=[GONE], custom_reports__create=[answer])
    assert created(asked, [report("A")])["created"] == 1


@pytest.mark.parametrize("error", [LOST, BROKEN])
@pytest.mark.parametrize("polls", [1, 2])
def test_reports_without_a_response_are_not_sent_again(error: DatapipeError, polls: int) -> None:
    asked = service(error, streams=[*[[]] * polls, ["a", "b"]])
    result = created(asked, [report("A"), report("B")])
    assert actions(result) == [("A", "created", "a"), ("B", "created", "b")]
    assert len(sent(asked)) == 1


def test_a_retry_creates_the_rest_after_a_partial_creation() -> None:
    with pytest.raises(TransportError):
        created(service(LOST, streams=[[], ["a"]]), [report("A"), report("B")])
    retry = service(streams=[["a"]])
    assert actions(created(retry, [report("A"), report("B")]))[0] == ("A", "none", "a")
    assert sent(retry) == [["B"]]
    # With two reports of the same name, the created one cannot be identified.
    with pytest.raises(TransportError):
        created(service(LOST, streams=[["a"]]), [report("A")], if_exists="create")


@pytest.mark.parametrize(
    ("reports", "error", "message"),
    [
        ([report("A"), report("a")], ValueError, "'a' of ELT sync s occurs more than once"),
        ([{"elt_sync_id": "s", "name": "A"}], InvalidInputError, "query"),
        ("nothing", ValueError, "reports must be a list of mappings"),
    ],
)
def test_invalid_reports_are_refused_without_a_request(reports: Any, error: type[Exception], message: str) -> None:
    asked = service()
    with pytest.raises(error, match=message):
        created(asked, reports)
    assert asked.asked == []


def test_response_with_missing_results_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="0 results for 1 reports"):
        created(service(CustomReportResults(results=())), [report("A")])


@pytest.mark.parametrize(
    ("names", "on_partial_failure", "tolerated", "is_failure"),
    [
        (["A", "Wrong"], "fail", (), True),
        (["A", "Wrong"], "succeed", (), False),
        (["A", "Wrong"], "fail", "['invalid_query']", False),
        (["Wrong"], "succeed", (), True),
        (["Wrong"], "fail", ["invalid_query"], False),
        (["Wrong"], "fail", ["not_found"], True),
    ],
)
def test_policy_for_failed_reports(
    names: list[str], on_partial_failure: str, tolerated: Any, *, is_failure: bool
) -> None:
    result = created(service(), [report(name) for name in names])
    error = error_of(result, on_partial_failure=on_partial_failure, tolerated_errors=tolerated)
    reason = f"1 of {len(names)} custom reports were not created: 'Wrong' of ELT sync s: invalid_query: no such table"
    assert (str(error) == reason) if is_failure else (error is None)


def test_invalid_policy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tolerated_errors must be 'connection_error'.*not 'typo'"):
        check_policy("fail", ["typo"])
    with pytest.raises(ValueError, match="on_partial_failure must be"):
        check_policy("ignore", [])
