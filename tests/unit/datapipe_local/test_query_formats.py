"""Text forms of query results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datapipe_local.query_formats import as_csv, as_json, as_table


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
def test_cell_is_one_short_line(value: Any, cell: str) -> None:
    assert as_table([{"c": value}], 1).splitlines()[2] == cell


def test_column_names_are_escaped() -> None:
    assert as_table([{"a\x1bb": 1}], 1).splitlines()[0] == r"a\x1bb"


def test_json_and_csv_contain_values_in_full() -> None:
    rows = [{"a": "x" * 100 + "\n", "b": {"c": None}}]
    assert json.loads(as_json(rows, 1)) == rows
    assert as_csv(rows, 1) == f'a,b\n"{"x" * 100}\n","{{""c"": null}}"'
