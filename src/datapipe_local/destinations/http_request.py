"""The request that is under way, noted before it is sent: so that it can be sent again with the same key."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any

from datapipe_local.destinations.base import Unanswered, as_json, from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.destinations.base import Progress, Record

Json = dict[str, Any]


class UnderWay:
    """
    What is sent, and its key.

    A destination that honours keys carries out what it is sent twice but once. So a request is sent again, after a
    kill, with the same records and the same key; what is sent later has another key, even if it says the same:
    something else may have been said in between.

    :param sync_id: The sync.
    :param progress: How far one got.
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
        # Two homes, or one that was emptied, say the same to one destination, and mean it.
        self._state = {"salt": uuid.uuid4().hex, "number": 0, "request": left}

    def checkpoint(self) -> str:
        """Give what is to be noted."""
        return json.dumps(self._state)

    def left(self) -> Unanswered | None:
        """Give what is under way."""
        request = self._state["request"]
        if request is None:
            return None
        return Unanswered(from_json(request["records"]), request["is_deletion"], request["of_failed_run"])

    def begin(self, records: Sequence[Record], *, is_deletion: bool) -> tuple[str, bool]:
        """
        Note that records are about to be sent.

        :return: The key, and whether they may have been sent before.
        """
        before = self._state["request"]
        said = as_json(records)
        if before is not None and (before["records"], before["is_deletion"]) == (said, is_deletion):
            return str(before["key"]), True
        self._state["number"] += 1
        about = [self._state["salt"], self._state["number"], self._sync_id, is_deletion, said]
        key = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]
        self._state["request"] = {"key": key, "records": said, "is_deletion": is_deletion, "of_failed_run": False}
        self._note(self.checkpoint())
        return key, False

    def end(self) -> None:
        """Know that it was answered. That is noted with what the answer said."""
        self._state["request"] = None

    def forget(self) -> None:
        """Note that it was not carried out, and will not be."""
        self.end()
        self._note(self.checkpoint())
