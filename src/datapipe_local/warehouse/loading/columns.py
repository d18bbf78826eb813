"""Column names of a source, compared with protected columns and with the table of the previous load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_SHOWN = 5
_LONGEST_NAME = 60


class ColumnsError(WarehouseError):
    """Error for columns of a source that do not allow the load. The message names the columns and the remedy."""


def missing(wanted: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return the wanted names that are not present, without regard to case."""
    known = {name.casefold() for name in present}
    return [name for name in dict.fromkeys(wanted) if name.casefold() not in known]


def check_protected(protected: Collection[str], present: Iterable[str], where: str) -> None:
    """
    Raise if a protected column is missing: its values may be in a column with another name.

    The message does not contain the columns that are present: without a header, their names are values.

    :param protected: The excluded and the hashed columns.
    :param present: The columns of the source.
    :param where: The source, or one file of it.
    :raises ColumnsError: A protected column is missing.
    """
    lacking = missing(protected, present)
    if lacking:
        raise ColumnsError(
            f"{where} has no column {shown(lacking)}, which is protected by `excluded_columns` or `hashed_columns`."
            " Restore the column at the top level of the source, or remove it from these options"
        )


def possible_duplicates(protected: Iterable[str], present: Iterable[str]) -> list[str]:
    """
    Return the unprotected columns that can be a second column of a protected name.

    DuckDB appends a number to a name that occurs twice, with or without regard to case: ``email_1`` for ``Email``.
    """
    names = {name.casefold() for name in protected}
    found = []
    for name in present:
        stem, _, number = name.casefold().rpartition("_")
        if number.isdecimal() and stem in names and name.casefold() not in names:
            found.append(name)
    return found


def check_renamed(before: Collection[str], now: Collection[str], *, hide_names: bool) -> None:
    """
    Raise if no column of the previous load is left.

    :param before: The columns of the table.
    :param now: The columns of the source, before any is excluded.
    :param hide_names: Leave the new names out of the message: they can be values of protected columns.
    :raises ColumnsError: No name is in both.
    """
    if len(missing(before, now)) < len(set(before)):
        return
    found = f"{len(now)} others" if hide_names else shown(now)
    raise ColumnsError(
        f"no column of the previous load is left: it had {shown(before)}, and the source now has {found}."
        " Restore the header, or request a full refresh of the stream to accept the new columns"
    )


def shown(names: Collection[str]) -> str:
    """Return the first names as text."""
    first = [repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…") for name in list(names)[:_SHOWN]]
    rest = len(names) - len(first)
    return ", ".join(first) + (f" and {rest} more" if rest else "")
