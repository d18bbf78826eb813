"""Sources of records: given records, JSON Lines and Parquet. All are read as a stream."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from airflow_provider_datapipe.api.canonical import DEEPEST, NotCanonicalError, canonical, parse
from airflow_provider_datapipe.api.errors import ConfigurationError, InvalidInputError

#: What ends the names of files -> the format that they are taken to have.
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
# No line has more bytes: what has is no JSON Lines, and would fill the memory.
_LONGEST_LINE = 64 << 20
_ROWS_AT_A_TIME = 1000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """
    One record.

    :param place: where it stands, for people.
    :param body: its canonical JSON.
    """

    place: str
    body: bytes


#: Opens a source at its beginning, as often as it is called.
Source: TypeAlias = Callable[[], Generator[Record]]
Opener: TypeAlias = Callable[[], BinaryIO]


class RecordError(InvalidInputError):
    """A record cannot be sent. The message has its position and the reason, but none of its values."""


def given(records: Iterable[Any]) -> Generator[Record]:
    """
    Read records that a task was given.

    :param records: objects as Python has them.
    :raises RecordError: one can't be sent.
    """
    for number, record in enumerate(records):
        yield _record(f"record {number}", record)


def json_lines(opener: Opener, name: str) -> Generator[Record]:
    """
    Read JSON Lines: an object in each line; empty lines are passed over.

    :param opener: opens the file.
    :param name: name of the file in messages.
    :raises RecordError: a line can't be sent.
    """
    with closing(opener()) as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            place = f"line {number} of {name}"
            if len(line) > _LONGEST_LINE:
                raise RecordError(f"{place}: it has more than {_LONGEST_LINE:,} bytes.")
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if not line.strip():
                continue
            try:
                record = parse(line)
            except NotCanonicalError as error:
                # What others know as JSON is one array, over many lines.
                hint = ": in JSON Lines each line is an object of its own" if line.lstrip().startswith(b"[") else ""
                raise RecordError(f"{place}: {error}{hint}.") from None
            yield _record(place, record)


def parquet(opener: Opener, name: str) -> Generator[Record]:
    """
    Read the rows of a Parquet file.

    :param opener: opens the file.
    :param name: name of the file in messages.
    :raises ConfigurationError: pyarrow is not installed.
    :raises RecordError: it is no such file, or a row can't be sent.
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
            # Only so it does not read a whole row group at once.
            reader = pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
            _refuse_twins(reader.schema_arrow, name)
            for batch in reader.iter_batches(batch_size=_ROWS_AT_A_TIME):
                for row in _rows(batch, name, number + 1):
                    number += 1
                    yield _record(f"row {number} of {name}", row)
        except pa.ArrowException as error:
            kind = type(error).__name__
            raise RecordError(f"{name} can't be read as Parquet after row {number} ({kind}).") from None


def _rows(batch: Any, name: str, first: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch. A value that Python cannot represent raises an error at its row."""
    names = batch.schema.names
    try:
        rows = [dict(zip(names, values, strict=True)) for values in zip(*map(_values, batch.columns), strict=True)]
    except (ArithmeticError, ValueError):
        # One by one: what is before it can be sent.
        for number in range(batch.num_rows):
            yield {
                column: _value(values.slice(number, 1), f"row {first + number} of {name}: {column}")
                for column, values in zip(names, batch.columns, strict=True)
            }
    else:
        yield from rows


def _values(column: Any) -> list[Any]:
    if str(column.type) == "time64[ns]":
        # Python has microseconds: what is finer would be lost without a word.
        column = column.cast("time64[us]")
    values: list[Any] = column.to_pylist()
    return values


def _value(column: Any, place: str) -> Any:
    try:
        (value,) = _values(column)
    except (ArithmeticError, ValueError):
        raise RecordError(
            f"{place}: a value of the type {column.type} can't be read: Python has none like it."
        ) from None
    return value


def _refuse_twins(fields: Any, name: str) -> None:
    names = [field.name for field in fields]
    for each in names:
        if names.count(each) > 1:
            raise RecordError(f"{name} has two columns of the name {each}: a record can have one.")
    for field in fields:
        if field.type.num_fields and hasattr(field.type, "fields"):
            _refuse_twins(field.type.fields, name)


def _record(place: str, record: Any) -> Record:
    if not isinstance(record, Mapping):
        raise RecordError(f"{place}: a record is an object (a dict), and this is of the type {type(record).__name__}.")
    try:
        # One level less: it may be sent in an array of several.
        return Record(place, canonical(record, deepest=DEEPEST - 1))
    except NotCanonicalError as error:
        raise RecordError(f"{place}: {error}.") from None
