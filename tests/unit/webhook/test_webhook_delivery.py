"""Delivery of webhook batches, its task state and its retries, with a service that fails in all ways."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.api.errors import (
    DatapipeError,
    InvalidRequestError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.runs.task_state import AirflowTaskState, NoTaskState, TaskState
from airflow_provider_datapipe.webhook import sources
from airflow_provider_datapipe.webhook.batches import Limits
from airflow_provider_datapipe.webhook.delivery import Delivery, IngestError, IngestResult, Sending, SourceChangedError
from tests.support.examples import scaled
from tests.support.tasks import Memory

FAST = RetryPolicy(budget=60, first_delay=0.0001, longest_delay=0.0001)
NEVER = RetryPolicy(budget=0)


class Killed(BaseException):
    """End of the worker's process."""


#: Fates of a request: whether the service executes it, and the error that the client gets.
FATES: dict[str, tuple[bool, BaseException | None]] = {
    "accepted": (True, None),
    "refused": (False, InvalidRequestError("no", status=400)),
    "not now": (False, RateLimitError("later", status=429)),
    "no connection": (False, TransportError("down", sent=False)),
    "lost before": (False, TransportError("dropped", sent=True)),
    "lost after": (True, RequestTimeoutError("dropped", sent=True)),
    "failed before": (False, ServerError("oops", status=503)),
    "failed after": (True, ServerError("oops", status=502)),
    "not possible": (False, ServerError("oops", status=501)),
    "killed before": (False, Killed()),
    "killed after": (True, Killed()),
}


class Service:
    """
    Service that accepts or refuses records.

    :param script: fates of the requests. Further requests are accepted.
    """

    def __init__(self, *script: str) -> None:
        self._script = list(script)
        self.stored: list[dict[str, Any]] = []
        self.requests = 0

    def post(self, body: bytes) -> int:
        self.requests += 1
        is_executed, error = FATES[self._script.pop(0) if self._script else "accepted"]
        found = json.loads(body)
        records = found if isinstance(found, list) else [found]
        if is_executed:
            self.stored += records
        if error is not None:
            raise error
        return len(records)


class Store(Memory):
    """Task state that counts its writes."""

    writes = 0

    def set(self, key: str, value: Any) -> None:
        self.writes += 1
        super().set(key, value)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": number} for number in range(count)]


def attempt(
    service: Service,
    task_state: TaskState,
    records: list[Any],
    *,
    count: int = 3,
    retry: RetryPolicy = FAST,
    warn: Callable[[str], None] = lambda _: None,
) -> IngestResult:
    sending = Sending(service.post, retry, warn)
    made = Delivery(partial(sources.given, records), Limits(count, 1000), sending, task_state)
    made.resume()
    return made.run(lambda _: None)


def ids(service: Service) -> list[int]:
    return [record["id"] for record in service.stored]


def test_all_batches_are_accepted_at_once() -> None:
    service, store = Service(), Store()
    result = attempt(service, AirflowTaskState(store, 1), rows(7))
    assert ids(service) == list(range(7))
    sizes = [len(json.dumps(rows(7)[first : first + 3], separators=(",", ":"))) for first in (0, 3, 6)]
    counts = {"records": 7, "batches": 3, "bytes": sum(sizes), "rows": 7}
    zeros = {"maybe_twice": 0, "resumed_from": 0, "results_omitted": 0}
    assert {**result, "results": None} == {**counts, **zeros, "results": None}
    found = [(each["first"], each["records"], each["rows"], each["attempts"]) for each in result["results"]]
    assert found == [(0, 3, 3, 1), (3, 3, 3, 1), (6, 1, 1, 1)]
    # One write per answer, one before the first and one after the last.
    assert store.writes == 5


@pytest.mark.parametrize(
    ("fate", "twice", "stored"),
    [
        *((fate, 0, 1) for fate in ("not now", "no connection")),
        *((fate, 3, 1) for fate in ("lost before", "failed before")),
        *((fate, 3, 2) for fate in ("lost after", "failed after")),
    ],
)
def test_temporary_errors_are_retried_and_duplicates_counted(fate: str, twice: int, stored: int) -> None:
    service, warnings = Service("accepted", fate, fate), list[str]()
    result = attempt(service, NoTaskState(), rows(7), warn=warnings.append)
    found = Counter(ids(service))
    assert set(found) == set(range(7))
    # Two of three attempts had this fate.
    assert [found[number] for number in (0, 3, 6)] == [1, 1 + 2 * (stored - 1), 1]
    assert result["maybe_twice"] == twice
    assert [each["attempts"] for each in result["results"]] == [1, 3, 1]
    assert [each["maybe_twice"] for each in result["results"]] == [0, twice, 0]
    assert len(warnings) == 1
    assert "Trying again for up to 60 s." in warnings[0]


@pytest.mark.parametrize(
    ("fate", "retry", "doubtful"), [("refused", FAST, 0), ("not possible", FAST, 3), ("not now", NEVER, 0)]
)
def test_permanent_error_fails_the_task_at_once(fate: str, retry: RetryPolicy, doubtful: int) -> None:
    service = Service("accepted", fate)
    with pytest.raises(IngestError) as failed:
        attempt(service, NoTaskState(), rows(7), retry=retry)
    assert service.requests == 2
    assert failed.value.result["records"] == 3
    assert "The first 3 records were accepted, in 1 batches. The next record is record 3." in str(failed.value)
    assert (f"The {doubtful} records after them may have been accepted" in str(failed.value)) == bool(doubtful)
    assert isinstance(failed.value.__cause__, DatapipeError)


def test_retry_continues_after_the_accepted_records() -> None:
    service, store = Service("accepted", "refused"), Store()
    with pytest.raises(IngestError):
        attempt(service, AirflowTaskState(store, 1), rows(7))
    result = attempt(service, AirflowTaskState(store, 1), rows(7), count=2)
    assert ids(service) == list(range(7))
    assert (result["resumed_from"], result["records"], result["batches"], result["rows"]) == (3, 7, 3, 7)
    assert [each["first"] for each in result["results"]] == [3, 5]
    assert result["maybe_twice"] == 0


def test_retry_may_change_only_unaccepted_records() -> None:
    broken = [*rows(5), {"id": float("nan")}]
    store, service = Store(), Service()
    with pytest.raises(IngestError, match="record 5: id: NaN"):
        attempt(service, AirflowTaskState(store, 1), broken)
    assert ids(service) == list(range(5))
    for other in ([{"id": 9}, *rows(7)[1:]], rows(4), [], [{"id": 0}, {"id": object()}]):
        with pytest.raises(SourceChangedError, match="5 records were accepted before, and they are no longer"):
            attempt(service, AirflowTaskState(store, 1), other)
    assert service.requests == 2
    assert attempt(service, AirflowTaskState(store, 1), rows(8))["records"] == 8
    assert ids(service) == list(range(8))


def test_successful_delivery_is_repeated_only_if_cleared() -> None:
    store, service = Store(), Service()
    attempt(service, AirflowTaskState(store, 1), rows(4))
    # Retry of a task that was killed before it reported its success.
    again = attempt(service, AirflowTaskState(store, 1), rows(4))
    assert (again["records"], again["results"], service.requests) == (4, [], 2)
    # Execution of a cleared task.
    attempt(service, AirflowTaskState(store, 3), rows(4))
    assert service.requests == 4


def test_retry_without_task_state_starts_from_the_beginning() -> None:
    service = Service("accepted", "refused")
    with pytest.raises(IngestError):
        attempt(service, NoTaskState(), rows(7))
    attempt(service, NoTaskState(), rows(7))
    assert Counter(ids(service))[0] == 2


def test_empty_source_sends_no_request() -> None:
    service, store = Service(), Store()
    result = attempt(service, AirflowTaskState(store, 1), [])
    assert (result["records"], result["results"], service.requests, store.writes) == (0, [], 0, 0)


def test_missing_row_count_of_the_service_stays_none() -> None:
    sending = Sending(lambda _: None, FAST, print)
    made = Delivery(partial(sources.given, rows(2)), Limits(1, 100), sending, NoTaskState())
    result = made.run(lambda _: None)
    assert result["rows"] is None
    assert [each["rows"] for each in result["results"]] == [None, None]


def test_the_result_of_many_batches_is_bounded() -> None:
    result = attempt(Service(), NoTaskState(), rows(1000), count=1)
    assert result["results_omitted"] == 900
    assert [each["first"] for each in result["results"]] == [*range(50), *range(950, 1000)]


@settings(max_examples=scaled(300))
@given(
    st.lists(st.lists(st.sampled_from(sorted(FATES)), max_size=6), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1),
    st.integers(0, 9),
)
def test_no_record_is_lost_and_duplicates_are_counted(tries: list[list[str]], counts: list[int], total: int) -> None:
    """Random fates of all requests in all tries, with another batch size in each try."""
    store, records, stored = Store(), rows(total), Counter[int]()
    result: IngestResult | None = None
    for number, script in enumerate([*tries, []]):
        service = Service(*script)
        try:
            result = attempt(service, AirflowTaskState(store, 1), records, count=counts[number % len(counts)])
        except (IngestError, Killed):
            result = None
        stored.update(ids(service))
        if result is not None:
            break
    assert result is not None, "the last try has no failure"
    assert result["records"] == total
    assert set(stored) == set(range(total))
    twice = [record for record, times in stored.items() if times > 1]
    assert len(twice) <= result["maybe_twice"]
    if all(fate in ("accepted", "refused", "not now", "no connection") for script in tries for fate in script):
        assert (twice, result["maybe_twice"]) == ([], 0)
