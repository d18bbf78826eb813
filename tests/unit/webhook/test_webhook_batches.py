"""Batches of records: complete, within the limits, and as large as possible."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.webhook import sources
from airflow_provider_datapipe.webhook.batches import Batch, Fingerprint, Limits, batches
from airflow_provider_datapipe.webhook.sources import Record, RecordError

RECORDS = st.lists(st.dictionaries(st.sampled_from("abc"), st.text(max_size=20)), max_size=30)


def batches_of(records: list[Any], limits: Limits, first: int = 0) -> list[Batch]:
    return list(batches(sources.given(records), limits, first=first, fingerprint=Fingerprint()))


@given(RECORDS, st.integers(2, 10), st.integers(300, 1000), st.integers(0, 5))
def test_all_records_in_order_within_limits(records: list[dict[str, str]], count: int, size: int, first: int) -> None:
    made = batches_of(records, Limits(count, size), first)
    assert [record for batch in made for record in json.loads(batch.body)] == records
    for batch in made:
        assert 0 < batch.records <= count
        assert len(batch.body) <= size
        assert len(json.loads(batch.body)) == batch.records
    ends = [first, *(batch.end for batch in made)]
    assert [batch.first for batch in made] == ends[:-1]
    # Each batch is full: the next record would have exceeded a limit.
    for batch, following in itertools.pairwise(made):
        next_record = len(json.dumps(json.loads(following.body)[0], ensure_ascii=False, separators=(",", ":")).encode())
        assert batch.records == count or len(batch.body) + 1 + next_record > size


@given(RECORDS)
def test_a_batch_of_one_is_the_record_itself(records: list[dict[str, str]]) -> None:
    assert [json.loads(batch.body) for batch in batches_of(records, Limits(1, 1000))] == records


@given(RECORDS, st.integers(2, 5), st.integers(1, 5))
def test_fingerprints_do_not_depend_on_batches(records: list[dict[str, str]], one: int, other: int) -> None:
    def ends(count: int) -> dict[int, str]:
        return {batch.end: batch.fingerprint for batch in batches_of(records, Limits(count, 10_000))}

    here, there = ends(one), ends(other)
    assert all(here[end] == there[end] for end in here.keys() & there.keys())
    assert len(set(here.values())) == len(here)


@pytest.mark.parametrize(("count", "brackets"), [(1, 0), (5, 2)])
def test_limit_of_the_batch_size_is_inclusive(count: int, brackets: int) -> None:
    record = {"a": "é" * 10}
    size = len('{"a":""}') + 20 + brackets
    (batch,) = batches_of([record], Limits(count, size))
    assert len(batch.body) == size
    with pytest.raises(RecordError, match=rf"record 0: {size - brackets} bytes, more than max_batch_bytes .{size - 1}"):
        batches_of([record], Limits(count, size - 1))


def test_records_before_an_unsendable_one_are_yielded_first() -> None:
    made = batches(sources.given([{}, {}, {}, {"a": 1j}]), Limits(2, 100), first=0, fingerprint=Fingerprint())
    assert [next(made).records, next(made).records] == [2, 1]
    with pytest.raises(RecordError, match="record 3"):
        next(made)


def test_batches_read_one_record_ahead() -> None:
    read = []

    def source() -> Iterator[Record]:
        for number in range(100):
            read.append(number)
            yield Record(str(number), b"{}")

    made = batches(source(), Limits(10, 1000), first=0, fingerprint=Fingerprint())
    next(made)
    assert len(read) == 11
