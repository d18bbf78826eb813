"""Home: the folder that holds all state of one service."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
import stat
import time
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, NamedTuple

from datapipe_local.common.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

KEY_VARIABLE = "DATAPIPE_LOCAL_API_KEY"
_NEW_KEY = "run init with --api-key, or delete it and run init"
_TRIES = 5
_SECONDS_BETWEEN_TRIES = 0.02
#: Permission bits of the group and of other users.
_OTHERS = 0o077
#: Entries of a folder that do not prevent a home: the root of a file system has such a folder.
_HARMLESS = frozenset({"lost+found"})


class Holder(NamedTuple):
    """Process that holds a home, and its URL once it serves requests."""

    pid: int | None
    address: str | None


def check_key(key: str) -> None:
    """
    Raise if a text cannot be sent as an API key in a header.

    :raises SetupError: it has other characters than printable ASCII, or spaces.
    """
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise SetupError("The API key must consist of printable ASCII characters without spaces.")


class Home:
    """
    Home folder and the paths in it.

    :param folder: The folder, which need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.state = self.folder / "state.sqlite"
        self.warehouse = self.folder / "warehouse.duckdb"
        self.key_file = self.folder / "api_key"
        self.scratch = self.folder / "scratch"
        self._lock_file = self.folder / "lock"

    @property
    def is_initialised(self) -> bool:
        """Return True if ``init`` was run here."""
        return self.state.is_file() and self.key_file.is_file()

    def create(self) -> None:
        """
        Create the folder, for this user only.

        :raises SetupError: it cannot be created, or it contains other files. The permissions of an existing folder do
            not change.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            names = [] if self.is_initialised else [path.name for path in self.folder.iterdir()]
        except OSError as error:
            raise SetupError(f"Cannot create the home {self.folder}: {error.strerror}.") from error
        foreign = sorted(filter(self._is_foreign, names))
        if foreign:
            raise SetupError(
                f"{self.folder} contains other files ({foreign[0][:100]}) and is not a home:"
                " choose a new or empty folder as --home."
            )

    def _is_foreign(self, name: str) -> bool:
        # Databases have files beside them, and so does the key while it is written.
        with_others = (self.state, self.warehouse, self.key_file)
        own = {self.scratch.name, self._lock_file.name, *_HARMLESS}
        return name not in own and not any(name.startswith(path.name) for path in with_others)

    def _restrict(self) -> None:
        """Remove the permissions of other users from the folder and its files, or raise a :class:`SetupError`."""
        try:
            found = self.folder.stat()
            mode = stat.S_IMODE(found.st_mode)
            # Also refuse this to root: the owner of the folder could read the secrets.
            if found.st_uid != os.geteuid():
                raise SetupError(
                    f"The home {self.folder} belongs to another user (uid {found.st_uid}): run datapipe-local as that"
                    " user, or choose another --home."
                )
            if mode & _OTHERS:
                self.folder.chmod(mode & ~_OTHERS)
                if self.folder.stat().st_mode & _OTHERS:
                    raise SetupError(
                        f"Other users can read the home {self.folder} (mode {mode:04o}), and its file system does not"
                        " change modes: choose a --home on another file system."
                    )
                log.warning("Restricted the home %s to its user: its mode was %04o", self.folder, mode)
            for path in self._existing_files():
                if path.stat().st_mode & _OTHERS:
                    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
        except OSError as error:
            raise SetupError(
                f"Cannot restrict the home {self.folder} to its user: {error.strerror or error}: choose another --home."
            ) from error

    def _existing_files(self) -> list[Path]:
        databases = [file for path in (self.state, self.warehouse) for file in self.folder.glob(f"{path.name}*")]
        others = [path for path in (self.key_file, self.scratch, self._lock_file) if path.exists()]
        return [path for path in (*databases, *others) if not path.is_symlink()]

    def remove_state(self) -> None:
        """
        Remove everything but the key. The caller holds the lock of the folder.

        :raises SetupError: a file cannot be removed.
        """
        try:
            # Remove the state first: if the process is killed midway, the home is uninitialized and not half empty.
            for file in (self.state, self.warehouse):
                for part in sorted(self.folder.glob(f"{file.name}*")):
                    part.unlink()
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch.mkdir(mode=0o700)
        except OSError as error:
            raise SetupError(f"Cannot empty {self.folder}: {error.strerror or error}.") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """
        Hold the lock of the folder, which one process at a time can have. It ends with the process, however that ends.

        :raises SetupError: another process holds it, or the folder cannot be restricted to this user.
        """
        self._restrict()
        with self._opened_lock() as lock:
            if not _is_taken(lock):
                lock.seek(0)
                holder = lock.readline().strip() or "unknown"
                raise SetupError(
                    f"The home {self.folder} is in use by process {holder}: stop it, or choose another --home."
                )
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def _opened_lock(self) -> IO[str]:
        try:
            return os.fdopen(os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+")
        except OSError as error:
            raise SetupError(f"Cannot use the home {self.folder}: lock: {error.strerror or error}.") from error

    def make_scratch(self, *, empty: bool = False) -> None:
        """
        Create the folder for temporary files.

        :param empty: Remove its content.
        :raises SetupError: the folder cannot be created.
        """
        if empty:
            shutil.rmtree(self.scratch, ignore_errors=True)
        try:
            self.scratch.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise SetupError(f"Cannot make the folder {self.scratch}: {error.strerror or error}.") from error

    def note_address(self, address: str) -> None:
        """Write the URL of this process, which holds the folder, to the lock file, for :meth:`holder`."""
        self._lock_file.write_text(f"{os.getpid()}\n{address}\n", encoding="utf-8")

    def holder(self) -> Holder | None:
        """
        Return the process that holds the folder; ``None`` if no process does.

        :raises SetupError: the lock file cannot be read.
        """
        try:
            lock = self._lock_file.open(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SetupError(f"Cannot read {self._lock_file}: {error.strerror or error}.") from error
        with lock:
            try:
                # A shared lock: two callers at the same time must not take each other for a service.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, _, address = lock.read().partition("\n")
                return Holder(int(pid) if pid.isdecimal() else None, address.strip() or None)
        return None

    def read_key(self) -> str:
        """
        Return the API key.

        :raises SetupError: the file is empty, cannot be read, or holds no valid key.
        """
        try:
            key = self.key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise SetupError(f"Cannot read the API key from {self.key_file}: {reason}: {_NEW_KEY}.") from error
        if not key:
            raise SetupError(f"{self.key_file} is empty: {_NEW_KEY}.")
        try:
            check_key(key)
        except SetupError as error:
            raise SetupError(f"{self.key_file} does not contain an API key: {_NEW_KEY}.") from error
        return key

    def keep_key(self, wanted: str | None) -> bool:
        """
        Create the API key if needed, readable by this user only.

        :param wanted: The key to use; ``None`` keeps the present key, or generates one.
        :return: True if the key was written.
        :raises SetupError: the key cannot be read or written.
        """
        if self.key_file.exists() and self._is_kept(wanted):
            return False
        fresh = self.key_file.with_suffix(".new")
        try:
            fresh.unlink(missing_ok=True)
            # Set the mode at creation: other users can read the file at no moment.
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write((wanted or secrets.token_urlsafe(32)) + "\n")
            fresh.replace(self.key_file)
        except OSError as error:
            raise SetupError(f"Cannot write the API key to {self.key_file}: {error.strerror or error}.") from error
        return True

    def _is_kept(self, wanted: str | None) -> bool:
        try:
            return self.read_key() == wanted or wanted is None
        except SetupError:
            if wanted is None:
                raise
            # The requested key replaces an invalid one.
            return False


def _is_taken(lock: IO[str]) -> bool:
    """Take the lock, and return False if another process holds it."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        # The lock may be a short one of another call of holder().
        time.sleep(_SECONDS_BETWEEN_TRIES)
    return False
