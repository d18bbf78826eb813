"""By which names the service is called: a web page elsewhere must not reach it by a name that was made to lead here."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

_LONGEST_SHOWN = 100
_MOST_KNOWN = 100


class HostCheck:
    """
    Refuse requests for other hosts.

    A browser lets a page of ``evil.example`` read what that name answers, and whoever has the name can have it lead
    to this machine from one moment to the next. Addresses and ``localhost`` are nobody's to redirect.

    :param app: What answers the others.
    :param names: By what else the service is called.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names
        # Few are ever asked for.
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == b"host" and value not in self._known:
                    host = value.decode("latin-1")
                    if not self._is_ours(_without_port(host)):
                        await _refusal(host)(scope, receive, send)
                        return
                    # A caller can name any port.
                    if len(self._known) < _MOST_KNOWN:
                        self._known.add(value)
        await self._app(scope, receive, send)

    def _is_ours(self, host: str) -> bool:
        if host in self._names or host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return False
        return True


def _without_port(host: str) -> str:
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _refusal(host: str) -> JSONResponse:
    message = (
        f"This service is not called {host[:_LONGEST_SHOWN]!r}: use the address that it told when it was ready, or"
        " start it with --allow-host."
    )
    return JSONResponse({"error_code": "misdirected_request", "message": message}, 421)
