"""Rows as records: what tells them apart, and whether they have changed."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any

import pytest

from datapipe_local.engine.candidates import candidate

KEYED: list[dict[str, Any]] = [
    {"source_property_id": "id", "destination_property_id": "id", "primary_key": True},
    {"source_property_id": "x", "destination_property_id": "x"},
]
PAIRS: list[dict[str, Any]] = [
    {"source_property_id": name, "destination_property_id": name, "primary_key": True} for name in ("first", "second")
]


def test_no_two_keys_are_one_record() -> None:
    """Else one of them would be sent in each run, in the place of the other."""
    keys = [None, "null", "\\N", "\\\\N", "N", "", "a", "a|b", "|"]
    ids = [candidate(KEYED, (key, 1)).record.record_id for key in keys]
    assert len(set(ids)) == len(keys)
    pairs = list(itertools.product(keys, repeat=2))
    assert len({candidate(PAIRS, pair).record.record_id for pair in pairs}) == len(pairs)
    # The key that there is in most cases is as people write it.
    assert [candidate(KEYED, (key, 1)).record.record_id for key in ("null", 7, "a|b")] == ["null", "7", "a|b"]


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("12.50", 12.5),
        ("3.00", 3),
        ("12345678901234567890", 12345678901234567890),
        ("0.1", 0.1),
        # No floating point number is it.
        ("12345678901234567.89", "12345678901234567.89"),
        ("0.10000000000000000001", "0.10000000000000000001"),
    ],
)
def test_a_decimal_is_sent_as_what_it_is(value: str, sent: Any) -> None:
    properties = candidate(KEYED, (1, Decimal(value))).record.properties
    assert properties == {"id": 1, "x": sent}
    assert type(json.loads(json.dumps(properties))["x"]) is type(sent)


def test_the_last_digit_of_a_decimal_is_a_change() -> None:
    one, other = (candidate(KEYED, (1, Decimal(text))) for text in ("12345678901234567.89", "12345678901234567.90"))
    assert one.digest != other.digest
