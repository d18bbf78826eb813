"""Gateway between a sender and a webhook, which loses requests and responses by a script."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import httpx
from typing_extensions import override

from tests.support.scripted_server import Reply, ScriptedServer, Seen

_PASSED_ON = ("content-type", "authorization", "x-token", "x-signature")


class Trouble(NamedTuple):
    """
    Fault of one request.

    :param after: the service executes the request; else it does not arrive.
    :param status: status in place of the service's response; 0 closes the connection without a response.
    :param body: body in place of the service's response.
    :param headers: headers in place of those of the service.
    :param torn: send the head and half of the body of the service's response, and reset the connection.
    :param until: delay the response until this is set.
    """

    after: bool = False
    status: int = 0
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    torn: bool = False
    until: threading.Event | None = None


class WebhookGateway(ScriptedServer):
    """
    Gateway that forwards requests, except for those with a fault in the script.

    :param service: the address of the service.
    :param script: the fault of each request, by its number from 0.
    """

    def __init__(self, service: str, script: dict[int, Trouble]) -> None:
        super().__init__()
        self._troubles = script
        self._client = httpx.Client(base_url=service, timeout=30)

    @property
    def requests(self) -> int:
        """Return the number of received requests."""
        return len(self.seen)

    @override
    def _next(self, request: Seen) -> Reply:
        with self._lock:
            trouble = self._troubles.get(len(self.seen))
            self.seen.append(request)
        answer = None
        if trouble is None or trouble.after or trouble.torn:
            headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
            answer = self._client.post(request.path, content=request.body, headers=headers)
        if trouble is not None and trouble.until is not None:
            trouble.until.wait()
        if trouble is None or trouble.torn:
            assert answer is not None
            return Reply(answer.status_code, answer.content, torn=trouble is not None)
        return Reply(trouble.status, trouble.body, dict(trouble.headers))

    @override
    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._client.close()
