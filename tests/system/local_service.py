"""datapipe-local, started for a test as a process of its own."""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING, Self

import httpx

from tests.system.processes import ReservedPort, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.system.processes import Program, Workspace

KEY_VARIABLE = "DATAPIPE_LOCAL_API_KEY"


class LocalService:
    """
    One running datapipe-local. A context manager: entering seeds and starts it, leaving stops it.

    :param workspace: Where it lives, in the folder ``service``.
    :param seed: What it is to know.
    :param env: What the seed file refers to.
    :param start_limit: How long starting may take, in seconds.
    """

    def __init__(self, workspace: Workspace, seed: Path, env: Mapping[str, str], *, start_limit: float = 60) -> None:
        self.home = workspace.path / "service"
        self.warehouse = self.home / "warehouse.duckdb"
        self.key = secrets.token_urlsafe(24)
        self._workspace = workspace
        self._seed = seed
        # The key goes by the environment: everybody on the machine can read a command line.
        self._env = {**os.environ, **env, KEY_VARIABLE: self.key}
        self._start_limit = start_limit

    def __enter__(self) -> Self:
        self._port = ReservedPort()
        self.address = f"http://127.0.0.1:{self._port.number}"
        try:
            self._command("init", "--seed", str(self._seed), name="service-init").wait(self._start_limit)
            self._program = self._command("serve", "--port", str(self._port.number), name="service")
            limit = self._start_limit
            wait_for("datapipe-local answers", self._answers, limit=limit, watch=[self._program])
        except BaseException:
            # The workspace stops what was started.
            self._port.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._port.release()

    def stop(self) -> None:
        """Stop the service, so that its warehouse can be opened. Does nothing a second time."""
        self._program.stop()

    def _command(self, command: str, *options: str, name: str) -> Program:
        arguments = [sys.executable, "-m", "datapipe_local", command, "--home", str(self.home), *options]
        return self._workspace.start(name, arguments, env=self._env)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.address}/health", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False
