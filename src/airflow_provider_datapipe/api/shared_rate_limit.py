"""
Rate limit that the processes of a machine share through a file.

Each task of a worker is a process of its own. Limits of single processes would add up, and a short task would not learn
from the 429 of another one.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import math
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from airflow_provider_datapipe.api.errors import PermitTimeoutError
from airflow_provider_datapipe.api.rate_limit import STATE_SIZE, RateLimit
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.settings import Settings, origin_of

log = logging.getLogger(__name__)

_TOO_MANY_REQUESTS = 429
#: Attempts to lock the file, and seconds between them. Other processes hold the lock for microseconds. Asynchronous
#: callers use a thread, so that the pauses do not block their event loop.
_ATTEMPTS, _PAUSE = 20, 0.0005


class SharedRateLimit:
    """
    Rate limit of a connection. If its file cannot be used, the limit applies to this process only.

    :param most: the most requests per second.
    :param name: name of the connection in log lines.
    :param path: file with the state, None for no file.
    """

    def __init__(self, most: float, name: str, path: Path | None) -> None:
        self._limit = RateLimit(most)
        self._name = name
        self._path = path
        self._lock = Lock()

    def reserve(self, request: Request[Any]) -> float:
        """
        Reserve the permit for a request, and return the seconds to wait before sending it.

        :param request: the request.
        :raises PermitTimeoutError: if it may not be sent before its ``permit_by``.
        """
        longest = math.inf if request.permit_by is None else max(request.permit_by - time.time(), 0.0)
        with self._state() as limit:
            delay = limit.reserve(time.monotonic(), longest)
        if delay is None:
            raise PermitTimeoutError(
                f"{request.label} was not sent: the rate limit{self._name} would have delayed it for too long.\nSet a "
                "higher max_requests_per_second, or a longer poll interval."
            )
        return delay

    def answered(self, status: int) -> None:
        """
        Adapt the rate to an answer of the service.

        :param status: HTTP status of the answer.
        """
        if status == _TOO_MANY_REQUESTS:
            with self._state() as limit:
                is_reduced = limit.refused(time.monotonic())
            if is_reduced:
                log.warning(
                    "The service answered 429: requests%s are reduced to %.4g per second.", self._name, limit.rate
                )
        elif self._limit.is_reduced:
            with self._state() as limit:
                limit.answered(time.monotonic())

    def set_most(self, most: float) -> None:
        """Set the most requests per second, because the connection has changed."""
        self._limit.most = most

    @contextmanager
    def _state(self) -> Iterator[RateLimit]:
        """Hold the lock of the file, read the state, and write it afterwards."""
        with self._lock:
            file = None if self._path is None else self._locked(self._path)
            if file is None:
                yield self._limit
                return
            try:
                # Without the file, for example on a full disk, the state of this process counts.
                with suppress(OSError):
                    self._limit.unpack(os.pread(file, STATE_SIZE, 0), time.monotonic())
                yield self._limit
                with suppress(OSError):
                    os.pwrite(file, self._limit.pack(), 0)
            finally:
                # This releases the lock.
                os.close(file)

    def _locked(self, path: Path) -> int | None:
        """Open and lock the file. Return None if another process does not release it, or if there can be no file."""
        try:
            # Opened each time: a cleaner of temporary files may have deleted it.
            file = _open(path)
        except OSError as error:
            log.warning("The rate limit%s applies to each process by itself: %s", self._name, error)
            self._path = None
            return None
        for _ in range(_ATTEMPTS):
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            time.sleep(_PAUSE)
        os.close(file)
        return None


#: Limits of this process, by the name of the file.
_limits: dict[str, SharedRateLimit] = {}


def shared_rate_limit(settings: Settings) -> SharedRateLimit | None:
    """
    Return the rate limit of a connection, one for all clients of the process; None if the connection has no limit.

    :param settings: connection settings of the service.
    """
    most = settings.max_requests_per_second
    if most is None:
        return None
    # Without the API key, of which no trace belongs on the disk.
    key = hashlib.sha256(f"{origin_of(settings.base_url)} {settings.connection}".encode()).hexdigest()
    limit = _limits.get(key)
    if limit is None:
        folder = _folder()
        path = None if folder is None else folder / f"{key}.rate"
        limit = _limits.setdefault(key, SharedRateLimit(most, settings.of_connection, path))
    limit.set_most(most)
    return limit


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        # The cleaner has deleted the folder, too.
        if _folder() is None:
            raise
        return os.open(path, flags, 0o600)


def _folder() -> Path | None:
    """Return a folder that only this user can access, None if there is none."""
    folder = Path(tempfile.gettempdir()) / f"airflow-provider-datapipe-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        state = folder.lstat()
    except OSError as error:
        log.warning("Rate limits apply to each process by itself: %s", error)
        return None
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        log.warning("Rate limits apply to each process by itself: %s is not private to this user.", folder)
        return None
    return folder
