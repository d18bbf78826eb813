"""Names derived from the text of users."""

from __future__ import annotations

import re
import unicodedata
from itertools import chain, count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

#: Largest length of a name (:func:`datapipe_local.services.checks.check_name`).
LONGEST_NAME = 63
#: Refused names: if a table ``sales.csv`` does not exist, DuckDB reads a file of that name.
FILE_ENDINGS = frozenset(
    [
        "arrow",
        "arrows",
        "avro",
        "csv",
        "feather",
        "gz",
        "json",
        "jsonl",
        "ndjson",
        "parquet",
        "shp",
        "tsv",
        "xlsx",
        "zst",
    ]
)
_ELSE = re.compile(r"[^a-z0-9]+")
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(text: str) -> str:
    """
    Return a name made from a text: ``Weekly Spend`` becomes ``weekly_spend``.

    :return: The name; empty if the text has no ASCII letter or digit.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = _ELSE.sub("_", _WORD_BEGINS.sub("_", plain).lower()).strip("_")
    if name[:1].isdigit():
        name = f"n_{name}"
    return f"{name}_data" if name in FILE_ENDINGS else name[:LONGEST_NAME].rstrip("_")


def numbered(name: str, number: int) -> str:
    """Return a name with a number appended, within the length limit."""
    tail = f"_{number}"
    return f"{name[: LONGEST_NAME - len(tail)].rstrip('_')}{tail}"


def free_name(taken: Container[str], wanted: str, *others: str) -> str:
    """Return the first of the names that is not taken in lower case; if all are taken, the wanted one with a number."""
    numbers = (numbered(wanted, number) for number in count(2))
    return next(name for name in chain([wanted, *others], numbers) if name.lower() not in taken)
