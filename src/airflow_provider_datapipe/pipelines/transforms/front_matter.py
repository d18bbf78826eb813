"""
Front matter of SQL files: properties of the transform as YAML in the line comments at the beginning.

Block comments are not used, because a ``*/`` in a text would end them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from yaml.reader import ReaderError

from airflow_provider_datapipe.api.models.rules import check_cron
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.resources.transforms import NO_SCHEDULE

#: First and last line of front matter.
MARK = "-- ---"
#: Value that means no orchestration.
NO_ORCHESTRATION = "none"
_COMMENT = "--"
_MERGE = "tag:yaml.org,2002:merge"
#: Maximum depth of nested values.
_DEEPEST = 20
#: Maximum number of values, including those that aliases repeat: a few lines could expand to more than fits in memory.
_MOST_VALUES = 10_000


class TransformFileError(PipelineError, ValueError):
    """A SQL file is invalid."""


def _not_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _name(value: str) -> str:
    if "/" in value:
        raise ValueError("must have no slash in it: that is for folder")
    return _not_empty(value)


def _schedule(value: str) -> str:
    return value if value == NO_SCHEDULE else check_cron(value)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_Text = Annotated[str, AfterValidator(_not_empty)]
_Columns = Annotated[list[_Text], BeforeValidator(_listed), Field(min_length=1)]
_Value = str | int | float | bool


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AcceptedValues(_Strict):
    """A column that may contain only the listed values, or null."""

    column: _Text
    values: Annotated[list[_Value], Field(min_length=1)]


class Check(_Strict):
    """
    Condition that must hold before a transform is published.

    It has one of: ``sql``, a query in whose first row every value must be true; ``not_null``, columns without nulls;
    ``unique``, columns whose combined values are unique; ``accepted_values``.
    """

    sql: _Text | None = None
    not_null: _Columns | None = None
    unique: _Columns | None = None
    accepted_values: AcceptedValues | None = None

    @model_validator(mode="before")
    @classmethod
    def _may_be_sql_alone(cls, value: Any) -> Any:
        return {"sql": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(value is not None for value in (self.sql, self.not_null, self.unique, self.accepted_values)) != 1:
            raise ValueError("must be SQL, or exactly one of sql, not_null, unique and accepted_values")
        return self


class FrontMatter(_Strict):
    """
    Properties of a transform. Omitted properties stay unchanged on the service.

    :ivar name: its name; by default, that of the file.
    :ivar folder: its folder; by default, that of the file.
    :ivar materialization: ``view`` or ``table``.
    :ivar schedule: cron expression of a published table, in UTC; ``none`` for none.
    :ivar orchestration: name of the orchestration that it is attached to; ``none`` for none.
    :ivar orchestration_id: ID of the orchestration, if its name is ambiguous.
    :ivar documentation: its description.
    :ivar publish: True if it is published; ``false`` leaves a draft, or the version that was published before.
    :ivar checks: conditions that must hold before it is published.
    """

    name: Annotated[str, AfterValidator(_name)] | None = None
    folder: str | None = None
    materialization: Literal["view", "table"] | None = None
    schedule: Annotated[str, AfterValidator(_schedule)] | None = None
    orchestration: _Text | None = None
    orchestration_id: _Text | None = None
    documentation: str | None = None
    publish: bool = True
    checks: list[Check] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _has_no_null(cls, value: Any) -> Any:
        # Null is ambiguous: it could mean "none" or "unchanged".
        empty = [str(key) for key, each in value.items() if each is None] if isinstance(value, dict) else []
        if empty:
            raise ValueError(f"has no value for {', '.join(empty)}: give one, or leave the key out")
        return value

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.orchestration is not None and self.orchestration_id is not None:
            raise ValueError("says both orchestration and orchestration_id: say one")
        return self


@dataclass(frozen=True, slots=True)
class SqlFile:
    """
    A SQL file.

    :param path: its path below the folder.
    :param front: parsed front matter.
    :param given: front matter as written.
    :param block: text of the front matter, including its last line end; empty if there is none.
    :param sql: the rest of the file.
    """

    path: str
    front: FrontMatter
    sql: str
    given: Mapping[str, Any] = field(default_factory=dict)
    block: str = ""


def parse(text: str, path: str) -> SqlFile:
    """
    Parse a SQL file.

    :param text: its text.
    :param path: its path, for messages.
    :raises TransformFileError: if its front matter is invalid. The message contains the line number.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != MARK:
        return SqlFile(path, FrontMatter(), text)
    content: list[str] = []
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() == MARK:
            front, given = _read("".join(content), path)
            block = "\n".join(lines[:number])
            return SqlFile(path, front, "\n".join(lines[number:]), given, f"{block}\n")
        if not line.startswith(_COMMENT):
            raise TransformFileError(
                f"{path}, line {number}: the front matter that begins in line 1 has no end: close it with {MARK!r} "
                f"before this line."
            )
        # With its line end, which the last line of a block scalar also needs.
        content.append(line.removeprefix(_COMMENT).removeprefix(" ").removesuffix("\r") + "\n")
    raise TransformFileError(f"{path}, line 1: this front matter has no end: close it with {MARK!r}.")


def render(given: Mapping[str, Any]) -> str:
    """Return front matter as comments, including the last line end."""
    # Long lines are not wrapped.
    written = yaml.dump(
        dict(given), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=2**31
    )
    lines = [f"{_COMMENT} {line}" if line else _COMMENT for line in written.removesuffix("\n").split("\n")]
    return "\n".join([MARK, *lines, MARK, ""])


def _read(text: str, path: str) -> tuple[FrontMatter, dict[str, Any]]:
    document = _Document(text, path)
    try:
        return FrontMatter.model_validate(document.content), document.content
    except ValidationError as error:
        wrong = sorted(error.errors(), key=lambda each: document.line(each["loc"]))
        reported = [document.message(each["loc"], _reported(each)) for each in wrong]
        raise TransformFileError("\n".join(reported)) from None


def _reported(error: Mapping[str, Any]) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        known = FrontMatter if len(error["loc"]) == 1 else Check
        return f"is not known: there are {', '.join(known.model_fields)}"
    if kind == "model_type":
        return "must be SQL, or a mapping of what is checked"
    if kind == "string_type":
        return f"must be text, not {error['input']!r}: put it in quotes"
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[0].lower() + message[1:]


class _Document:
    """YAML document that knows the line of each value."""

    def __init__(self, text: str, path: str) -> None:
        self._path = path
        self._lines: dict[tuple[Any, ...], int] = {}
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            self._constructor = yaml.SafeLoader("")
            self.content: dict[str, Any] = {} if root is None else self._value(root, ())
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self._error(line, f"this is no YAML: {error.reason}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error)
            context = getattr(error, "context", None) or ""
            hint = ". A value that begins with * belongs in quotes" if "alias" in context else ""
            raise self._error(mark.line + 1 if mark else 1, f"this is no YAML: {problem}{hint}") from None
        except RecursionError:
            raise self._error(_too_deep_at(text), "it is nested too deep") from None
        if not isinstance(self.content, dict):
            raise self._error(1, "front matter is a mapping, such as 'materialization: table'")

    def line(self, place: Sequence[Any]) -> int:
        """Return the line of a value in the file, or of the nearest enclosing value."""
        known = tuple(place)
        while known and known not in self._lines:
            known = known[:-1]
        # The first line of the file is the mark.
        return self._lines.get(known, 1) + 1

    def message(self, place: Sequence[Any], problem: str) -> str:
        """Return an error message with the line."""
        what = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place).lstrip(".")
        return f"{self._path}, line {self.line(place)}: {what or 'the front matter'} {problem}."

    def _error(self, line: int, problem: str) -> TransformFileError:
        return TransformFileError(f"{self._path}, line {line + 1}: {problem}")

    def _value(self, node: yaml.Node, place: tuple[Any, ...]) -> Any:
        line = node.start_mark.line + 1
        if len(place) > _DEEPEST:
            # The nesting can also be infinite: an alias can be nested in its own anchor.
            raise self._error(line, "it is nested too deep")
        if len(self._lines) > _MOST_VALUES:
            raise self._error(line, f"there are more than {_MOST_VALUES:,} values, with what aliases repeat")
        self._lines.setdefault(place, line)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(each, (*place, index)) for index, each in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return self._plain(node)
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                raise self._error(key_node.start_mark.line + 1, "<< is not supported: write the keys themselves")
            key = self._plain(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            key_line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise self._error(key_line, "a key must be text")
            if key in mapping:
                raise self._error(key_line, f"{key} stands here a second time")
            self._lines[*place, key] = key_line
            mapping[key] = self._value(value_node, (*place, key))
        return mapping

    def _plain(self, node: yaml.Node) -> Any:
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problem = getattr(error, "problem", None) or str(error)
            raise self._error(node.start_mark.line + 1, f"the value can't be read: {problem}") from None


def _too_deep_at(text: str) -> int:
    """Return the first line at which YAML is nested too deep."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST and event.start_mark is not None:
            return int(event.start_mark.line) + 1
    return 1


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes multi-line text as block scalars if they can be parsed to the same text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that repeated values are written in full."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    lines = value.split("\n")
    style = None
    if not all(line.isprintable() for line in lines):
        style = '"'
    elif len(lines) > 1:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
