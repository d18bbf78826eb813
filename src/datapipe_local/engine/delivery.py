"""Delivery of records to a destination, with storage of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from datapipe_local.connectors.destinations.base import Destination, Record
    from datapipe_local.engine.record_ledger import Ledger
    from datapipe_local.engine.record_reader import Candidate
    from datapipe_local.engine.stop import Stop

T = TypeVar("T")


class Delivery:
    """
    Delivery of one run: one batch at a time. Its results are stored before the next batch is sent.

    :param destination: The destination.
    :param ledger: The ledger that stores the results.
    :param stop: The stop signal.
    """

    def __init__(self, destination: Destination, ledger: Ledger, stop: Stop) -> None:
        self.destination = destination
        self.ledger = ledger
        self._stop = stop

    def send(self, candidates: Sequence[Candidate]) -> None:
        """
        Send records.

        :raises RunError: the destination accepts no more records.
        """

        def send(left: Sequence[Candidate]) -> int:
            outcomes = self.destination.send([each.record for each in left])
            self.ledger.sent(left[: len(outcomes)], outcomes, self.destination.checkpoint())
            return len(outcomes)

        self._in_batches(candidates, send)

    def delete(self, records: Sequence[Record]) -> None:
        """
        Delete records.

        :raises RunError: the destination accepts no more records.
        """

        def delete(left: Sequence[Record]) -> int:
            outcomes = self.destination.delete(left)
            self.ledger.deleted(left[: len(outcomes)], outcomes, self.destination.checkpoint())
            return len(outcomes)

        self._in_batches(records, delete)

    def _in_batches(self, items: Sequence[T], deliver: Callable[[Sequence[T]], int]) -> None:
        """Deliver items in batches. ``deliver`` returns the number of items that it has delivered."""
        size = self.destination.batch_size
        for start in range(0, len(items), size):
            left = items[start : start + size]
            while left:
                self._stop.check()
                left = left[deliver(left) :]
