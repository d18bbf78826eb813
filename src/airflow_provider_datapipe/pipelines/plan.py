"""
Plans of changes and reports about applied changes, as text and as JSON.

This module does not depend on the kinds of resources.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.resources.differences import FieldChange

#: Values of the field ``format``.
PLAN_FORMAT, REPORT_FORMAT = "datapipe-plan", "datapipe-report"
VERSION = 1


class PlanNotEmptyError(DatapipeError):
    """The plan contains changes, but none were expected."""


class Action(StrEnum):
    """Planned action for a resource."""

    CREATE = "create"
    UPDATE = "update"
    #: The definition is current, but the object in the warehouse is not.
    PUBLISH = "publish"
    DELETE = "delete"
    NONE = "none"


class Result(StrEnum):
    """Result of an action."""

    CREATED = "created"
    UPDATED = "updated"
    PUBLISHED = "published"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    #: Not done, because a dependency failed.
    SKIPPED = "skipped"


_BAD = frozenset({Result.FAILED, Result.SKIPPED})


@dataclass(frozen=True, slots=True)
class Item:
    """
    A resource, and the planned action for it.

    :param kind: kind of the resource, such as ``transform``.
    :param name: name that identifies it, such as ``sales/orders``.
    :param action: the planned action.
    :param changes: the fields that differ.
    :param diff: unified diff of a long text, such as SQL, as lines.
    :param reason: short reason of the action, if the fields do not show it.
    :param orphan: True if the service has the resource, but the files do not.
    """

    kind: str
    name: str
    action: Action
    changes: tuple[FieldChange, ...] = ()
    diff: tuple[str, ...] = ()
    reason: str = ""
    orphan: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the item as JSON, without empty fields."""
        given: dict[str, Any] = {"kind": self.kind, "name": self.name, "action": str(self.action)}
        if self.changes:
            given["changes"] = [{"field": each.field, "old": each.old, "new": each.new} for each in self.changes]
        if self.diff:
            given["diff"] = list(self.diff)
        if self.reason:
            given["reason"] = self.reason
        if self.orphan:
            given["orphan"] = True
        return given


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Planned actions, in the order in which they are applied.

    :param items: all resources, including those without changes.
    :param warnings: warnings for the user.
    """

    items: tuple[Item, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Item, ...]:
        """Items whose action is not ``none``."""
        return tuple(item for item in self.items if item.action is not Action.NONE)

    @property
    def orphans(self) -> tuple[Item, ...]:
        """Orphans that are not deleted."""
        return tuple(item for item in self.items if item.orphan and item.action is Action.NONE)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "format": PLAN_FORMAT,
            "version": VERSION,
            "changed": bool(self.changes),
            "counts": {str(action): sum(item.action is action for item in self.items) for action in Action},
            "items": [item.as_json() for item in self.items],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class ReportItem:
    """
    Result of one resource.

    :param kind: kind of the resource.
    :param name: name that identifies it.
    :param result: the result.
    :param error: reason why it failed or was skipped.
    """

    kind: str
    name: str
    result: Result
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """
    Results of applied changes.

    :param items: a result for each resource, in the order in which the changes were applied.
    :param warnings: warnings for the user.
    """

    items: tuple[ReportItem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """True if any resource failed or was skipped."""
        return any(item.result in _BAD for item in self.items)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "format": REPORT_FORMAT,
            "version": VERSION,
            "failed": self.failed,
            "counts": {str(result): sum(item.result is result for item in self.items) for result in Result},
            "items": [
                {"kind": item.kind, "name": item.name, "result": str(item.result), "error": item.error}
                for item in self.items
            ],
            "warnings": list(self.warnings),
        }


def differing_lines(old: str, new: str) -> tuple[str, ...]:
    """Return a unified diff of two texts, from the service to the files."""
    # Split at line feeds only: names and literals can contain other characters that Python treats as line ends.
    before, after = (text.split("\n") if text else [] for text in (old, new))
    return tuple(difflib.unified_diff(before, after, "service", "files", lineterm=""))


def as_json_text(given: Plan | Report) -> str:
    """Return a plan or a report as the text of a JSON document."""
    return json.dumps(given.as_json(), indent=2, ensure_ascii=False) + "\n"


_SIGNS = {Action.CREATE: "+", Action.UPDATE: "~", Action.PUBLISH: "^", Action.DELETE: "-", Action.NONE: "="}
_COLORS = {Action.CREATE: "32", Action.UPDATE: "33", Action.PUBLISH: "36", Action.DELETE: "31", Action.NONE: "2"}
_PLAIN, _RED, _GREEN, _YELLOW, _FAINT = "", "31", "32", "33", "2"


def plan_text(plan: Plan, *, colored: bool = False, orphans_note: str = "Not deleted.") -> str:
    """
    Return a plan as text for users.

    :param plan: the plan.
    :param colored: if True, the text contains ANSI colors.
    :param orphans_note: sentence about orphans that are not deleted.
    """
    lines: list[str] = []
    for item in plan.changes:
        reason = f" ({item.reason})" if item.reason else ""
        sign = f"{_SIGNS[item.action]} {item.action} {item.kind} {item.name}{reason}"
        lines.append(_paint(sign, _COLORS[item.action], colored=colored))
        lines += [
            _paint(f"    {each.field}: {shown(each.old)} -> {shown(each.new)}", _PLAIN, colored=colored)
            for each in item.changes
        ]
        lines += [_paint(f"    {line}", _color_of(line), colored=colored) for line in item.diff]
    if plan.orphans:
        lines.append(f"Orphans (in the service, but not in the files): {len(plan.orphans)}. {orphans_note}")
        lines += [_paint(f"    ? {item.kind} {item.name}", _YELLOW, colored=colored) for item in plan.orphans]
    lines += [_paint(f"Warning: {each}", _YELLOW, colored=colored) for each in plan.warnings]
    counts = Counter(item.action for item in plan.changes)
    reported = [f"{counts[action]} to {action}" for action in Action if counts[action]]
    lines.append(f"{', '.join(reported)}." if reported else "Nothing to do.")
    return "\n".join(lines) + "\n"


def report_text(report: Report, *, colored: bool = False) -> str:
    """
    Return a report as text for users, with a line for each resource that is not unchanged.

    :param report: the report.
    :param colored: if True, the text contains ANSI colors.
    """
    lines = []
    for item in report.items:
        if item.result is Result.UNCHANGED:
            continue
        color = _RED if item.result is Result.FAILED else _YELLOW if item.result is Result.SKIPPED else _GREEN
        reason = f": {item.error}" if item.error else ""
        lines.append(_paint(f"{item.result} {item.kind} {item.name}{reason}", color, colored=colored))
    lines += [_paint(f"Warning: {each}", _YELLOW, colored=colored) for each in report.warnings]
    counts = Counter(item.result for item in report.items)
    reported = [f"{counts[result]} {result}" for result in Result if counts[result]]
    lines.append(f"{', '.join(reported)}." if reported else "Nothing to do.")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """Return the value of a field as one line of JSON, which distinguishes text from other types."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _color_of(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return _FAINT
    return _GREEN if line.startswith("+") else _RED if line.startswith("-") else _PLAIN


def _paint(line: str, color: str, *, colored: bool) -> str:
    safe = printable(line.replace("\n", "\\n"))
    return f"\x1b[{color}m{safe}\x1b[0m" if colored and color else safe


def printable(text: str) -> str:
    """Return text with escaped control characters, except tabs and line feeds: others could control a terminal."""
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character in "\t\n" or character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def combined_plans(plans: Sequence[Plan]) -> Plan:
    """Return the concatenation of plans."""
    return Plan(
        tuple(item for plan in plans for item in plan.items), tuple(each for plan in plans for each in plan.warnings)
    )


def combined_reports(reports: Sequence[Report]) -> Report:
    """Return the concatenation of reports."""
    return Report(
        tuple(item for each in reports for item in each.items),
        tuple(warning for each in reports for warning in each.warnings),
    )
