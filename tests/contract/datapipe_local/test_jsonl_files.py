"""Tests of the error messages for JSON Lines files. The tests in ``malformed`` load files of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.datapipe_local.elt_home import Home

pytestmark = pytest.mark.slow

#: Options of an incremental stream with a key.
MERGED = {"incremental_pointer_id": "id", "incremental_primary_key_name": ["id"]}
GOOD = b'{"id": 1, "text": "a"}\n'


@pytest.fixture(autouse=True)
def seeded(home: Home) -> None:
    home.seed({"name": "things"})


def load(home: Home, content: bytes) -> list[tuple[Any, ...]]:
    """Replace the file, run the stream, and return the rows of the table."""
    put(home, content)
    home.run("things")
    return home.rows("SELECT * FROM shop.things")


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
    "duplicate keys": (b'{"id": 2, "id": 3}', "duplicate key"),
    "empty key": (b'{"": "canary"}', "a key is empty"),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD.strip(), "byte order mark"),
    "NaN": (b'{"id": NaN}', "NaN and infinities"),
    "Infinity": (b'{"id": -Infinity}', "NaN and infinities"),
    "NaN in an object": (b'{"more": {"x": NaN}}', "NaN and infinities"),
    "number beyond floating point": (b'{"id": 1e999}', "a number is too large"),
    "half a character": (b'{"text": "canary\\ud800"}', "unpaired surrogate"),
    "deep nesting": (b'{"more": ' + b"[" * 500 + b"]" * 500 + b"}", "nested more than 100 levels deep"),
    "single quotes": (b"{'text': 'canary'}", "expecting property name"),
    "comment": (b"// canary", "expecting value"),
    "leading zero": (b'{"id": 01}', "expecting"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_reason_for_a_malformed_line(home: Home, case: str) -> None:
    line, reason = MALFORMED[case]
    load(home, GOOD)
    put(home, GOOD * 2 + line + b"\n" + GOOD)
    failure = home.failure("things")
    assert "Line 3 " in failure
    assert reason in failure
    assert "canary" not in failure
    assert home.rows("SELECT * FROM shop.things") == [(1, "a")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"id": 1}, {"id": 2}]\n', "Line 1 is not one JSON object: it is an array"),
        (b'{"id": 1}\n{"ID": 2}\n', "'ID' and 'id' differ only by case"),
        (b"{}\n{}\n", "no row has a field"),
    ],
)
def test_reason_for_a_malformed_file(home: Home, content: bytes, reason: str) -> None:
    put(home, content)
    assert reason in home.failure("things")


def test_blank_lines_are_ignored(home: Home) -> None:
    assert load(home, b"\n" + GOOD.replace(b"\n", b"\r\n") + b"  \n\n" + GOOD.strip()) == [(1, "a"), (1, "a")]


def test_null_and_absent_fields_are_null(home: Home) -> None:
    # With a text that looks like a trailing comma.
    found = load(home, b'{"id": 1, "text": null}\n{"id": 2}\n{}\n{"text": "a, }NaN,]"}\n')
    assert found == [(1, None), (2, None), (None, "a, }NaN,]"), (None, None)]


def test_incremental_load_takes_larger_integers(home: Home) -> None:
    home.seed({"name": "things", **MERGED})
    home.load("things", {"id": 1, "x": 3})
    home.load("things", {"id": 1, "x": 3}, {"id": 2, "x": 10**30 + 1})
    assert home.rows("SELECT CAST(x AS VARCHAR) AS x FROM shop.things") == [(str(10**30 + 1),), ("3",)]
