"""Error about the structure of a file."""

from __future__ import annotations

from datapipe_local.warehouse.warehouse import WarehouseError


class StructureError(WarehouseError):
    """Malformed file, or file with an unclear structure. The message has the line and the remedy, and no values."""
