"""Tests of absurd delays in ``Retry-After`` headers of a healthy service."""

from __future__ import annotations

import time

import pytest

from airflow_provider_datapipe.api import retry
from tests.support.scripted_server import Reply
from tests.support.tasks import run
from tests.support.waited_run import OPERATORS, WaitedRun, connection, operator

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
HEADERS = {
    "now in Unix seconds": str(int(time.time())),
    "2100 in Unix seconds": "4102444800",
    "31 years": "999999999",
    "400 digits": "9" * 400,
    "half an hour": "1800",
    "2100": "Fri, 01 Jan 2100 00:00:00 GMT",
    "a word": "soon",
}
CASES = [
    *(("elt_stream", 429, name) for name in HEADERS),
    *((kind, status, "half an hour") for kind in OPERATORS for status in (429, 503)),
    *((kind, 429, "2100 in Unix seconds") for kind in OPERATORS if kind != "elt_stream"),
]


@pytest.mark.slow
@MODES
@pytest.mark.parametrize(("kind", "status", "header"), CASES)
def test_an_absurd_delay_does_not_hold_up_a_wait(
    kind: str, status: int, header: str, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    """Shorten the longest accepted delay for the test."""
    monkeypatch.setattr(retry, "LONGEST_RETRY_AFTER", 0.2)
    refused = Reply(status, {"error_code": "busy", "message": "Come back later."}, {"Retry-After": HEADERS[header]})
    with WaitedRun(disturb=lambda poll: refused if poll == 2 else None) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        result = run(operator(kind, deferrable=deferrable, timeout=60))
    assert result["outcome"] == "succeeded"
    assert service.started == [kind]
