"""Tests of the dialect of CSV files: delimiter, header and names are decided from the first records."""

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


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("id,name\n" + "1,a\n" * 50 + "1,a,x\n", {}, ("id", "name")),
        ("id,name,amount\n1,a,1.5\n2,b\n3,c,2.5\n", {}, ("id", "name", "amount")),
        ("name, first;city\na;b\nc;d\n", {}, ("name, first", "city")),
        ("a,b;c\n1,2;3\n", {"delim": ";"}, ("a,b", "c")),
        ("a;;b\n1;;2\n", {"delim": ";;"}, ("a", "b")),
        ("name\na\nb\n", {}, ("name",)),
        ("1,2\n3,4\n", {"header": True}, ("1", "2")),
        ("a,b\n3,4\n", {"header": False}, ("column0", "column1")),
        (",name,\n1,a,2\n", {}, ("column0", "name", "column2")),
        ("2019,2020\na,b\n", {}, ("2019", "2020")),
        ("id,name\n", {}, ("id", "name")),
        *((f"{first}\n{first}\n", {}, ("column0", "column1")) for first in ("1,2026-01-01", "1.5,true", "-3,12:30:00")),
        # Numbers have as many digits as the last one.
        ("1,1,1,1,1,1,1,1,1,1,1\n", {}, tuple(f"column{number:02}" for number in range(11))),
    ],
)
def test_delimiter_and_header_decide_the_names(text: str, options: dict[str, Any], names: tuple[str, ...]) -> None:
    found = dialect(text, **options)
    assert (found.names, found.quote, found.escape) == (names, '"', '"')


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a,b;c\n1,2;3\n", "`delim`", None),
        ('"id,name"\n"1,a"\n', "`delim`", None),
        *((f"a,{second}\n1,2\n", "columns 1 and 2 have the same name", None) for second in ("a", "A", " a ")),
        *((text, "", 1) for text in ("\r\nid,name\n1,a\n", "\nid,name\r\n1,a\r\n", "\n\rid,name\r1,a\r")),
        *((text, "no columns", None) for text in ("", "\n\n", "\r\n")),
        ("\0i\0d\0,\0n\0\n", "`encoding`", None),
        ('"id,name\n1,a\n', "", 1),
        ('"id"x,name\n1,a\n', "", 1),
    ],
)
def test_unclear_and_malformed_headers_are_refused(text: str, message: str, line: int | None) -> None:
    with pytest.raises(DialectError) as refused:
        dialect(text)
    assert message in str(refused.value)
    assert line in {None, refused.value.line}


def test_lines_before_the_header_are_counted() -> None:
    assert dialect("\n\na,b\n1,2\n").skip == 2
    assert dialect("Title\n# note\na,b\n1,2\n", skip=1, comment="#").skip == 2


def test_a_truncated_record_does_not_count() -> None:
    assert detect("a,b\n1,2\n3", {}, is_whole=False).names == ("a", "b")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@settings(max_examples=scaled(200))
@given(
    st.integers(2, 5).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=20)),
    st.sampled_from(DELIMITERS),
)
def test_the_dialect_of_a_written_file_is_found(rows: list[list[str]], delimiter: str) -> None:
    width = len(rows[0]) if rows else 2
    header = [f"name{number}" for number in range(width)]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    found = dialect(file.getvalue())
    assert (found.delimiter, found.names, found.has_header) == (delimiter, tuple(header), True)
