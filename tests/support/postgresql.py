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
    """Server with an empty database, for a ``with`` block. It ends with this process."""

    def __enter__(self) -> Self:
        folder = programs()
        assert folder is not None, "ask need_postgresql() first"
        self._workspace = Workspace("datapipe-postgresql-")
        self._port = ReservedPort()
        try:
            self._start(folder)
        except BaseException:  # including KeyboardInterrupt
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._program.send(signal.SIGINT)
        self._program.end(10)
        self._end()

    @property
    def url(self) -> str:
        """Return the address of the database with its password, for SQLAlchemy."""
        return self.url_for("psycopg")

    def url_for(self, driver: str) -> str:
        """Return the address of the database for a driver of SQLAlchemy, such as ``psycopg2``."""
        return f"postgresql+{driver}://{_USER}:s3cret@127.0.0.1:{self._port.number}/postgres"

    def _start(self, folder: Path) -> None:
        data = self._workspace.path / "data"
        password = self._workspace.path / "password"
        password.write_text("s3cret")
        as_user: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            data.mkdir(mode=0o700)
            os.chown(data, user.pw_uid, user.pw_gid)
            os.chown(password, user.pw_uid, user.pw_gid)
            self._workspace.path.chmod(0o711)
        # Without the user's settings of PostgreSQL and locale.
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        initialise = [str(folder / "initdb"), "--pgdata", str(data), "--username", _USER, "--pwfile", str(password)]
        initialise += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--no-sync"]
        subprocess.run(  # noqa: S603 - command of this module
            [*as_user, *initialise], check=True, capture_output=True, env=environment, cwd="/"
        )
        settings = {"fsync": "off", "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        serve = [str(folder / "postgres"), "-D", str(data), "-p", str(self._port.number)]
        serve += [f"--{name}={value}" for name, value in settings.items()]
        self._program: Program = self._workspace.start("postgresql", [*as_user, *serve], env=environment)
        wait_for("PostgreSQL is ready", self._is_ready, limit=30, interval=0.02, watch=[self._program])

    def _is_ready(self) -> bool:
        log = self._workspace.log_of("postgresql")
        return log.exists() and _READY in log.read_bytes()

    def _end(self) -> None:
        self._workspace.close()
        self._port.release()
