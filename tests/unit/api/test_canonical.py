"""Canonical JSON: the one form of a value, and what has none."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.canonical import NotCanonicalError, canonical, parse
from airflow_provider_datapipe.api.models.formats import strict_json
from airflow_provider_datapipe.api.models.formats.strict_json import DEEPEST
from datapipe_local.common.canonical import is_canonical

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**300), 10**300) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def by_the_library(value: Any) -> bytes:
    """The same by the standard library alone, whose encoder shares nothing with ours but the escaping of text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


@given(VALUES)
def test_it_is_what_the_standard_library_writes(value: Any) -> None:
    assert canonical(value) == by_the_library(value)


@given(VALUES)
def test_it_is_canonical_for_the_service_too_and_means_the_same(value: Any) -> None:
    text = canonical(value)
    assert strict_json.parse(text) == value
    assert is_canonical(text.decode())


@given(VALUES, st.sampled_from([None, 3]), st.booleans())
def test_how_json_was_written_makes_no_difference(value: Any, indent: int | None, ensure_ascii: bool) -> None:
    written = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    once = canonical(parse(written))
    assert once == canonical(parse(written.encode()))
    assert strict_json.parse(once) == value
    # Floating point numbers are read as decimals, which may be spelt otherwise: 1e+16 is 1E+16.
    assert canonical(parse(once)) == once


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**300), max_value=10**300))
def test_a_decimal_keeps_its_digits(number: Decimal) -> None:
    text = canonical(number).decode()
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        # By code points: UTF-16 would have the last two the other way round.
        ({"\U0001f600": 1, "\ue000": 2, "é": 3, "z": 4, "A": 5}, '{"A":5,"z":4,"é":3,"\ue000":2,"\U0001f600":1}'),
        ('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028', r'"\"\\/\b\f\n\r\t\u0000\u001f' + '\x7f\u2028"'),
        (2**53 + 1, "9007199254740993"),
        (-(10**30), "-1" + "0" * 30),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e16, "1e+16"),
        (5e-324, "5e-324"),
        (Decimal("1.10"), "1.10"),
        (Decimal("12345678901234567890.123456789"), "12345678901234567890.123456789"),
        (Decimal("-0"), "-0"),
        (True, "true"),
        ((1, (2,)), "[1,[2]]"),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        ({Colour.RED: Level.HIGH}, '{"red":3}'),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), '"2026-01-02T03:04:05.000006Z"'),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=5))), '"2026-01-01T22:00:00Z"'),
        (datetime(2026, 1, 2), '"2026-01-02T00:00:00"'),  # noqa: DTZ001 - one without a zone
        (date(2026, 1, 2), '"2026-01-02"'),
        (time(3, 4), '"03:04:00"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ({}, "{}"),
        ([], "[]"),
        ("", '""'),
    ],
)
def test_how_values_are_written(value: Any, text: str) -> None:
    assert canonical(value) == text.encode()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> Any:
    value: dict[str, Any] = {}
    value["again"] = value
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "NaN and infinities are no numbers"),
        (math.inf, "NaN and infinities"),
        (Decimal("NaN"), "NaN and infinities"),
        (Decimal("sNaN"), "NaN and infinities"),
        (Decimal("-Infinity"), "NaN and infinities"),
        (Decimal("1e400"), "too large"),
        (10**400, "too large"),
        pytest.param(-(10**5000), "too large", id="5000 digits"),
        ("\ud800", "half a character"),
        ({"\udfff": 1}, "half a character"),
        ({1: 2}, "a key of the type int is no text"),
        ({None: 2}, "a key of the type NoneType"),
        ({"a": 1, 1: 2}, "a key of the type int"),
        (b"bytes", "type bytes"),
        ({1, 2}, "type set"),
        (timedelta(1), "type timedelta"),
        (object(), "type object"),
        (nested(DEEPEST + 1), "deep"),
        (endless(), "deep"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), "years"),
    ],
)
def test_what_has_no_form_is_refused(value: Any, said: str) -> None:
    with pytest.raises(NotCanonicalError, match=said):
        canonical(value)


def test_what_pandas_has_for_no_moment_is_refused() -> None:
    import pandas as pd  # type: ignore[import-untyped]  # its types are not installed

    with pytest.raises(NotCanonicalError, match="NaT"):
        canonical({"at": pd.NaT})
    assert canonical(pd.Timestamp("2026-01-01T00:00:00+01:00")) == b'"2025-12-31T23:00:00Z"'


def test_what_is_just_allowed() -> None:
    deep = canonical(nested(DEEPEST))
    assert deep.decode() == "[" * DEEPEST + "1" + "]" * DEEPEST
    assert strict_json.parse(deep) == nested(DEEPEST)
    assert canonical(1.7976931348623157e308) == b"1.7976931348623157e+308"
    largest = int(1.7976931348623157e308)
    assert canonical(largest) == str(largest).encode()


def test_an_error_says_where_and_quotes_no_value() -> None:
    with pytest.raises(NotCanonicalError) as refusal:
        canonical({"rows": [{"id": 1}, {"id": 2, "who": {"name": "secret\ud800"}}]})
    assert str(refusal.value) == "rows[1].who.name: a text holds half a character (a lone surrogate)"
    with pytest.raises(NotCanonicalError) as refusal:
        canonical({"k\n" * 500: math.nan})
    assert len(str(refusal.value)) < 200
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON: expecting value at character 0"),
        ('{"a":1', "no JSON"),
        ("[1] 2", "extra data"),
        ("NaN", "NaN and infinities"),
        ('{"a":-Infinity}', "NaN and infinities"),
        ('{"a":1,"b":{"c":1,"c":1}}', "the key c stands twice"),
        ('{"a":1,"\\u0061":1}', "the key a stands twice"),
        ("1e400", "too large"),
        ("9" * 10_000, "too large"),
        ("1e-99999999999999999999999", "exponent"),
        ("[" * 100_000, "deep"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_does_not_mean_the_same_to_everybody_is_not_read(text: str | bytes, said: str) -> None:
    with pytest.raises(NotCanonicalError, match=said) as refusal:
        parse(text)
    assert len(str(refusal.value)) < 80


def test_no_digit_of_a_file_is_lost() -> None:
    text = '{"a":0.1000000000000000055,"b":123456789012345678901234567890,"c":1.10}'
    assert canonical(parse(text)) == text.encode()
