"""
Front matter of SQL files: properties of the transform as YAML in the line comments at the beginning.

Block comments are not used, because a ``*/`` in a text would end them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from airflow_provider_datapipe.api.models.formats.yaml_reader import Location, Position, YamlReader, nearest, path_text
from airflow_provider_datapipe.api.models.rules import check_cron
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.yaml_1_2 import YAML_1_2, scalar_value
from airflow_provider_datapipe.resources.transforms import NO_SCHEDULE

#: First and last line of front matter.
MARK = "-- ---"
#: Value that means no orchestration.
NO_ORCHESTRATION = "none"
_COMMENT = "--"


class TransformFileError(PipelineError, ValueError):
    """A SQL file is invalid."""


def _not_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _name(value: str) -> str:
    if "/" in value:
        raise ValueError("must not contain a slash: use folder instead")
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
            raise ValueError(f"has no value for {', '.join(empty)}: set one, or omit the key")
        return value

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.orchestration is not None and self.orchestration_id is not None:
            raise ValueError("sets both orchestration and orchestration_id: set only one")
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
    first = next((number for number, line in enumerate(lines, start=1) if line.strip()), 1)
    if lines[first - 1].rstrip() != MARK:
        return SqlFile(path, FrontMatter(), text)
    content: list[str] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.rstrip() == MARK:
            front, given = _read("".join(content), path, first)
            block = "\n".join(lines[:number])
            return SqlFile(path, front, "\n".join(lines[number:]), given, f"{block}\n")
        if not line.startswith(_COMMENT):
            raise TransformFileError(
                f"{path}, line {number}: the front matter that begins in line {first} is not closed: add {MARK!r} "
                f"before this line."
            )
        # With its line end, which the last line of a block scalar also needs.
        content.append(line.removeprefix(_COMMENT).removeprefix(" ").removesuffix("\r") + "\n")
    raise TransformFileError(f"{path}, line {first}: the front matter is not closed: add {MARK!r}.")


def render(given: Mapping[str, Any]) -> str:
    """Return front matter as comments, including the last line end."""
    # Long lines are not wrapped.
    written = yaml.dump(
        dict(given), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=2**31
    )
    lines = [f"{_COMMENT} {line}" if line else _COMMENT for line in written.removesuffix("\n").split("\n")]
    return "\n".join([MARK, *lines, MARK, ""])


def _read(text: str, path: str, first: int) -> tuple[FrontMatter, dict[str, Any]]:
    document = _Document(text, path, first)
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
        return f"is not a known key: use {', '.join(known.model_fields)}"
    if kind == "model_type":
        return "must be SQL, or a mapping such as 'unique: id'"
    if kind == "bool_type":
        return f"must be true or false, not {error['input']!r}"
    if kind == "string_type":
        return f"must be text, not {error['input']!r}: put it in quotes"
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[0].lower() + message[1:]


class _Document(YamlReader):
    """
    YAML of the front matter. Lines in messages are those of the file.

    :param first: line of the mark before the front matter.
    """

    library = YAML_1_2
    deepest = 20
    most_values = 10_000
    merges = False

    def __init__(self, text: str, path: str, first: int) -> None:
        super().__init__()
        self._path = path
        self._first = first
        content = self.read(text)
        if not isinstance(content, dict | None):
            raise self._error(1, "front matter must be a mapping, such as 'materialization: table'")
        self.content: dict[str, Any] = content or {}

    def scalar(self, node: Any, location: Location) -> Any:
        """Return the value of a node."""
        try:
            return scalar_value(node)
        except ValueError as error:
            raise self.fatal(location, self.values[location], str(error)) from None

    def line(self, place: Sequence[Any]) -> int:
        """Return the line of a value in the file, or of the nearest enclosing value."""
        return nearest(self.values | self.keys, place).line + self._first

    def message(self, place: Sequence[Any], problem: str) -> str:
        """Return an error message with the line."""
        return f"{self._path}, line {self.line(place)}: {path_text(place) or 'the front matter'} {problem}."

    def syntax_error(self, position: Position | None, message: str) -> TransformFileError:
        """Return the exception for text that is not YAML."""
        return self._error(1 if position is None else position.line, message)

    def problem(self, location: Location, position: Position, message: str) -> None:
        """Raise the exception for an invalid value."""
        raise self._error(position.line, f"{path_text(location)}: {message}" if location else message)

    def fatal(self, location: Location, position: Position, message: str) -> TransformFileError:
        """Return the exception for an invalid value."""
        return self._error(position.line, message)

    def _error(self, line: int, problem: str) -> TransformFileError:
        return TransformFileError(f"{self._path}, line {line + self._first}: {problem}")


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
# YAML 1.2 reads more text as numbers than PyYAML, which would write this text without quotes.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(0o[0-7_]+|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)$"), list("-+.0123456789")
)
