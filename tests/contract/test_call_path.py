"""The life of a task is short: a test of the modules between an operator and the request that starts its run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

import airflow_provider_datapipe
from airflow_provider_datapipe import flows
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from tests.contract.seeds import FILES, ROWS, elt_sync
from tests.support.tasks import run

pytestmark = pytest.mark.usefixtures("service")

SOURCES = {"a.csv": ROWS}
SEED = {
    "runs": {"scheduling_delay": 0.1, "minimum_duration": 0.2},
    "connections": [FILES],
    "elt_syncs": [elt_sync("sync", "a")],
}
PACKAGE = Path(airflow_provider_datapipe.__file__).parent


def active_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the call stack from the innermost, and those of the flows that wait for a response."""
    while frame is not None:
        yield frame
        if frame.f_code is flows.run_blocking.__code__:
            flow: Any = frame.f_locals["flow"]
            while getattr(flow, "cr_frame", None) is not None:
                yield flow.cr_frame
                flow = flow.cr_await
        frame = frame.f_back


def test_at_most_8_modules_from_execute_to_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: list[set[str]] = []
    send = httpx.HTTPTransport.handle_request

    def record(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            files = (Path(frame.f_code.co_filename) for frame in active_frames(sys._getframe()))
            modules.append({str(file.relative_to(PACKAGE)) for file in files if file.is_relative_to(PACKAGE)})
        return send(transport, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", record)
    run(EltStreamRunOperator(task_id="t", stream_id="sync.a", deferrable=False))
    (found,) = modules
    assert {"operators/base.py", "runs/start.py", "api/client.py"} <= found
    assert len(found) <= 8, sorted(found)
