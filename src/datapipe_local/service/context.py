"""What every rule needs at hand."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datapipe_local.egress import EgressRule
from datapipe_local.locks import Locks
from datapipe_local.service.script import Script
from datapipe_local.storage import Outage

if TYPE_CHECKING:
    from datapipe_local.clock import Clock
    from datapipe_local.store.store import Store
    from datapipe_local.warehouse import Warehouse

#: Name of the setting: show only the fields of the older interface description.
OLDER_DESCRIPTION = "older_description"
#: Name of the setting that is written to find out whether writes succeed again.
_PROBE = "storage.probe"


@dataclass(frozen=True)
class Context:
    """
    The parts of one running service.

    :param store: Its state.
    :param warehouse: Its data.
    :param clock: Its time.
    :param script: What its runs are told to do, by tests.
    :param older_description: Show only the fields of the older interface description, whatever the seed says.
    :param http_destinations: The addresses that records are sent to over HTTP.
    """

    store: Store
    warehouse: Warehouse
    clock: Clock
    script: Script = field(default_factory=Script)
    older_description: bool = False
    http_destinations: EgressRule = EgressRule.LOOPBACK
    #: Set it to have the engine look for work.
    wake: threading.Event = field(default_factory=threading.Event)
    #: Held by whoever changes what stands in the warehouse for a transform. Take it before a transaction.
    publishing: threading.RLock = field(default_factory=threading.RLock)

    #: By table: held by whoever loads or drops one of ELT. Take it before a transaction.
    loading: Locks = field(default_factory=Locks)

    #: The time in which the state cannot be written.
    outage: Outage = field(init=False)

    def __post_init__(self) -> None:
        """Watch the writes of the state."""

        def write() -> None:
            self.store.set(_PROBE, self.clock.now())

        # As the instance is frozen.
        object.__setattr__(self, "outage", Outage(self.store.folder, write))

    @property
    def shows_newer_fields(self) -> bool:
        """Return True if responses contain fields that the older interface description does not declare."""
        return not (self.older_description or self.store.setting(OLDER_DESCRIPTION, default=False))

    def scheduling_delay_of(self, subject_id: str) -> float:
        """For how many seconds a run of a resource that was asked for is not scheduled."""
        return self._seconds("scheduling_delay", subject_id)

    def minimum_duration_of(self, subject_id: str) -> float:
        """How many seconds a run of a resource takes at least."""
        return self._seconds("minimum_duration", subject_id)

    def _seconds(self, name: str, subject_id: str) -> float:
        told = self.script.seconds(name, subject_id)
        return float(self.store.setting(name, 0.0) if told is None else told)
