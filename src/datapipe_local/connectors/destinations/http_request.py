"""Request in flight, stored before it is sent, so that it can be repeated with the same key."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any

from datapipe_local.connectors.destinations.base import Unanswered, as_json, from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.connectors.destinations.base import Progress, Record

Json = dict[str, Any]


class UnderWay:
    """
    Request in flight and its idempotency key.

    An endpoint that honors keys executes a repeated request only once. Therefore, after a kill, a request is repeated
    with the same records and the same key. Every later request has another key, even with the same content, because the
    endpoint may have changed in between.

    :param sync_id: The sync.
    :param progress: The progress of this run and of earlier runs.
    """

    def __init__(self, sync_id: str, progress: Progress) -> None:
        self._sync_id = sync_id
        self._note = progress.note
        if progress.checkpoint is not None:
            self._state: Json = json.loads(progress.checkpoint)
            return
        left = None if progress.before is None else json.loads(progress.before)["request"]
        if left is not None:
            left["of_failed_run"] = True
        # Another home, or the same home after a reset, can send the same content on purpose.
        self._state = {"salt": uuid.uuid4().hex, "number": 0, "request": left}

    def checkpoint(self) -> str:
        """Return the checkpoint."""
        return json.dumps(self._state)

    def left(self) -> Unanswered | None:
        """Return the records of the request in flight; None if there is none."""
        request = self._state["request"]
        if request is None:
            return None
        return Unanswered(from_json(request["records"]), request["is_deletion"], request["of_failed_run"])

    def begin(self, records: Sequence[Record], *, is_deletion: bool) -> tuple[str, bool]:
        """
        Store a request before it is sent.

        :return: The key, and True if the request may have been sent before.
        """
        before = self._state["request"]
        content = as_json(records)
        if before is not None and (before["records"], before["is_deletion"]) == (content, is_deletion):
            return str(before["key"]), True
        self._state["number"] += 1
        about = [self._state["salt"], self._state["number"], self._sync_id, is_deletion, content]
        key = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]
        self._state["request"] = {"key": key, "records": content, "is_deletion": is_deletion, "of_failed_run": False}
        self._note(self.checkpoint())
        return key, False

    def end(self) -> None:
        """Mark the request as answered. The caller stores that together with the results."""
        self._state["request"] = None

    def forget(self) -> None:
        """Mark the request as not executed, and store that."""
        self.end()
        self._note(self.checkpoint())
