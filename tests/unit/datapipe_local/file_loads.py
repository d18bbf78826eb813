"""Loads of files into a warehouse, without a service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datapipe_local.connectors.sources.base import Need
from datapipe_local.connectors.sources.files import FileOrigin, FilesSource
from datapipe_local.warehouse.loading.load_options import LoadOptions, Run
from datapipe_local.warehouse.loading.table_loader import LoadFacts, TableLoader
from datapipe_local.warehouse.warehouse import Place, Warehouse

PLACE = Place("raw", "things")
FACTS = LoadFacts(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE")
#: A full load without options.
PLAIN = (LoadOptions(), FACTS)


def lines(*rows: Any) -> str:
    """Return JSON lines. A text is a line as it is."""
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


class FileLoads:
    """
    Loads of the files of a folder into one table.

    :param options: Options of the stream. With a pointer, all loads but the first are incremental.
    """

    def __init__(self, folder: Path, warehouse: Warehouse, options: LoadOptions | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.options = options or LoadOptions()
        self._warehouse = warehouse
        self._runs = 0

    def load(self, need: Need | None = None, while_open: Callable[[], object] = lambda: None, **origin: Any) -> int:
        """Load the files of an origin, and return the number of rows. ``while_open`` is called while they are open."""
        self._runs += 1
        run = Run(f"run{self._runs}", f"2026-01-01T00:00:{self._runs:02}")
        loader, scratch = TableLoader(self._warehouse), self._warehouse.scratch
        load = loader.load_new_rows if self.options.pointer and self._runs > 1 else loader.load_all_rows
        wanted = FileOrigin(**origin).model_dump(exclude_none=True)
        try:
            with FilesSource({"path": str(self.folder)}).fetch(wanted, scratch, need or Need()) as fetched:
                while_open()
                return load(PLACE, fetched.scan, self.options, FACTS._replace(run=run))
        finally:
            assert list(scratch.glob("tmp*")) == [], "unpacked files are left"

    def load_text(self, name: str, content: str) -> int:
        """Replace a file, and load it."""
        (self.folder / name).write_text(content)
        return self.load(file=name)

    def rows(self, columns: str = "*", place: Place = PLACE) -> list[tuple[Any, ...]]:
        with self._warehouse.cursor() as cursor:
            return cursor.execute(f"SELECT {columns} FROM {place.sql} ORDER BY ALL").fetchall()  # noqa: S608 - fixed names of the test

    def types(self) -> dict[str, str]:
        return {column.name: column.type for column in self._warehouse.columns(f"FROM {PLACE.sql}")}
