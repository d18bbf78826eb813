"""One use of an operator, which tests run in every way that Airflow knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """
    One use of an operator that changes something.

    Each has resources of its own in the seed, so that all can run in any order, and beside each other.

    :param name: its task id.
    :param operator: the operator's class.
    :param arguments: its arguments.
    :param expected: what its result has to hold, at the least.
    :param again: what the result has to hold when the same is run once more; None where that is an error.
    :param mapped: which of the arguments is to be mapped over; None for the first.
    """

    name: str
    operator: type[Any]
    arguments: dict[str, Any]
    expected: dict[str, Any] = field(default_factory=dict)
    again: dict[str, Any] | None = None
    mapped: str | None = None

    @property
    def mapped_argument(self) -> str:
        """The argument to map over."""
        return self.mapped or next(iter(self.arguments))
