"""
Comparison of a resource with its desired state, for plans, `apply` and operators that update existing resources.

Only given fields are compared. The flows of each resource send the fields that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_datapipe.resources.comparable import NOT_SHOWN, UNKNOWN, Schedule

#: Replaces the value of a setting in plans, because it can be secret.
MASK = "***"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """
    Change of a field.

    :param field: its name.
    :param old: current value on the service; any JSON value, but never a secret.
    :param new: desired value.
    """

    field: str
    old: Any
    new: Any


def same_json(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal. Unlike in Python, true differs from 1, and false from 0."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_json, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


@dataclass(slots=True)
class Differences:
    """
    Differences between a resource and its desired state.

    :param changes: the fields that differ.
    :param impossible: reasons for those changes that the interface does not support.
    :param hidden: True if the desired state has fields that the service never shows.
    :param unknown: fields that can't be compared, because the service does not show them now.
    """

    changes: list[FieldChange] = field(default_factory=list)
    impossible: list[str] = field(default_factory=list)
    hidden: bool = False
    unknown: list[FieldChange] = field(default_factory=list)

    def __contains__(self, name: object) -> bool:
        """Return True if a field differs. ``settings`` matches any setting."""
        return any(each.field == name or each.field.startswith(f"{name}.") for each in self.changes)

    def compare(self, name: str, old: Any, new: Any) -> None:
        """Add a field if it differs."""
        if not same_json(old, new):
            self.changes.append(FieldChange(name, old, new))

    def compare_schedule(self, name: str, shown: Schedule, new: str | None) -> None:
        """Add a schedule if it differs, or to the unknown fields if it can't be compared."""
        if shown is UNKNOWN:
            self.unknown.append(FieldChange(name, NOT_SHOWN, new))
        else:
            self.compare(name, shown, new)

    def add_unknown(self, *, resend: bool = False) -> None:
        """
        Add the unknown fields to the changes, if another change is sent to the same resource anyway.

        :param resend: add them in any case.
        """
        others = sum(each.field != "enabled" for each in self.changes) - len(self.impossible)
        if resend or others > 0:
            self.changes += self.unknown
            self.unknown = []

    def refuse(self, name: str, old: Any, new: Any, why: str) -> None:
        """Add a field that cannot be changed if it differs."""
        if not same_json(old, new):
            self.changes.append(FieldChange(name, old, new))
            self.impossible.append(f"{name}: {why}")

    def compare_settings(self, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> None:
        """Add the settings that differ, without their values."""
        before = old or {}
        for key in sorted(before.keys() | new.keys()):
            if key not in before or key not in new or not same_json(before[key], new[key]):
                masked = [MASK if key in each else None for each in (before, new)]
                self.changes.append(FieldChange(f"settings.{key}", *masked))
