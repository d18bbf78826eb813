"""What the answer to a batch says of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from datapipe_local.destinations.base import Record

LONGEST_REASON = 300


def refused(answer: httpx.Response, records: Sequence[Record]) -> dict[int, str] | None:
    """
    Tell which records of a batch were refused, by their place in it, and why.

    The body names them in ``errors``: a list of objects with ``index``, the place in the array, or ``record_id``, the
    record's key as text, and ``message``. Without ``errors``, or if that is empty, none is named.

    :param answer: The answer.
    :param records: The batch.
    :return: ``None`` if there are errors, and it cannot be told of which records.
    """
    try:
        body = answer.json()
    except ValueError:
        return {}
    errors = body.get("errors") if isinstance(body, dict) else None
    if not errors:
        return {}
    if not isinstance(errors, list):
        return None
    places = {record.record_id: place for place, record in enumerate(records)}
    found: dict[int, str] = {}
    for error in errors:
        place = _place(error, places) if isinstance(error, dict) else None
        if place is None or not 0 <= place < len(records):
            return None
        message = error.get("message")
        said = " ".join(message.split()) if isinstance(message, str) else ""
        found[place] = said[:LONGEST_REASON] or "The endpoint gave no reason."
    return found


def _place(error: dict[str, Any], places: dict[str, int]) -> int | None:
    index, record_id = error.get("index"), error.get("record_id")
    if type(index) is int:
        return index
    return None if record_id is None else places.get(str(record_id))
