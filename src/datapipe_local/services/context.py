"""Context that all service functions receive."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datapipe_local.common.locks import Locks
from datapipe_local.connectors.egress import EgressRule
from datapipe_local.services.run_overrides import RunOverrides
from datapipe_local.storage.write_failures import Outage

if TYPE_CHECKING:
    from datapipe_local.storage.clock import Clock
    from datapipe_local.storage.store import Store
    from datapipe_local.warehouse.warehouse import Warehouse

#: Setting: show only the fields of the older interface description.
OLDER_DESCRIPTION = "older_description"
# Setting that the outage check writes to find out if the store is writable again.
_PROBE = "storage.probe"


@dataclass(frozen=True)
class Context:
    """
    Components of a running service.

    :param store: State in SQLite.
    :param warehouse: Data in DuckDB.
    :param clock: Clock of the service.
    :param run_overrides: Run overrides for tests.
    :param older_description: Show only the fields of the older interface description, regardless of the stored setting.
    :param http_destinations: Addresses that reverse ETL may send records to over HTTP.
    """

    store: Store
    warehouse: Warehouse
    clock: Clock
    run_overrides: RunOverrides = field(default_factory=RunOverrides)
    older_description: bool = False
    http_destinations: EgressRule = EgressRule.LOOPBACK
    #: Set this event to make the engine check for due work.
    wake: threading.Event = field(default_factory=threading.Event)
    #: Lock for changes to the warehouse objects of transforms. Acquire it before a transaction.
    publishing: threading.RLock = field(default_factory=threading.RLock)

    #: Locks per table for loading or dropping ELT tables. Acquire them before a transaction.
    loading: Locks = field(default_factory=Locks)

    #: Tracks if the store is currently not writable, for example because the disk is full.
    outage: Outage = field(init=False)

    def __post_init__(self) -> None:
        """Create the outage tracker."""

        def write() -> None:
            self.store.set(_PROBE, self.clock.now())

        # The dataclass is frozen.
        object.__setattr__(self, "outage", Outage(self.store.folder, write))

    @property
    def shows_newer_fields(self) -> bool:
        """Return True if responses contain fields that the older interface description does not declare."""
        return not (self.older_description or self.store.setting(OLDER_DESCRIPTION, default=False))

    def scheduling_delay_of(self, subject_id: str) -> float:
        """Return the scheduling delay of a requested run, in seconds."""
        return self._seconds("scheduling_delay", subject_id)

    def minimum_duration_of(self, subject_id: str) -> float:
        """Return the minimum duration of a run of the resource, in seconds."""
        return self._seconds("minimum_duration", subject_id)

    def _seconds(self, name: str, subject_id: str) -> float:
        seconds = self.run_overrides.seconds(name, subject_id)
        return float(self.store.setting(name, 0.0) if seconds is None else seconds)
