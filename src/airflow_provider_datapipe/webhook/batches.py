"""Records become the bodies of requests: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_datapipe.webhook.sources import Record, RecordError


class Fingerprint:
    """Tells whether the records up to a place are still those that they were."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def take(self, record: Record) -> None:
        """Take the next record."""
        # An object ends where it ends: no other records give the same bytes.
        self._hash.update(record.body)

    def now(self) -> str:
        """Return a fingerprint of all records so far."""
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Size limits of a batch.

    :param records: maximum number of records; a batch with the limit 1 is the record itself, not an array.
    :param size: maximum size of the body in bytes.
    """

    records: int
    size: int


@dataclass(frozen=True, slots=True)
class Batch:
    """
    The body of one request.

    :param first: how many records stand before it.
    :param records: how many records it has.
    :param body: the bytes.
    :param place: where its first record stands, for people.
    :param fingerprint: that of all records up to its end.
    """

    first: int
    records: int
    body: bytes
    place: str
    fingerprint: str

    @property
    def end(self) -> int:
        """Number of records up to the end of the batch."""
        return self.first + self.records


def batches(records: Iterable[Record], limits: Limits, *, first: int, fingerprint: Fingerprint) -> Iterator[Batch]:
    """
    Put records together.

    :param records: those that are left.
    :param limits: how large a batch may be.
    :param first: how many there were before.
    :param fingerprint: that of those before; it is taken on.
    :raises RecordError: a record can't be sent; those before it have been given.
    """
    # The brackets; each record brings its comma, or the place where the last one would be.
    brackets, alone = (0, True) if limits.records == 1 else (1, False)
    bodies: list[bytes] = []
    size, place = brackets, ""

    def batch() -> Batch:
        body = bodies[0] if alone else b"[%b]" % b",".join(bodies)
        return Batch(first, len(bodies), body, place, fingerprint.now())

    try:
        for record in records:
            needed = len(record.body) + (0 if alone else 1)
            if brackets + needed > limits.size:
                raise _too_large(record, limits)
            if bodies and (len(bodies) == limits.records or size + needed > limits.size):
                yield batch()
                first, size = first + len(bodies), brackets
                bodies.clear()
            if not bodies:
                place = record.place
            bodies.append(record.body)
            size += needed
            fingerprint.take(record)
    except RecordError:
        if bodies:
            yield batch()
        raise
    if bodies:
        yield batch()


def _too_large(record: Record, limits: Limits) -> RecordError:
    return RecordError(f"{record.place}: it has {len(record.body):,} bytes, and a batch may have {limits.size:,}.")
