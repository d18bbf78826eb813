"""The dialect of CSV files, decided from their first records."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipe_local.warehouse.loading.csv_dialect import DELIMITERS, CsvDialect, DialectError, detect
from tests.support.examples import scaled


def dialect(text: str, **options: Any) -> CsvDialect:
    return detect(text, options, is_whole=True)


def refusal(text: str, **options: Any) -> DialectError:
    with pytest.raises(DialectError) as refused:
        dialect(text, **options)
    return refused.value


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_header_decides_the_delimiter(delimiter: str) -> None:
    found = dialect(f"id{delimiter}name\n1{delimiter}a\n")
    assert (found.delimiter, found.names) == (delimiter, ("id", "name"))


def test_short_row_does_not_change_the_delimiter() -> None:
    assert dialect("id,name,amount\n1,a,1.5\n2,b\n3,c,2.5\n").names == ("id", "name", "amount")


def test_long_row_does_not_change_the_header() -> None:
    assert dialect("id,name\n" + "1,a\n" * 50 + "1,a,x\n").names == ("id", "name")


def test_following_records_decide_between_two_delimiters() -> None:
    assert dialect("name, first;city\na;b\nc;d\n").delimiter == ";"


def test_two_possible_delimiters_are_refused() -> None:
    assert "`delim`" in str(refusal("a,b;c\n1,2;3\n"))


def test_option_decides_between_two_possible_delimiters() -> None:
    assert dialect("a,b;c\n1,2;3\n", delim=";").names == ("a,b", "c")


def test_quoted_line_as_the_only_column_is_refused() -> None:
    assert "`delim`" in str(refusal('"id,name"\n"1,a"\n'))


def test_delimiter_of_several_characters() -> None:
    assert dialect("a;;b\n1;;2\n", delim=";;").names == ("a", "b")


def test_one_column() -> None:
    assert dialect("name\na\nb\n").names == ("name",)


def test_quotes_belong_to_the_dialect_of_a_file_without_quotes() -> None:
    found = dialect("a,b\n1,2\n")
    assert (found.quote, found.escape) == ('"', '"')


@pytest.mark.parametrize("first", ["1,2026-01-01", "7,x", "1.5,true", "-3,12:30:00"])
def test_values_are_no_header(first: str) -> None:
    found = dialect(f"{first}\n{first}\n")
    assert (found.has_header, found.names) == (False, ("column0", "column1"))


@pytest.mark.parametrize("text", ["2019,2020\na,b\n", "id,name\n", ",a\n1,2\n"])
def test_names_are_a_header(text: str) -> None:
    assert dialect(text).has_header


def test_option_decides_about_the_header() -> None:
    assert dialect("1,2\n3,4\n", header=True).names == ("1", "2")
    assert dialect("a,b\n3,4\n", header=False).names == ("column0", "column1")


def test_empty_names_are_numbered() -> None:
    assert dialect(",name,\n1,a,2\n").names == ("column0", "name", "column2")


def test_numbers_have_as_many_digits_as_the_last_one() -> None:
    assert dialect(",".join("1" * 11) + "\n").names[:2] == ("column00", "column01")


@pytest.mark.parametrize("second", ["a", "A", " a "])
def test_two_columns_of_the_same_name_are_refused(second: str) -> None:
    error = refusal(f"a,{second}\n1,2\n")
    assert "columns 1 and 2 have the same name" in str(error)


def test_lines_before_the_header_are_counted() -> None:
    assert dialect("\n\na,b\n1,2\n").skip == 2
    assert dialect("Title\n# note\na,b\n1,2\n", skip=1, comment="#").skip == 2


@pytest.mark.parametrize("text", ["\r\nid,name\n1,a\n", "\nid,name\r\n1,a\r\n", "\n\rid,name\r1,a\r"])
def test_blank_line_with_another_end_is_refused(text: str) -> None:
    assert refusal(text).line == 1


@pytest.mark.parametrize("text", ["", "\n\n", "\r\n"])
def test_file_without_a_record_is_refused(text: str) -> None:
    assert "no columns" in str(refusal(text))


def test_nul_bytes_hint_at_the_encoding() -> None:
    assert "`encoding`" in str(refusal("\0i\0d\0,\0n\0\n"))


@pytest.mark.parametrize("text", ['"id,name\n1,a\n', '"id"x,name\n1,a\n'])
def test_malformed_header_is_refused_with_its_line(text: str) -> None:
    assert refusal(text).line == 1


def test_record_that_is_cut_off_does_not_count() -> None:
    assert detect("a,b\n1,2\n3", {}, is_whole=False).names == ("a", "b")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@settings(max_examples=scaled(200))
@given(
    st.integers(2, 5).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=20)),
    st.sampled_from(DELIMITERS),
)
def test_dialect_reads_a_file_as_it_was_written(rows: list[list[str]], delimiter: str) -> None:
    width = len(rows[0]) if rows else 2
    header = [f"name{number}" for number in range(width)]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    found = dialect(file.getvalue())
    assert (found.delimiter, found.names, found.has_header) == (delimiter, tuple(header), True)
