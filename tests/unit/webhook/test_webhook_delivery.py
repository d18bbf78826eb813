"""Retries of webhook batches, and the state that a retry reads, with a service that fails in each way at each batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator
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
from airflow_provider_datapipe.webhook.delivery import (
    Delivery,
    IngestError,
    IngestResult,
    Sending,
    SourceChangedError,
)
from airflow_provider_datapipe.webhook.sources import Record
from tests.support.examples import scaled
from tests.support.tasks import Memory

FAST = RetryPolicy(budget=60, first_delay=0.0001, longest_delay=0.0001)
NEVER = RetryPolicy(budget=0)


class Killed(BaseException):
    """The worker's process ends."""


#: What can become of a request: whether it is carried out, and how that looks from here.
WAYS: dict[str, tuple[bool, BaseException | None]] = {
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
    Takes records, or not.

    :param script: what becomes of each request; those after them are accepted.
    """

    def __init__(self, *script: str) -> None:
        self._script = list(script)
        self.there: list[dict[str, Any]] = []
        self.requests = 0

    def post(self, body: bytes) -> int:
        self.requests += 1
        carried_out, error = WAYS[self._script.pop(0) if self._script else "accepted"]
        found = json.loads(body)
        records = found if isinstance(found, list) else [found]
        if carried_out:
            self.there += records
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


def delivery(
    service: Service,
    notes: TaskState,
    records: list[Any] | Callable[[], Generator[Record]],
    *,
    count: int = 3,
    retry: RetryPolicy = FAST,
    warn: Callable[[str], None] = lambda _: None,
) -> Delivery:
    source = records if callable(records) else partial(sources.given, records)
    return Delivery(source, Limits(count, 1000), Sending(service.post, retry, warn), notes)


def attempt(service: Service, notes: TaskState, records: list[Any], **options: Any) -> IngestResult:
    made = delivery(service, notes, records, **options)
    made.resume()
    return made.run(lambda _: None)


def ids(service: Service) -> list[int]:
    return [record["id"] for record in service.there]


def test_all_is_accepted_at_once() -> None:
    service, store = Service(), Store()
    result = attempt(service, AirflowTaskState(store, 1), rows(7))
    assert ids(service) == list(range(7))
    assert {**result, "results": None} == {
        "records": 7,
        "batches": 3,
        "bytes": sum(len(json.dumps(rows(7)[first : first + 3], separators=(",", ":"))) for first in (0, 3, 6)),
        "rows": 7,
        "maybe_twice": 0,
        "resumed_from": 0,
        "results": None,
        "results_omitted": 0,
    }
    assert [(each["first"], each["records"], each["rows"], each["attempts"]) for each in result["results"]] == [
        (0, 3, 3, 1),
        (3, 3, 3, 1),
        (6, 1, 1, 1),
    ]
    # One for each answer, and one before the first and after the last.
    assert store.writes == 5


@pytest.mark.parametrize(
    ("way", "twice", "there"),
    [
        ("not now", 0, 1),
        ("no connection", 0, 1),
        ("lost before", 3, 1),
        ("lost after", 3, 2),
        ("failed before", 3, 1),
        ("failed after", 3, 2),
    ],
)
def test_temporary_refusals_are_repeated_and_duplicates_counted(way: str, twice: int, there: int) -> None:
    service, said = Service("accepted", way, way), list[str]()
    result = attempt(service, NoTaskState(), rows(7), warn=said.append)
    found = Counter(ids(service))
    assert set(found) == set(range(7))
    # Two attempts of three were like this.
    assert [found[number] for number in (0, 3, 6)] == [1, 1 + 2 * (there - 1), 1]
    assert result["maybe_twice"] == twice
    assert [each["attempts"] for each in result["results"]] == [1, 3, 1]
    assert [each["maybe_twice"] for each in result["results"]] == [0, twice, 0]
    assert len(said) == 1
    assert "Trying again for up to 60 s." in said[0]


@pytest.mark.parametrize(
    ("way", "retry", "doubtful"), [("refused", FAST, 0), ("not possible", FAST, 3), ("not now", NEVER, 0)]
)
def test_what_does_not_pass_ends_the_task_at_once(way: str, retry: RetryPolicy, doubtful: int) -> None:
    service = Service("accepted", way)
    with pytest.raises(IngestError) as failed:
        attempt(service, NoTaskState(), rows(7), retry=retry)
    assert service.requests == 2
    assert failed.value.result["records"] == 3
    assert "Accepted are the first 3 records, in 1 batches. The next one is record 3." in str(failed.value)
    assert (f"The {doubtful} after them may have arrived" in str(failed.value)) == bool(doubtful)
    assert isinstance(failed.value.__cause__, DatapipeError)


def test_a_retry_goes_on_where_the_first_try_stopped() -> None:
    service, store = Service("accepted", "refused"), Store()
    with pytest.raises(IngestError):
        attempt(service, AirflowTaskState(store, 1), rows(7))
    result = attempt(service, AirflowTaskState(store, 1), rows(7), count=2)
    assert ids(service) == list(range(7))
    assert (result["resumed_from"], result["records"], result["batches"], result["rows"]) == (3, 7, 3, 7)
    assert [each["first"] for each in result["results"]] == [3, 5]
    assert result["maybe_twice"] == 0


def test_only_unaccepted_records_may_be_corrected() -> None:
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


def test_another_source_may_be_begun_anew() -> None:
    store, service = Store(), Service("accepted", "refused")
    with pytest.raises(IngestError):
        attempt(service, AirflowTaskState(store, 1), rows(7))
    made = delivery(service, AirflowTaskState(store, 1), [{"id": 9}])
    made.resume()
    with pytest.raises(SourceChangedError):
        made.run(lambda _: None)
    made.restart()
    result = made.run(lambda _: None)
    assert (result["records"], result["resumed_from"]) == (1, 0)
    assert ids(service) == [0, 1, 2, 9]


def test_a_success_is_kept_for_its_own_life_only() -> None:
    store, service = Store(), Service()
    attempt(service, AirflowTaskState(store, 1), rows(4))
    # Killed before Airflow heard of it.
    again = attempt(service, AirflowTaskState(store, 1), rows(4))
    assert (again["records"], again["results"], service.requests) == (4, [], 2)
    # Cleared by a person.
    attempt(service, AirflowTaskState(store, 3), rows(4))
    assert service.requests == 4


def test_without_task_state_it_begins_anew() -> None:
    service = Service("accepted", "refused")
    with pytest.raises(IngestError):
        attempt(service, NoTaskState(), rows(7))
    attempt(service, NoTaskState(), rows(7))
    assert Counter(ids(service))[0] == 2


def test_nothing_to_send() -> None:
    service, store = Service(), Store()
    result = attempt(service, AirflowTaskState(store, 1), [])
    assert (result["records"], result["results"], service.requests, store.writes) == (0, [], 0, 0)


def test_what_the_service_does_not_count_is_not_made_up() -> None:
    made = Delivery(
        partial(sources.given, rows(2)), Limits(1, 100), Sending(lambda _: None, FAST, print), NoTaskState()
    )
    result = made.run(lambda _: None)
    assert result["rows"] is None
    assert [each["rows"] for each in result["results"]] == [None, None]


def test_the_result_of_many_batches_is_bounded() -> None:
    result = attempt(Service(), NoTaskState(), rows(1000), count=1)
    assert result["results_omitted"] == 900
    assert [each["first"] for each in result["results"]] == [*range(50), *range(950, 1000)]


@settings(max_examples=scaled(300))
@given(
    st.lists(st.lists(st.sampled_from(sorted(WAYS)), max_size=6), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1),
    st.integers(0, 9),
)
def test_no_record_is_lost_and_duplicates_are_counted(tries: list[list[str]], counts: list[int], total: int) -> None:
    """Whatever happens to each request of each try, with batches of another size each time."""
    store, records, there = Store(), rows(total), Counter[int]()
    result: IngestResult | None = None
    for number, script in enumerate([*tries, []]):
        service = Service(*script)
        try:
            result = attempt(service, AirflowTaskState(store, 1), records, count=counts[number % len(counts)])
        except (IngestError, Killed):
            result = None
        there.update(ids(service))
        if result is not None:
            break
    assert result is not None, "the last try meets no failure"
    assert result["records"] == total
    assert set(there) == set(range(total))
    twice = [record for record, times in there.items() if times > 1]
    assert len(twice) <= result["maybe_twice"]
    if all(way in ("accepted", "refused", "not now", "no connection") for script in tries for way in script):
        assert (twice, result["maybe_twice"]) == ([], 0)
