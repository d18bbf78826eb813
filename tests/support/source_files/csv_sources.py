"""Builder of CSV cases, and rows for them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from tests.support.source_files.cases import Builder, Table
from tests.support.source_files.references import csv_table

HEADER = "id,name,amount"
#: More rows than the reader takes into its sample.
MANY = 21_000


def row(number: int) -> str:
    return f"{number},n{number},{number}.5"


def lines(count: int, **others: str) -> list[str]:
    """Return a header and rows, some of which are replaced: ``line7`` is line 7 of the file."""
    found = [HEADER, *map(row, range(2, count + 1))]
    for name, other in others.items():
        found[int(name.removeprefix("line")) - 1] = other
    return found


def table(columns: Sequence[str] | None, *rows: Sequence[str | None]) -> Table:
    return Table(None if columns is None else tuple(columns), rows)


def _valid_file(
    tables: Sequence[Table],
    *,
    encoding: str = "utf-8",
    header: bool = True,
    padded: bool = False,
    null: str = "",
    **dialect: Any,
) -> bytes:
    columns: Sequence[Any] = HEADER.split(",")
    if tables and (named := tables[0].columns or (tables[0].rows and tables[0].rows[0])):
        columns = named
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", **dialect)
    if header:
        writer.writerow(columns)
    writer.writerows([f"before {number}" for _ in columns] for number in (1, 2))
    return out.getvalue().encode(encoding)


CSV = Builder("csv", "data.csv", csv_table, _valid_file)
valid, malformed, ambiguous, table_of = CSV.valid, CSV.malformed, CSV.ambiguous, CSV.table_of
