"""Sources of records: valid and refused input, positions in messages, and constant memory."""

from __future__ import annotations

import errno
import io
import json
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow has no type hints
import pytest
from pyarrow import parquet as pq

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.webhook import sources
from airflow_provider_datapipe.webhook.sources import RecordError, json_lines, parquet


def opener(content: bytes) -> Callable[[], BinaryIO]:
    return lambda: io.BytesIO(content)


def test_records_of_a_json_lines_file() -> None:
    content = '\ufeff{"b":1, "a":"é"}\r\n\n  \n{"price":1.10}'.encode()
    assert list(json_lines(opener(content), "o.jsonl")) == [
        ("line 1 of o.jsonl", '{"a":"é","b":1}'.encode()),
        ("line 4 of o.jsonl", b'{"price":1.10}'),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 2 of o.jsonl: not valid JSON"),
        (b'[{"a":1},', r"line 2 of o.jsonl: not valid JSON: .*\. A JSON Lines file has one object per line"),
        (b"[1]", "line 2 of o.jsonl: a record must be an object .dict., not list"),
        (b'{"secret":NaN}', "line 2 of o.jsonl: NaN and infinities"),
        (b'{"a":1,"a":1}', "line 2 of o.jsonl: duplicate key a"),
        (b'{"a":{"b":"\\ud800secret"}}', r"line 2 of o.jsonl: a\.b: a text contains an unpaired surrogate"),
        (b'{"a":"secret\xff"}', "line 2 of o.jsonl: it is not UTF-8"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested more than"),
    ],
)
def test_error_of_an_invalid_line_names_but_does_not_quote_it(line: bytes, message: str) -> None:
    records = json_lines(opener(b'{"id":1}\n' + line + b'\n{"id":3}\n'), "o.jsonl")
    assert next(records).body == b'{"id":1}'
    with pytest.raises(RecordError, match=message) as refusal:
        next(records)
    assert "secret" not in str(refusal.value)


def test_length_of_a_line_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LONGEST_LINE", 1000)
    endless = io.BytesIO(b"x" * 5000)
    with pytest.raises(RecordError, match=r"line 1 of o\.jsonl: longer than 1,000 bytes"):
        next(json_lines(lambda: endless, "o.jsonl"))
    assert list(json_lines(opener(b'{"a":"' + b"x" * 991 + b'"}\n'), "o.jsonl"))


def test_closing_the_reader_closes_the_file() -> None:
    file = io.BytesIO(b'{"id":1}\n{"id":2}\n')
    records = json_lines(lambda: file, "o.jsonl")
    next(records)
    records.close()
    assert file.closed


def table(**columns: Any) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made)
    return made.getvalue()


MANY = table(id=list(range(5_000)))


def test_records_of_a_parquet_file() -> None:
    content = table(
        id=pa.array([2**60, None], pa.int64()),
        price=pa.array([Decimal("1.10"), Decimal("12345678901234567890.12")], pa.decimal128(30, 2)),
        whole=pa.array([1.0, 2.0], pa.float64()),
        at=pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC)] * 2, pa.timestamp("us", tz="Europe/Berlin")),
        fine=pa.array([[{"t": 123_456_789_000}], None], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))),
        local=pa.array([datetime(2026, 1, 1, 12)] * 2, pa.timestamp("ms")),  # noqa: DTZ001 - tests a time without a zone
        tags=pa.array([[{"k": "é"}], []]),
    )
    first, second = parquet(opener(content), "o.parquet")
    assert first.place == "row 1 of o.parquet"
    assert first.body.decode() == (
        '{"at":"2026-01-01T12:00:00Z","fine":[{"t":"1970-01-01T00:02:03.456789"}],"id":1152921504606846976,"local":"2026-01-01T12:00:00","price":1.10,'
        '"tags":[{"k":"é"}],"whole":1.0}'
    )
    assert json.loads(second.body)["id"] is None
    assert b'"price":12345678901234567890.12,' in second.body


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1 no", r"o\.parquet cannot be read as Parquet after row 0"),
        (table(ok=[1])[:-20], r"o\.parquet cannot be read as Parquet after row 0"),
        (table(secret=[float("nan")]), r"row 1 of o\.parquet: secret: NaN and infinities"),
        (table(raw=[b"bytes"]), r"row 1 of o\.parquet: raw: a value of the type bytes"),
        (MANY[:1_000] + bytes(400) + MANY[1_400:], r"o\.parquet cannot be read as Parquet after row \d+ \(.+\)\.$"),
    ],
    ids=["no file", "cut", "NaN", "bytes", "damaged page"],
)
def test_invalid_parquet_content_is_an_error(content: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        list(parquet(opener(content), "o.parquet"))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ConnectionResetError("lost")])
def test_error_of_the_storage_of_a_parquet_file_is_raised(error: OSError) -> None:
    class Failing(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise error

    with pytest.raises(type(error)) as caught:
        list(parquet(lambda: Failing(table(id=[1])), "o.parquet"))
    assert caught.value is error


def far_away(kind: pa.DataType, value: int) -> bytes:
    return table(id=[1, 2], secret=pa.array([0, value], kind))


#: Offsets and bytes of two texts.
NOT_UTF_8 = (b"\0\0\0\0\0\0\0\0\2\0\0\0", b"\xff\xfe")


@pytest.mark.parametrize(
    "content",
    [
        far_away(pa.timestamp("s"), 600_000_000_000),
        far_away(pa.timestamp("us", tz="UTC"), -90_000_000_000_000_000),
        far_away(pa.date32(), 10_000_000),
        # Python's times have microseconds, so nanoseconds would be lost.
        far_away(pa.time64("ns"), 123_456_789),
        far_away(pa.timestamp("ns"), 123_456_789),
        far_away(pa.timestamp("ns", "Europe/Berlin"), 123_456_789),
        *(
            table(id=[1, 2], secret=pa.array([at(0), at(123_456_789)], kind))
            for unit in (pa.time64("ns"), pa.timestamp("ns"))
            for kind, at in (
                (pa.list_(unit), lambda value: [value]),
                (pa.large_list(unit), lambda value: [value]),
                (pa.list_(unit, 1), lambda value: [value]),
                (pa.map_(pa.string(), unit), lambda value: [("k", value)]),
                (pa.list_(pa.struct([("t", unit)])), lambda value: [{"t": value}]),
            )
        ),
        table(id=[1, 2], secret=pa.Array.from_buffers(pa.string(), 2, [None, *map(pa.py_buffer, NOT_UTF_8)])),
    ],
)
def test_unreadable_value_raises_after_the_earlier_records(content: bytes) -> None:
    records = parquet(opener(content), "o.parquet")
    assert next(records).place == "row 1 of o.parquet"
    with pytest.raises(RecordError, match=r"row 2 of o\.parquet: secret: a value of type .* cannot be read"):
        next(records)


@pytest.mark.parametrize("nested", [False, True])
def test_duplicate_column_names_are_refused(nested: bool) -> None:
    twins = pa.schema([pa.field("a", pa.int64()), pa.field("a", pa.int64())])
    made = io.BytesIO()
    if nested:
        inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], fields=list(twins))
        pq.write_table(pa.table({"in": inner}), made)
    else:
        pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], schema=twins), made)
    with pytest.raises(RecordError, match="two columns named a"):
        list(parquet(opener(made.getvalue()), "o.parquet"))


def test_missing_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'airflow-provider-datapipe\[parquet\]'"):
        next(parquet(opener(b""), "o.parquet"))


def peak_of(records: Any) -> tuple[int, int]:
    """Return the number of records and the peak memory of reading them."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in records)
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_depend_on_the_file_size(tmp_path: Path) -> None:
    peaks = []
    for rows in (500, 5_000):
        path = tmp_path / f"{rows}.jsonl"
        with path.open("w") as file:
            file.writelines(f'{{"id":{number},"name":"{"x" * 100}"}}\n' for number in range(rows))
        count, peak = peak_of(json_lines(lambda path=path: path.open("rb"), path.name))  # type: ignore[misc]  # loop variable
        assert count == rows
        peaks.append(peak)
    assert peaks[1] < 1.5 * peaks[0]


class MeasuredFile(io.FileIO):
    """File that records the size of its largest read."""

    largest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.largest = max(self.largest, len(found))
        return found


def test_single_row_group_is_read_in_small_pieces(tmp_path: Path) -> None:
    rows, path = 10_000, tmp_path / "o.parquet"
    names = pa.array([f"{number * 7919 % 1_000_003:01000}" for number in range(rows)])
    pq.write_table(pa.table({"name": names}), path, row_group_size=rows, use_dictionary=False, compression="none")
    assert path.stat().st_size > 10_000_000
    file = MeasuredFile(path)
    assert sum(1 for _ in parquet(lambda: file, path.name)) == rows
    assert 0 < file.largest < 3_000_000
