"""JSON Lines: every line that is not blank is a JSON object, and each of its fields becomes a column."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from airflow_provider_datapipe.api.models.formats import strict_json
from datapipe_local.warehouse.loading.relations import Relations
from datapipe_local.warehouse.loading.types import Typed, described
from datapipe_local.warehouse.statements import StructureError
from datapipe_local.warehouse.warehouse import NESTED, literal, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from datapipe_local.warehouse.warehouse import Scan

#: Column that DuckDB gives to pushed rows as long as none has a field.
NO_FIELDS = "json"
#: Options that make each field of a row a column, regardless of the number of fields and of their frequency.
_BY_COLUMN = {"map_inference_threshold": -1, "field_appearance_threshold": 0}
#: DuckDB's default limit of the line length. It reserves this size for each thread.
LONGEST_LINE = 1 << 24
_CHUNK = 1 << 17
#: Maps both closing brackets to one character, so that one search finds a trailing comma.
_BRACKETS = bytes.maketrans(b"]", b"}")
#: Name that DuckDB gives to a column whose key differs from another key only by case.
_NUMBERED = re.compile(r"(.+)_\d+")
#: Integer that a floating-point number may not represent, and number that JSON does not have, in compact JSON.
_LONG = r"(^|[:\[,])-?[0-9]{16,}($|[,}\]])"
_NOT_JSON = r"(^|[:\[,])-?((?i)nan|inf|infinity)($|[,}\]])"
_DATED = re.compile("DATE|TIMESTAMP")
#: Date that does not begin with a year of four digits, in compact JSON.
_SHORT_DATE = '"[0-9]{1,2}-[0-9]{1,2}-[0-9]'
_FAILURES = (
    duckdb.BinderException,
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.NotImplementedException,
    duckdb.OutOfRangeException,
)
#: Part of DuckDB's error about keys of an object that differ only by case.
_DUPLICATE = "Duplicate name"
_LINE = re.compile(r"in line (\d+)")


def relations_of(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> list[str]:
    """Return the relations of a file: with types from its beginning, then with types from all of it."""
    # Files of pushed data are already checked: they may have rows without fields, or no rows.
    fixed: dict[str, Any] = {} if is_pushed(scan) else {"records": "true"}
    if "columns" in scan.options:
        return [scan.sql(**fixed)]
    if is_pushed(scan):
        return [_pushed(cursor, scan)]
    with explained(scan):
        found = described(cursor, scan.sql())
        if len(found) == 1 and found[0].type.startswith("MAP("):
            fixed |= _BY_COLUMN
            described(cursor, scan.sql(**fixed))
    if scan.options.get("sample_size") == -1:
        return [scan.sql(**fixed)]
    return [scan.sql(**fixed), scan.sql(**fixed, sample_size=-1)]


def _pushed(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> str:
    """Return the relation of pushed data. A column is JSON if keys of an object in it differ only by case."""
    try:
        described(cursor, scan.sql())
    except duckdb.NotImplementedException as error:
        if _DUPLICATE not in str(error):
            raise
        return _mixed(cursor, scan)
    return scan.sql()


def _mixed(cursor: duckdb.DuckDBPyConnection, scan: Scan, names: Collection[str] = ()) -> str:
    """
    Return the relation of a copy of pushed data in which some columns are JSON.

    :param names: The columns, in addition to those with objects whose keys differ only by case.
    """
    wanted = {key for name in names for key in _possible_keys(name.lower())}
    query = f"SELECT json_group_structure(json) FROM {_objects(scan)}"  # noqa: S608 - quoted names
    ((structure,),) = cursor.execute(query).fetchall()
    keys: dict[str, Any] = json.loads(structure)
    marker, lowered = "__marker__", {key.lower() for key in keys}
    while marker in lowered:
        marker += "_"
    # DuckDB reads a column of nested and other values as JSON: the copy gets such a row, which is not loaded.
    mixed: dict[str, Any] = {
        key: 0 if isinstance(inner, dict | list) else []
        for key, inner in keys.items()
        if key.lower() in wanted or _is_ambiguous(inner)
    }
    (path,) = scan.paths
    copy = path.with_name("mixed.jsonl")
    shutil.copyfile(path, copy)
    with copy.open("ab") as file:
        file.write(f"{json.dumps({**mixed, marker: 0})}\n".encode())
    rows = replace(scan, path=copy).sql()
    return f"(SELECT * EXCLUDE ({marker}) FROM {rows} WHERE {marker} IS NULL)"  # noqa: S608 - a name of our own


def _possible_keys(name: str) -> Iterator[str]:
    """Yield the name of a column, and the keys from which DuckDB can have made it by appending numbers."""
    yield name
    while (match := _NUMBERED.fullmatch(name)) is not None:
        name = match[1]
        yield name


def _is_ambiguous(structure: Any) -> bool:
    """Return True if keys of an object in a structure of DuckDB differ only by case."""
    if isinstance(structure, dict):
        return _differ_by_case(structure) or any(map(_is_ambiguous, structure.values()))
    return isinstance(structure, list) and any(map(_is_ambiguous, structure))


def _differ_by_case(keys: Collection[str]) -> bool:
    return len({key.lower() for key in keys}) != len(keys)


def verified(cursor: duckdb.DuckDBPyConnection, scan: Scan, relations: Sequence[str]) -> Sequence[str]:
    """
    Return relations that load every value of a file unchanged.

    DuckDB infers types from the first rows, and converts later values without an error: it rounds 2.5 in a column of
    integers, and drops values of a column whose first rows are null. An additional pass finds such values.

    :param cursor: The cursor that reads the files.
    :param scan: The files.
    :param relations: The result of :func:`relations_of`.
    :raises StructureError: a line is not one JSON object.
    """
    with explained(scan):
        _check_commas(scan)
        if "columns" in scan.options:
            if _suspicions(cursor, scan, [Typed(*each) for each in scan.options["columns"].items()]).empty_row:
                _check_each_line(scan, only_null=True)
            return relations
        found = described(cursor, relations[0])
        if len(relations) > 1 and any(NESTED.match(kind) for _, kind in found):
            relations = relations[1:]
            found = described(cursor, relations[0])
        if not is_pushed(scan):
            _check_case(cursor, scan, found)
        suspicions = _suspicions(cursor, scan, found)
        if suspicions.empty_row and not is_pushed(scan):
            _check_each_line(scan, only_null=True)

    *first, last = relations

    def exact() -> str:
        with explained(scan):
            return _exact(cursor, scan, described(cursor, last)) or last

    # If a type changes a value, only the last relation loads all values unchanged.
    return Relations(*(partial(str, each) for each in ([] if suspicions.changed_value else first)), exact)


def is_pushed(scan: Scan) -> bool:
    """Return True for pushed data, whose lines the service has written itself."""
    return "map_inference_threshold" in scan.options


@contextmanager
def explained(scan: Scan) -> Iterator[None]:
    """
    Replace errors of DuckDB, which quote data, with errors that name the line and the reason.

    :raises StructureError: DuckDB refuses a file.
    """
    try:
        yield
    except _FAILURES as error:
        _check_each_line(scan)
        if _DUPLICATE in str(error):
            raise StructureError("keys of an object within a row differ only by case: rename one of them") from None
        if "expected records" in str(error):
            raise StructureError("no row has a field") from None
        line = _LINE.search(str(error))
        if "JSON transform error" in str(error) and line is not None:
            raise StructureError(
                f"Line {line[1]} has a value that does not fit its column: correct the line, or the option `columns`"
            ) from None
        raise


def _check_commas(scan: Scan) -> None:
    """Raise if there is a trailing comma, which DuckDB accepts and JSON does not allow."""
    for path in scan.paths:
        before = 0
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                chunk += file.readline(_longest(scan))
                if b",}" in chunk.translate(_BRACKETS, b" \t\r\n"):
                    for number, line in enumerate(chunk.split(b"\n"), before + 1):
                        if b",}" in line.translate(_BRACKETS, b" \t\r"):
                            _check_line(scan, path, number, line)
                before += chunk.count(b"\n")


class _Suspicions(NamedTuple):
    """
    Result of an additional pass over a file.

    :param changed_value: The type of a column changes a value.
    :param empty_row: A row has no value, for example a line ``null``.
    """

    changed_value: bool
    empty_row: bool


def _suspicions(cursor: duckdb.DuckDBPyConnection, scan: Scan, columns: list[Typed]) -> _Suspicions:
    checked: dict[str, list[str]] = {}
    for name, kind in columns:
        condition = _change(kind)
        if condition is not None:
            checked.setdefault(condition, []).append(name)
    # Lists of columns: DuckDB's time to plan a condition for each column grows with the square of their number.
    changes = [
        f"list_bool_or(list_transform({_texts(names)}, lambda text: {condition}))"
        for condition, names in checked.items()
    ]
    values = ", ".join(quoted(column.name) for column in columns)
    row = cursor.execute(
        f"SELECT bool_or(coalesce({' OR '.join(changes) or 'false'}, false)),"  # noqa: S608 - quoted names
        f" bool_or(coalesce({values}, NULL) IS NULL) FROM {_as_json(scan, columns)}"
    ).fetchone()
    return _Suspicions(*map(bool, row or (False, False)))


def _texts(names: Iterable[str]) -> str:
    """Return the list of the texts of columns."""
    return f"[{', '.join(quoted(name) for name in names)}]::VARCHAR[]"


def _change(kind: str) -> str | None:
    """Return the condition under which a column type changes the ``text`` of a JSON value; None if it never does."""
    # Digits and the minus sign sort between these two characters, quotes before them, words and brackets after.
    number = "text < '-' OR text > ':'"
    if kind in ("BIGINT", "HUGEINT"):
        return f"{number} OR contains(text, '.') OR (text > '-:' AND text < '.')"
    if kind == "DOUBLE":
        return (
            f"{number} OR (text > '-:' AND text < '.')"
            " OR (length(text) > 15 AND NOT contains(text, '.'))"
            " OR (contains(text, 'e') AND isinf(TRY_CAST(text AS DOUBLE)))"
        )
    if kind == "BOOLEAN":
        return "text NOT IN ('true', 'false')"
    if kind == '"NULL"':
        return "text IS NOT NULL"
    if NESTED.match(kind):
        return f"regexp_matches(text, {literal(_LONG)}) OR regexp_matches(text, {literal(_NOT_JSON)})"
    return None


def _exact(cursor: duckdb.DuckDBPyConnection, scan: Scan, columns: list[Typed]) -> str | None:
    """Return a relation that keeps all digits; None if the types of the whole file keep them."""
    checked = [column for column in columns if column.type == "DOUBLE" or NESTED.match(column.type)]
    if not checked:
        return None
    rows = cursor.execute(
        f"SELECT position, coalesce(bool_or(regexp_matches(text, {literal(_LONG)})), false),"  # noqa: S608 - quoted names
        " coalesce(bool_and(regexp_matches(text, '^-?[0-9]+$')), false),"
        f" coalesce(bool_or(regexp_matches(text, {literal(_NOT_JSON)})"
        " OR isinf(TRY_CAST(text AS DOUBLE)) AND NOT regexp_matches(text, '^-?[0-9]+$')), false)"
        f" FROM {_unnested(scan, columns, checked)} GROUP BY position"
    ).fetchall()
    if any(impossible for *_, impossible in rows):
        _check_each_line(scan)
    types: dict[str, str] = {}
    for position, long, whole, _ in rows:
        name, kind = checked[position]
        if long and kind != "JSON":
            types[name] = ("BIGNUM" if whole else "VARCHAR") if kind == "DOUBLE" else "JSON"
    if not types:
        return None
    if _differ_by_case(_keys(cursor, scan)):
        if is_pushed(scan):
            return _mixed(cursor, scan, types)
        raise StructureError("Keys differ only by case, and an integer has more than 64 bits: rename the keys")
    read = {name: "JSON" if name in types else _readable(kind) for name, kind in columns}
    read |= _ambiguous_dates(cursor, scan, columns)
    shown = [
        f"CAST(CAST({quoted(name)} AS VARCHAR) AS {types[name]}) AS {quoted(name)}"
        if name in types and types[name] != "JSON"
        else quoted(name)
        for name, _ in columns
    ]
    return f"(SELECT {', '.join(shown)} FROM {scan.sql(**_typed(read))})"  # noqa: S608 - quoted names


def _ambiguous_dates(cursor: duckdb.DuckDBPyConnection, scan: Scan, columns: list[Typed]) -> dict[str, str]:
    """Return types for the columns with dates that DuckDB reads only while it infers their format, or misreads."""
    dated = [column for column in columns if _DATED.search(column.type)]
    if not dated or not scan.options.keys().isdisjoint(("dateformat", "timestampformat")):
        return {}
    rows = cursor.execute(
        f"SELECT DISTINCT position FROM {_unnested(scan, columns, dated)}"  # noqa: S608 - quoted names
        f" WHERE regexp_matches(text, {literal(_SHORT_DATE)})"
    ).fetchall()
    found = [dated[position] for (position,) in rows]
    return {name: "JSON" if NESTED.match(kind) else "VARCHAR" for name, kind in found}


def _unnested(scan: Scan, columns: list[Typed], chosen: list[Typed]) -> str:
    """Return a relation of the JSON texts of some columns, each with the position of its column."""
    texts = f"unnest({_texts(column.name for column in chosen)}) AS text, unnest(range({len(chosen)})) AS position"
    return f"(SELECT {texts} FROM {_as_json(scan, columns)})"  # noqa: S608 - quoted names


def _readable(kind: str) -> str:
    return "VARCHAR" if kind == '"NULL"' else kind


def _as_json(scan: Scan, columns: list[Typed]) -> str:
    if is_pushed(scan) and _may_be_numbered(columns):
        # The keys of such columns have other names.
        return scan.sql(maximum_depth=1)
    return scan.sql(**_typed({column.name: "JSON" for column in columns}))


def _typed(columns: dict[str, str]) -> dict[str, Any]:
    """Return the options that read columns of given types without type inference."""
    return {"auto_detect": False, "columns": columns, "records": "true"}


def _check_case(cursor: duckdb.DuckDBPyConnection, scan: Scan, columns: list[Typed]) -> None:
    """Raise if keys differ only by case: a protected column would also be stored under another name."""
    if not _may_be_numbered(columns):
        return
    keys = sorted(_keys(cursor, scan))
    lowered: dict[str, str] = {}
    for key in keys:
        if lowered.setdefault(key.lower(), key) != key:
            raise StructureError(f"The keys {lowered[key.lower()]!r} and {key!r} differ only by case: rename one")


def _may_be_numbered(columns: list[Typed]) -> bool:
    """Return True if the name of a column can be a key with a number, because it differs from another only by case."""
    names = {name.lower() for name, _ in columns}
    return any((match := _NUMBERED.fullmatch(name)) and match[1] in names for name in names)


def _keys(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> list[str]:
    query = f"SELECT DISTINCT unnest(json_keys(json)) FROM {_objects(scan)}"  # noqa: S608 - quoted names
    return [str(row[0]) for row in cursor.execute(query).fetchall()]


def _objects(scan: Scan) -> str:
    """Return the relation of the lines of a file, each as one value in the column ``json``."""
    return scan.sql(auto_detect=False, records="false", columns={"json": "JSON"})


def _check_each_line(scan: Scan, *, only_null: bool = False) -> None:
    """Raise for the first line that is not one JSON object."""
    for path in scan.paths:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_longest(scan) + 1):
                number += 1
                if not only_null or line.strip() == b"null":
                    _check_line(scan, path, number, line)


def _check_line(scan: Scan, path: Path, number: int, line: bytes) -> None:
    reason = _fault(line, _longest(scan))
    if reason is not None:
        of = f" of {scan.name_of(path)}" if len(scan.paths) > 1 else ""
        raise StructureError(f"Line {number}{of} is not one JSON object: {reason}")


def _fault(line: bytes, longest: int) -> str | None:
    if not line.strip():
        return None
    if len(line) > longest:
        return f"it has more than {longest} bytes, `maximum_object_size`"
    if b"\0" in line:
        return "it has a NUL byte"
    try:
        value = strict_json.parse(line.strip())
    except (ValueError, RecursionError) as error:
        return str(error)
    if not isinstance(value, dict):
        kinds = {list: "an array", str: "a text", bool: "true or false", type(None): "null"}
        return f"it is {kinds.get(type(value), 'a number')}"
    return "a key is empty" if "" in value else None


def _longest(scan: Scan) -> int:
    return int(scan.options.get("maximum_object_size", LONGEST_LINE))
