"""
A deadline for everything that a blocking attempt reads and writes.

httpx limits the silence between two pieces of an answer, not the whole: a server that sends a byte now and then would
be waited for without end. httpcore lets its network be replaced; here each wait gets what is left of the time.
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
    """When the attempt of this thread has to be over, as ``time.monotonic()``; None for no attempt."""

    ends: float | None = None

    def left(self, timeout: float | None) -> float | None:
        """Give a time-out that does not reach past the deadline."""
        if self.ends is None:
            return timeout
        # Not 0: that would mean not to wait at all, and raise another error than a time-out.
        left = max(self.ends - time.monotonic(), 0.001)
        return left if timeout is None else min(timeout, left)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits end at the deadline."""

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
    """Opens such connections."""

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
    Make a client's connections end their waits at the deadline.

    :param client: a client of httpx, before its first request.
    :param deadline: is set before each attempt.
    """
    # httpx offers no way to hand a network to the transports that it makes itself, proxies among them.
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - see above; a test holds it
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend, deadline)  # noqa: SLF001 - see above
