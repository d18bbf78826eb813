"""
What would have to be done, and what was done, so that a service holds what files say: as text and as JSON.

Nothing here knows what kinds of things there are.
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

#: What the JSON says that it is.
PLAN_FORMAT, REPORT_FORMAT = "datapipe-plan", "datapipe-report"
VERSION = 1


class PlanNotEmptyError(DatapipeError):
    """There is something to do, and nothing was to be."""


class Action(StrEnum):
    """What has to be done to one thing."""

    CREATE = "create"
    UPDATE = "update"
    #: Its definition is as it should be; what stands in the warehouse is not.
    PUBLISH = "publish"
    DELETE = "delete"
    NONE = "none"


class Result(StrEnum):
    """What became of it."""

    CREATED = "created"
    UPDATED = "updated"
    PUBLISHED = "published"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    #: Not done, because something that it needs failed.
    SKIPPED = "skipped"


_BAD = frozenset({Result.FAILED, Result.SKIPPED})


@dataclass(frozen=True, slots=True)
class FieldChange:
    """
    A field that is to be another.

    :param field: its name.
    :param old: what the service holds; anything that JSON can say, and never a secret.
    :param new: what the files say.
    """

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Item:
    """
    One thing, and what has to be done to it.

    :param kind: what it is, such as ``transform``.
    :param name: by which it is known, such as ``sales/orders``.
    :param action: what has to be done.
    :param changes: the fields that are to be others.
    :param diff: a unified diff of a long text, such as SQL, line by line.
    :param reason: why, in a line, where the fields don't say it.
    :param orphan: whether the service holds it, and the files don't name it.
    """

    kind: str
    name: str
    action: Action
    changes: tuple[FieldChange, ...] = ()
    diff: tuple[str, ...] = ()
    reason: str = ""
    orphan: bool = False

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON; what is empty is left out."""
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
    What would be done, in the order in which it would be.

    :param items: all things, also those that nothing has to be done to.
    :param warnings: what else people should know.
    """

    items: tuple[Item, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Item, ...]:
        """The things to which something has to be done."""
        return tuple(item for item in self.items if item.action is not Action.NONE)

    @property
    def orphans(self) -> tuple[Item, ...]:
        """The things that the service holds, and the files don't name, and that stay."""
        return tuple(item for item in self.items if item.orphan and item.action is Action.NONE)

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "format": PLAN_FORMAT,
            "version": VERSION,
            "changed": bool(self.changes),
            "counts": {str(action): sum(item.action is action for item in self.items) for action in Action},
            "items": [item.as_json() for item in self.items],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Done:
    """
    What became of one thing.

    :param kind: what it is.
    :param name: by which it is known.
    :param result: what became of it.
    :param error: why it failed, or was skipped.
    """

    kind: str
    name: str
    result: Result
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """
    What was done.

    :param items: one for each thing, in the order in which they were done.
    :param warnings: what else people should know.
    """

    items: tuple[Done, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything failed, or was skipped because of that."""
        return any(item.result in _BAD for item in self.items)

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
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
    """Give a unified diff of two texts, from what the service holds to what the files say."""
    # Only line feeds: other characters that Python takes for ends of lines are parts of names and literals.
    before, after = (text.split("\n") if text else [] for text in (old, new))
    return tuple(difflib.unified_diff(before, after, "service", "files", lineterm=""))


def as_json_text(given: Plan | Report) -> str:
    """Give a plan or a report as the text of a JSON document."""
    return json.dumps(given.as_json(), indent=2, ensure_ascii=False) + "\n"


_SIGNS = {
    Action.CREATE: "+",
    Action.UPDATE: "~",
    Action.PUBLISH: "^",
    Action.DELETE: "-",
    Action.NONE: "=",
}
_COLOURS = {
    Action.CREATE: "32",
    Action.UPDATE: "33",
    Action.PUBLISH: "36",
    Action.DELETE: "31",
    Action.NONE: "2",
}
_PLAIN, _RED, _GREEN, _YELLOW, _FAINT = "", "31", "32", "33", "2"


def plan_text(plan: Plan, *, coloured: bool = False, orphans_stay: str = "They stay.") -> str:
    """
    Give a plan as people read it.

    :param plan: the plan.
    :param coloured: whether it goes to a terminal that shows colours.
    :param orphans_stay: what is said of orphans that are not to be deleted.
    """
    lines: list[str] = []
    for item in plan.changes:
        why = f" ({item.reason})" if item.reason else ""
        sign = f"{_SIGNS[item.action]} {item.action} {item.kind} {item.name}{why}"
        lines.append(_paint(sign, _COLOURS[item.action], coloured=coloured))
        lines += [
            _paint(f"    {each.field}: {shown(each.old)} -> {shown(each.new)}", _PLAIN, coloured=coloured)
            for each in item.changes
        ]
        lines += [_paint(f"    {line}", _colour_of(line), coloured=coloured) for line in item.diff]
    if plan.orphans:
        lines.append(f"In the service, and not in the files: {len(plan.orphans)}. {orphans_stay}")
        lines += [_paint(f"    ? {item.kind} {item.name}", _YELLOW, coloured=coloured) for item in plan.orphans]
    lines += [_paint(f"Warning: {each}", _YELLOW, coloured=coloured) for each in plan.warnings]
    counts = Counter(item.action for item in plan.changes)
    told = [f"{counts[action]} to {action}" for action in Action if counts[action]]
    lines.append(f"{', '.join(told)}." if told else "Nothing to do.")
    return "\n".join(lines) + "\n"


def report_text(report: Report, *, coloured: bool = False) -> str:
    """
    Give a report as people read it: a line for each thing to which something was done, or was to be.

    :param report: the report.
    :param coloured: whether it goes to a terminal that shows colours.
    """
    lines = []
    for item in report.items:
        if item.result is Result.UNCHANGED:
            continue
        colour = _RED if item.result is Result.FAILED else _YELLOW if item.result is Result.SKIPPED else _GREEN
        why = f": {item.error}" if item.error else ""
        lines.append(_paint(f"{item.result} {item.kind} {item.name}{why}", colour, coloured=coloured))
    lines += [_paint(f"Warning: {each}", _YELLOW, coloured=coloured) for each in report.warnings]
    counts = Counter(item.result for item in report.items)
    told = [f"{counts[result]} {result}" for result in Result if counts[result]]
    lines.append(f"{', '.join(told)}." if told else "Nothing to do.")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """Give a value of a field as one line: JSON, so that a text is told from what is none."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _colour_of(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return _FAINT
    return _GREEN if line.startswith("+") else _RED if line.startswith("-") else _PLAIN


def _paint(line: str, colour: str, *, coloured: bool) -> str:
    safe = printable(line.replace("\n", "\\n"))
    return f"\x1b[{colour}m{safe}\x1b[0m" if coloured and colour else safe


def printable(text: str) -> str:
    """Give a text so that it can't steer a terminal, whatever a service or a file has put into it; lines stay lines."""
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character in "\t\n" or character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def combined(plans: Sequence[Plan]) -> Plan:
    """Put plans one after another."""
    return Plan(
        tuple(item for plan in plans for item in plan.items), tuple(each for plan in plans for each in plan.warnings)
    )


def combined_reports(reports: Sequence[Report]) -> Report:
    """Put reports one after another."""
    return Report(
        tuple(item for each in reports for item in each.items),
        tuple(warning for each in reports for warning in each.warnings),
    )
