"""Adapter and session for ``requests``, with which the caller can limit the time and size of each response."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from requests import Response, Session
from requests.adapters import HTTPAdapter
from typing_extensions import override
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import HTTPResponse


class _PunctualConnection(HTTPConnection):
    """
    HTTP connection with a time limit for the whole response head, even if bytes arrive now and then.

    The caller limits the time and size of the response body.
    """

    #: Socket timeout for sending the request, in seconds.
    sending: float

    @override
    def connect(self) -> None:
        super().connect()
        # Otherwise, the connect timeout would also apply to sending.
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
            # The shutdown by the timer can raise various errors. Other errors are passed on.
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            watch.cancel()


class _PunctualTlsConnection(_PunctualConnection, HTTPSConnection):
    """HTTPS connection with the same time limit."""


class DirectSession(Session):
    """Session that treats redirects as other responses. A plain session reads their bodies without limits."""

    @override
    def get_redirect_target(self, resp: Response) -> None:
        return None


class PunctualAdapter(HTTPAdapter):
    """
    Adapter for ``requests`` with a time limit for the whole response head. Timeouts of ``requests`` apply to each read.

    :param sending: socket timeout for sending a request over an open connection, in seconds.
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
