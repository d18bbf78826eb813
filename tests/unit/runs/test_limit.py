"""A limit of runs at a time holds over tries, too: what a try before has left going is gone on with first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.api.models.common import RunRequested
from airflow_provider_datapipe.runs.baseline import Baseline
from airflow_provider_datapipe.runs.batch import Batch, start_queued
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.records import Record, TaskStateRecords, key_of
from airflow_provider_datapipe.runs.reference import Reference, Target
from airflow_provider_datapipe.runs.start import StartPolicy, going_first
from airflow_provider_datapipe.runs.steps import drive
from tests.unit.runs.model_service import page, stream_run

FIRST, SECOND, THIRD = (Target(name, name) for name in "abc")


@dataclass
class Streams:
    """A service in which the streams' newest runs stand as told; whatever is asked for is noted, and runs."""

    status: dict[str, str | Exception]
    requested: list[str] = field(default_factory=list)

    def send(self, request: Any) -> Any:
        """Answer a request."""
        asked = request.endpoint.name
        if asked == "elt_stream_runs.get":
            run_id = request.path.rpartition("/")[2]
            status = self.status[run_id.removesuffix("-1")]
            if isinstance(status, Exception):
                raise status
            return stream_run(status, run_id)
        if asked == "elt_stream_runs.list":
            return page()
        assert asked == "elt_streams.request_run"
        stream = request.path.split("/")[2]
        self.requested.append(stream)
        return RunRequested(status_url=f"/elt_stream_runs?elt_stream_id={stream}")

    def run(self, steps: Any) -> Any:
        """Carry out steps."""
        return drive(steps, self.send, lambda seconds: None)


def left_by_a_try(*targets: Target, lost: tuple[Target, ...] = ()) -> TaskStateRecords:
    """Return the records of a killed try: it knew the runs of some targets, and has just requested others."""
    kept: dict[str, Any] = {}

    class Kept:
        get = staticmethod(kept.get)
        set = staticmethod(kept.__setitem__)

        @staticmethod
        def delete(key: str) -> None:
            kept.pop(key, None)

    records = TaskStateRecords(Kept(), 0)
    for target in (*targets, *lost):
        reference = Reference("elt_stream", target.resource_id, target.name, run_id=f"{target.resource_id}-1")
        record = Record(Baseline(), 1_000_000, None if target in lost else reference)
        records.set(key_of("elt_stream", target), record.as_dict())
    return records


def ordered(service: Streams, records: TaskStateRecords) -> list[Target]:
    targets: list[Target] = service.run(going_first(KINDS["elt_stream"], [FIRST, SECOND, THIRD], records))
    return targets


def test_a_failed_run_is_not_started_again_beside_the_limit() -> None:
    service = Streams({"a": "FAILED", "b": "RUNNING", "c": "RUNNING"})
    records = left_by_a_try(FIRST, SECOND, THIRD)
    batch = Batch("elt_stream", queued=ordered(service, records), at_a_time=2)
    service.run(start_queued(batch, records, StartPolicy(), alone=False))
    assert [reference.run_id for reference in batch.waiting] == ["b-1", "c-1"]
    assert batch.queued == [FIRST]
    assert service.requested == []


def test_run_that_a_replica_denies_may_be_active() -> None:
    service = Streams({"b": NotFoundError("gone", status=404), "a": "FAILED"})
    assert ordered(service, left_by_a_try(FIRST, SECOND)) == [SECOND, FIRST, THIRD]


@pytest.mark.parametrize("answer", ["FAILED", "COMPLETED"])
def test_what_is_over_comes_after_what_is_going(answer: Any) -> None:
    service = Streams({"a": answer, "b": "RUNNING"})
    assert ordered(service, left_by_a_try(FIRST, SECOND)) == [SECOND, FIRST, THIRD]


def test_what_was_never_asked_for_comes_after_what_may_be_going() -> None:
    service = Streams({"b": "RUNNING"})
    assert ordered(service, left_by_a_try(SECOND, lost=(THIRD,))) == [SECOND, THIRD, FIRST]


def test_nothing_is_asked_where_nothing_was_left() -> None:
    assert ordered(Streams({}), left_by_a_try()) == [FIRST, SECOND, THIRD]
