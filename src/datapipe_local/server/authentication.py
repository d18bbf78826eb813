"""API key check in front of all routes."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from datapipe_local.api.routes import web
from datapipe_local.common.errors import UnauthorizedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Path of the OpenAPI document.
OPENAPI_PATH = "/openapi.json"
#: Public paths: health, the OpenAPI document and the static page, which asks the user for the key.
OPEN_PATHS = frozenset({"/health", OPENAPI_PATH, *web.PATHS})
#: Paths with their own credentials: the bridge ID, or the authentication of a webhook connection.
OPEN_BELOW = ("/authorize/", "/webhooks/")


class KeyCheck:
    """
    ASGI middleware that refuses requests without a valid ``x-api-key``, except at open paths.

    :param app: Wrapped application.
    :param key: API key.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and not scope["path"].startswith(OPEN_BELOW):
            given = [value for name, value in scope["headers"] if name == b"x-api-key"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._key):
                refusal = UnauthorizedError(
                    "The API key is wrong: send the key in the file api_key of the home, in the header x-api-key."
                    if given
                    else "The API key is missing: send it in the header x-api-key."
                )
                await JSONResponse(refusal.as_json(), refusal.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)
