"""HTTP endpoint that stores objects: one collection, and one address for each object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from tests.contract.datapipe_local.partner import RecordServer

Json = dict[str, Any]
#: Returns the status with which the request of a method and a key is refused, or 0.
Refuses = Callable[[str, str], int]


class Collection(RecordServer):
    """HTTP collection. ``POST /<name>`` and ``PUT`` create or replace, ``PATCH`` and ``DELETE`` require an object."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.refuses: Refuses = lambda method, key: 0

    def reset(self, *objects: Json) -> None:
        """Replace all objects, and clear the recorded calls and refusals."""
        self.objects = {str(one["id"]): one for one in objects}
        self.calls.clear()
        self.refuses = lambda method, key: 0

    @contextmanager
    def held(self, at: Callable[[], bool] = lambda: True) -> Iterator[threading.Event]:
        """Hold requests from the first one for which ``at`` is true until the end of the block, and set the event."""
        arrived, go_on = threading.Event(), threading.Event()

        def hold(method: str, key: str) -> int:
            if at():
                arrived.set()
                assert go_on.wait(20)
            return 0

        self.refuses = hold
        try:
            yield arrived
        finally:
            self.refuses = lambda method, key: 0
            go_on.set()

    def take(self, method: str, path: str, sent: Json, key: str | None) -> tuple[int, Json]:
        path = unquote(path)
        object_key = path.removeprefix("/").partition("/")[2] or str(sent.get("id"))
        self.calls.append((method, path))
        status = self.refuses(method, object_key)
        there = self.objects.get(object_key)
        if status == 0:
            if there is None and method in ("PATCH", "DELETE"):
                status = 404
            elif method == "DELETE":
                del self.objects[object_key]
                status = 204
            else:
                self.objects[object_key] = {**(there or {}), **sent} if method == "PATCH" else sent
                status = 200 if there else 201
        return status, {"message": f"refused with {status}"}
