"""HTTP proxy on loopback that records the head of each CONNECT request byte for byte and opens tunnels."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading

from typing_extensions import override

from tests.support.raw_server import RawServer


class ConnectProxy(RawServer):
    """
    CONNECT proxy that resolves every host name to one port of this machine.

    :param port: port on 127.0.0.1 to which all tunnels lead.
    :param user_info: ``user:password`` that clients must send, as Basic credentials; None for an open proxy.
    :param refusal: bytes sent in place of a tunnel; None to open tunnels. May be changed while the proxy runs.
    """

    def __init__(self, port: int, *, user_info: str | None = None, refusal: bytes | None = None) -> None:
        super().__init__(lambda *_: None)
        self._target = port
        self._expected = b"" if user_info is None else b"Basic " + base64.b64encode(user_info.encode())
        self._ends: list[socket.socket] = []
        self.refusal = refusal

    def url_with(self, user_info: str) -> str:
        """Return the address of the proxy with percent-encoded user info."""
        return f"http://{user_info}@127.0.0.1:{self.port}"

    @override
    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        for end in self._ends:
            _shut_down(end)
        super().__exit__(*error)

    @override
    def _respond(self, connection: socket.socket, head: bytes) -> None:
        if self.refusal is not None:
            connection.sendall(self.refusal)
        elif not head.startswith(b"CONNECT "):
            connection.sendall(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
        elif self._expected not in head:
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
        else:
            self._tunnel(connection)

    def _tunnel(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._target)) as service:
            self._ends += [client, service]
            client.settimeout(None)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_copy, args=(service, client))
            back.start()
            _copy(client, service)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side closes, then close the other side's direction."""
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    _shut_down(target)


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
