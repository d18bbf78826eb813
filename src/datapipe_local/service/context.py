"""What every rule needs at hand."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datapipe_local.clock import Clock
    from datapipe_local.store.store import Store
    from datapipe_local.warehouse import Warehouse


@dataclass(frozen=True)
class Context:
    """
    The parts of one running service.

    :param store: Its state.
    :param warehouse: Its data.
    :param clock: Its time.
    """

    store: Store
    warehouse: Warehouse
    clock: Clock
    #: Set it to have the engine look for work.
    wake: threading.Event = field(default_factory=threading.Event)
    #: Held by whoever changes what stands in the warehouse for a transform. Take it before a transaction.
    publishing: threading.RLock = field(default_factory=threading.RLock)

    @property
    def scheduling_delay(self) -> float:
        """For how many seconds a run that was asked for is not scheduled."""
        return float(self.store.setting("scheduling_delay", 0.0))

    @property
    def minimum_duration(self) -> float:
        """How many seconds a run takes at least."""
        return float(self.store.setting("minimum_duration", 0.0))
