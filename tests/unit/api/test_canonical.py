"""Canonical JSON: form of values, and refused values."""

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


@given(VALUES)
def test_output_equals_that_of_the_standard_library(value: Any) -> None:
    """The library shares only the escaping of text with the tested encoder."""
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical(value) == written.encode()


@given(VALUES)
def test_service_accepts_the_output_as_canonical(value: Any) -> None:
    text = canonical(value)
    assert strict_json.parse(text) == value
    assert is_canonical(text.decode())


@given(VALUES, st.sampled_from([None, 3]), st.booleans())
def test_output_does_not_depend_on_the_spelling_of_the_input(
    value: Any, indent: int | None, ensure_ascii: bool
) -> None:
    written = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    once = canonical(parse(written))
    assert once == canonical(parse(written.encode()))
    assert strict_json.parse(once) == value
    # Numbers are parsed as decimals, which may have another spelling: 1e+16 becomes 1E+16.
    assert canonical(parse(once)) == once


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**300), max_value=10**300))
def test_a_decimal_keeps_its_digits(number: Decimal) -> None:
    text = canonical(number).decode()
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        # Keys are sorted by code points. UTF-16 would reverse the last two.
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
        (datetime(2026, 1, 2), '"2026-01-02T00:00:00"'),  # noqa: DTZ001 - tests a time without a zone
        (date(2026, 1, 2), '"2026-01-02"'),
        (time(3, 4), '"03:04:00"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ({}, "{}"),
        ([], "[]"),
        ("", '""'),
    ],
)
def test_canonical_form_of_each_type(value: Any, text: str) -> None:
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
    ("value", "message"),
    [
        (math.nan, "NaN and infinities are not valid"),
        (math.inf, "NaN and infinities"),
        (Decimal("NaN"), "NaN and infinities"),
        (Decimal("sNaN"), "NaN and infinities"),
        (Decimal("-Infinity"), "NaN and infinities"),
        (Decimal("1e400"), "too large"),
        (10**400, "too large"),
        pytest.param(-(10**5000), "too large", id="5000 digits"),
        ("\ud800", "unpaired surrogate"),
        ({"\udfff": 1}, "unpaired surrogate"),
        ({1: 2}, "a key of the type int is not text"),
        ({None: 2}, "a key of the type NoneType"),
        ({"a": 1, 1: 2}, "a key of the type int"),
        (b"bytes", "type bytes"),
        ({1, 2}, "type set"),
        (timedelta(1), "type timedelta"),
        (object(), "type object"),
        (nested(DEEPEST + 1), "deep"),
        (endless(), "deep"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), "out of range in UTC"),
    ],
)
def test_values_without_a_canonical_form_are_refused(value: Any, message: str) -> None:
    with pytest.raises(NotCanonicalError, match=message):
        canonical(value)


def test_pandas_nat_is_refused() -> None:
    import pandas as pd  # type: ignore[import-untyped]  # pandas-stubs is not installed

    with pytest.raises(NotCanonicalError, match="NaT"):
        canonical({"at": pd.NaT})
    assert canonical(pd.Timestamp("2026-01-01T00:00:00+01:00")) == b'"2025-12-31T23:00:00Z"'


def test_values_at_the_limits() -> None:
    deep = canonical(nested(DEEPEST))
    assert deep.decode() == "[" * DEEPEST + "1" + "]" * DEEPEST
    assert strict_json.parse(deep) == nested(DEEPEST)
    assert canonical(1.7976931348623157e308) == b"1.7976931348623157e+308"
    largest = int(1.7976931348623157e308)
    assert canonical(largest) == str(largest).encode()


def test_error_names_the_path_and_no_value() -> None:
    with pytest.raises(NotCanonicalError) as refusal:
        canonical({"rows": [{"id": 1}, {"id": 2, "who": {"name": "secret\ud800"}}]})
    assert str(refusal.value) == "rows[1].who.name: a text contains an unpaired surrogate"
    with pytest.raises(NotCanonicalError) as refusal:
        canonical({"k\n" * 500: math.nan})
    assert len(str(refusal.value)) < 200
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON: expecting value at character 0"),
        ('{"a":1', "not valid JSON"),
        ("[1] 2", "extra data"),
        ("NaN", "NaN and infinities"),
        ('{"a":-Infinity}', "NaN and infinities"),
        ('{"a":1,"b":{"c":1,"c":1}}', "duplicate key c"),
        ('{"a":1,"\\u0061":1}', "duplicate key a"),
        ("1e400", "too large"),
        ("9" * 10_000, "too large"),
        ("1e-99999999999999999999999", "exponent"),
        ("[" * 100_000, "deep"),
        (b"\xff", "UTF-8"),
    ],
)
def test_invalid_and_ambiguous_json_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(NotCanonicalError, match=message) as refusal:
        parse(text)
    assert len(str(refusal.value)) < 80


def test_numbers_keep_all_digits() -> None:
    text = '{"a":0.1000000000000000055,"b":123456789012345678901234567890,"c":1.10}'
    assert canonical(parse(text)) == text.encode()
