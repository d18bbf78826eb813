"""Sending a request within a time: what requests calls a time-out is one of each single byte."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from requests.adapters import HTTPAdapter
from typing_extensions import override
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import HTTPResponse


class _PunctualConnection(HTTPConnection):
    """
    Gives up on the head of an answer that is not there in time, even if something comes now and then.

    What is left to read after it, the caller reads within bounds of its own.
    """

    #: Seconds in which the request is to be sent.
    sending: float

    @override
    def connect(self) -> None:
        super().connect()
        # Else it would have to be sent in the time that there is to connect.
        self.sock.settimeout(self.sending)

    @override
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        late = threading.Event()
        connection = self.sock

        def give_up() -> None:
            late.set()
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        watch = threading.Timer(self.timeout or self.sending, give_up)
        watch.daemon = True
        watch.start()
        try:
            return super().getresponse()
        except Exception:
            # Whatever a connection that is shut down under it raises; all that is not ours goes on.
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            watch.cancel()


class _PunctualTlsConnection(_PunctualConnection, HTTPSConnection):
    """The same over TLS."""


class PunctualAdapter(HTTPAdapter):
    """
    Adapter of requests with timeouts for whole requests.

    :param sending: seconds in which a request is to be sent, once there is a connection.
    """

    def __init__(self, sending: float) -> None:
        limit = {"sending": sending}
        plain = type("Connection", (_PunctualConnection,), limit)
        tls = type("TlsConnection", (_PunctualTlsConnection,), limit)
        self._pools = {
            "http": type("Pool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("TlsPool", (HTTPSConnectionPool,), {"ConnectionCls": tls}),
        }
        super().__init__()

    @override
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    @override
    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager
