"""Sources of records: objects in memory, JSON Lines and Parquet. All are read as a stream."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from airflow_provider_datapipe.api.canonical import NotCanonicalError, canonical, parse
from airflow_provider_datapipe.api.errors import ConfigurationError, InvalidInputError
from airflow_provider_datapipe.api.models.formats.strict_json import DEEPEST

#: File formats by file name suffix.
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
# Maximum size of a line in bytes, to limit the memory for files that are not JSON Lines.
_LONGEST_LINE = 64 << 20
_ROWS_AT_A_TIME = 1000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """
    Serialized record of a source.

    :param place: position of the record in its source, for messages.
    :param body: canonical JSON of the record.
    """

    place: str
    body: bytes


#: Function that opens a source at its beginning. It can be called repeatedly.
Source: TypeAlias = Callable[[], Generator[Record]]
Opener: TypeAlias = Callable[[], BinaryIO]


class RecordError(InvalidInputError):
    """Error of a record that cannot be sent. The message has its position and the reason, but none of its values."""


def given(records: Iterable[Any]) -> Generator[Record]:
    """
    Yield records from Python objects.

    :param records: the objects, as mappings.
    :raises RecordError: if a record cannot be sent.
    """
    for number, record in enumerate(records):
        yield _record(f"record {number}", record)


def json_lines(opener: Opener, name: str) -> Generator[Record]:
    """
    Yield the records of a JSON Lines file, which has one object per line. Empty lines are ignored.

    :param opener: function that opens the file.
    :param name: name of the file in messages.
    :raises RecordError: if a line cannot be sent.
    """
    with closing(opener()) as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            place = f"line {number} of {name}"
            if len(line) > _LONGEST_LINE:
                raise RecordError(f"{place}: longer than {_LONGEST_LINE:,} bytes.")
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if not line.strip():
                continue
            try:
                record = parse(line)
            except NotCanonicalError as error:
                # A common mistake is a JSON file with one array.
                hint = ". A JSON Lines file has one object per line" if line.lstrip().startswith(b"[") else ""
                raise RecordError(f"{place}: {error}{hint}.") from None
            yield _record(place, record)


def parquet(opener: Opener, name: str) -> Generator[Record]:
    """
    Yield the rows of a Parquet file.

    :param opener: function that opens the file.
    :param name: name of the file in messages.
    :raises ConfigurationError: if pyarrow is not installed.
    :raises RecordError: if the file is not a Parquet file, or if a row cannot be sent.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
        from pyarrow import parquet as pq
    except ImportError:
        raise ConfigurationError(
            f"{name} is a Parquet file, and pyarrow is not installed: pip install 'airflow-provider-datapipe[parquet]'."
        ) from None
    with closing(opener()) as file:
        number = 0
        try:
            # These options prevent pyarrow from reading a whole row group at once.
            reader = pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
            _refuse_duplicate_columns(reader.schema_arrow, name)
            for batch in reader.iter_batches(batch_size=_ROWS_AT_A_TIME):
                for row in _rows(batch, name, number + 1):
                    number += 1
                    yield _record(f"row {number} of {name}", row)
        except (pa.ArrowException, OSError) as error:
            # pyarrow raises a plain OSError for damaged data. Errors of the storage have a number or a subclass.
            if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
                raise
            kind = "damaged data" if isinstance(error, OSError) else type(error).__name__
            raise RecordError(f"{name} cannot be read as Parquet after row {number} ({kind}).") from None


def _rows(batch: Any, name: str, first: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch. A value that Python cannot represent raises an error at its row."""
    names = batch.schema.names
    try:
        rows = [dict(zip(names, values, strict=True)) for values in zip(*map(_values, batch.columns), strict=True)]
    except (ArithmeticError, ValueError):
        # Convert row by row, so that the rows before the invalid one can be sent.
        for number in range(batch.num_rows):
            yield {
                # Not a slice, because a cast of a slice converts the values of all rows.
                column: _value(values.take([number]), f"row {first + number} of {name}: {column}")
                for column, values in zip(names, batch.columns, strict=True)
            }
    else:
        yield from rows


def _values(column: Any) -> list[Any]:
    # Raise for values finer than microseconds, which Python would truncate silently, or read only with pandas.
    coarser = _in_microseconds(column.type)
    values: list[Any] = (column if coarser == column.type else column.cast(coarser)).to_pylist()
    return values


def _in_microseconds(kind: Any) -> Any:
    """Return a type of Parquet with microseconds instead of nanoseconds, also in nested types."""
    import pyarrow as pa

    if getattr(kind, "unit", None) == "ns" and not pa.types.is_duration(kind):
        return pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(_in_microseconds(kind.value_type))
        if pa.types.is_large_list(kind):
            return pa.large_list(item)
        return pa.list_(item, kind.list_size if pa.types.is_fixed_size_list(kind) else -1)
    return kind


def _value(column: Any, place: str) -> Any:
    try:
        (value,) = _values(column)
    except (ArithmeticError, ValueError):
        raise RecordError(
            f"{place}: a value of type {column.type} cannot be read, because Python has no equivalent type."
        ) from None
    return value


def _refuse_duplicate_columns(fields: Any, name: str) -> None:
    names = [field.name for field in fields]
    for each in names:
        if names.count(each) > 1:
            raise RecordError(f"{name} has two columns named {each}. Column names must be unique.")
    for field in fields:
        if field.type.num_fields and hasattr(field.type, "fields"):
            _refuse_duplicate_columns(field.type.fields, name)


def _record(place: str, record: Any) -> Record:
    if not isinstance(record, Mapping):
        raise RecordError(f"{place}: a record must be an object (dict), not {type(record).__name__}.")
    try:
        # One level less, because the record may be sent in an array.
        return Record(place, canonical(record, deepest=DEEPEST - 1))
    except NotCanonicalError as error:
        raise RecordError(f"{place}: {error}.") from None
