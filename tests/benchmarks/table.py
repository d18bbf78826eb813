"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


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
