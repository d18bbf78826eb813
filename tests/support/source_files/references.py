"""Reference readers: the tables that Python's csv and json modules find in a file, with strict settings."""

from __future__ import annotations

import csv
import io
import json
from functools import lru_cache
from typing import Any

from tests.support.source_files.cases import MalformedError, Number, Table

#: Size of the largest field in the cases.
_FIELD_LIMIT = 1 << 26


def csv_records(text: str, **dialect: Any) -> list[list[str]]:
    """
    Return the records of a CSV file. A blank line is an empty record.

    :raises MalformedError: The csv module rejects it.
    """
    csv.field_size_limit(_FIELD_LIMIT)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True, **dialect))
    except csv.Error as error:
        raise MalformedError(str(error)) from error


def csv_table(
    content: bytes,
    *,
    encoding: str = "utf-8-sig",
    header: bool = True,
    skip_blank: bool = False,
    padded: bool = False,
    null: str = "",
    **dialect: Any,
) -> Table:
    """
    Return the table of a CSV file.

    :param header: The first record has the names of the columns.
    :param skip_blank: Blank lines are no records.
    :param padded: Fields that are missing at the end of a record are null.
    :param null: The text for null, in addition to an empty field.
    :param dialect: Parameters of the csv module.
    :raises MalformedError: The records differ in width, or the csv module or the encoding rejects the file.
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise MalformedError(str(error)) from error
    records = csv_records(text, **dialect)
    if skip_blank:
        records = [record for record in records if record]
    if not records:
        raise MalformedError("The file has no record.")
    width = len(records[0])
    if padded:
        records = [record + [""] * (width - len(record)) for record in records]
    for record in records:
        if len(record) != width or not record:
            raise MalformedError(f"A record has {len(record)} fields, and not {width}: {record[:5]}.")
    rows = [[None if cell in ("", null) else cell for cell in record] for record in records[header:]]
    return Table(tuple(records[0]) if header else None, rows)


def json_value(text: str | bytes) -> Any:
    """
    Return a JSON value with numbers in their original spelling.

    :raises MalformedError: It is not JSON.
    """

    def refuse(word: str) -> None:
        raise MalformedError(f"{word} is not JSON.")

    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise MalformedError(str(error)) from error


def jsonl_table(content: bytes, *, skip_blank: bool = False) -> Table:
    """
    Return the table of a JSON Lines file: an object on each line, a column for each key.

    :param skip_blank: Blank lines are no records.
    :raises MalformedError: A line is not a JSON object.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(str(error)) from error
    objects = []
    for line in text.removesuffix("\n").split("\n"):
        if skip_blank and not line.strip(" \t\r"):
            continue
        objects.append(_json_object(line))
    if not objects:
        raise MalformedError("The file has no record.")
    columns = tuple(dict.fromkeys(key for each in objects for key in each))
    return Table(columns, [[each.get(key) for key in columns] for each in objects])


# Cached, because large files of the cases repeat lines.
@lru_cache(maxsize=40_000)
def _json_object(line: str) -> dict[str, Any]:
    value = json_value(line)
    if not isinstance(value, dict):
        raise MalformedError(f"{line[:50]} is not an object.")
    return value
