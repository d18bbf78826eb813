"""Redis server for tests, from Debian's package: on loopback, with a password, in a temporary folder."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import Self

from tests.support.processes import Program, ReservedPort, Workspace, wait_for

_READY = b"Ready to accept connections"
PROGRAM = "redis-server"
#: The folder of the file with the data of a persistent server.
_DATA = "appendonlydir"


class RedisServer:
    """
    Empty server, for a ``with`` block. It ends with this process.

    :param persistent: write each change to a file, from which the next start reads the data.
    """

    def __init__(self, *, persistent: bool = False) -> None:
        self.password = secrets.token_hex(16)
        self._persistent = persistent

    def __enter__(self) -> Self:
        program = shutil.which(PROGRAM)
        assert program is not None, f"{PROGRAM} is not installed"
        self._workspace = Workspace("datapipe-redis-")
        self._port = ReservedPort()
        try:
            self._create(program)
            self.start()
        except BaseException:  # including KeyboardInterrupt
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def url(self) -> str:
        """Return the address of the server's first database with its password."""
        return f"redis://:{self.password}@127.0.0.1:{self._port.number}/0"

    def start(self) -> None:
        """Start the server, always on the same port, and wait until it is ready."""
        log = self._workspace.log_of("redis")
        self._log_size = log.stat().st_size if log.exists() else 0
        self._program: Program = self._workspace.start("redis", self._command, env=self._environment)
        wait_for("Redis is ready", self._is_ready, limit=30, interval=0.02, watch=[self._program])

    def kill(self, *, keep_data: bool) -> None:
        """
        Kill the server with SIGKILL.

        :param keep_data: keep the data of a persistent server; otherwise the next start has none, as without a file.
        """
        self._program.kill()
        if not keep_data:
            shutil.rmtree(self._workspace.path / _DATA, ignore_errors=True)

    def _create(self, program: str) -> None:
        # Write the password to a file, because all users of the machine can read command lines.
        settings = self._workspace.path / "redis.conf"
        settings.touch(mode=0o600)
        settings.write_text(
            f"bind 127.0.0.1\nport {self._port.number}\nrequirepass {self.password}\n"
            f'dir {self._workspace.path}\nsave ""\nappenddirname {_DATA}\n'
            f"appendonly {'yes' if self._persistent else 'no'}\nappendfsync always\n"
        )
        self._environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        self._command = [program, str(settings)]

    def _is_ready(self) -> bool:
        log = self._workspace.log_of("redis")
        return log.exists() and _READY in log.read_bytes()[self._log_size :]

    def _end(self) -> None:
        self._workspace.close()
        self._port.release()
