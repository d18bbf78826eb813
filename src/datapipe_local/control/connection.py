"""Access to the connection of a request, and ways to close it without a response."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_TRANSPORT = "datapipe_local.transport"
_SECONDS_BETWEEN_POLLS = 0.005


class ExposedConnection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # uvicorn decides which class it is
    """
    Protocol of uvicorn that passes the transport to the application.

    ASGI cannot close a connection without a response: if the application returns or fails without one, uvicorn sends a
    500. Therefore the transport is an extension of the ASGI scope.
    """

    app: ASGIApp

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Add the transport to every request of this connection."""
        super().connection_made(transport)
        self.app = _exposing(self.app, transport)


def is_open(scope: Scope) -> bool:
    """Return True if the client is still connected, as far as known."""
    return not _transport(scope).is_closing()


async def close_connection(scope: Scope, receive: Receive, *, reset: bool = False) -> None:
    """
    Close the connection of a request without the rest of the response.

    :param scope: The ASGI scope of the request.
    :param receive: The ASGI ``receive`` of the request.
    :param reset: Reset the connection as a crash does (RST); otherwise close it in order (FIN).
    """
    transport = _transport(scope)
    if reset:
        # Data sent until now must arrive: an abort discards data that the kernel has not yet taken.
        while transport.get_write_buffer_size() and not transport.is_closing():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_SECONDS_BETWEEN_POLLS)
        connection: Any = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()
    # Wait until uvicorn notices: otherwise it sends its own response.
    while (await receive())["type"] != "http.disconnect":
        pass


def _exposing(app: ASGIApp, transport: asyncio.Transport) -> ASGIApp:
    async def exposed(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})[_TRANSPORT] = transport
        await app(scope, receive, send)

    return exposed


def _transport(scope: Scope) -> asyncio.Transport:
    transport: asyncio.Transport = scope["extensions"][_TRANSPORT]
    return transport
