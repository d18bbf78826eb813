"""Clock that tests can set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import BadRequestError
from datapipe_local.storage.clock import Clock, Timestamp

if TYPE_CHECKING:
    from datapipe_local.storage.store import Store

_SETTING = "control.clock"
#: The year has four digits in all of these times.
_EARLIEST, _LATEST = "1970-01-01T00:00:00.000Z", "2200-01-01T00:00:00.000Z"


class StoredClock(Clock):
    """
    Clock of the machine until it is set; then it stands still. The time is in the store and survives a restart.

    :param store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moment: Timestamp | None = None
        self.reload()

    @property
    def is_set(self) -> bool:
        """True if the clock shows another time than the machine's."""
        return self._moment is not None

    def now(self) -> Timestamp:
        """Return the current time. SQL functions call this: it must not use the store."""
        return self._moment or super().now()

    def set(self, moment: Timestamp | None) -> None:
        """
        Set the time and stop the clock.

        :param moment: The time; ``None`` returns to the machine's time.
        :raises BadRequestError: the time is out of range.
        """
        if moment is not None and not _EARLIEST <= moment <= _LATEST:
            raise BadRequestError(f"The clock goes from {_EARLIEST} to {_LATEST}: give a time between them.")
        self._store.set(_SETTING, moment)
        self._moment = moment

    def reload(self) -> None:
        """Read the time again, after others have changed the store."""
        self._moment = self._store.setting(_SETTING, None)
