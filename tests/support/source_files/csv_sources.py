"""Builders of CSV cases: valid files, malformed ones, and those on which readers differ."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tests.support.source_files.cases import Case, Table
from tests.support.source_files.references import MalformedError, csv_table

HEADER = "id,name,amount"
#: More rows than the reader takes into its sample.
MANY = 25_000


def row(number: int) -> str:
    return f"{number},n{number},{number}.5"


def lines(count: int, **others: str) -> list[str]:
    """Return a header and rows, some of which are replaced: ``line7`` is line 7 of the file."""
    found = [HEADER, *map(row, range(2, count + 1))]
    for name, other in others.items():
        found[int(name.removeprefix("line")) - 1] = other
    return found


def joined(parts: Iterable[str], newline: str = "\n") -> str:
    return "".join(f"{part}{newline}" for part in parts)


def table(columns: Sequence[str] | None, *rows: Sequence[str | None]) -> Table:
    return Table(None if columns is None else tuple(columns), rows)


def valid(
    name: str,
    content: str | bytes,
    *,
    file: str = "data.csv",
    options: Mapping[str, Any] | None = None,
    expected: Table | None = None,
    before: str | bytes | None = None,
    **reading: Any,
) -> Case:
    """Return a case whose rows must be loaded: the expected ones, or those that the csv module finds."""
    found = expected or csv_table(_bytes(content), **reading)
    return _case(name, content, (found,), False, file=file, options=options, before=before, **reading)


def malformed(
    name: str,
    content: str | bytes,
    *,
    at: int | Collection[int] = (),
    why: str = "",
    file: str = "data.csv",
    options: Mapping[str, Any] | None = None,
    before: str | bytes | None = None,
    **reading: Any,
) -> Case:
    """Return a case that must fail: the csv module must find no table either, unless there is another reason."""
    try:
        csv_table(_bytes(content), **reading)
    except MalformedError:
        pass
    else:
        assert why, f"{name}: the csv module finds a table"
    at = [at] if isinstance(at, int) else at
    return _case(name, content, (), True, at=at, why=why, file=file, options=options, before=before, **reading)


def ambiguous(
    name: str,
    content: str | bytes,
    *tables: Table | None,
    why: str,
    may_fail: bool = True,
    at: Collection[int] = (),
    file: str = "data.csv",
    options: Mapping[str, Any] | None = None,
    before: str | bytes | None = None,
    **reading: Any,
) -> Case:
    """Return a case on which readers differ: each of the tables is acceptable, or that of the csv module."""
    found = tuple(each for each in tables if each is not None) or (csv_table(_bytes(content), **reading),)
    return _case(name, content, found, may_fail, at=at, why=why, file=file, options=options, before=before, **reading)


def _case(
    name: str,
    content: str | bytes,
    tables: tuple[Table, ...],
    may_fail: bool,
    *,
    at: Collection[int] = (),
    why: str = "",
    file: str,
    options: Mapping[str, Any] | None,
    before: str | bytes | None,
    **reading: Any,
) -> Case:
    if before is None:
        before = _valid_before(tables, **reading)
    return Case(
        name=f"csv_{name}",
        file=file,
        content=_bytes(content),
        valid=_bytes(before),
        tables=tables,
        may_fail=may_fail,
        lines=at,
        why=why,
        origin={"options": dict(options)} if options else {},
    )


def _valid_before(
    tables: tuple[Table, ...],
    *,
    encoding: str = "utf-8",
    header: bool = True,
    skip_blank: bool = False,
    padded: bool = False,
    null: str = "",
    **dialect: Any,
) -> bytes:
    """Return a valid file with the columns of the case."""
    columns = HEADER.split(",")
    if tables and (named := tables[0].columns or (tables[0].rows and tables[0].rows[0])):
        columns = [str(name) for name in named]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", **dialect)
    if header:
        writer.writerow(columns)
    writer.writerows([f"before {number}" for _ in columns] for number in (1, 2))
    return out.getvalue().encode(encoding)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
