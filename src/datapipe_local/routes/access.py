"""Who may ask: the key check, in front of every route."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from datapipe_local.errors import UnauthorizedError
from datapipe_local.routes import web

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Where the description of the interface is.
OPENAPI_PATH = "/openapi.json"
#: Answered without a key: whether the service is up is no secret, nor is what it can do; the page asks for the key.
OPEN_PATHS = frozenset({"/health", OPENAPI_PATH, *web.PATHS})
#: Below these it is not the key that lets in: the address of a bridge does, or what a webhook connection asks for.
OPEN_BELOW = ("/authorize/", "/webhooks/")


class KeyCheck:
    """
    Refuse requests without the right ``x-api-key``, whatever they ask for.

    :param app: What answers the others.
    :param key: The right key.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and not scope["path"].startswith(OPEN_BELOW):
            given = [value for name, value in scope["headers"] if name == b"x-api-key"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._key):
                refusal = UnauthorizedError(
                    "The API key is wrong: send the one of this home's api_key file in the header x-api-key."
                    if given
                    else "The API key is missing: send it in the header x-api-key."
                )
                await JSONResponse(refusal.as_json(), refusal.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)
