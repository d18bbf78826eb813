"""Markdown tables, and their places in pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Marker after a table of a page.
TABLE_END = "<!-- end of table -->\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def with_table(page: str, begin: str, text: str) -> str:
    """
    Return a page with a new table between its markers.

    :param begin: the marker before the table.
    :raises ValueError: if the page has no such markers, or several.
    """
    before, found, rest = page.partition(begin)
    _, end, after = rest.partition(TABLE_END)
    if not found or not end or begin in after:
        raise ValueError(f"The page needs one pair of markers: {begin.strip()} and {TABLE_END.strip()}")
    return f"{before}{begin}\n{text}\n{TABLE_END}{after}"


def number(value: float | None, digits: int = 1) -> str:
    """Format a number with a limited number of decimal places, without insignificant digits."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        digits = 0
    return f"{value:,.{digits}f}"


def beside(ours: float | None, others: Iterable[float | None]) -> str:
    """Format our value as a share of the best other one. Empty if one of them is missing or zero."""
    there = [other for other in others if other is not None]
    if not there or not ours or min(there) <= 0 or ours < 0:
        return ""
    times = min(there) / ours
    if times < 1:
        return f" ({1 / times:.1f} times)"
    return f" (1/{times:,.0f})" if times >= 10 else f" (1/{times:.1f})"
