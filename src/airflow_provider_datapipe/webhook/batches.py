"""Batching of records into request bodies. Pure: no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_datapipe.webhook.sources import Record, RecordError


class Fingerprint:
    """Hash of the records so far, which shows on a retry whether a source still starts with the same records."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, record: Record) -> None:
        """Add the next record."""
        # Without separators, because JSON objects delimit themselves.
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
    Request body with one or more records.

    :param first: number of records before the batch.
    :param records: number of records in the batch.
    :param body: request body in bytes.
    :param place: position of the first record, for messages.
    :param fingerprint: fingerprint of all records up to the end of the batch.
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
    Yield batches of records.

    :param records: the remaining records.
    :param limits: size limits of a batch.
    :param first: number of records that were sent before.
    :param fingerprint: fingerprint of the records that were sent before, which is updated.
    :raises RecordError: if a record cannot be sent. The records before it were yielded in batches.
    """
    # Bytes of the brackets, less one: each record counts one byte for a comma, and the last record has no comma.
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
            fingerprint.add(record)
    except RecordError:
        if bodies:
            yield batch()
        raise
    if bodies:
        yield batch()


def _too_large(record: Record, limits: Limits) -> RecordError:
    return RecordError(f"{record.place}: {len(record.body):,} bytes, more than max_batch_bytes ({limits.size:,}).")
