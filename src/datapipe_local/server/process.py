"""Server of the ASGI application: its port, its ready line and its signal handlers."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn
from starlette.responses import JSONResponse

from datapipe_local.common.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

# Clients with open requests delay a stop no longer than this: the store has their requests.
_SECONDS_FOR_OPEN_REQUESTS = 2


def listen(host: str, port: int) -> socket.socket:
    """
    Bind the port.

    :param host: The address to listen on.
    :param port: The port; 0 takes a free one.
    :raises SetupError: the port is in use, or the address does not belong to this machine.
    """
    try:
        return socket.create_server((host, port), family=_family(host), backlog=2048)
    except UnicodeError as error:
        raise SetupError(f"Cannot listen on {host[:100]}: it is not a valid host name.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SetupError(f"Port {port} of {host} is in use: choose another --port, or 0 for a free one.") from error
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise SetupError(f"Cannot listen on {host} port {port}: {reason}.") from error


def serve(app: ASGIApp, listener: socket.socket, *, ready: Callable[[str], None], with_control: bool = False) -> None:
    """
    Serve requests until SIGTERM or SIGINT.

    :param app: The application.
    :param listener: The socket that :func:`listen` returned.
    :param ready: A function that is called with the URL once requests are served.
    :param with_control: Let the application's control plane break connections.
    """
    config = uvicorn.Config(
        _Stopping(app),
        http=_exposed_connection() if with_control else "auto",
        # The caller starts and stops the service.
        lifespan="off",
        # No WebSockets: the application checks an upgrade request like any other.
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
    )
    # uvicorn stops on these signals and then raises them again for the earlier handlers. A requested stop is no
    # failure, so those do nothing.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _Server(config, ready).run(sockets=[listener])


class _Stopping:
    """
    Middleware that answers requests that are canceled because the service stops.

    :param app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except asyncio.CancelledError:
            log.info("Abandoned a %s request that did not end in time", scope.get("method", ""))
            if begun:
                raise
            body = {
                "error_code": "stopping",
                "message": "The service stops. The request may have been executed: check its effect after the restart.",
            }
            await JSONResponse(body, 503, {"connection": "close"})(scope, receive, send)


class _Server(uvicorn.Server):
    """uvicorn server that reports when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            self._ready(address)
            try:
                print(f"datapipe-local is ready at {address}", flush=True)
            except OSError as error:
                # The output may go to a full disk, for example to a log. Serve requests anyway.
                log.warning("Cannot write to the standard output: %s", error.strerror or error)
            log.info("Ready on %s port %s", host, port)


def _exposed_connection() -> type[asyncio.Protocol]:
    from datapipe_local.control.connection import ExposedConnection

    return ExposedConnection


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
