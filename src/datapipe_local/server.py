"""Running the ASGI app: the port, the line that says it is ready, the signals."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn

from datapipe_local.errors import SetupError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from fastapi import FastAPI

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
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SetupError(f"Port {port} of {host} is in use: choose another --port, or 0 for a free one.") from error
        raise SetupError(f"Cannot listen on {host} port {port}: {error.strerror or error}.") from error


def serve(app: FastAPI, listener: socket.socket, *, ready: Callable[[str], None], with_control: bool = False) -> None:
    """
    Answer requests until SIGTERM or SIGINT.

    :param app: What answers.
    :param listener: Where, as :func:`listen` gave it.
    :param ready: Is told the address, once requests are answered.
    :param with_control: Let the app's control plane break connections.
    """
    config = uvicorn.Config(
        app,
        http=_exposed_connection() if with_control else "auto",
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
            print(f"datapipe-local is ready at {address}", flush=True)
            log.info("Ready on %s port %s", host, port)


def _exposed_connection() -> type[asyncio.Protocol]:
    from datapipe_local.control.connection import ExposedConnection

    return ExposedConnection


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
