"""Process of the service: started once, and stopped with the process that started it."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_READY = "datapipe-local is ready at "
_SECONDS_TO_START = 60.0
_SECONDS_TO_STOP = 10.0
_LINES_OF_LOG = 25


class ServiceError(Exception):
    """Failure of the service to start."""


class ServiceProcess:
    """
    Service in its own home, with a control plane and a free port, for a ``with`` block.

    It stops when its standard input ends, so that it does not outlive this process, however that ends.

    :param folder: The folder for its home and its log.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.log_file = folder / "service.log"
        self.api_key = secrets.token_urlsafe(32)
        self._base_url = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """The URL of the service. Waits until the service is ready."""
        if not self._base_url:
            self._base_url = self._address()
        return self._base_url

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._started.pid

    @property
    def is_alive(self) -> bool:
        """True if the process is running."""
        return self._started.poll() is None

    def start(self) -> None:
        """Start the process, without waiting until it is ready: :attr:`base_url` does that."""
        # Existing variables may belong to another service. The key is a variable because command lines are public.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DATAPIPE_LOCAL_")}
        environment["DATAPIPE_LOCAL_API_KEY"] = self.api_key
        options = ["--init", "--port", "0", "--control", "--no-schedules", "--stop-with-stdin"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                # -P: do not import modules from the working directory.
                [sys.executable, "-P", "-m", "datapipe_local", "serve", "--home", str(self.home), *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                # Ctrl-C is for the tests, which then stop the service.
                start_new_session=True,
            )
        self._base_url = ""

    def stop(self) -> None:
        """Stop the process, and wait until it has ended."""
        process = self._started
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, lines: int | None = None) -> str:
        """
        Return the log.

        :param lines: The number of last lines to return; ``None`` for all.
        """
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        return text if lines is None else "\n".join(text.splitlines()[-lines:])

    @property
    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise ServiceError("datapipe-local was not started.")
        return self._process

    def _address(self) -> str:
        output = self._started.stdout
        line = ""
        if output is not None and select.select([output], [], [], _SECONDS_TO_START)[0]:
            line = output.readline()
        if not line.startswith(_READY):
            raise ServiceError(f"datapipe-local did not start. The end of its log:\n{self.log(_LINES_OF_LOG)}")
        return line.removeprefix(_READY).strip()
