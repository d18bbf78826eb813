"""Tests of JSON Lines files: every value of every object is loaded, or the run fails and names the line."""

from __future__ import annotations

import pytest

from tests.contract.datapipe_local.elt_home import Home

pytestmark = pytest.mark.slow


#: Options of an incremental stream with a key.
MERGED = {"incremental_pointer_id": "id", "incremental_primary_key_name": ["id"]}
GOOD = b'{"id": 1, "text": "a"}\n'
#: More rows than DuckDB reads to infer types.
MANY = 21_000


@pytest.fixture(autouse=True)
def seeded(home: Home) -> None:
    home.seed({"name": "things"})


def put(home: Home, content: bytes) -> None:
    (home.folder / "things.jsonl").write_bytes(content)


MALFORMED = {
    "number": (b"5", "it is a number"),
    "text": (b'"canary"', "it is a text"),
    "true": (b"true", "it is true or false"),
    "null": (b"null", "it is null"),
    "array": (b"[1, 2]", "it is an array"),
    "array of objects": (b'[{"id": 2}, {"id": 3}]', "it is an array"),
    "two objects": (b'{"id": 2} {"id": 3}', "extra data"),
    "comma after the object": (b'{"id": 2},', "extra data"),
    "truncated object": (b'{"id": 2, "text": "canary"', "expecting"),
    "truncated text": (b'{"id": 2, "text": "canary', "unterminated string"),
    "trailing comma": (b'{"id": 2, }', ""),
    "trailing comma in an array": (b'{"id": [2,]}', ""),
    "invalid UTF-8": (b'{"text": "canary\xff"}', "it is not UTF-8"),
    "NUL bytes": (b"\0" * 1000, "NUL byte"),
    "NUL byte in a text": (b'{"text": "canary\0"}', "NUL byte"),
    "tab in a text": (b'{"text": "canary\t"}', "invalid control character"),
    "duplicate keys": (b'{"id": 2, "id": 3}', "a key stands twice"),
    "empty key": (b'{"": "canary"}', "a key is empty"),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD.strip(), "byte order mark"),
    "NaN": (b'{"id": NaN}', "NaN and Infinity"),
    "Infinity": (b'{"id": -Infinity}', "NaN and Infinity"),
    "NaN in an object": (b'{"more": {"x": NaN}}', "NaN and Infinity"),
    "number beyond floating point": (b'{"id": 1e999}', "a number in it is too large"),
    "half a character": (b'{"text": "canary\\ud800"}', "half a character"),
    "deep nesting": (b'{"more": ' + b"[" * 500 + b"]" * 500 + b"}", "nested more than 100 deep"),
    "single quotes": (b"{'text': 'canary'}", "expecting property name"),
    "comment": (b"// canary", "expecting value"),
    "leading zero": (b'{"id": 01}', "expecting"),
}


@pytest.mark.parametrize(
    ("case", "before"),
    [
        *((case, 2) for case in MALFORMED),
        *((case, MANY) for case in ("number", "array of objects", "truncated object", "invalid UTF-8", "NaN")),
    ],
)
def test_malformed_line(home: Home, case: str, before: int) -> None:
    line, reason = MALFORMED[case]
    put(home, GOOD)
    home.run("things")
    put(home, GOOD * before + line + b"\n" + GOOD)
    failure = home.failure("things")
    assert f"Line {before + 1} " in failure
    assert reason in failure
    assert "canary" not in failure
    assert home.rows("SELECT * FROM shop.things") == [(1, "a")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"id": 1}, {"id": 2}]\n', "Line 1 is not one JSON object: it is an array"),
        (b'[\n{"id": 1},\n{"id": 2}\n]\n', "Line 1 is not"),
        (b'{\n  "id": 1\n}\n', "Line 1 is not"),
        (b"5\n", "it is a number"),
        (b'{"": 1}\n', "a key is empty"),
        (GOOD + b'{"id": 2, "te', "Line 2 is not"),
        ((GOOD * 2).decode().encode("utf-16"), "Line 1 is not"),
        (b'{"id": 1}\n{"ID": 2}\n', "'ID' and 'id' differ only by case"),
        (b"{}\n{}\n", "no row has a field"),
    ],
)
def test_malformed_file(home: Home, content: bytes, reason: str) -> None:
    put(home, content)
    assert reason in home.failure("things")


def test_blank_lines_are_no_rows(home: Home) -> None:
    put(home, b"\n" + GOOD.replace(b"\n", b"\r\n") + b"  \n\n" + GOOD.strip())
    home.run("things")
    assert home.rows("SELECT * FROM shop.things") == [(1, "a"), (1, "a")]


def test_null_and_absent_fields_are_null(home: Home) -> None:
    # With a text that looks like a trailing comma.
    put(home, b'{"id": 1, "text": null}\n{"id": 2}\n{}\n{"text": "a, }NaN,]"}\n')
    home.run("things")
    assert home.rows("SELECT * FROM shop.things") == [(1, None), (2, None), (None, "a, }NaN,]"), (None, None)]


@pytest.mark.parametrize(
    ("early", "late", "query", "expected"),
    [
        (1, 2.5, "max(x)", 2.5),
        (1, True, "count(*) FILTER (CAST(x AS VARCHAR) = 'true')", 1),
        (1.5, "2.50", "count(*) FILTER (CAST(x AS VARCHAR) LIKE '%2.50%')", 1),
        (True, 2, "count(*) FILTER (CAST(x AS VARCHAR) = '2')", 1),
        (None, 7, "max(x)", 7),
        (None, "seven", "max(x)", "seven"),
        ({"y": 1}, {"y": 2.5}, "max(x.y)", 2.5),
        ([1], [2.5], "max(x[1])", 2.5),
        (1, 12345678901234567890123, "max(CAST(x AS VARCHAR))", "12345678901234567890123"),
    ],
)
def test_late_value_of_another_type(home: Home, early: object, late: object, query: str, expected: object) -> None:
    home.write("things", *({"id": n, "x": early} for n in range(MANY)), {"id": MANY, "x": late})
    assert home.run("things")[0] == MANY + 1
    assert home.rows(f"SELECT {query} AS found FROM shop.things") == [(expected,)]  # noqa: S608 - of this module


@pytest.mark.parametrize("value", [2**63, 2**64, 2**128 + 1, -(2**64) - 1, 10**60 + 7, -(10**60) - 7])
def test_integer_of_any_size(home: Home, value: int) -> None:
    home.write("things", {"id": 1, "x": value, "in": {"x": [value, 1]}}, {"id": 2, "x": 3, "in": {"x": [4]}})
    home.run("things")
    found = home.rows('SELECT CAST(x AS VARCHAR) AS x, CAST("in" AS VARCHAR) AS n FROM shop.things WHERE id = 1')
    assert found[0][0] == str(value)
    assert str(value) in found[0][1]


def test_large_integers_among_fractions(home: Home) -> None:
    value = 12345678901234567890123
    home.write("things", {"id": 1, "x": value}, {"id": 2, "x": 1.5})
    home.run("things")
    assert home.rows("SELECT x FROM shop.things") == [("1.5",), (str(value),)]


def test_incremental_load_takes_larger_integers(home: Home) -> None:
    home.seed({"name": "things", **MERGED})
    home.write("things", {"id": 1, "x": 3})
    home.run("things")
    home.write("things", {"id": 1, "x": 3}, {"id": 2, "x": 10**30 + 1})
    home.run("things")
    assert home.rows("SELECT CAST(x AS VARCHAR) AS x FROM shop.things") == [(str(10**30 + 1),), ("3",)]
