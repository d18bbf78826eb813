"""Names that are made of what people write, and locks by name."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe_local.errors import BadRequestError
from datapipe_local.locks import Locks
from datapipe_local.names import LONGEST_NAME, numbered, snake_case
from datapipe_local.service.checks import check_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Weekly Spend by Campaign", "weekly_spend_by_campaign"),
        ("WeeklySpend", "weekly_spend"),
        ("HTTPServer2Log", "http_server2_log"),
        ("  --a//b--  ", "a_b"),
        ("\u00c9t\u00e9 & \u00dcber", "ete_uber"),
        ("2nd", "n_2nd"),
        ("\u65e5\u672c", ""),
        ("", ""),
        ("a" * 100, "a" * LONGEST_NAME),
        ("CSV", "csv_data"),
    ],
)
def test_a_name_follows_from_a_text(text: str, name: str) -> None:
    assert snake_case(text) == name


@given(st.text(), st.integers(min_value=2, max_value=10**6))
def test_whatever_the_text_the_name_is_one(text: str, number: int) -> None:
    name = snake_case(text)
    if name:
        check_name("name", name)
        check_name("name", numbered(name, number))
        assert snake_case(name) == name
        assert numbered(name, number).endswith(f"_{number}")


@pytest.mark.parametrize("name", ["csv", "Parquet", "gz"])
def test_the_end_of_a_files_name_is_none(name: str) -> None:
    # Where the table reports.csv was deleted, a view of it would read the file reports.csv.
    with pytest.raises(BadRequestError, match=f"name: '{name}' is how the names of files end"):
        check_name("name", name)


def test_locks_are_told_apart_and_forgotten() -> None:
    locks = Locks()
    got: list[str] = []

    def wait_for_it() -> None:
        with locks.of("a"):
            got.append("a")

    with locks.of("a") as first, locks.of("b") as second:
        assert (first, second) == (True, True)
        waiting = threading.Thread(target=wait_for_it)
        with locks.of("a", wait=False) as third:
            assert third is False
        # Who did not hold it has not let go of it either.
        with locks.of("a", wait=False) as fourth:
            assert fourth is False
        waiting.start()
        assert got == []
    waiting.join(5)
    assert got == ["a"]
    with locks.of("b", wait=False) as again:
        assert again is True
