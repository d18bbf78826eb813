"""The connection under a request, and how to end it without an answer."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_TRANSPORT = "datapipe_local.transport"
_BETWEEN_LOOKS = 0.005


class ExposedConnection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # which of two it is, uvicorn decides
    """
    uvicorn's own protocol, which lets the app see the connection.

    ASGI has no word for hanging up: an app that returns, or fails, without an answer is answered for with a 500.
    So the transport goes along as an extension of the scope, which is what ASGI has for such things.
    """

    app: ASGIApp

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Have every request of this connection know it."""
        super().connection_made(transport)
        self.app = _exposing(self.app, transport)


def is_open(scope: Scope) -> bool:
    """Tell whether the caller is still there, as far as is known."""
    return not _transport(scope).is_closing()


async def hang_up(scope: Scope, receive: Receive, *, reset: bool = False) -> None:
    """
    End the connection of a request: the rest of the answer, or all of it, is never sent.

    :param scope: The request's.
    :param receive: The request's.
    :param reset: End it as a crash does (RST), else as a program that closes it (FIN).
    """
    transport = _transport(scope)
    if reset:
        # What was sent until now is to arrive: an abort throws away what the kernel has not taken yet.
        while transport.get_write_buffer_size() and not transport.is_closing():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_BETWEEN_LOOKS)
        connection: Any = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()
    # Not before uvicorn knows: else it answers for us.
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
