"""
Overall deadline for a blocking request attempt.

httpx limits the time between two chunks, not the total time: a server that sends a byte now and then can block the
caller indefinitely. This module replaces httpcore's network backend and limits each wait to the remaining time.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx
from typing_extensions import override


class Deadline(threading.local):
    """Deadline of this thread's current attempt, as ``time.monotonic()``; None outside of an attempt."""

    ends: float | None = None

    def left(self, timeout: float | None) -> float | None:
        """Return the timeout, shortened to the time until the deadline."""
        if self.ends is None:
            return timeout
        # Not 0: a timeout of 0 makes the call non-blocking, and it raises a different error.
        left = max(self.ends - time.monotonic(), 0.001)
        return left if timeout is None else min(timeout, left)


class _Stream(httpcore.NetworkStream):
    """Network stream whose waits end at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    @override
    def close(self) -> None:
        self._stream.close()

    @override
    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(
            self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout)), self._deadline
        )

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Network backend that opens streams with a deadline."""

    def __init__(self, backend: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._backend = backend
        self._deadline = deadline

    @override
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._backend.connect_tcp(host, port, self._deadline.left(timeout), local_address, socket_options)
        return _Stream(stream, self._deadline)


def bound(client: httpx.Client, deadline: Deadline) -> None:
    """
    Apply a deadline to all connections of a client.

    :param client: an httpx client that has not sent a request.
    :param deadline: the deadline, which the caller sets before each attempt.
    """
    # httpx has no option to set the network backend of the transports that it creates, such as those for proxies.
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - see above; covered by a test
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend, deadline)  # noqa: SLF001 - see above
