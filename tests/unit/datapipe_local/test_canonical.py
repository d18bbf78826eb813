"""Tests of received JSON: it is parsed without changes, or refused, and its canonical form is recognized."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.formats.strict_json import DEEPEST, parse
from datapipe_local.common.canonical import elements, is_canonical, one_line

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**300), 10**300) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def canonical(value: Any, **options: Any) -> bytes:
    """Return the canonical form, as a sender creates it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), **options).encode()


@given(VALUES, st.booleans())
def test_canonical_json_is_parsed_unchanged(value: Any, ensure_ascii: bool) -> None:
    text = canonical(value, ensure_ascii=ensure_ascii)
    assert parse(text) == value
    assert is_canonical(text.decode())


@given(VALUES, st.data())
def test_json_with_white_space_is_not_canonical(value: Any, data: st.DataObject) -> None:
    text = canonical(value).decode()
    # Positions where white space has no meaning.
    places = [0, len(text)]
    inside = escaped = False
    for position, character in enumerate(text):
        if not inside and character in "[]{},:":
            places += [position, position + 1]
        if character == '"' and not escaped:
            inside = not inside
        escaped = character == "\\" and not escaped
    place = data.draw(st.sampled_from(places))
    spaced = text[:place] + data.draw(st.sampled_from([" ", "\n", "\t", "\r"])) + text[place:]
    assert parse(spaced.encode()) == value
    assert not is_canonical(spaced)


@given(st.dictionaries(TEXTS, st.integers(), min_size=2), st.randoms())
def test_json_in_another_order_of_keys_is_not_canonical(value: dict[str, int], random: Any) -> None:
    keys = list(value)
    random.shuffle(keys)
    text = json.dumps({key: value[key] for key in keys}, separators=(",", ":"))
    assert is_canonical(text) == (keys == sorted(keys))
    assert is_canonical(f'[{{"a":{text}}}]') == (keys == sorted(keys))


def test_the_greatest_allowed_values_are_parsed() -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert json.dumps(parse(deep)) == deep.decode()
    assert parse(b'"\\ud83d\\ude00"') == "\U0001f600"
    assert math.isclose(parse(b"1e308"), 1e308)
    assert parse(b'["[[[[", "]"]') == ["[[[[", "]"]


@pytest.mark.parametrize(
    "text", ['"a b"', '"\\" , {"', '{"a b":"c , d"}', "1.50", "1e2", '"\\u00e9"', '"é"', "[]", "{}"]
)
def test_canonical_values_have_any_spelling(text: str) -> None:
    assert is_canonical(text)


@given(st.lists(VALUES), st.sampled_from([None, 2]), st.booleans())
def test_elements_of_an_array_keep_their_spelling(values: list[Any], indent: int | None, ensure_ascii: bool) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ensure_ascii)
    found = elements(f" {text}\n")
    assert [json.loads(one) for one in found] == values
    assert all(character not in one for one in found for character in "\r\n")
    assert [json.loads(one_line(text))] == [values]


def test_numbers_stay_as_they_are_spelt() -> None:
    numbers = ["1.10", "1E2", "-0", "100000000000000000000000001"]
    assert elements("[1.10, 1E2,\n-0, 100000000000000000000000001 ]") == numbers


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"a":1,"b":{"c":1,"c":1}}', "duplicate key"),
        (b'{"a":1,"\\u0061":1}', "duplicate key"),
        (b"-" + b"9" * 400, "too large"),
        (b'{"\\udfff":1}', "unpaired surrogate"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "deep"),
        (b"[" * 500_000, "deep"),
    ],
)
def test_ambiguous_json_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        parse(body)
    # The message contains no values.
    assert len(str(refusal.value)) < 80
