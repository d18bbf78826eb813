"""Tests of CSV files: every value is loaded unchanged, or the run fails, names the line, and keeps the table."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.contract.datapipe_local.elt_home import Home

GOOD = "a,b\n1,2\n"
#: More rows than DuckDB reads to infer types.
MANY = 21_000


def seed(home: Home, file: str = "things.csv", **options: Any) -> None:
    home.seed({"name": "things", "file": file, "options": options})


def put(home: Home, content: str | bytes, file: str = "things.csv") -> None:
    (home.folder / file).write_bytes(content.encode() if isinstance(content, str) else content)


def load(home: Home, content: str | bytes, file: str = "things.csv") -> tuple[int, str, str]:
    put(home, content, file)
    return home.run("things")


def failure(home: Home, content: str | bytes, file: str = "things.csv") -> str:
    put(home, content, file)
    return home.failure("things")


def loaded(home: Home, columns: str = "*") -> list[tuple[Any, ...]]:
    return home.rows(f"SELECT {columns} FROM shop.things")  # noqa: S608 - fixed names of the test


class Refused(NamedTuple):
    """File that fails, and words of the message."""

    content: str | bytes
    words: Sequence[str]
    options: Mapping[str, Any] = {}


WIDER = ("line 3 has ", "fields instead of 2")
#: Extra fields without a value, which DuckDB ignores.
EXTRA: list[tuple[str, dict[str, Any]]] = [
    ("1,2,", {}),
    ('1,2,""', {}),
    ('1,2,"" ', {}),
    ('1,2, ""', {}),
    ('1,2,"",""', {}),
    ('1,2,,""', {}),
    ("1,2,NA", {"nullstr": "NA"}),
    ('1,2,"NA"', {"nullstr": ["-", "NA"]}),
    ("1,2,''", {"quote": "'"}),
    ("1,2,#note", {"comment": "#"}),
    ('1,2,"" #note', {"comment": "#"}),
]
LATIN_1 = (["a,b", "1,2", "1,\u00e9", '1,"x', 'y"'], ["5,6", ""])
UTF_16 = {"encoding": "utf-16"}
REFUSED = {
    **{f"extra field: {row}": Refused(f"a,b\n3,4\n{row}\n5,6\n", WIDER, options) for row, options in EXTRA},
    **{f"extra field at the end: {row}": Refused(f"a,b\n3,4\n{row}", WIDER) for row in ("1,2,", '1,2,""')},
    "extra field before CR": Refused('a,b\r1,2,""\r3,4\r', ["line 2 has 3 fields instead of 2"]),
    "extra field before CRLF": Refused('a,b\r\n1,2,""\r\n3,4\r\n', ["line 2 has 3 fields instead of 2"]),
    "extra field of UTF-16": Refused('a,b\n3,4\n1,2,""\n5,6\n'.encode("utf-16"), ["line 3 has "], UTF_16),
    "short row of UTF-16": Refused("a,b\n3,4\n1\n5,6\n".encode("utf-16"), ["line 3 has "], UTF_16),
    **{
        # The header, ten rows of three lines each, and a row.
        f"after newlines in quotes: {row}": Refused(
            "a,b\n" + '1,"x\ny\nz"\n' * 10 + f"1,2\n{row}\n3,4\n", ["line 33 has "]
        )
        for row in ("8", "8,9,10", '8,"9', '"8"x,9', '8,9,""')
    },
    "long row among padded ones": Refused("a,b,c\n1\n2,3\n4,5,6,7\n", ["line 4 has 4 fields"], {"null_padding": True}),
    "header beyond the first megabyte": Refused(f"a,{'b' * 1_500_000}\n1,2\n", ["line 1: "]),
    "field of 10 MB": Refused(f"a,b\n{'x' * 10_000_000},2\n3,4\n", ["`max_line_size`"]),
    "value of another type than given": Refused(
        "a,b\n1,2\ncanary,secret\n", ["line 3", "`types`"], {"types": {"b": "INTEGER"}}
    ),
    "big-endian UTF-16": Refused(GOOD.encode("utf-16-be"), ["big-endian"], UTF_16),
    "big-endian UTF-16 with a mark": Refused(b"\xfe\xff" + GOOD.encode("utf-16-be"), ["big-endian"], UTF_16),
    "UTF-16 without the option": Refused(
        "a,\u00f6\n1,2\n".encode("utf-16"), ["line 1: the line is not UTF-8: set the option `encoding: utf-16`"]
    ),
    "half a unit of UTF-16": Refused(
        GOOD.encode("utf-16") + b"x", ["is not UTF-16: correct the option `encoding`"], UTF_16
    ),
    "two units of UTF-16": Refused(
        'a,b\n1,"x\ny"\n2,\U0001f600\n'.encode("utf-16"),
        ["line 4 has a character beyond U+FFFF", "save the file as UTF-8"],
        UTF_16,
    ),
    **{
        f"latin-1 as UTF-8 {row} {end!r}": Refused(
            end.join([*LATIN_1[0], "BAD", *LATIN_1[1]]).encode().replace(b"BAD", row.encode("latin-1")),
            ["line 6 is not UTF-8: set the option `encoding: latin-1`"],
        )
        for row, end in (("1,J\u00f6rg", "\n"), ('1,"J\u00f6rg"', "\r\n"))
    },
    # The header, ten rows of two lines each, and the rows.
    "latin-1 beyond the sample": Refused(
        ("a,b\n" + '1,"x\ny"\n' * 10 + "1,x\n" * MANY + "1,J\u00f6rg\n" * 1000).encode("latin-1"),
        [f"line {MANY + 22} is not UTF-8"],
    ),
    "character cut at the end": Refused("a,b\n1,2\n3,\u00e9".encode()[:-1], ["line 3 is not UTF-8"]),
    "Windows-1252": Refused(
        "a,b\n1,\u00f6\n2,\u20ac\n".encode("cp1252"), ["line 2 is not UTF-8: save the file as UTF-8"]
    ),
    **{
        f"not latin-1: {byte!r}": Refused(
            f'a,b\n1,"\u00f6\n"\n2,{byte}\n3,4\n'.encode("latin-1"),
            ["line 4 has a byte from 0x80 to 0x9F, which is not latin-1: save the file as UTF-8"],
            {"encoding": "latin-1"},
        )
        for byte in ("\x80", "\x85", "\x9f")
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_malformed_file_keeps_the_table(home: Home, case: str) -> None:
    content, words, options = REFUSED[case]
    seed(home, **options)
    load(home, GOOD.encode(options.get("encoding", "utf-8")))
    before = loaded(home)
    message = failure(home, content)
    assert [word for word in words if word not in message] == [], message
    assert len(message) < 1000
    # No data of the line is in the message, and Windows-1252 is not taken for latin-1.
    assert "canary" not in message
    assert "rg" not in message.partition("is not UTF-8")[2]
    assert case != "Windows-1252" or "latin-1" not in message
    assert loaded(home) == before


@pytest.mark.parametrize(
    ("options", "content", "words"),
    [
        *(({"encoding": name}, GOOD, "utf-8, utf-16, latin-1") for name in ("cp1252", "utf-16-be", "no such")),
        *(({name: "ab"}, GOOD, f"`{name}`") for name in ("quote", "escape", "comment")),
        *(
            ({"skip": 2}, f"{title}\na,b\n1,2\n", "line 1: the skipped line has a quote that is not closed")
            for title in ('"T\nT2"', 'T, "5\nx" T')
        ),
        ({"skip": 1, "comment": "#"}, "Title\n#x\na,b\n\n1,2\n#y\n3,4\n5\n", "line 8 has 1 fields"),
    ],
)
def test_options_that_do_not_fit_the_file(home: Home, options: dict[str, Any], content: str, words: str) -> None:
    seed(home, **options)
    message = failure(home, content)
    assert words in message
    assert "INSTALL" not in message


@pytest.mark.parametrize(
    ("early", "late", "options"),
    [
        ("6.5", "0x10", {}),
        ("6", "canary", {}),
        ("6", "it's", {}),
        ("2020-01-05", "2020-13-13", {}),
        ('"6,5"', "canary", {"decimal_separator": ","}),
    ],
)
def test_late_value_with_a_sample_size(home: Home, early: str, late: str, options: dict[str, Any]) -> None:
    seed(home, sample_size=10, nullstr="NA", **options)
    # The late value is in another column, too, where it fits.
    rows = f'NA,{late}\n{early},"x\ny"\n'
    message = failure(home, "a,b\n" + rows + f"{early},x\n" * MANY + f"{late},x\n")
    # The header, the two rows above in three lines, and the others.
    assert f"line {MANY + 5} has a value in column 'a' that does not fit the first rows" in message
    assert "`sample_size`" in message
    assert late not in message


STORED: dict[str, tuple[str | bytes, dict[str, Any], list[tuple[Any, ...]]]] = {
    "empty last fields": ('a,b\n1,""\n2,\n3, ""\n"4",""', {}, [(1, None), (2, None), (3, None), (4, None)]),
    "word for null": ("a,b\n1,NA\nNA,2\n", {"nullstr": "NA"}, [(1, None), (None, 2)]),
    "utf-16-le": ("a,b\n1,\u00e9\n".encode("utf-16-le"), UTF_16, [(1, "\u00e9")]),
    "utf-16": ("a,b\n1,\u00e9\n".encode("utf-16"), UTF_16, [(1, "\u00e9")]),
    "latin-1": (
        "a,b\n1,J\u00f6rg\xa0\xff\n".encode("latin-1"),
        {"encoding": "latin-1"},
        [(1, "J\u00f6rg\xa0\xff")],
    ),
    "comment before the header": ("#c\na,b\n1,2\n3,4\n", {"comment": "#"}, [(1, 2), (3, 4)]),
    "comments and a blank line": ("#c\n\n#d\na,b\n1,2\n3,4\n", {"comment": "#"}, [(1, 2), (3, 4)]),
    "title and comment": ("T\n#c\na,b\n1,2\n3,4\n", {"comment": "#", "skip": 1}, [(1, 2), (3, 4)]),
    "comment and title": ("#c\nT\na,b\n1,2\n3,4\n", {"comment": "#", "skip": 2}, [(1, 2), (3, 4)]),
    "title with quotes": ('T "x", y\na,b\n1,2\n3,4\n', {"skip": 1}, [(1, 2), (3, 4)]),
    "comment without a header": ("# 1\n1,2\n3,4\n", {"comment": "#"}, [(1, 2), (3, 4)]),
    "padded rows": (
        'a,b,c\n1,"x\ny"\n2,3\n',
        {"null_padding": True},
        [(1, "x\ny", None), (2, "3", None)],
    ),
    "words of truth": ("a,b\nNO,1\nNO,2\n", {}, [("NO", 1), ("NO", 2)]),
    "letters of truth": ("a,b\nY,1\nN,2\n", {}, [("N", 2), ("Y", 1)]),
    "years of two digits": ("a,b\n13/02/20,1\n03/04/20,2\n", {}, [("03/04/20", 2), ("13/02/20", 1)]),
    "epoch among days": ("a,b\n13/01/2020,1\nepoch,2\n", {}, [("13/01/2020", 1), ("epoch", 2)]),
    "some time zones": (
        "a,b\n2020-01-05 10:00:00,1\n2020-01-05 10:00:00+02,2\n",
        {},
        [("2020-01-05 10:00:00", 1), ("2020-01-05 10:00:00+02", 2)],
    ),
    "hexadecimal": ("a,b,c,d\n0x10,x,1.5,7\n6.5,y,,8\n", {}, [("0x10", "x", 1.5, 7), ("6.5", "y", None, 8)]),
    **{
        f"word among days of the format {form}": (
            "a,b\n13/01/2020,1\nepoch,2\n",
            {"dateformat": form},
            [("13/01/2020", 1), ("epoch", 2)],
        )
        for form in ("%d/%m/%Y", "%-d/%-m/%Y")
    },
    **{
        f"groups of digits: {text}": (f"a;b\n{text};1\n", options, [(value, 1)])
        for text, options, value in (
            ("12.345,25", {"decimal_separator": ",", "thousands": "."}, 12345.25),
            ("12,345", {"thousands": ","}, 12345),
            ("-1,234,567.5", {"thousands": ","}, -1234567.5),
            ("1,2,3", {"thousands": ","}, "1,2,3"),
        )
    },
}


@pytest.mark.parametrize("case", STORED)
def test_values_of_a_file(home: Home, case: str) -> None:
    content, options, rows = STORED[case]
    seed(home, **options)
    load(home, content)
    assert loaded(home) == rows


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
    load(home, "a,b\n" + "".join(f"{day},x\n" for day in days))
    assert sorted(str(value) for (value,) in loaded(home, "a")) == stored


@pytest.mark.slow
@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("12", ["007", "-07", "+5", "0x10", "1_000"]),
        ("12:30:00", ["12:30:00.123456789", "12:30:00+02"]),
        (
            "2020-01-05 10:00:00",
            [
                "2020-01-05 10:00:00-05",
                "2020-01-05 10:00:00-0530",
                "2020-01-05 10:00:00.5-05",
                "2020-01-05 10:00-05",
                "2020-01-05 10:00:00 CET",
            ],
        ),
        ("2020-01-01 10:00:00+00", ["2020-01-01 10:00:00.123456789+00", "epoch", "2020-01-05 10:00:00"]),
        ("2020-01-05", ["2020-01-05 10:00:00-05", "13/01/20"]),
        ("13/01/2020", ["13/01/20", "infinity"]),
        ("true", ["1", "NO"]),
        ("false", ["t"]),
    ],
)
def test_late_values_that_a_type_would_change(home: Home, early: str, late: list[str]) -> None:
    seed(home, delim=";")
    names = [f"c{number}" for number in range(len(late))]
    put(
        home,
        "\n".join([";".join([*names, "n"]), *[";".join([*[early] * len(late), "1"])] * MANY, ";".join([*late, "2"])]),
    )
    assert home.run("things")[0] == MANY + 1
    rows: list[tuple[object, ...]] = [(*[early] * len(late), 1), (*late, 2)]
    assert loaded(home, f"DISTINCT {', '.join(names)}, n") == sorted(rows, key=str)


def test_late_integers_keep_the_type(home: Home) -> None:
    seed(home)
    load(home, "a,b,c,d,e\n" + "12,12,12,12,12\n" * MANY + "7, 7 ,-5,0,\n")
    assert loaded(home, "DISTINCT *") == [(12, 12, 12, 12, 12), (7, 7, -5, 0, None)]


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
def test_late_marks_in_numbers(home: Home, early: str, last: str, options: dict[str, Any], stored: object) -> None:
    seed(home, **options)
    load(home, "a;b\n" + f"{early};1\n" * MANY + f"{last};2\n")
    assert home.rows("SELECT a FROM shop.things WHERE b = 2") == [(stored,)]


def test_huge_field_with_a_larger_limit(home: Home) -> None:
    seed(home, max_line_size=20_000_000)
    load(home, f"a,b\n{'x' * 10_000_000},2\n3,4\n")
    assert loaded(home, "length(a) AS n, b") == [(1, 4), (10_000_000, 2)]


@pytest.mark.slow
def test_quoted_lines_that_look_like_rows(home: Home) -> None:
    # Large enough for DuckDB to read parts of it in parallel.
    text, count = "1,2\n3,4\n" * 40, 50_000
    seed(home)
    load(home, "a,b\n" + "".join(f'k{number},"{text}"\n' for number in range(count)))
    assert home.rows("SELECT count(*), count(DISTINCT a), min(b) = max(b), min(b) FROM shop.things") == [
        (count, count, True, text)
    ]


def test_hash_does_not_depend_on_other_values(home: Home) -> None:
    home.seed({"name": "things", "file": "things.csv", "options": {}, "hashed_columns": ["h"]})
    values = ["10", "1.5", "1.10", "NO"]
    load(home, "h,a\n" + "".join(f"{value},x\n" for value in values))
    assert {value for (value,) in loaded(home, "h")} == {hashlib.sha256(value.encode()).hexdigest() for value in values}


def put_parts(home: Home, *contents: str) -> None:
    """Write the files of a stream with a pattern."""
    home.seed({"name": "things", "files": "part*.csv"})
    for number, content in enumerate(contents):
        put(home, content, f"part{number}.csv")


def test_files_of_other_types_keep_their_values(home: Home) -> None:
    pairs = [
        ("NO", "DE"),
        ("12345678901234567", "1.5"),
        ("99999999999999999999", "1.5"),
        ("1.10", "x"),
        ("1e5", "x"),
        ("2020-01-01T10:00:00+02:00", "x"),
        ("2020-01-01T10:00:00", "x"),
        ("true", "1"),
    ]
    # Each pair in both orders.
    rows = [[*one, *other] for one, other in (zip(*pairs, strict=True), reversed(list(zip(*pairs, strict=True))))]
    header = ",".join(f"c{number}" for number in range(2 * len(pairs)))
    put_parts(home, *(f"{header}\n{','.join(row)}\n" for row in rows))
    home.run("things")
    assert loaded(home) == sorted(map(tuple, rows), key=str)


def test_files_of_numbers_share_a_type(home: Home) -> None:
    put_parts(home, "k,a\nq,1\n", "k,a\nq,2.5\n", "k,b\nq,z\n")
    home.run("things")
    assert sorted(loaded(home, "coalesce(a, 0)")) == [(0,), (1,), (2.5,)]


def test_each_file_has_its_own_delimiter_and_order_of_days(home: Home) -> None:
    put_parts(home, "a,b\n01/02/2026,1\n", "a;b\n02/13/2026;2\n")
    home.run("things")
    assert [(str(day), number) for day, number in loaded(home)] == [("2026-02-01", 1), ("2026-02-13", 2)]


def test_gzip_file(home: Home) -> None:
    seed(home, "things.csv.gz")
    load(home, gzip.compress(b"a;b\n1;2\n"), "things.csv.gz")
    assert loaded(home) == [(1, 2)]
    message = failure(home, gzip.compress(b"a;b\n1;2\n3\n"), "things.csv.gz")
    assert "things.csv.gz" in message
    assert "line 3 has 1 fields" in message


def test_member_of_an_archive_is_named(home: Home) -> None:
    home.seed({"name": "things", "files": "*.zip", "format": "csv"})
    with zipfile.ZipFile(home.folder / "all.zip", "w") as archive:
        archive.writestr("one.csv", GOOD)
        archive.writestr("two.csv", "a,b\n3\n")
    message = home.failure("things")
    assert "two.csv: line 2 has 1 fields" in message
    assert "scratch" not in message
