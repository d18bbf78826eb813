"""Sources of records: valid and refused input, positions in messages, and constant memory."""

from __future__ import annotations

import io
import json
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pytest
from pyarrow import parquet as pq

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.webhook import sources
from airflow_provider_datapipe.webhook.sources import RecordError, json_lines, parquet


def opener(content: bytes) -> Callable[[], BinaryIO]:
    return lambda: io.BytesIO(content)


def test_json_lines() -> None:
    content = '\ufeff{"b":1, "a":"é"}\r\n\n  \n{"price":1.10}'.encode()
    assert list(json_lines(opener(content), "o.jsonl")) == [
        ("line 1 of o.jsonl", '{"a":"é","b":1}'.encode()),
        ("line 4 of o.jsonl", b'{"price":1.10}'),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "line 2 of o.jsonl: it is no JSON"),
        (b'[{"a":1},', "line 2 of o.jsonl: it is no JSON: .*: in JSON Lines each line is an object of its own"),
        (b"[1]", "line 2 of o.jsonl: a record is an object .a dict., and this is of the type list"),
        (b'{"secret":NaN}', "line 2 of o.jsonl: NaN and infinities"),
        (b'{"a":1,"a":1}', "line 2 of o.jsonl: the key a stands twice"),
        (b'{"a":{"b":"\\ud800secret"}}', r"line 2 of o.jsonl: a\.b: a text holds half a character"),
        (b'{"a":"secret\xff"}', "line 2 of o.jsonl: it is not UTF-8"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested more than"),
    ],
)
def test_a_line_that_can_not_be_sent_is_named_and_not_quoted(line: bytes, said: str) -> None:
    records = json_lines(opener(b'{"id":1}\n' + line + b'\n{"id":3}\n'), "o.jsonl")
    assert next(records).body == b'{"id":1}'
    with pytest.raises(RecordError, match=said) as refusal:
        next(records)
    assert "secret" not in str(refusal.value)


def test_a_file_without_lines_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LONGEST_LINE", 1000)
    endless = io.BytesIO(b"x" * 5000)
    with pytest.raises(RecordError, match=r"line 1 of o\.jsonl: it has more than 1,000 bytes"):
        next(json_lines(lambda: endless, "o.jsonl"))
    assert list(json_lines(opener(b'{"a":"' + b"x" * 991 + b'"}\n'), "o.jsonl"))


def test_a_file_is_closed_when_its_reader_is() -> None:
    file = io.BytesIO(b'{"id":1}\n{"id":2}\n')
    records = json_lines(lambda: file, "o.jsonl")
    next(records)
    records.close()
    assert file.closed


def table(**columns: Any) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made)
    return made.getvalue()


def test_parquet() -> None:
    content = table(
        id=pa.array([2**60, None], pa.int64()),
        price=pa.array([Decimal("1.10"), Decimal("12345678901234567890.12")], pa.decimal128(30, 2)),
        whole=pa.array([1.0, 2.0], pa.float64()),
        at=pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC)] * 2, pa.timestamp("us", tz="Europe/Berlin")),
        local=pa.array([datetime(2026, 1, 1, 12)] * 2, pa.timestamp("ms")),  # noqa: DTZ001 - one without a zone
        tags=pa.array([[{"k": "é"}], []]),
    )
    first, second = parquet(opener(content), "o.parquet")
    assert first.place == "row 1 of o.parquet"
    assert first.body.decode() == (
        '{"at":"2026-01-01T12:00:00Z","id":1152921504606846976,"local":"2026-01-01T12:00:00","price":1.10,'
        '"tags":[{"k":"é"}],"whole":1.0}'
    )
    assert json.loads(second.body)["id"] is None
    assert b'"price":12345678901234567890.12,' in second.body


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PAR1 no", r"o\.parquet can't be read as Parquet after row 0"),
        (table(ok=[1])[:-20], r"o\.parquet can't be read as Parquet after row 0"),
        (table(secret=[float("nan")]), r"row 1 of o\.parquet: secret: NaN and infinities"),
        (table(raw=[b"bytes"]), r"row 1 of o\.parquet: raw: a value of the type bytes"),
    ],
)
def test_parquet_that_can_not_be_sent(content: bytes, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        list(parquet(opener(content), "o.parquet"))


def far_away(kind: pa.DataType, value: int) -> bytes:
    return table(id=[1, 2], secret=pa.array([0, value], kind))


@pytest.mark.parametrize(
    "content",
    [
        far_away(pa.timestamp("s"), 600_000_000_000),
        far_away(pa.timestamp("us", tz="UTC"), -90_000_000_000_000_000),
        far_away(pa.date32(), 10_000_000),
        # Python's times have microseconds: the rest would be lost.
        far_away(pa.time64("ns"), 123_456_789),
        table(
            id=[1, 2],
            secret=pa.Array.from_buffers(
                pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
            ),
        ),
    ],
)
def test_a_value_unknown_to_python_follows_earlier_records(content: bytes) -> None:
    records = parquet(opener(content), "o.parquet")
    assert next(records).place == "row 1 of o.parquet"
    with pytest.raises(RecordError, match=r"row 2 of o\.parquet: secret: a value of the type .* can't be read"):
        next(records)


@pytest.mark.parametrize("nested", [False, True])
def test_two_columns_of_one_name_are_refused(nested: bool) -> None:
    twins = pa.schema([pa.field("a", pa.int64()), pa.field("a", pa.int64())])
    made = io.BytesIO()
    if nested:
        inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], fields=list(twins))
        pq.write_table(pa.table({"in": inner}), made)
    else:
        pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], schema=twins), made)
    with pytest.raises(RecordError, match="two columns of the name a"):
        list(parquet(opener(made.getvalue()), "o.parquet"))


def test_without_pyarrow_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'airflow-provider-datapipe\[parquet\]'"):
        next(parquet(opener(b""), "o.parquet"))


def peak_of(records: Any) -> tuple[int, int]:
    """Return the number of records, and the largest amount of memory that Python used for them."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in records)
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_larger_file_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for rows in (500, 5_000):
        path = tmp_path / f"{rows}.jsonl"
        with path.open("w") as file:
            file.writelines(f'{{"id":{number},"name":"{"x" * 100}"}}\n' for number in range(rows))
        count, peak = peak_of(json_lines(lambda path=path: path.open("rb"), path.name))  # type: ignore[misc]  # the loop's
        assert count == rows
        peaks.append(peak)
    assert peaks[1] < 1.5 * peaks[0]


class Watched(io.FileIO):
    """A file that knows how much was read of it at once."""

    largest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.largest = max(self.largest, len(found))
        return found


def test_little_of_a_parquet_file_with_one_row_group_is_read(tmp_path: Path) -> None:
    rows, path = 10_000, tmp_path / "o.parquet"
    names = pa.array([f"{number * 7919 % 1_000_003:01000}" for number in range(rows)])
    pq.write_table(pa.table({"name": names}), path, row_group_size=rows, use_dictionary=False, compression="none")
    assert path.stat().st_size > 10_000_000
    file = Watched(path)
    assert sum(1 for _ in parquet(lambda: file, path.name)) == rows
    assert 0 < file.largest < 3_000_000
