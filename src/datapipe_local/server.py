"""Running the ASGI app: the port, the line that says it is ready, the signals."""

from __future__ import annotations

import errno
import logging
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

import uvicorn

from datapipe_local.errors import SetupError

if TYPE_CHECKING:
    import asyncio

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


def serve(app: FastAPI, listener: socket.socket, *, with_control: bool = False) -> None:
    """
    Answer requests until SIGTERM or SIGINT.

    :param app: What answers.
    :param listener: Where, as :func:`listen` gave it.
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
    _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it is ready."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            print(f"datapipe-local is ready at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
            log.info("Ready on %s port %s", host, port)


def _exposed_connection() -> type[asyncio.Protocol]:
    from datapipe_local.control.connection import ExposedConnection

    return ExposedConnection


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def configure_logging() -> None:
    """Log to the standard error: one line per event, with the time in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # Its lines repeat, per request, what is to be sent to destinations.
    logging.getLogger("httpx").setLevel(logging.WARNING)
