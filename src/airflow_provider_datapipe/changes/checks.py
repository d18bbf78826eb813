"""What checks make of the rows of a query: as Airflow's SQL check operators do. Pure."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, one_line

#: The most characters of a query that a message shows.
_SHOWN = 300


class CheckFailedError(DatapipeError):
    """The data is not as a check wants it."""


def first_row(sql: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """
    Give the first row of a query.

    :raises CheckFailedError: it has none.
    """
    if not rows:
        raise CheckFailedError(f"The following query returned zero rows: {_short(sql)}")
    return rows[0]


def check_truth(sql: str, row: dict[str, Any]) -> None:
    """
    See to it that every value of a row is true, in the sense of Python.

    A text that is a number counts as that number: services send exact decimals as text.

    :raises CheckFailedError: one is not, such as 0, an empty text or null.
    """
    false = [name for name, value in row.items() if not _number(value)]
    if false:
        raise CheckFailedError(f"The check failed: {_values(row, false)} of {_short(sql)}")


def check_value(sql: str, row: dict[str, Any], pass_value: Any, tolerance: float | None) -> None:
    """
    See to it that every value of a row is a certain one.

    :param sql: the query.
    :param row: its first row.
    :param pass_value: the value; one that is a number, or the text of one, is compared as a number.
    :param tolerance: by which part of it a number may be off; None for not at all.
    :raises CheckFailedError: one is another.
    """
    wanted = _number(str(pass_value))
    if not isinstance(wanted, float):
        wrong = [name for name, value in row.items() if str(value) != wanted]
        within = ""
    else:
        margin = abs(wanted) * (tolerance or 0)
        wrong = [name for name, value in row.items() if not _is_within(value, wanted - margin, wanted + margin)]
        within = f" within {tolerance:.1%}" if tolerance is not None else ""
    if wrong:
        raise CheckFailedError(
            f"The check failed: {_values(row, wrong)} should be {str(pass_value)!r}{within}: {_short(sql)}"
        )


def tolerance_of(value: Any) -> float | None:
    """
    Read a tolerance.

    :raises ValueError: it is no number of 0 or more.
    """
    read = _number(value)
    if read is None or (isinstance(read, float) and read >= 0):
        return read
    raise ValueError(f"tolerance must be a number of 0 or more, such as 0.05, not {value!r}")


def bound(field: str, value: Any) -> float | str:
    """
    Read a threshold: a number, or the SQL of a query for one.

    :raises ValueError: it is neither.
    """
    read = _number(value)
    if isinstance(read, float | str) and read != "":
        return read
    raise ValueError(f"{field} must be a number or SQL, not {value!r}")


def number_of(field: str, sql: str, row: dict[str, Any]) -> float:
    """
    Read the first value of a row as a number.

    :raises CheckFailedError: it is none.
    """
    value = next(iter(row.values()), None)
    read = _number(value)
    if not isinstance(read, float):
        raise CheckFailedError(f"The check failed: {field} is {value!r}, and no number: {_short(sql)}")
    return read


def check_threshold(sql: str, value: float, least: float, most: float) -> None:
    """
    See to it that a number lies between two others, or is one of them.

    :raises CheckFailedError: it does not.
    """
    if not least <= value <= most:
        raise CheckFailedError(f"The check failed: {value:g} is not between {least:g} and {most:g}: {_short(sql)}")


def _number(value: Any) -> Any:
    """Read what may be a number; anything else stays as it is."""
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _is_within(value: Any, least: float, most: float) -> bool:
    read = _number(value)
    return isinstance(read, float) and least <= read <= most


def _values(row: dict[str, Any], names: list[str]) -> str:
    return one_line(", ".join(f"{name} = {row[name]!r}" for name in names), longest=_SHOWN)


def _short(sql: str) -> str:
    return one_line(sql, longest=_SHOWN)
