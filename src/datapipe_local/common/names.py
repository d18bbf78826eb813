"""Names derived from the text of users."""

from __future__ import annotations

import re
import unicodedata

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
