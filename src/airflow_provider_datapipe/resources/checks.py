"""Checks of the rows of a query, as in Airflow's SQL check operators. No I/O."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, one_line

#: Maximum length of a query in a message, in characters.
_SHOWN = 300
#: Arithmetic with more digits than the decimals of any service have, and without limits of the exponent.
_EXACT = Context(prec=200, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


class CheckFailedError(DatapipeError):
    """The data does not pass a check."""


def first_row(sql: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """
    Return the first row of a query.

    :raises CheckFailedError: if the query has no rows.
    """
    if not rows:
        raise CheckFailedError(f"The following query returned zero rows: {_short(sql)}")
    return rows[0]


def check_truth(sql: str, row: dict[str, Any]) -> None:
    """
    Check that all values of a row are true, as Python's ``bool`` defines it.

    Text that is a number counts as that number: services return exact decimals as text.

    :raises CheckFailedError: if a value is false, such as 0, an empty text or null.
    """
    false = [name for name, value in row.items() if not _number(value)]
    if false:
        raise CheckFailedError(f"The check failed: {_values(row, false)} of {_short(sql)}")


def check_value(sql: str, row: dict[str, Any], pass_value: Any, tolerance: Decimal | None) -> None:
    """
    Check that all values of a row equal a value.

    :param sql: the query.
    :param row: its first row.
    :param pass_value: the expected value. Numbers, and text that is a number, are compared as numbers.
    :param tolerance: relative tolerance of numbers, such as 0.05 for 5%; None for none.
    :raises CheckFailedError: if a value differs.
    """
    wanted = _number(str(pass_value))
    if not isinstance(wanted, Decimal):
        wrong = [name for name, value in row.items() if str(value) != wanted]
        within = ""
    else:
        wrong = [name for name, value in row.items() if not _is_within(value, wanted, tolerance or Decimal())]
        within = f" within {tolerance:.1%}" if tolerance is not None else ""
    if wrong:
        raise CheckFailedError(
            f"The check failed: {_values(row, wrong)} should be {str(pass_value)!r}{within}: {_short(sql)}"
        )


def tolerance_of(value: Any) -> Decimal | None:
    """
    Parse a tolerance.

    :raises ValueError: if it is neither None nor a finite number of 0 or more.
    """
    read = _number(value)
    if read is None or (isinstance(read, Decimal) and read.is_finite() and read >= 0):
        return read
    raise ValueError(f"tolerance must be a number of 0 or more, such as 0.05, not {value!r}")


def bound(field: str, value: Any) -> Decimal | str:
    """
    Parse a threshold: a number, or the SQL of a query that returns a number.

    :raises ValueError: if it is neither.
    """
    read = _number(value)
    if isinstance(read, Decimal | str) and read != "":
        return read
    raise ValueError(f"{field} must be a number or SQL, not {value!r}")


def number_of(field: str, sql: str, row: dict[str, Any]) -> Decimal:
    """
    Parse the first value of a row as a number.

    :raises CheckFailedError: if it is not a number.
    """
    value = next(iter(row.values()), None)
    read = _number(value)
    if not isinstance(read, Decimal):
        raise CheckFailedError(f"The check failed: {field} is {value!r}, not a number: {_short(sql)}")
    return read


def check_threshold(sql: str, value: Decimal, least: Decimal, most: Decimal) -> None:
    """
    Check that a number lies between two limits, inclusive.

    :raises CheckFailedError: if it does not.
    """
    if not least <= value <= most:
        raise CheckFailedError(f"The check failed: {value:g} is not between {least:g} and {most:g}: {_short(sql)}")


def _number(value: Any) -> Any:
    """Return a Decimal if the value is a number or the text of a number. Return NaN and other values unchanged."""
    # Python accepts underscores between digits, but services and SQL do not.
    if "_" in (text := str(value)):
        return value
    try:
        read = Decimal(int(value)) if isinstance(value, bool) else Decimal(text)
    except InvalidOperation:
        return value
    return value if read.is_nan() else read


def _is_within(value: Any, wanted: Decimal, tolerance: Decimal) -> bool:
    read = _number(value)
    if not (isinstance(read, Decimal) and read.is_finite() and wanted.is_finite()):
        return bool(read == wanted)
    return _EXACT.subtract(read, wanted).copy_abs() <= _EXACT.multiply(wanted.copy_abs(), tolerance)


def _values(row: dict[str, Any], names: list[str]) -> str:
    return one_line(", ".join(f"{name} = {row[name]!r}" for name in names), longest=_SHOWN)


def _short(sql: str) -> str:
    return one_line(sql, longest=_SHOWN)
