"""Tests of CSV values: they get a type only if nothing is lost, whatever other rows and files contain."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.contract.datapipe_local.elt_home import Home
from tests.contract.datapipe_local.test_csv_files import MANY, home, loaded, put, refusal, seed, service

__all__ = ["home", "service"]


def late(early: str, last: str) -> str:
    """Return a file whose last value DuckDB does not see when it infers types."""
    return "a;b\n" + f"{early};1\n" * MANY + f"{last};2\n"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("#c\na,b\n1,2\n3,4\n", {"comment": "#"}),
        ("#c\n\n#d\na,b\n1,2\n3,4\n", {"comment": "#"}),
        ("T\n#c\na,b\n1,2\n3,4\n", {"comment": "#", "skip": 1}),
        ("#c\nT\na,b\n1,2\n3,4\n", {"comment": "#", "skip": 2}),
        ('T "x", y\na,b\n1,2\n3,4\n', {"skip": 1}),
    ],
)
def test_no_row_is_skipped_after_lines_before_the_header(home: Home, content: str, options: dict[str, Any]) -> None:
    seed(home, **options)
    put(home, content)
    home.run("things")
    assert loaded(home, "a, b") == [(1, 2), (3, 4)]


def test_comment_before_rows_without_a_header(home: Home) -> None:
    seed(home, comment="#")
    put(home, "# 1\n1,2\n3,4\n")
    home.run("things")
    assert loaded(home) == [(1, 2), (3, 4)]


@pytest.mark.parametrize("title", ['"T\nT2"', 'T, "5\nx" T'])
def test_skipped_line_with_an_open_quote_fails(home: Home, title: str) -> None:
    seed(home, skip=2)
    put(home, f"{title}\na,b\n1,2\n")
    assert "line 1: the skipped line has a quote that is not closed" in home.failure("things")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("early", "last"),
    [
        ("2020-01-05 10:00:00", "2020-01-05 10:00:00-05"),
        ("2020-01-05 10:00:00", "2020-01-05 10:00:00-0530"),
        ("2020-01-05 10:00:00", "2020-01-05 10:00:00.5-05"),
        ("2020-01-05 10:00:00", "2020-01-05 10:00-05"),
        ("2020-01-05 10:00:00", "2020-01-05 10:00:00 CET"),
        ("2020-01-05", "2020-01-05 10:00:00-05"),
        ("2020-01-05 10:00:00+00", "2020-01-05 10:00:00"),
        ("2020-01-05", "13/01/20"),
        ("13/01/2020", "13/01/20"),
        ("13/01/2020", "infinity"),
        ("true", "NO"),
        ("false", "t"),
    ],
)
def test_late_value_stays_as_written(home: Home, early: str, last: str) -> None:
    seed(home)
    put(home, late(early, last))
    home.run("things")
    assert sorted(home.rows("SELECT a, count(*) FROM shop.things GROUP BY a")) == sorted([(early, MANY), (last, 1)])


@pytest.mark.parametrize(
    "values",
    [
        ("NO", "NO"),
        ("Y", "N"),
        ("13/02/20", "03/04/20"),
        ("13/01/2020", "epoch"),
        ("2020-01-05 10:00:00", "2020-01-05 10:00:00+02"),
        ("0x10", "6.5"),
    ],
)
def test_values_stay_as_written(home: Home, values: tuple[str, str]) -> None:
    seed(home)
    put(home, f"a,b\n{values[0]},1\n{values[1]},2\n")
    home.run("things")
    assert sorted(loaded(home, "a")) == sorted((value,) for value in values)


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%-d/%-m/%Y"])
def test_word_among_days_of_a_set_format(home: Home, form: str) -> None:
    seed(home, dateformat=form)
    put(home, "a,b\n13/01/2020,1\nepoch,2\n")
    home.run("things")
    assert sorted(loaded(home, "a")) == [("13/01/2020",), ("epoch",)]


@pytest.mark.parametrize(
    ("early", "last", "options", "stored"),
    [
        ("12", "1,5", {"decimal_separator": ","}, 1.5),
        ("1,2", "1,5", {"decimal_separator": ","}, 1.5),
        ("1,234", "12,34", {"thousands": ","}, "12,34"),
        ("12", "007", {"thousands": ","}, "007"),
        ("1,5", "123456789012345678", {"decimal_separator": ","}, "123456789012345678"),
    ],
)
def test_marks_in_numbers(home: Home, early: str, last: str, options: dict[str, Any], stored: object) -> None:
    seed(home, **options)
    put(home, late(early, last))
    home.run("things")
    assert home.rows("SELECT a FROM shop.things WHERE b = 2") == [(stored,)]


@pytest.mark.parametrize(
    ("text", "options", "stored"),
    [
        ("12.345,25", {"decimal_separator": ",", "thousands": "."}, 12345.25),
        ("12,345", {"thousands": ","}, 12345),
        ("-1,234,567.5", {"thousands": ","}, -1234567.5),
        ("1,2,3", {"thousands": ","}, "1,2,3"),
    ],
)
def test_groups_of_digits(home: Home, text: str, options: dict[str, Any], stored: object) -> None:
    seed(home, **options)
    put(home, f"a;b\n{text};1\n")
    home.run("things")
    assert loaded(home) == [(stored, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("NO", "DE"),
        ("12345678901234567", "1.5"),
        ("99999999999999999999", "1.5"),
        ("1.10", "x"),
        ("1e5", "x"),
        ("2020-01-01T10:00:00+02:00", "x"),
        ("2020-01-01T10:00:00", "x"),
        ("true", "1"),
    ],
)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_files_of_other_types_keep_their_values(home: Home, first: str, second: str, *, is_swapped: bool) -> None:
    home.seed({"name": "things", "files": "part*.csv", "file": None})
    for number, value in enumerate([second, first] if is_swapped else [first, second]):
        put(home, f"k,a\nq,{value}\n", f"part{number}.csv")
    home.run("things")
    assert sorted(loaded(home, "a")) == sorted([(first,), (second,)])


def test_files_of_numbers_share_a_type(home: Home) -> None:
    home.seed({"name": "things", "files": "part*.csv", "file": None})
    for number, content in enumerate(["k,a\nq,1\n", "k,a\nq,2.5\n", "k,b\nq,z\n"]):
        put(home, content, f"part{number}.csv")
    home.run("things")
    assert sorted(loaded(home, "coalesce(a, 0)")) == [(0,), (1,), (2.5,)]


@pytest.mark.slow
def test_quoted_lines_that_look_like_rows(home: Home) -> None:
    # Large enough for DuckDB to read parts of it in parallel.
    text, count = "1,2\n3,4\n" * 40, 50_000
    seed(home)
    put(home, "a,b\n" + "".join(f'k{number},"{text}"\n' for number in range(count)))
    home.run("things")
    assert home.rows("SELECT count(*), count(DISTINCT a), min(b) = max(b), min(b) FROM shop.things") == [
        (count, count, True, text)
    ]


def test_padded_rows_with_newlines_in_quotes(home: Home) -> None:
    seed(home, null_padding=True)
    put(home, 'a,b,c\n1,"x\ny"\n2,3\n')
    home.run("things")
    assert loaded(home) == [(1, "x\ny", None), (2, "3", None)]


def test_line_of_a_long_row_among_short_ones(home: Home) -> None:
    seed(home, null_padding=True)
    assert "line 4 has 4 fields instead of 3" in refusal(home, "a,b,c\n1\n2,3\n4,5,6,7\n")


def test_hash_does_not_depend_on_other_values(home: Home) -> None:
    home.seed({"name": "things", "file": "things.csv", "options": {}, "hashed_columns": ["h"]})
    values = ["10", "1.5", "1.10", "NO"]
    put(home, "h,a\n" + "".join(f"{value},x\n" for value in values))
    home.run("things")
    assert {value for (value,) in loaded(home, "h")} == {hashlib.sha256(value.encode()).hexdigest() for value in values}


@pytest.mark.parametrize(
    ("days", "options", "stored"),
    [
        (["01/02/2026"], {}, ["2026-02-01"]),
        (["1/2/2026"], {}, ["2026-02-01"]),
        (["01-02-2026"], {}, ["2026-02-01"]),
        (["01.02.2026"], {}, ["2026-02-01"]),
        (["01/02/2026 10:00:00"], {}, ["2026-02-01T10:00:00"]),
        (["01/02/2026", "13/02/2026"], {}, ["2026-02-01", "2026-02-13"]),
        (["01/02/2026", "02/13/2026"], {}, ["2026-01-02", "2026-02-13"]),
        (["13/02/2026", "02/13/2026"], {}, ["02/13/2026", "13/02/2026"]),
        (["01/02/2026 10:00:00", "02/13/2026 10:00:00"], {}, ["01/02/2026 10:00:00", "02/13/2026 10:00:00"]),
        (["2026/02/01"], {}, ["2026-02-01"]),
        (["01/02/2026"], {"dateformat": "%m/%d/%Y"}, ["2026-01-02"]),
        (["01/02/2026 10:00:00"], {"timestampformat": "%m/%d/%Y %H:%M:%S"}, ["2026-01-02T10:00:00"]),
        (["13/02/2026"], {"dateformat": "%m/%d/%Y"}, ["13/02/2026"]),
    ],
)
def test_ambiguous_days(home: Home, days: list[str], options: dict[str, Any], stored: list[str]) -> None:
    seed(home, **options)
    put(home, "a,b\n" + "".join(f"{day},x\n" for day in days))
    home.run("things")
    assert sorted(str(value) for (value,) in loaded(home, "a")) == stored


def test_ambiguous_days_of_two_files(home: Home) -> None:
    home.connect("files", {"path": str(home.folder)}, [{"name": "things", "files": "*.csv"}])
    put(home, "a,b\n01/02/2026,x\n", "1.csv")
    put(home, "a,b\n02/13/2026,x\n", "2.csv")
    home.run("things")
    assert [str(value) for (value,) in loaded(home, "a")] == ["2026-02-01", "2026-02-13"]
