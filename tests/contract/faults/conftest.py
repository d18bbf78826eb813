"""Servers of the tests of faults, and Airflow's connection to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.scripted_server import ScriptedServer
from tests.support.waited_run import connection


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return a function that starts a server for the test, and creates the default connection to it."""
    with ExitStack() as stack:

        def start(server: ScriptedServer, **extra: Any) -> ScriptedServer:
            monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(server.url, **extra))
            return stack.enter_context(server)

        yield start
