"""Small file system that tests fill, and a service with its home on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_service import LocalService
from tests.support.processes import Program

_MOUNT = 'mount -t tmpfs -o size="$1",mode=0700 none "$2" && echo mounted && exec cat'
#: Command for a mount in a user namespace, which does not require root.
_NAMESPACES = (["unshare", "-Urm"], ["unshare", "-m"])
_MISSING = (
    "A full disk needs a file system of its own: allow user namespaces (unshare -Urm), or run this test as root,"
    " or as a user with sudo without a password."
)


class Disk:
    """
    Small file system.

    :param path: The mount point for programs that are started with ``prefix``.
    :param seen: The mount point for this process.
    :param prefix: The beginning of the commands of such programs.
    """

    def __init__(self, path: Path, seen: Path, prefix: list[str]) -> None:
        self.path = path
        self.seen = seen
        self.prefix = prefix
        self._filling = seen / "filling"

    @property
    def free(self) -> int:
        """Return the number of free bytes."""
        return shutil.disk_usage(self.seen).free

    def fill(self, *, leave: int = 0) -> None:
        """Fill the file system, except for some bytes."""
        with self._filling.open("ab", buffering=0) as file:
            size = max(0, self.free - leave)
            with suppress(OSError):
                for _ in range(size // (1 << 16)):
                    file.write(bytes(1 << 16))
                while self.free > leave:
                    file.write(bytes(4096))

    def clear(self) -> None:
        """Remove the filling."""
        self._filling.unlink(missing_ok=True)


@contextmanager
def disk(folder: Path, megabytes: int) -> Iterator[Disk]:
    """Mount a small file system in a folder."""
    for namespace in _NAMESPACES:
        command = [*namespace, "sh", "-c", _MOUNT, "sh", f"{megabytes}m", str(folder)]
        with subprocess.Popen(  # noqa: S603 - command of this module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as holder:
            assert holder.stdout is not None
            if holder.stdout.readline():
                enter = ["nsenter", "-t", str(holder.pid), "-m"]
                if namespace[-1] == "-Urm":
                    enter += ["-U", "--preserve-credentials"]
                # The file system disappears with this process, which ends at the end of its input.
                yield Disk(folder, Path(f"/proc/{holder.pid}/root{folder}"), enter)
                return
    options = f"size={megabytes}m,mode=0700,uid={os.getuid()},gid={os.getgid()}"
    mount = ["sudo", "-n", "mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if shutil.which("sudo") is None or subprocess.run(mount, check=False).returncode:  # noqa: S603 - fixed command
        pytest.fail(_MISSING)
    try:
        yield Disk(folder, folder, [])
    finally:
        subprocess.run(["sudo", "-n", "umount", "-l", str(folder)], check=True)  # noqa: S603, S607 - fixed command


class ServiceOnDisk(LocalService):
    """Service with its home on a small file system."""

    def __init__(self, disk: Disk, seed: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(seed, **options)
        self.disk = disk

    def _run(self, command: str, *options: str) -> Program:
        home = ["--home", str(self.disk.path / "home")]
        arguments = [*self.disk.prefix, sys.executable, "-m", "datapipe_local", command, *home, *options]
        return self._workspace.start("service", arguments, env=self._environment)
