"""HTTP service on loopback that answers by method and path, with optional TLS."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trustme

#: Name in the certificate of :class:`TlsFiles`. No DNS server knows it, so only a proxy can reach the service.
HOST = "service.test"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """
    Certificate of a server and the bundle that trusts it.

    :param ca_bundle: file with the certificate of the authority.
    """

    context: ssl.SSLContext
    ca_bundle: str

    @classmethod
    def create(cls, folder: Path) -> TlsFiles:
        """Issue a certificate for :data:`HOST`, signed by a new authority."""
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(HOST).configure_cert(context)
        bundle = folder / "authority.pem"
        authority.cert_pem.write_to_path(bundle)
        return cls(context, str(bundle))


@dataclass(frozen=True, slots=True)
class Call:
    """Received request."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


#: Returns the status and the body: a JSON value, or bytes that are sent as they are.
Handler = Callable[[Call], tuple[int, Any]]


class TlsService:
    """
    Threaded HTTP service.

    :param handle: answers each request.
    :param tls: TLS context; None for plain HTTP.
    :param headers: further headers of each response.
    """

    def __init__(
        self, handle: Handler, tls: ssl.SSLContext | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.calls: list[Call] = []
        service = self

        class Handling(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                if tls is not None:
                    self.request = tls.wrap_socket(self.request, server_side=True)
                super().setup()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path, _, query = self.path.partition("?")
                call = Call(self.command, path, query, {k.lower(): v for k, v in self.headers.items()}, body)
                service.calls.append(call)
                status, value = handle(call)
                answer = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in (headers or {}).items():
                    self.send_header(name, text)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Ignore clients that disconnect."""

        self._http = Server(("127.0.0.1", 0), Handling)
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
