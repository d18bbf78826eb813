"""Example of an operator, which tests run in every way that Airflow supports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """
    Example of an operator that changes something.

    Each example has its own resources in the seed, so that all can run in any order and concurrently.

    :param name: the task ID.
    :param expected: the minimum content of its result.
    :param again: the minimum content of the result of a repetition; None if the repetition fails.
    :param mapped: the argument for task mapping; None for the first.
    """

    name: str
    operator: type[Any]
    arguments: dict[str, Any]
    expected: dict[str, Any] = field(default_factory=dict)
    again: dict[str, Any] | None = None
    mapped: str | None = None

    @property
    def mapped_argument(self) -> str:
        """Return the name of the argument for task mapping."""
        return self.mapped or next(iter(self.arguments))
