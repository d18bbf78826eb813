"""Catalog of a folder of CSV files."""

from __future__ import annotations

from datapipe_local.connectors.destinations.csv_form import columns_of, raw_rows
from datapipe_local.connectors.destinations.jsonl_catalog import JsonLinesCatalog
from datapipe_local.connectors.destinations.settings import LONGEST_NAME, Property


class CsvCatalog(JsonLinesCatalog):
    """Catalog of a connection to a folder of CSV files: see :class:`JsonLinesCatalog`."""

    suffix = ".csv"

    def properties(self, object_type_id: str) -> list[Property]:
        """Return the columns of the file, if it exists."""
        try:
            with (self.folder / f"{object_type_id}{self.suffix}").open("rb") as file:
                names = columns_of(next(raw_rows(file), b""))
        except OSError:
            return []
        return [Property(id=name) for name in dict.fromkeys(names) if 0 < len(name) <= LONGEST_NAME]
