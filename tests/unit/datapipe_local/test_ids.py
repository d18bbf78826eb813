from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe_local.clock import later
from datapipe_local.errors import BadRequestError
from datapipe_local.ids import RunId, derived_id, new_id

START = "2026-11-21T09:00:00.000Z"


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_a_run_id_reads_back(subject_id: str) -> None:
    assert RunId.parse(str(RunId(subject_id, START))) == RunId(subject_id, START)


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="not the id of a run"):
        RunId.parse(text)


@pytest.mark.parametrize("plain", ["stream", f"|{START}", "stream|today", f"stream|{START} ", f"stream|{START}\n"])
def test_ids_of_another_make_are_refused(plain: str) -> None:
    with pytest.raises(BadRequestError):
        RunId.parse(base64.urlsafe_b64encode(plain.encode()).decode().rstrip("="))


def test_padding_makes_another_text_and_is_refused() -> None:
    text = str(RunId("ab", START))
    with pytest.raises(BadRequestError):
        RunId.parse(text + "=" * (-len(text) % 4 or 4))


def test_ids_of_a_subject_sort_by_start() -> None:
    assert RunId("s", START) < RunId("s", later(START, 0.001))


def test_a_derived_id_follows_from_all_names() -> None:
    assert derived_id("a", "b") == derived_id("a", "b")
    assert len({derived_id("a", "b"), derived_id("ab"), derived_id("b", "a"), derived_id("a", "b", "")}) == 4


def test_new_ids_differ() -> None:
    assert len({new_id() for _ in range(1_000)}) == 1_000
