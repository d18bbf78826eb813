"""Relations for CSV files: the dialect comes from the first record, the types from DuckDB."""

from __future__ import annotations

import codecs
import gzip
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from datapipe_local.warehouse.loading import csv_encoding, csv_exact, csv_lines
from datapipe_local.warehouse.loading.csv_dialect import CsvDialect, DialectError, detect
from datapipe_local.warehouse.loading.types import common_type
from datapipe_local.warehouse.statements import StructureError
from datapipe_local.warehouse.warehouse import Scan, WarehouseError, literal, number, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_READER = "read_csv"
_SAMPLE_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_TEXT = "VARCHAR"
#: Types of CSV values, without times and booleans.
_NUMBERS_AND_TEXT = ["BIGINT", "BIGNUM", "DOUBLE", "VARCHAR"]
#: Options of the type detection, from the least to the most careful. For DuckDB, days in several formats, and booleans
#: among numbers, are errors instead of text.
_CARE: tuple[dict[str, Any], ...] = (
    {},
    {"sample_size": -1},
    {"sample_size": -1, "auto_type_candidates": ["BOOLEAN", *_NUMBERS_AND_TEXT]},
    {"sample_size": -1, "auto_type_candidates": _NUMBERS_AND_TEXT},
)
#: Options that only the type detection accepts.
_FOR_DETECTION = frozenset({"all_varchar", "types", "sample_size", "union_by_name"})
_BOM = "\ufeff"
#: Encodings of DuckDB's reader.
_ENCODINGS = ("utf-8", "utf-16", "latin-1")
#: Options that are single characters.
_CHARACTERS = ("comment", "escape", "quote")
_FORMATS = ("dateformat", "timestampformat")
#: Types of the columns that have a format.
_TIMES = {"dateformat": ("DATE",), "timestampformat": ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")}


@dataclass(frozen=True)
class _File:
    """CSV file, its dialect, and the types of its columns."""

    path: Path
    dialect: CsvDialect
    types: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)


class _Attempt(NamedTuple):
    """
    One of several attempts to find types that fit.

    :param care: The options of the type detection; None to read all columns as text.
    :param is_exact: An additional pass finds the columns whose type changes a value. They become text.
    :param is_parallel: DuckDB reads parts of a file in parallel. It can then mistake quoted text for the end of a
        record.
    """

    care: Mapping[str, Any] | None
    is_exact: bool = False
    is_parallel: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """The options of the reader."""
        return {} if self.is_parallel else {"parallel": False}


def is_csv(scan: Scan) -> bool:
    """Return True if DuckDB reads the files as CSV."""
    return scan.reader == _READER


def relations_of(cursor: duckdb.DuckDBPyConnection, scan: Scan, text: Collection[str] = ()) -> list[Callable[[], str]]:
    """
    Return functions for the relations of CSV files, each with types that accept more values than the previous ones.

    All have the same structure. The last one is read by one thread: see
    :class:`~datapipe_local.warehouse.loading.csv_errors.MisreadError`. Types are not detected twice if the user sets
    ``sample_size`` or ``all_varchar``.

    :param cursor: The cursor that reads.
    :param scan: The files.
    :param text: The columns, in lower case, that become text whatever their values are.
    :raises WarehouseError: The structure of a file cannot be determined.
    """
    files = [_File(path, dialect_of(scan, path)) for path in scan.paths]
    known = {name.lower() for file in files for name in file.dialect.names}
    unknown = [name for name in scan.options.get("types", {}) if name.lower() not in known]
    if unknown:
        raise WarehouseError(f"there is no column {unknown[0][:100]!r}, which the option `types` names")
    # The first attempt is fast, and fails if a type may change a value.
    attempts = [
        _Attempt(_CARE[0]),
        *(_Attempt(care, is_exact=True) for care in _CARE[1:]),
        _Attempt(None),
        _Attempt(_CARE[1], is_exact=True, is_parallel=False),
    ]
    if scan.options.get("all_varchar"):
        attempts = [_Attempt(None), _Attempt(None, is_parallel=False)]
    elif "sample_size" in scan.options:
        attempts = [_Attempt({}), _Attempt({}, is_exact=True), _Attempt({}, is_exact=True, is_parallel=False)]
    return [partial(_relation, cursor, scan, files, text, attempt) for attempt in attempts]


@contextmanager
def verified(cursor: duckdb.DuckDBPyConnection, readable: object) -> Iterator[None]:
    """
    Verify CSV files while the ``with`` block reads them: DuckDB accepts rows with extra fields that are null.

    Such a row can have an unquoted delimiter in a value, which moves the following values to wrong columns.

    :param cursor: The cursor that reads.
    :param readable: The source. Only CSV files are verified.
    :raises StructureError: A row has more fields than the header.
    """
    if not isinstance(readable, Scan) or not is_csv(readable) or _is_lenient(readable):
        yield
        return
    stop = Event()
    with ThreadPoolExecutor(1) as executor:
        search = executor.submit(_with_extra_fields, readable, stop)
        try:
            yield
        except BaseException:
            stop.set()
            raise
        found = search.result()
    for path, dialect in found:
        _check_width(cursor, readable, path, dialect)


def _is_lenient(scan: Scan) -> bool:
    return bool(scan.options.get("null_padding")) or scan.options.get("strict_mode") is False


def _with_extra_fields(scan: Scan, stop: Event) -> list[tuple[Path, CsvDialect]]:
    encoding, comment, nulls = encoding_of(scan), comment_of(scan), nulls_of(scan)
    files = ((path, dialect_of(scan, path)) for path in scan.paths)
    return [
        (path, dialect)
        for path, dialect in files
        if csv_lines.ExtraFields(dialect, encoding, nulls, comment).occur_in(path, stop)
    ]


def _check_width(cursor: duckdb.DuckDBPyConnection, scan: Scan, path: Path, dialect: CsvDialect) -> None:
    # With an additional column, only rows with extra fields are complete.
    columns = dict.fromkeys((*dialect.names, _unused(dialect.names)), _TEXT)
    wider = _scan(scan, [_File(path, dialect)], columns, ignore_errors=True)
    if not number(cursor.execute(f"SELECT count(*) FROM {wider}")):  # noqa: S608 - quoted names
        return
    found = csv_lines.first_other_width(path, dialect, encoding_of(scan), comment_of(scan))
    line, fields = (f"line {found.line}", str(found.fields)) if found else ("a line", "more")
    raise StructureError(
        f"{scan.prefix_of(path)}{line} has {fields} fields instead of {len(dialect.names)}: remove the delimiters at"
        " its end, or set the option `null_padding`"
    )


def comment_of(scan: Scan) -> str | None:
    """Return the character that starts a comment; None if there is none."""
    return scan.options.get("comment") or None


def nulls_of(scan: Scan) -> list[str]:
    """Return the words for null that the user sets."""
    nulls = scan.options.get("nullstr", [])
    return [nulls] if isinstance(nulls, str) else nulls


def encoding_of(scan: Scan) -> str:
    """Return the encoding of the files."""
    return str(scan.options.get("encoding") or "utf-8")


def _unused(names: tuple[str, ...]) -> str:
    return "_" * (1 + max(map(len, names)))


def columns_of(scan: Scan) -> list[tuple[str, ...]]:
    """
    Return the columns of each file.

    :param scan: The files.
    :raises WarehouseError: The structure of a file cannot be determined.
    """
    return [dialect_of(scan, path).names for path in scan.paths]


def dialect_of(scan: Scan, path: Path) -> CsvDialect:
    """
    Return the dialect of a file.

    :param scan: The files.
    :param path: The file.
    :raises WarehouseError: The structure of the file cannot be determined.
    """
    for option in _CHARACTERS:
        if len(scan.options.get(option) or "") > 1:
            raise StructureError(f"the option `{option}` is not one character: correct it")
    try:
        text, is_whole = _beginning(path, scan.options.get("encoding"))
        return detect(text, scan.options, is_whole=is_whole)
    except DialectError as error:
        raise StructureError(f"{scan.prefix_of(path)}line {error.line}: {error}") from error
    except (OSError, EOFError) as error:
        raise WarehouseError(f"{path} cannot be read: {error}") from error


def _beginning(path: Path, encoding: str | None) -> tuple[str, bool]:
    """
    Return the beginning of a file as text, and whether it is the whole file.

    :raises DialectError: The file has another encoding.
    :raises StructureError: The encoding is not supported.
    """
    if encoding and encoding.lower() not in _ENCODINGS:
        raise StructureError(
            f"the encoding {encoding[:100]!r} is not supported: set the option `encoding` to one of"
            f" {', '.join(_ENCODINGS)}, or save the file as UTF-8"
        )
    with path.open("rb") as file:
        magic = file.read(len(_GZIP))
    with gzip.open(path) if magic == _GZIP else path.open("rb") as file:
        content = file.read(_SAMPLE_BYTES + 1)
    is_whole = len(content) <= _SAMPLE_BYTES
    if encoding and encoding.lower() == "utf-16" and _is_big_endian(content):
        # DuckDB's reader finds no rows in such a file.
        raise DialectError(1, "the file is UTF-16 in big-endian byte order: save it as UTF-8")
    try:
        decoded = content.decode(encoding or "utf-8", "strict" if is_whole else "ignore")
    except UnicodeDecodeError as error:
        found = csv_encoding.unreadable(path, encoding or "utf-8")
        if found.line in (None, 1):
            raise DialectError(1, f"the line {found.reason}") from error
        decoded = content[: error.start].decode(encoding or "utf-8", "ignore")
        # DuckDB reports the line.
        is_whole = False
    return decoded.removeprefix(_BOM), is_whole


def _is_big_endian(content: bytes) -> bool:
    """Return True if UTF-16 text has a big-endian byte order mark, or starts with a Latin character in that order."""
    return content.startswith((codecs.BOM_UTF16_BE, b"\0"))


def _relation(
    cursor: duckdb.DuckDBPyConnection, scan: Scan, files: list[_File], text: Collection[str], attempt: _Attempt
) -> str:
    typed = [_typed(cursor, scan, file, text, attempt.care) for file in files]
    if len(typed) > 1:
        typed = _with_common_types(cursor, typed)
    if attempt.is_exact:
        typed = [_exact(cursor, scan, file, attempt) for file in typed]
        typed = _with_common_types(cursor, typed)
    groups: dict[tuple[Any, ...], list[_File]] = {}
    for file in typed:
        groups.setdefault((file.dialect, file.types, tuple(file.formats.items())), []).append(file)
    parts = [_read(scan, group, attempt) for group in groups.values()]
    if len(parts) == 1:
        return parts[0]
    return f"({' UNION ALL BY NAME '.join(f'FROM {part}' for part in parts)})"


def _with_common_types(cursor: duckdb.DuckDBPyConnection, files: list[_File]) -> list[_File]:
    """Return the files with one common type per column name: values are not converted after they are read."""
    wanted: dict[str, str] = {}
    for file in files:
        for name, kind in zip(file.dialect.names, file.types, strict=True):
            wanted[name.lower()] = common_type(cursor, wanted.get(name.lower(), kind), kind)
    return [replace(file, types=tuple(wanted[name.lower()] for name in file.dialect.names)) for file in files]


def _exact(cursor: duckdb.DuckDBPyConnection, scan: Scan, file: _File, attempt: _Attempt) -> _File:
    """Return the file with text as the type of each column whose detected type changes a value."""
    # Types that the user's sample determines must fit all values.
    guards = _guards(scan, file, "trim({})", finds_misfits="sample_size" not in scan.options)
    if not guards:
        return file
    kinds = dict(zip(file.dialect.names, file.types, strict=True))
    conditions = ", ".join(f"bool_or({guards[name]})" for name in guards)
    as_text = dict.fromkeys(kinds, _TEXT)
    rows = _scan(scan, [file], as_text, **attempt.options)
    row = cursor.execute(f"SELECT {conditions} FROM {rows}").fetchone()  # noqa: S608 - quoted names
    kinds |= {name: _TEXT for name, changed in zip(guards, row or (), strict=False) if changed}
    return replace(file, types=tuple(kinds.values()))


def _guards(scan: Scan, file: _File, text: str = "{}", *, finds_misfits: bool = False) -> dict[str, str]:
    """
    Return the conditions under which the detected types of columns change a value.

    :param text: The SQL of a column's text, with a placeholder for its name.
    :param finds_misfits: See :func:`.csv_exact.changes`.
    """
    given = {name.lower() for name in scan.options.get("types", {})}
    formats, marks = _formats(scan, file), _marks(scan)
    found = {
        name: csv_exact.changes(text.format(quoted(name)), kind, formats, marks, finds_misfits=finds_misfits)
        for name, kind in zip(file.dialect.names, file.types, strict=True)
        if name.lower() not in given
    }
    return {name: condition for name, condition in found.items() if condition is not None}


def _formats(scan: Scan, file: _File) -> dict[str, str]:
    return {**{name: scan.options[name] for name in _FORMATS if name in scan.options}, **file.formats}


def _marks(scan: Scan) -> csv_exact.Marks:
    return csv_exact.Marks(scan.options.get("decimal_separator") or ".", scan.options.get("thousands") or "")


def _typed(
    cursor: duckdb.DuckDBPyConnection, scan: Scan, file: _File, text: Collection[str], care: Mapping[str, Any] | None
) -> _File:
    """Return the file with the types of its columns: those that the user sets, otherwise those that DuckDB detects."""
    names = file.dialect.names
    given = {name.lower(): kind for name, kind in scan.options.get("types", {}).items()}
    found = dict.fromkeys(names, _TEXT)
    formats: dict[str, str] = {}
    if care is not None:
        detected = _detected(cursor, scan, file, care)
        if detected is not None:
            types, formats = detected
            found = dict(zip(names, types, strict=True))
            for option, times in _TIMES.items():
                # The century is unknown.
                if "%y" in formats.get(option, ""):
                    found |= {name: _TEXT for name, kind in found.items() if kind in times}
                    del formats[option]
    kinds = (given.get(name.lower()) or (_TEXT if name.lower() in text else kind) for name, kind in found.items())
    return replace(file, types=tuple(kinds), formats=formats)


def _detected(
    cursor: duckdb.DuckDBPyConnection, scan: Scan, file: _File, care: Mapping[str, Any]
) -> tuple[list[str], dict[str, str]] | None:
    """Return the types and time formats that DuckDB detects; None if it finds a malformed row."""
    options = {name: value for name, value in scan.options.items() if name not in _FOR_DETECTION - {"sample_size"}}
    # Without the option, DuckDB detects a comment character.
    arguments = _arguments({"comment": "", **options, **_pinned(file.dialect), **care})
    path = literal(str(file.path))
    query = f"SELECT Columns, DateFormat, TimestampFormat FROM sniff_csv({path}, {arguments})"  # noqa: S608 - quoted names
    apart = cursor.cursor()
    try:
        # A separate cursor: an error must not abort the transaction.
        row = apart.execute(query).fetchone()
    except duckdb.InvalidInputException:
        return None
    finally:
        apart.close()
    if row is None or len(row[0]) != len(file.dialect.names):
        return None
    formats = {
        name: found
        for name, found in zip(_FORMATS, row[1:], strict=True)
        if found is not None and name not in scan.options
    }
    return [str(column["type"]) for column in row[0]], formats


def _pinned(dialect: CsvDialect) -> dict[str, Any]:
    return {
        "delim": dialect.delimiter,
        "quote": dialect.quote,
        "escape": dialect.escape,
        "header": dialect.has_header,
        # DuckDB does not count comments.
        "skip": dialect.skip - dialect.skipped_comments,
    }


def _read(scan: Scan, files: list[_File], attempt: _Attempt) -> str:
    first = files[0]
    columns = dict(zip(first.dialect.names, first.types, strict=True))
    guards = {} if attempt.is_exact else _guards(scan, first)
    if not guards:
        return _scan(scan, files, columns, **attempt.options)
    formats, marks = _formats(scan, first), _marks(scan)
    shown = ", ".join(
        csv_exact.checked(name, kind, guards[name], formats, marks) if name in guards else quoted(name)
        for name, kind in columns.items()
    )
    read = {name: csv_exact.read_as(kind, marks) if name in guards else kind for name, kind in columns.items()}
    return f"(SELECT {shown} FROM {_scan(scan, files, read, **attempt.options)})"  # noqa: S608 - quoted names


def _scan(scan: Scan, files: list[_File], columns: Mapping[str, str], **more: Any) -> str:
    first = files[0]
    options = {name: value for name, value in scan.options.items() if name not in _FOR_DETECTION}
    strict: dict[str, Any] = {"strict_mode": True}
    if options.get("null_padding"):
        # DuckDB cannot pad a record with a newline in quotes in parallel.
        strict["parallel"] = False
    strict |= options | _pinned(first.dialect) | dict(first.formats)
    where = [str(file.path) for file in files]
    arguments = _arguments({**strict, **more, "auto_detect": False, "columns": columns})
    return f"{_READER}({literal(where[0] if len(where) == 1 else where)}, {arguments})"


def _arguments(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {literal(value)}" for name, value in options.items())
