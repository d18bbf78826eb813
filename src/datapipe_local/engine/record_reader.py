"""Records made from rows of a source."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from datapipe_local.connectors.destinations.base import Record, key_value
from datapipe_local.warehouse.json_values import json_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.storage.records import Json

# Separator of the values in a record ID with several key columns.
_SEPARATOR = "|"
#: Representation of null in a record ID, different from the text "null".
_NULL = "\\N"


@dataclass(frozen=True)
class Candidate:
    """
    Row that may be sent.

    :param record: The record.
    :param digest: The digest of the record, which shows whether it has changed since it was sent.
    :param obstacle: The reason why it cannot be sent to any destination; None if it can.
    """

    record: Record
    digest: str
    obstacle: str | None = None


def candidate(mappings: Sequence[Json], row: Sequence[Any]) -> Candidate:
    """
    Return the record of a row.

    :param mappings: The mappings of the operation.
    :param row: The values of the mapped columns.
    """
    values = [_exact(value) if isinstance(value, Decimal) else json_value(value) for value in row]
    properties = {
        mapping["destination_property_id"]: key_value(value) if mapping.get("primary_key") else value
        for mapping, value in zip(mappings, values, strict=True)
    }
    digest = digest_of(properties)
    keys = [mapping for mapping in mappings if mapping.get("primary_key")]
    identity = {mapping["destination_property_id"]: properties[mapping["destination_property_id"]] for mapping in keys}
    missing = [key["source_property_id"] for key in keys if properties[key["destination_property_id"]] is None]
    obstacle = None
    if missing:
        obstacle = f"The key column {missing[0]} is null: the record has no key."
    record_id = _SEPARATOR.join(_as_text(value, alone=len(keys) == 1) for value in identity.values())
    return Candidate(Record(record_id if keys else digest, properties, identity), digest, obstacle)


def digest_of(properties: Json) -> str:
    """Return the digest of a record's properties."""
    return hashlib.sha256(json.dumps(properties, sort_keys=True).encode()).hexdigest()


def _exact(value: Decimal) -> int | float | str:
    """Return a decimal as a number if that is exact, otherwise as text, so that every digit counts as a change."""
    number = json_value(value)
    is_all = isinstance(number, int) or Decimal(repr(number)) == value
    return number if is_all else f"{value:f}"


def _as_text(value: Any, *, alone: bool) -> str:
    if value is None:
        return _NULL
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if alone and text.startswith("\\") and text.lstrip("\\") == "N":
        return f"\\{text}"
    # Without escapes, the keys (a|b, c) and (a, b|c) would be the same.
    return text if alone else text.replace("\\", "\\\\").replace(_SEPARATOR, f"\\{_SEPARATOR}")
