"""Tests of values and names: JSON values, records, cells of query results, IDs, names, and large sets."""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import threading
import uuid
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe_local.cli.query_formats import as_csv, as_json, as_table
from datapipe_local.common.errors import BadRequestError, RunError
from datapipe_local.common.locks import Locks
from datapipe_local.common.names import LONGEST_NAME, numbered, snake_case
from datapipe_local.engine.record_reader import candidate
from datapipe_local.services.checks import check_name
from datapipe_local.storage.clock import later
from datapipe_local.storage.ids import RunId, derived_id
from datapipe_local.storage.temporary_data import DiskSet
from datapipe_local.warehouse.json_values import json_value
from tests.support.room import no_file_beyond

START = "2026-11-21T09:00:00.000Z"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, value) for value in (None, True, 10**30, "text", 1.5)),
        *((float(text), None) for text in ("nan", "-inf")),
        (Decimal("12.50"), 12.5),
        (Decimal("12.00"), 12),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),  # noqa: DTZ001 - a TIMESTAMP has no zone
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(days=1, seconds=1), "1 day, 0:00:01"),
        (b"\x00\xff", "AP8="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([1, Decimal("0.5")], [1, 0.5]),
        ({"a": (dt.date(2026, 1, 2),)}, {"a": ["2026-01-02"]}),
    ],
)
def test_values_are_converted_for_json(value: Any, expected: Any) -> None:
    found = json_value(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


def mappings(*columns: str, key: int = 1) -> list[dict[str, Any]]:
    return [
        {"source_property_id": name, "destination_property_id": name, "primary_key": number < key}
        for number, name in enumerate(columns)
    ]


def test_different_keys_are_different_records() -> None:
    keys = [None, "null", "\\N", "\\\\N", "N", "", "a", "a|b", "|"]
    ids = [candidate(mappings("id", "x"), (key, 1)).record.record_id for key in keys]
    assert len(set(ids)) == len(keys)
    pairs = list(itertools.product(keys, repeat=2))
    assert len({candidate(mappings("a", "b", key=2), pair).record.record_id for pair in pairs}) == len(pairs)
    # A single key is as users write it.
    assert [candidate(mappings("id"), (key,)).record.record_id for key in ("null", 7, "a|b")] == ["null", "7", "a|b"]


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("12.50", 12.5),
        ("3.00", 3),
        ("12345678901234567890", 12345678901234567890),
        # No floating-point number has these values.
        ("12345678901234567.89", "12345678901234567.89"),
        ("0.10000000000000000001", "0.10000000000000000001"),
    ],
)
def test_decimals_are_sent_exactly(value: str, sent: Any) -> None:
    one, other = (candidate(mappings("id", "x"), (1, Decimal(text))) for text in (value, f"{value[:-1]}7"))
    assert one.record.properties == {"id": 1, "x": sent}
    assert type(json.loads(json.dumps(one.record.properties))["x"]) is type(sent)
    assert one.digest != other.digest


def test_numbers_are_aligned_to_the_right() -> None:
    rows: list[dict[str, Any]] = [
        {"n": 1, "t": "a", "b": True},
        {"n": -12.5, "t": "bcd", "b": None},
        {"n": None, "t": "", "b": False},
    ]
    assert as_table(rows, 3).splitlines() == [
        "    n | t   | b",
        "------+-----+------",
        "    1 | a   | true",
        "-12.5 | bcd | NULL",
        " NULL |     | false",
        "(3 rows)",
    ]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\u202e reversed", r"\u202e reversed"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 77 + "..."),
        ("\n" * 80, r"\n" * 38 + "\\..."),
    ],
)
def test_a_cell_is_one_short_line(value: Any, cell: str) -> None:
    lines = as_table([{"a\x1bb": value}], 1).splitlines()
    assert (lines[0].strip(), lines[2]) == (r"a\x1bb", cell)


def test_json_and_csv_contain_values_in_full() -> None:
    rows = [{"a": "x" * 100 + "\n", "b": {"c": None}}]
    assert json.loads(as_json(rows, 1)) == rows
    assert as_csv(rows, 1) == f'a,b\n"{"x" * 100}\n","{{""c"": null}}"'


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_a_run_id_is_parsed_to_its_parts(subject_id: str) -> None:
    assert RunId.parse(str(RunId(subject_id, START))) == RunId(subject_id, START)


@given(st.text())
def test_any_other_text_is_not_a_run_id(text: str) -> None:
    with pytest.raises(BadRequestError, match="not the ID of a run"):
        RunId.parse(text)


@pytest.mark.parametrize("plain", ["stream", f"|{START}", "stream|today", f"stream|{START} ", f"stream|{START}\n"])
def test_encoded_texts_of_other_forms_are_not_run_ids(plain: str) -> None:
    with pytest.raises(BadRequestError):
        RunId.parse(base64.urlsafe_b64encode(plain.encode()).decode().rstrip("="))


def test_a_padded_run_id_is_refused() -> None:
    text = str(RunId("ab", START))
    with pytest.raises(BadRequestError):
        RunId.parse(text + "=" * (-len(text) % 4 or 4))


def test_run_ids_of_a_subject_sort_by_start() -> None:
    assert RunId("s", START) < RunId("s", later(START, 0.001))


def test_a_derived_id_depends_on_all_names() -> None:
    assert derived_id("a", "b") == derived_id("a", "b")
    assert len({derived_id("a", "b"), derived_id("ab"), derived_id("b", "a"), derived_id("a", "b", "")}) == 4


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Weekly Spend by Campaign", "weekly_spend_by_campaign"),
        ("WeeklySpend", "weekly_spend"),
        ("HTTPServer2Log", "http_server2_log"),
        ("  --a//b--  ", "a_b"),
        ("\u00c9t\u00e9 & \u00dcber", "ete_uber"),
        ("2nd", "n_2nd"),
        ("\u65e5\u672c", ""),
        ("a" * 100, "a" * LONGEST_NAME),
        ("CSV", "csv_data"),
    ],
)
def test_a_name_is_derived_from_a_text(text: str, name: str) -> None:
    assert snake_case(text) == name


@given(st.text(), st.integers(min_value=2, max_value=10**6))
def test_derived_names_are_valid(text: str, number: int) -> None:
    name = snake_case(text)
    if name:
        check_name("name", name)
        check_name("name", numbered(name, number))
        assert snake_case(name) == name
        assert numbered(name, number).endswith(f"_{number}")


@pytest.mark.parametrize("name", ["csv", "Parquet", "gz"])
def test_a_file_extension_is_not_a_valid_name(name: str) -> None:
    # After the deletion of a table reports.csv, a view of it would read the file reports.csv.
    with pytest.raises(BadRequestError, match=f"name: '{name}' is a file extension"):
        check_name("name", name)


def test_locks_are_separate_and_released() -> None:
    locks = Locks()
    got: list[str] = []

    def wait_for_it() -> None:
        with locks.of("a"):
            got.append("a")

    with locks.of("a") as first, locks.of("b") as second:
        assert (first, second) == (True, True)
        waiting = threading.Thread(target=wait_for_it)
        # A failed attempt does not release the lock.
        for _ in range(2):
            with locks.of("a", wait=False) as other:
                assert other is False
        waiting.start()
        assert got == []
    waiting.join(5)
    assert got == ["a"]
    with locks.of("b", wait=False) as again:
        assert again is True


def test_a_set_on_disk_has_the_added_texts() -> None:
    with closing(DiskSet()) as texts:
        texts.update(str(number) for number in range(10_000))
        texts.update(["", "7", "é"])
        assert all(text in texts for text in ("0", "9999", "", "é"))
        assert "10000" not in texts
        assert None not in texts


def test_a_full_disk_fails_the_run_of_a_large_set() -> None:
    with (
        closing(DiskSet()) as texts,
        no_file_beyond(100_000),
        pytest.raises(RunError, match="no disk space for temporary data"),
    ):
        texts.update(f"{number} {'x' * 500}" for number in range(20_000))
