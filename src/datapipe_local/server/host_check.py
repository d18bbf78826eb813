"""Check of the ``Host`` header against DNS rebinding: a page of another origin must not reach the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from datapipe_local.common.authority import parse_authority

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

_LONGEST_SHOWN = 100
_MOST_KNOWN = 100


class HostCheck:
    """
    ASGI middleware that refuses requests for other hosts (421) and requests with an invalid ``Host`` header (400).

    A browser lets a page of ``evil.example`` read the responses from that name, and the owner of the name can point it
    to this machine at any time. IP addresses and ``localhost`` need no list: DNS cannot redirect them.

    :param app: Wrapped application.
    :param names: Additional names of the service. ``None`` allows every name.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] | None) -> None:
        self._app = app
        self._names = None if names is None else frozenset(names)
        # Cache of valid headers as received: a client sends the same header each time.
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            refusal = self._refusal(hosts)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, hosts: list[bytes]) -> JSONResponse | None:
        for value in hosts:
            if value in self._known:
                continue
            text = value.decode("latin-1")
            try:
                is_allowed = self._is_allowed(text)
            except ValueError:
                return _malformed(f"{text[:_LONGEST_SHOWN]!r} is not a host with an optional port")
            if not is_allowed:
                return _misdirected(text)
            # Clients can send any port, so bound the size of the cache.
            if len(self._known) < _MOST_KNOWN:
                self._known.add(value)
        return _malformed("there are several") if len(hosts) > 1 else None

    def _is_allowed(self, text: str) -> bool:
        authority = parse_authority(text)
        if self._names is None or authority.address is not None or authority.is_localhost:
            return True
        return authority.host in self._names


def _malformed(problem: str) -> JSONResponse:
    message = f"Host: {problem}: send the header once, with the address of the service, such as localhost:8484."
    return JSONResponse({"error_code": "bad_request", "message": message}, 400)


def _misdirected(host: str) -> JSONResponse:
    message = (
        f"The host name {host[:_LONGEST_SHOWN]!r} is not allowed: use the address that it printed when it was ready, or"
        " start it with --allow-host."
    )
    return JSONResponse({"error_code": "misdirected_request", "message": message}, 421)
