"""Delivery of records to a destination, with storage of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        for part in _parts(candidates, self.destination.batch_size):
            left = part
            while left:
                self._stop.check()
                outcomes = self.destination.send([each.record for each in left])
                self.ledger.sent(left[: len(outcomes)], outcomes, self.destination.checkpoint())
                left = left[len(outcomes) :]

    def delete(self, records: Sequence[Record]) -> None:
        """
        Delete records.

        :raises RunError: the destination accepts no more records.
        """
        for part in _parts(records, self.destination.batch_size):
            left = part
            while left:
                self._stop.check()
                outcomes = self.destination.delete(left)
                self.ledger.deleted(left[: len(outcomes)], outcomes, self.destination.checkpoint())
                left = left[len(outcomes) :]


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
