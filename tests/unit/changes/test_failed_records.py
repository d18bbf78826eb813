"""Retries of failed records of reverse ETL syncs."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.models.reverse_etl_syncs import FailedRecord, FailedRecordCount, FailedRecords
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.resources.reverse_etl_syncs import retry_failed
from tests.unit.changes.fake_service import body_of


class Failures:
    """Service that lists at most 100 failed records, and removes retried records from the list."""

    def __init__(self, *reasons: str, forgets: bool = True) -> None:
        self.failed, self.forgets = {f"r{number:04}": reason for number, reason in enumerate(reasons)}, forgets
        self.retried: list[str] = []
        self.asked: list[str] = []

    def send(self, request: Request[Any]) -> Any:
        self.asked.append(request.endpoint.name.partition(".")[2])
        match self.asked[-1]:
            case "count":
                return FailedRecordCount(count=len(self.failed))
            case "list":
                limit = int(dict(request.query)["limit"])
                shown = list(self.failed.items())[:limit]
                return FailedRecords(data=tuple(FailedRecord(sync_id="s", record_id=i, error=e) for i, e in shown))
            case "retry":
                ids = body_of(request)["record_ids"]
            case _:
                ids = list(self.failed)
        self.retried += ids
        if self.forgets:
            self.failed = {i: error for i, error in self.failed.items() if i not in ids}
        return None


def retried(service: Failures, **how: Any) -> dict[str, Any]:
    given = {"record_ids": None, "reason": None, "reason_pattern": None} | how
    result = run_blocking(retry_failed("s", **given), service.send, lambda _: None)
    assert (result["resource"], result["id"]) == ("reverse_etl_failed_records", "s")
    assert result["action"] == ("retry_requested" if result["changed"] else "none")
    details: dict[str, Any] = result["details"]
    return details


def test_failed_records_are_selected_by_reason() -> None:
    service = Failures(*(f"{'timed out (503)' if number % 3 else 'No address.'}" for number in range(250)))
    matching = [record for record, error in service.failed.items() if "timed" in error]
    assert retried(service, reason="timed out") == {"failed_records": 250, "seen": 250, "requested": len(matching)}
    assert service.retried == matching
    # Other records fill the list, so it does not contain the matching ones.
    hidden = Failures(*["No address."] * 120, *["timed out"] * 130)
    assert retried(hidden, reason="timed out") == {"failed_records": 250, "seen": 100, "requested": 0}


@pytest.mark.parametrize("count", [3, 150])
def test_an_endless_list_of_records_is_not_requested_forever(count: int) -> None:
    service = Failures(*["timed out"] * count, forgets=False)
    details = retried(service, reason_pattern=r"tim(e|ed) out$")
    assert len(service.retried) == len(set(service.retried)) == details["requested"] == min(count, 100)


@pytest.mark.parametrize(
    ("record_ids", "expected", "requests"),
    [("all", ["r0000", "r0001"], 1), ("['r0001', 'r0001']", ["r0001"], 1), ([], [], 0)],
)
def test_records_can_be_given_by_id(record_ids: Any, expected: list[str], requests: int) -> None:
    service = Failures("x", "y")
    assert retried(service, record_ids=record_ids)["requested"] == len(expected)
    assert service.retried == expected
    assert len([name for name in service.asked if name.startswith("retry")]) == requests


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"reason_pattern": "("}, "reason_pattern is not a regular expression"),
        ({"reason": ""}, "reason is empty"),
        ({"record_ids": "b"}, "record_ids must be a list of texts"),
    ],
)
def test_wrong_records_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        retried(Failures("x"), **how)
