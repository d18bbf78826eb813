"""Names that follow from what people write."""

from __future__ import annotations

import re
import unicodedata

#: As long as a name may be (:func:`datapipe_local.service.checks.check_name`).
LONGEST_NAME = 63
#: What can't be a name: where a table ``sales.csv`` is gone, DuckDB takes that for the name of a file.
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
    Make a name of a text: ``Weekly Spend`` becomes ``weekly_spend``.

    :return: The name; empty if no letter or digit of ASCII is left of the text.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = _ELSE.sub("_", _WORD_BEGINS.sub("_", plain).lower()).strip("_")
    if name[:1].isdigit():
        name = f"n_{name}"
    return f"{name}_data" if name in FILE_ENDINGS else name[:LONGEST_NAME].rstrip("_")


def numbered(name: str, number: int) -> str:
    """Give a name with a number behind it, within the bound."""
    tail = f"_{number}"
    return f"{name[: LONGEST_NAME - len(tail)].rstrip('_')}{tail}"
