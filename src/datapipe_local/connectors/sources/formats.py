"""File formats: recognition by name, and options of their readers."""

from pathlib import PurePath
from typing import Any

from pydantic import field_validator

from datapipe_local.common.base_model import Strict


class CsvOptions(Strict):
    """Options of DuckDB's ``read_csv`` that change the interpretation of a file, never the selection of rows."""

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
    File format.

    :param reader: DuckDB's reader.
    :param options: The model of the options that users can set.
    :param fixed: Options that are always set.
    """

    def __init__(self, reader: str, options: type[Strict], fixed: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self._options = options
        self._fixed = fixed or {}

    def check(self, options: dict[str, Any]) -> dict[str, Any]:
        """
        Check options, and return all options for the reader.

        :raises pydantic.ValidationError: an option is unknown or has the wrong type.
        :return: The options for the reader.
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
    """Return the name of a file without the extensions that show its format."""
    return _unpacked(name).stem


def extensions_of(name: str) -> str:
    """Return the extensions of a file that can show its format, such as ``.csv`` or ``.csv.gz``."""
    path = PurePath(name)
    return "".join(path.suffixes[-2:] if path.suffix.lower() in _PACKED else path.suffixes[-1:])


def _unpacked(name: str) -> PurePath:
    path = PurePath(name)
    return path.with_suffix("") if path.suffix.lower() in _PACKED else path
