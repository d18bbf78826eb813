"""Response header with the page URL of a resource, so that clients can link to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Path of a page of :mod:`datapipe_local.web`; the placeholders are the collection and the ID.
_HEADER = (b"datapipe-pages", b"/#/{resource}/{id}")


class PagesHeader:
    """
    ASGI middleware that adds the header to every response.

    :param app: Wrapped application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], _HEADER]
            await send(message)

        await self._app(scope, receive, send_with_header if scope["type"] == "http" else send)
