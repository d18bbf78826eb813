"""Redis server for tests, from Debian's package: on loopback, with a password, without files."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import Self

from tests.support.processes import ReservedPort, Workspace, wait_for

_READY = b"Ready to accept connections"
PROGRAM = "redis-server"


class RedisServer:
    """Empty server, for a ``with`` block. It ends with this process."""

    def __enter__(self) -> Self:
        program = shutil.which(PROGRAM)
        assert program is not None, f"{PROGRAM} is not installed"
        self._workspace = Workspace("datapipe-redis-")
        self._port = ReservedPort()
        try:
            self._start(program)
        except BaseException:  # including KeyboardInterrupt
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def url(self) -> str:
        """Return the address of the server's first database with its password."""
        return f"redis://:{self._password}@127.0.0.1:{self._port.number}/0"

    def _start(self, program: str) -> None:
        self._password = secrets.token_hex(16)
        # Write the password to a file, because all users of the machine can read command lines.
        settings = self._workspace.path / "redis.conf"
        settings.touch(mode=0o600)
        settings.write_text(
            f"bind 127.0.0.1\nport {self._port.number}\nrequirepass {self._password}\n"
            f'dir {self._workspace.path}\nappendonly no\nsave ""\n'
        )
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        server = self._workspace.start("redis", [program, str(settings)], env=environment)
        wait_for("Redis is ready", self._is_ready, limit=30, interval=0.02, watch=[server])

    def _is_ready(self) -> bool:
        log = self._workspace.log_of("redis")
        return log.exists() and _READY in log.read_bytes()

    def _end(self) -> None:
        self._workspace.close()
        self._port.release()
