from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest

from datapipe_local.engine.values import json_value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (10**30, 10**30),
        ("text", "text"),
        (1.5, 1.5),
        (float("nan"), None),
        (float("-inf"), None),
        (Decimal("12.50"), 12.5),
        (Decimal("12.00"), 12),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),  # noqa: DTZ001 - a TIMESTAMP has no zone
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(days=1, seconds=1), "1 day, 0:00:01"),
        (b"\x00\xff", "AP8="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([1, Decimal("0.5")], [1, 0.5]),
        ({"a": (dt.date(2026, 1, 2),)}, {"a": ["2026-01-02"]}),
    ],
)
def test_values_become_what_json_carries(value: Any, expected: Any) -> None:
    given = json_value(value)
    assert given == expected
    assert type(given) is type(expected)
    json.dumps(given, allow_nan=False)
