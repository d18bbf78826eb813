"""The real service for tests: a home of its own, seeded, run as a process by its command line."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

# Linux sends SIGKILL to the service when the thread that started it ends, however that happens; the setting
# outlives exec, so that the process is the service itself and has its pid.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone already")
os.execv(sys.argv[2], sys.argv[2:])
"""
_READY = "datapipe-local is ready at "


class LocalService:
    """
    A running service, for a ``with`` block.

    Start it from the main thread, or from one that lives as long as it is needed: the service dies with it.

    :param seed: The seed, as it would stand in the YAML file.
    :param environment: Variables for ``init`` and ``serve``, over those of this process.
    :param ready_within: Seconds that ``init`` and ``serve`` may take.
    """

    def __init__(
        self,
        seed: Mapping[str, Any] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        ready_within: float = 30.0,
    ) -> None:
        self._seed = seed
        self._environment = {**os.environ, **(environment or {})}
        # Compiled modules are kept, as they are wherever this is not set: the service starts in half the time.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._ready_within = ready_within
        self._folder = tempfile.TemporaryDirectory(prefix="datapipe-local-")
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self.api_key = f"test-{secrets.token_hex(16)}"
        self.folder = Path(self._folder.name)
        self.home = self.folder / "home"
        self.seed_file = self.folder / "seed.yaml"
        self.log_file = self.folder / "service.log"

    def __enter__(self) -> Self:
        try:
            self.init()
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def base_url(self) -> str:
        """The address of the service, the same after :meth:`restart`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def headers(self) -> dict[str, str]:
        """What a request needs to be let in."""
        return {"x-api-key": self.api_key}

    @property
    def pid(self) -> int:
        """The process of the service."""
        assert self._process is not None, "the service was not started"
        return self._process.pid

    @property
    def log(self) -> str:
        """All that ``init`` and ``serve`` have written so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def init(self) -> None:
        """Create the home and apply the seed."""
        command = ["init", "--home", str(self.home)]
        if self._seed is not None:
            self.seed_file.write_text(yaml.safe_dump(dict(self._seed), sort_keys=False), encoding="utf-8")
            command += ["--seed", str(self.seed_file)]
        with self.log_file.open("ab") as output:
            done = subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-m", "datapipe_local", *command],
                env={**self._environment, "DATAPIPE_LOCAL_API_KEY": self.api_key},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=self._ready_within,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"init ended with {done.returncode}: {self.log}")

    def start(self) -> None:
        """Start the service and wait until it is ready: on a free port, later on the same one."""
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        serve = [sys.executable, "-m", "datapipe_local", "serve"]
        serve += ["--home", str(self.home), "--port", str(self._port)]
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *serve],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + self._ready_within
        while time.monotonic() < deadline:
            ended = self._process.poll()
            written = self.log_file.read_bytes()[begin:].decode(errors="replace")
            for line in written.splitlines():
                if line.startswith(_READY) and written.endswith("\n"):
                    self._port = int(line.rpartition(":")[2])
                    return
            if ended is not None:
                raise RuntimeError(f"serve ended with {ended}: {written}")
            time.sleep(0.01)
        raise TimeoutError(f"not ready within {self._ready_within} s: {self.log}")

    def stop(self) -> int:
        """Ask the service to stop (SIGTERM), wait for its end and give its exit status."""
        return self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the service at this very instant (SIGKILL)."""
        self._signal(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the service, unless it has ended already, and start it again at the same address."""
        self.stop()
        self.start()

    def _signal(self, number: signal.Signals) -> int:
        assert self._process is not None, "the service was not started"
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def _end(self) -> None:
        try:
            if self._process is not None:
                self.stop()
        finally:
            self._folder.cleanup()
