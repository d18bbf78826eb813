"""PostgreSQL server for tests, from Debian's package: on loopback, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.support.processes import Program, ReservedPort, Workspace, wait_for

_READY = b"database system is ready to accept connections"
# The server does not run as root, so it runs as the user of Debian's package.
_USER = "postgres"
_PASSWORD = "s3cret"


def programs() -> Path | None:
    """Return the folder with the programs of the newest installed PostgreSQL, None without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parent.parent.name))
    return found[-1].parent if found else None


def need_postgresql() -> None:
    """Skip a test on machines without PostgreSQL. With ``CI=true``, PostgreSQL is required."""
    if programs() is None:
        message = "there is no PostgreSQL: apt-get install --no-install-recommends postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


class PostgreSQL:
    """
    Server with an empty database, for a ``with`` block. It ends with this process.

    :param password: the password of its user.
    :param max_connections: the limit of concurrent connections.
    """

    def __init__(self, *, password: str = _PASSWORD, max_connections: int = 100) -> None:
        self.password = password
        self._max_connections = max_connections

    def __enter__(self) -> Self:
        folder = programs()
        assert folder is not None, "ask need_postgresql() first"
        self._workspace = Workspace("datapipe-postgresql-")
        self._port = ReservedPort()
        try:
            self._create(folder)
            self.start()
        except BaseException:  # including KeyboardInterrupt
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._end()

    @property
    def url(self) -> str:
        """Return the address of the database with its password, for SQLAlchemy."""
        return self.url_for("psycopg")

    def url_for(self, driver: str) -> str:
        """Return the address of the database for a driver of SQLAlchemy, such as ``psycopg2``."""
        return f"postgresql+{driver}://{_USER}:{self.password}@127.0.0.1:{self._port.number}/postgres"

    def start(self) -> None:
        """Start the server with its data, always on the same port, and wait until it is ready."""
        log = self._workspace.log_of("postgresql")
        self._log_size = log.stat().st_size if log.exists() else 0
        self._program: Program = self._workspace.start("postgresql", self._serve, env=self._environment)
        wait_for("PostgreSQL is ready", self._is_ready, limit=60, interval=0.02, watch=[self._program])

    def stop(self) -> None:
        """End the connections, and stop the server. Do nothing if it has ended."""
        self._program.send(signal.SIGINT)
        self._program.end(30)

    def kill(self) -> None:
        """Kill the server and its processes with SIGKILL. The next start recovers the data."""
        self._program.kill()

    def _create(self, folder: Path) -> None:
        data = self._workspace.path / "data"
        password = self._workspace.path / "password"
        password.write_text(self.password)
        as_user: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            data.mkdir(mode=0o700)
            os.chown(data, user.pw_uid, user.pw_gid)
            os.chown(password, user.pw_uid, user.pw_gid)
            self._workspace.path.chmod(0o711)
        # Without the user's settings of PostgreSQL and locale.
        self._environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        initialise = [str(folder / "initdb"), "--pgdata", str(data), "--username", _USER, "--pwfile", str(password)]
        initialise += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--no-sync"]
        subprocess.run(  # noqa: S603 - command of this module
            [*as_user, *initialise], check=True, capture_output=True, env=self._environment, cwd="/"
        )
        # Without fsync, a kill of the processes loses nothing, because the system still has all writes.
        settings = {"fsync": "off", "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        settings["max_connections"] = str(self._max_connections)
        serve = [str(folder / "postgres"), "-D", str(data), "-p", str(self._port.number)]
        self._serve = [*as_user, *serve, *(f"--{name}={value}" for name, value in settings.items())]

    def _is_ready(self) -> bool:
        log = self._workspace.log_of("postgresql")
        return log.exists() and _READY in log.read_bytes()[self._log_size :]

    def _end(self) -> None:
        self._workspace.close()
        self._port.release()
