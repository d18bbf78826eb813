"""Request rates of several triggerers, as processes, with a server on loopback that counts."""

from __future__ import annotations

import pytest

from tests.benchmarks.request_rate import BEGIN, END, LIMIT, Case, main, measure
from tests.support.documents import pages

#: Measured seconds.
WINDOW = 4.0


def assert_limited(case: Case, settle: float = 1.0) -> None:
    measured = measure(case, settle, WINDOW)
    # A request can arrive late, and the next one early.
    assert measured.requests <= 1.1 * LIMIT * measured.seconds + 5
    # The machine can be busy, but the limit does not stop the waits.
    assert measured.requests >= 0.5 * LIMIT * measured.seconds


@pytest.mark.parametrize("triggerers", [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2)), 4])
def test_triggerers_of_a_machine_share_the_limit(triggerers: int) -> None:
    assert_limited(Case(triggerers))


@pytest.mark.parametrize("triggerers", [pytest.param(count, marks=pytest.mark.slow) for count in (2, 4)])
def test_triggerers_of_several_machines_divide_the_limit(triggerers: int) -> None:
    assert_limited(Case(triggerers, machines=triggerers, shares=triggerers))


@pytest.mark.slow
def test_triggerers_that_exceed_the_limit_of_the_service_slow_down() -> None:
    case = Case(4, machines=4, accepted=round(LIMIT))
    measured = measure(case, settle=15, window=WINDOW)
    assert measured.requests - measured.refused <= LIMIT * (measured.seconds + 1)
    # Without the reduction, three of four requests would be refused.
    assert measured.refused < 0.25 * measured.requests


def test_the_page_has_a_place_for_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    page = pages()["docs/polling.md"]
    assert (page.count(BEGIN), page.count(END)) == (1, 2)
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "--write" in capsys.readouterr().out
