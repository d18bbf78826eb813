"""Tests of CSV files: every row and value is loaded, or the run fails, names the line, and keeps the table."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.datapipe_local.elt_home import Home
from tests.support.local_service import LocalService

GOOD = "a,b\n1,2\n"
#: More rows than DuckDB reads to infer types.
MANY = 21_000


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with LocalService({}, control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture
def home(service: LocalService, tmp_path: Path) -> Home:
    return Home(service, tmp_path)


def seed(home: Home, file: str = "things.csv", **options: Any) -> None:
    home.seed({"name": "things", "file": file, "options": options})


def put(home: Home, content: str | bytes, file: str = "things.csv") -> None:
    (home.folder / file).write_bytes(content.encode() if isinstance(content, str) else content)


def loaded(home: Home, columns: str = "*") -> list[tuple[Any, ...]]:
    return home.rows(f"SELECT {columns} FROM shop.things")  # noqa: S608 - of this module


def refusal(home: Home, content: str | bytes, encoding: str = "utf-16") -> str:
    """Load a valid file, then one that fails. Return the message. The encoding applies to bytes."""
    put(home, GOOD if isinstance(content, str) else GOOD.encode(encoding))
    home.run("things")
    before = loaded(home)
    put(home, content)
    failure = home.failure("things")
    assert loaded(home) == before
    return failure


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "options"),
    [
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
    ],
)
@pytest.mark.parametrize("is_last", [False, True], ids=["middle", "last"])
def test_extra_field_without_a_value(home: Home, row: str, options: dict[str, Any], is_last: bool) -> None:
    seed(home, **options)
    failure = refusal(home, f"a,b\n3,4\n{row}" if is_last else f"a,b\n3,4\n{row}\n5,6\n")
    assert "line 3 has " in failure
    assert "fields instead of 2" in failure


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_extra_field_before_another_line_end(home: Home, end: str) -> None:
    seed(home)
    assert "line 2 has 3 fields instead of 2" in refusal(home, end.join(["a,b", '1,2,""', "3,4", ""]))


@pytest.mark.parametrize("row", ["1,2,", '1,2,""', "1", "1,2,3"])
def test_row_of_another_width_in_utf_16(home: Home, row: str) -> None:
    seed(home, encoding="utf-16")
    assert "line 3 has " in refusal(home, f"a,b\n3,4\n{row}\n5,6\n".encode("utf-16"))


def test_empty_last_field_is_null(home: Home) -> None:
    seed(home)
    put(home, 'a,b\n1,""\n2,\n3, ""\n"4",""')
    home.run("things")
    assert loaded(home) == [(1, None), (2, None), (3, None), (4, None)]


def test_word_for_null_in_the_last_field(home: Home) -> None:
    seed(home, nullstr="NA")
    put(home, "a,b\n1,NA\nNA,2\n")
    home.run("things")
    assert loaded(home) == [(1, None), (None, 2)]


@pytest.mark.parametrize("mark", [b"\xfe\xff", b""], ids=["mark", "no mark"])
def test_big_endian_utf_16_fails(home: Home, mark: bytes) -> None:
    seed(home, encoding="utf-16")
    assert "big-endian" in refusal(home, mark + GOOD.encode("utf-16-be"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16"])
def test_little_endian_utf_16(home: Home, encoding: str) -> None:
    seed(home, encoding="utf-16")
    put(home, "a,b\n1,é\n".encode(encoding))
    home.run("things")
    assert loaded(home) == [(1, "é")]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-be", "no such"])
def test_unsupported_encoding_fails(home: Home, encoding: str) -> None:
    seed(home, encoding=encoding)
    put(home, GOOD)
    failure = home.failure("things")
    assert "utf-8, utf-16, latin-1" in failure
    assert "INSTALL" not in failure


@pytest.mark.slow
@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("12", "007"),
        ("12", "-07"),
        ("12", "+5"),
        ("12", "0x10"),
        ("12", "1_000"),
        ("12:30:00", "12:30:00.123456789"),
        ("12:30:00", "12:30:00+02"),
        ("2020-01-01 10:00:00+00", "2020-01-01 10:00:00.123456789+00"),
        ("2020-01-01 10:00:00+00", "epoch"),
        ("true", "1"),
    ],
)
def test_late_value_that_its_type_would_change(home: Home, early: str, late: str) -> None:
    seed(home)
    put(home, "a,b\n" + f"{early},x\n" * MANY + f"{late},y\n")
    home.run("things")
    assert home.rows("SELECT a FROM shop.things WHERE b = 'y'") == [(late,)]


@pytest.mark.parametrize("late", ["7", " 7 ", "-5", "0", ""])
def test_late_integer_keeps_the_type(home: Home, late: str) -> None:
    seed(home)
    put(home, "a,b\n" + "12,x\n" * MANY + f"{late},y\n")
    home.run("things")
    expected = int(late) if late.strip() else None
    assert home.rows("SELECT a FROM shop.things WHERE b = 'y'") == [(expected,)]


@pytest.mark.parametrize("row", ["8", "8,9,10", '8,"9', '"8"x,9', '8,9,""'])
def test_line_after_newlines_in_quotes(home: Home, row: str) -> None:
    seed(home)
    rows = '1,"x\ny\nz"\n' * 10
    # The header, ten rows of three lines each, and a row.
    assert "line 33 has " in refusal(home, f"a,b\n{rows}1,2\n{row}\n3,4\n")


def test_line_after_skipped_and_blank_lines(home: Home) -> None:
    seed(home, skip=1, comment="#")
    put(home, "Title\n#x\na,b\n\n1,2\n#y\n3,4\n5\n")
    assert "line 8 has 1 fields" in home.failure("things")


def test_header_that_is_longer_than_the_beginning_fails(home: Home) -> None:
    seed(home)
    failure = refusal(home, f"a,{'b' * 1_500_000}\n1,2\n")
    assert "line 1: " in failure
    assert len(failure) < 500


@pytest.mark.parametrize("option", ["quote", "escape", "comment"])
def test_option_of_several_characters_fails(home: Home, option: str) -> None:
    seed(home, **{option: "ab"})
    put(home, GOOD)
    assert f"`{option}`" in home.failure("things")


def test_value_that_is_not_of_the_set_type(home: Home) -> None:
    seed(home, types={"b": "INTEGER"})
    failure = refusal(home, "a,b\n1,2\ncanary,secret\n")
    assert "line 3" in failure.lower()
    assert "`types`" in failure
    assert "canary" not in failure


def test_huge_field_fails(home: Home) -> None:
    seed(home)
    failure = refusal(home, f"a,b\n{'x' * 10_000_000},2\n3,4\n")
    assert "`max_line_size`" in failure


def test_huge_field_with_a_larger_limit(home: Home) -> None:
    seed(home, max_line_size=20_000_000)
    put(home, f"a,b\n{'x' * 10_000_000},2\n3,4\n")
    home.run("things")
    assert loaded(home, "length(a) AS n, b") == [(1, 4), (10_000_000, 2)]


def test_gzip_file(home: Home) -> None:
    seed(home, "things.csv.gz")
    put(home, gzip.compress(b"a;b\n1;2\n"), "things.csv.gz")
    home.run("things")
    assert loaded(home) == [(1, 2)]
    put(home, gzip.compress(b"a;b\n1;2\n3\n"), "things.csv.gz")
    failure = home.failure("things")
    assert "things.csv.gz" in failure
    assert "line 3 has 1 fields" in failure


def test_member_of_an_archive_is_named(home: Home) -> None:
    home.seed({"name": "things", "files": "*.zip", "file": None, "format": "csv"})
    with zipfile.ZipFile(home.folder / "all.zip", "w") as archive:
        archive.writestr("one.csv", GOOD)
        archive.writestr("two.csv", "a,b\n3\n")
    failure = home.failure("things")
    assert "two.csv: line 2 has 1 fields" in failure
    assert "scratch" not in failure


def test_each_file_of_a_pattern_has_its_own_delimiter(home: Home) -> None:
    home.seed({"name": "things", "files": "*.csv", "file": None})
    put(home, GOOD, "one.csv")
    put(home, "a;b\n3;4\n", "two.csv")
    home.run("things")
    assert loaded(home) == [(1, 2), (3, 4)]


def many(late: str) -> str:
    """Return a file with a last row that DuckDB does not read to infer types."""
    return "a,b\n" + '1,"x\ny"\n' * 10 + "1,x\n" * MANY + late


@pytest.mark.parametrize("row", [b"1,J\xf6rg", b'1,"J\xf6rg"'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_that_is_not_utf_8(home: Home, row: bytes, end: str) -> None:
    seed(home)
    rows = [b"a,b", b"1,2", "1,é".encode(), b'1,"x', b'y"', row, b"5,6", row, b""]
    failure = refusal(home, end.encode().join(rows), "utf-8")
    assert "line 6 is not UTF-8: set the option `encoding: latin-1`" in failure
    assert "rg" not in failure.partition("line 6")[2]


def test_late_lines_that_are_not_utf_8(home: Home) -> None:
    seed(home)
    # The header, ten rows of two lines each, and the rows.
    failure = refusal(home, many("1,J\xf6rg\n" * 1000).encode("latin-1"), "utf-8")
    assert f"line {MANY + 22} is not UTF-8" in failure


def test_file_that_ends_in_a_character(home: Home) -> None:
    seed(home)
    assert "line 3 is not UTF-8" in refusal(home, "a,b\n1,2\n3,é".encode()[:-1], "utf-8")


def test_advice_for_windows_1252(home: Home) -> None:
    seed(home)
    failure = refusal(home, "a,b\n1,ö\n2,€\n".encode("cp1252"), "utf-8")
    assert "line 2 is not UTF-8: save the file as UTF-8" in failure
    assert "latin-1" not in failure


@pytest.mark.parametrize("header", ["a,b", "a,ö"])
def test_utf_16_without_the_option(home: Home, header: str) -> None:
    seed(home)
    put(home, f"{header}\n1,2\n".encode("utf-16"))
    failure = home.failure("things")
    assert "line 1: the line is not UTF-8: set the option `encoding: utf-16`" in failure


@pytest.mark.parametrize("byte", ["\x80", "\x85", "\x9f"])
def test_byte_that_is_not_latin_1(home: Home, byte: str) -> None:
    seed(home, encoding="latin-1")
    put(home, f'a,b\n1,"ö\n"\n2,{byte}\n3,4\n'.encode("latin-1"))
    assert "line 4 has a byte from 0x80 to 0x9F, which is not latin-1: save the file as UTF-8" in home.failure("things")


def test_latin_1(home: Home) -> None:
    seed(home, encoding="latin-1")
    put(home, "a,b\n1,Jörg\xa0\xff\n".encode("latin-1"))
    home.run("things")
    assert loaded(home) == [(1, "Jörg\xa0\xff")]


def test_character_of_two_units_in_utf_16(home: Home) -> None:
    seed(home, encoding="utf-16")
    failure = refusal(home, 'a,b\n1,"x\ny"\n2,\U0001f600\n'.encode("utf-16"))
    assert "line 4 has a character beyond U+FFFF" in failure
    assert "save the file as UTF-8" in failure


def test_half_a_unit_of_utf_16(home: Home) -> None:
    seed(home, encoding="utf-16")
    assert "is not UTF-16: correct the option `encoding`" in refusal(home, "a,b\n1,2\n".encode("utf-16") + b"x")


@pytest.mark.parametrize(
    ("early", "late", "options"),
    [
        ("6.5", "0x10", {}),
        ("6.5", "canary", {}),
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
    put(home, "a,b\n" + rows + f"{early},x\n" * MANY + f"{late},x\n")
    failure = home.failure("things")
    # The header, the two rows above in three lines, and the others.
    assert f"line {MANY + 5} has a value in column 'a' that does not fit the first rows" in failure
    assert "`sample_size`" in failure
    assert late not in failure
