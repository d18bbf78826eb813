"""Running the ASGI app: the port, the line that says it is ready, the signals."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn
from starlette.responses import JSONResponse

from datapipe_local.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

# Clients that keep a connection busy do not hold up a stop for longer: what they asked for is in the store.
_SECONDS_FOR_OPEN_REQUESTS = 2


def listen(host: str, port: int) -> socket.socket:
    """
    Take the port.

    :param host: The address to listen on.
    :param port: The port; 0 takes a free one.
    :raises SetupError: the port is taken, or the address is not this machine's.
    """
    try:
        return socket.create_server((host, port), family=_family(host), backlog=2048)
    except UnicodeError as error:
        raise SetupError(f"Cannot listen on {host[:100]}: that is no name of a host.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SetupError(f"Port {port} of {host} is in use: choose another --port, or 0 for a free one.") from error
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise SetupError(f"Cannot listen on {host} port {port}: {reason}.") from error


def serve(app: ASGIApp, listener: socket.socket, *, ready: Callable[[str], None], with_control: bool = False) -> None:
    """
    Answer requests until SIGTERM or SIGINT.

    :param app: What answers.
    :param listener: Where, as :func:`listen` gave it.
    :param ready: Is told the address, once requests are answered.
    :param with_control: Let the app's control plane break connections.
    """
    config = uvicorn.Config(
        _Stopping(app),
        http=_exposed_connection() if with_control else "auto",
        # There is nothing to begin or end with it: that is done around this.
        lifespan="off",
        # Nor does anything speak that: such a request is one like others, and checked like them.
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
    )
    # uvicorn stops on these signals and then raises them again for whoever was there before it. Being told to
    # stop is no failure, so that there is nothing more to do then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _Server(config, ready).run(sockets=[listener])


class _Stopping:
    """
    Tells whose request is given up since the service stops: nothing else cancels one.

    :param app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except asyncio.CancelledError:
            log.info("Gave up a %s request that took long", scope.get("method", ""))
            if begun:
                raise
            body = {
                "error_code": "stopping",
                "message": "The service stops. What was asked for may have been done: look, once it is back.",
            }
            await JSONResponse(body, 503, {"connection": "close"})(scope, receive, send)


class _Server(uvicorn.Server):
    """Says when it is ready."""

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
                # A full disk, such as that of a log: requests are answered all the same.
                log.warning("Cannot write to the standard output: %s", error.strerror or error)
            log.info("Ready on %s port %s", host, port)


def _exposed_connection() -> type[asyncio.Protocol]:
    from datapipe_local.control.connection import ExposedConnection

    return ExposedConnection


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
