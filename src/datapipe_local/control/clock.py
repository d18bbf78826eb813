"""A clock that tests set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.clock import Clock, Timestamp
from datapipe_local.errors import BadRequestError

if TYPE_CHECKING:
    from datapipe_local.store.store import Store

_SETTING = "control.clock"
#: Times are written with four digits for the year, also a century later.
_EARLIEST, _LATEST = "1970-01-01T00:00:00.000Z", "2200-01-01T00:00:00.000Z"


class StoredClock(Clock):
    """
    The machine's clock, until it is set; then it stands still. It is in the store, so that a restart does not move it.

    :param store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moment: Timestamp | None = None
        self.reload()

    @property
    def is_set(self) -> bool:
        """Whether it tells another time than the machine's."""
        return self._moment is not None

    def now(self) -> Timestamp:
        """Tell the time. SQL asks, too: it must not use the store."""
        return self._moment or super().now()

    def set(self, moment: Timestamp | None) -> None:
        """
        Have it stand still.

        :param moment: Where; ``None`` has it tell the machine's time again.
        :raises BadRequestError: that is too far away.
        """
        if moment is not None and not _EARLIEST <= moment <= _LATEST:
            raise BadRequestError(f"The clock goes from {_EARLIEST} to {_LATEST}: give a time between them.")
        self._store.set(_SETTING, moment)
        self._moment = moment

    def reload(self) -> None:
        """Tell what the store says, after that was changed by others."""
        self._moment = self._store.setting(_SETTING, None)
