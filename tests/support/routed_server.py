"""HTTP server on loopback that answers by method and path."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from tests.support.scripted_server import Reply, ScriptedServer, Seen

#: Returns the reply to a request; None becomes a 404.
Route = Callable[[Seen], Reply | None]


class RoutedServer(ScriptedServer):
    """
    Server whose responses a function chooses.

    :param route: returns the response to a request.
    """

    def __init__(self, route: Route) -> None:
        super().__init__([])
        self._route = route

    @override
    def _next(self, request: Seen) -> Reply:
        with self._lock:
            self.seen.append(request)
            reply = self._route(request)
        return reply or Reply(404, {"error_code": "not_found", "message": f"{request.path} does not exist"})

    def count(self, method: str, path: str) -> int:
        """Return the number of received requests of a method and a path."""
        return sum(seen.method == method and seen.path.partition("?")[0] == path for seen in self.seen)
