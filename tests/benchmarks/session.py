"""Processes of one measurement: the stub and the client, which the driver controls over connections."""

from __future__ import annotations

import socket
import sys
import time
from types import TracebackType
from typing import Any, Self

from tests.benchmarks.certificates import Certificates
from tests.benchmarks.environment import process_env
from tests.benchmarks.figures import memory_of
from tests.benchmarks.line import Line, LineClosedError
from tests.benchmarks.plan import Plan
from tests.benchmarks.runs import Counts
from tests.support.processes import Program, Workspace

#: Seconds within which a process must connect.
_CONNECT_LIMIT = 90.0
#: Seconds within which the stub must respond.
_STUB_LIMIT = 30.0


class Session:
    """Running stub and prepared client."""

    def __init__(self, plan: Plan, python: str = sys.executable) -> None:
        self._plan = plan
        self._python = python
        self._workspace = Workspace("datapipe-bench-")
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def ask_stub(self, what: str = "counts", **more: Any) -> tuple[Counts, dict[str, Any]]:
        """Send a message to the stub, and return its counts and the rest of its response."""
        try:
            self._stub_line.send(what, **more)
            answer = self._stub_line.receive(_STUB_LIMIT)
        except (LineClosedError, OSError):
            raise self._stub.failure("has closed its connection") from None
        if answer is None:
            raise self._stub.failure("does not respond")
        return Counts(**answer.pop("counts")), answer

    def send_to_client(self, what: str) -> None:
        try:
            self._client_line.send(what)
        except OSError:
            raise self._client.failure("has closed its connection") from None

    def receive_from_client(self, limit: float) -> dict[str, Any] | None:
        """Return the next message of the client, None after the time limit."""
        try:
            return self._client_line.receive(limit)
        except (LineClosedError, OSError):
            raise self._client.failure("has closed its connection") from None

    def client_memory(self) -> int:
        """Return the memory of the client in bytes."""
        return memory_of(self._client.pid)

    def _start(self) -> None:
        here, port, plan = self._workspace.path, str(self._listener.getsockname()[1]), self._plan.as_json()
        certificates = Certificates.in_folder(here)
        env = process_env(here / "airflow")
        module = ["-m", "tests.benchmarks.stub", port, str(certificates.server), plan]
        self._stub = self._workspace.start("stub", [sys.executable, *module], env=env)
        self._stub_line, hello = self._accept(self._stub)
        base = f"https://127.0.0.1:{hello['port']}"
        env |= {"SSL_CERT_FILE": str(certificates.trusted), **self._plan.make().env(base)}
        module = ["-m", "tests.benchmarks.client", port, base, plan]
        self._client = self._workspace.start("client", [self._python, *module], env=env)
        self._client_line, _ = self._accept(self._client)
        ready = self.receive_from_client(_CONNECT_LIMIT)
        if ready is None:
            raise self._client.failure("did not become ready")

    def _accept(self, program: Program) -> tuple[Line, dict[str, Any]]:
        self._listener.settimeout(0.5)
        deadline = time.monotonic() + _CONNECT_LIMIT
        while time.monotonic() < deadline:
            try:
                connected, _ = self._listener.accept()
            except TimeoutError:
                if program.exit_status is not None:
                    break
                continue
            connected.settimeout(None)
            line = Line(connected)
            hello = line.receive(_STUB_LIMIT)
            if hello is not None:
                return line, hello
        raise program.failure("did not connect")

    def _close(self) -> None:
        for line in (getattr(self, "_client_line", None), getattr(self, "_stub_line", None)):
            if line is not None:
                line.close()
        self._listener.close()
        self._workspace.close()
