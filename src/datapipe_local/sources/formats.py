"""The formats of files: how they are recognised, and which options their readers take."""

from pathlib import PurePath
from typing import Any

from pydantic import field_validator

from datapipe_local.strict import Strict


class CsvOptions(Strict):
    """Options of DuckDB's ``read_csv`` that change how a file is read, never which rows of it."""

    all_varchar: bool | None = None
    comment: str | None = None
    dateformat: str | None = None
    decimal_separator: str | None = None
    delim: str | None = None
    encoding: str | None = None
    escape: str | None = None
    header: bool | None = None
    max_line_size: int | None = None
    null_padding: bool | None = None
    nullstr: str | list[str] | None = None
    quote: str | None = None
    sample_size: int | None = None
    skip: int | None = None
    strict_mode: bool | None = None
    thousands: str | None = None
    timestampformat: str | None = None
    types: dict[str, str] | None = None

    @field_validator("nullstr")
    @classmethod
    def _has_text(cls, value: str | list[str] | None) -> str | list[str] | None:
        """Raise if the list is empty, which DuckDB refuses."""
        if value == []:
            raise ValueError("the list is empty: list at least one text, or omit the option")
        return value


class JsonLinesOptions(Strict):
    """Options of DuckDB's ``read_json`` for one record per line."""

    columns: dict[str, str] | None = None
    dateformat: str | None = None
    maximum_depth: int | None = None
    maximum_object_size: int | None = None
    sample_size: int | None = None
    timestampformat: str | None = None


class ParquetOptions(Strict):
    """Options of DuckDB's ``read_parquet``."""

    binary_as_string: bool | None = None


class Format:
    """
    A format of files.

    :param reader: DuckDB's reader.
    :param options: The options that may be given.
    :param fixed: Options that are always given.
    """

    def __init__(self, reader: str, options: type[Strict], fixed: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self._options = options
        self._fixed = fixed or {}

    def check(self, options: dict[str, Any]) -> dict[str, Any]:
        """
        Check options.

        :raises pydantic.ValidationError: one is unknown or of the wrong type.
        :return: What the reader is to be given.
        """
        return {**self._fixed, **self._options.model_validate(options).model_dump(exclude_none=True)}


CSV = Format("read_csv", CsvOptions)
JSON_LINES = Format("read_json", JsonLinesOptions, {"format": "newline_delimited"})
PARQUET = Format("read_parquet", ParquetOptions)

FORMATS = {"csv": CSV, "jsonl": JSON_LINES, "parquet": PARQUET}
_PACKED = frozenset({".zip", ".gz"})
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def format_of(name: str) -> str | None:
    """Return the format of a file by its name, without ``.zip`` or ``.gz``; None if the name does not show it."""
    return _SUFFIXES.get(_unpacked(name).suffix.lower())


def stem_of(name: str) -> str:
    """Give the name of a file without what tells its format."""
    return _unpacked(name).stem


def _unpacked(name: str) -> PurePath:
    path = PurePath(name)
    return path.with_suffix("") if path.suffix.lower() in _PACKED else path
