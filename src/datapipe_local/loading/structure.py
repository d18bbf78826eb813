"""Error about the structure of a file."""

from __future__ import annotations

from datapipe_local.warehouse import WarehouseError


class StructureError(WarehouseError):
    """A file is malformed, or its structure is unclear. The message states the line and the remedy, and no values."""
