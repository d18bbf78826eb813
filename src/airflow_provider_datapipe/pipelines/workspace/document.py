"""Parser of workspace files: YAML with the line and column of each value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from airflow_provider_datapipe.pipelines.errors import PipelineError

#: Location of a value: the keys and positions that lead to it.
Location = tuple["str | int", ...]

#: Name of the fields that can contain environment variables.
SETTINGS = "settings"

_TAG = "tag:yaml.org,2002:"
_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
#: Maximum number of values, including those that aliases repeat: a small file could expand to a very large one.
_MOST_VALUES = 200_000
_DEEPEST = 50
#: Shorter values of environment variables are not masked, because they can occur in any text.
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """
    An error in a file.

    :param location: location of the value.
    :param message: the message.
    :param at_key: True if the key is wrong, not the value.
    """

    location: Location
    message: str
    at_key: bool = False


class WorkspaceError(PipelineError, ValueError):
    """A workspace file cannot be read, or is invalid. The message lists all errors with their positions."""


class Document:
    """
    A parsed workspace file.

    ``${NAME}`` in settings is replaced by the environment variable, and ``$${NAME}`` anywhere by the text ``${NAME}``.
    This happens after parsing, so that no value can change the structure of the file.

    :param text: text of the file.
    :param name: name of the file in messages.
    :param environment: the environment variables; None leaves variables in settings unchanged.
    :raises WorkspaceError: if the text is not a YAML mapping.
    """

    def __init__(self, text: str, name: str, environment: Mapping[str, str] | None) -> None:
        self.name = name
        self._environment = environment
        self._values: dict[Location, tuple[int, int]] = {(): (1, 1)}
        self._keys: dict[Location, tuple[int, int]] = {}
        self._problems: list[Problem] = []
        self._secrets: set[str] = set()
        self._read_count = 0
        #: Mappings that include the current one with `<<`, outermost first.
        self._merging: list[MappingNode] = []
        root = self._compose(text)
        content = {} if root is None else self._read(root, ())
        if not isinstance(content, dict):
            raise self.error([Problem((), "a workspace is a mapping, with keys such as elt_syncs")])
        self.content: dict[str, Any] = content

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Errors in single values, to be reported together with validation errors."""
        return tuple(self._problems)

    def error(self, problems: Sequence[Problem]) -> WorkspaceError:
        """Return the exception for problems, sorted by their positions in the file."""
        placed = sorted({(*self._place(problem), _where(problem.location), problem.message) for problem in problems})
        lines = [f"{self.name}:{line}:{column}: {where}{message}" for line, column, where, message in placed]
        if len(lines) == 1:
            return WorkspaceError(lines[0])
        return WorkspaceError("\n  ".join([f"{len(lines)} things are wrong:", *lines]))

    def masked(self, text: str) -> str:
        """Return a text without the values of environment variables in settings."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _place(self, problem: Problem) -> tuple[int, int]:
        """Return the line and the column of a value, or of the nearest enclosing value."""
        if problem.at_key and problem.location in self._keys:
            return self._keys[problem.location]
        known = problem.location
        while known not in self._values:
            known = known[:-1]
        return self._values[known]

    def _compose(self, text: str) -> Node | None:
        try:
            # The library raises the exceptions below for invalid YAML.
            root: Node | None = YAML(typ="safe", pure=True).compose(text)
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise WorkspaceError(
                f"{self.name}:{line}:1: a character that YAML does not allow: write it as an escape in double quotes."
            ) from None
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
            raise WorkspaceError(f"{self.name}{place}: this is no YAML: {_first_line(error.problem)}.") from None
        except YAMLError as error:
            raise WorkspaceError(f"{self.name}: this is no YAML: {_first_line(str(error))}.") from None
        except RecursionError:
            raise WorkspaceError(f"{self.name}:{_too_deep_at(text)}:1: it is nested too deep.") from None
        return root

    def _read(self, node: Node, location: Location) -> Any:
        self._values[location] = (node.start_mark.line + 1, node.start_mark.column + 1)
        # The nesting can also be infinite: an alias can be nested in its own anchor.
        if len(location) > _DEEPEST:
            raise self.error([Problem(location[:2], "it is nested too deep")])
        self._count(location)
        if isinstance(node, MappingNode):
            return self._mapping(node, location)
        if isinstance(node, SequenceNode):
            return [self._read(each, (*location, place)) for place, each in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node, location)
        raise TypeError(type(node))

    def _count(self, location: Location) -> None:
        """Count a value, including those that `<<` repeats at the same location."""
        self._read_count += 1
        if self._read_count > _MOST_VALUES:
            raise self.error(
                [Problem(location[:2], f"there are more than {_MOST_VALUES:,} values, with what aliases repeat")]
            )

    def _merged(self, node: MappingNode, location: Location) -> dict[str, Any]:
        """Return the mapping that `<<` adds at a location."""
        line = node.start_mark.line + 1
        if node in self._merging:
            raise self.error([Problem(location, f"<< merges the mapping of line {line} into itself")])
        if len(self._merging) > _DEEPEST:
            raise self.error([Problem(location, f"<< is nested too deep: line {line}")])
        self._count(location)
        self._merging.append(node)
        try:
            return self._mapping(node, location)
        finally:
            self._merging.pop()

    def _mapping(self, node: MappingNode, location: Location) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                for each in reversed(value.value if isinstance(value, SequenceNode) else [value]):
                    if isinstance(each, MappingNode):
                        merged |= self._merged(each, location)
                    else:
                        self._problems.append(Problem(location, "what << merges must be a mapping"))
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                continue
            if not isinstance(key, ScalarNode) or key.tag != f"{_TAG}str":
                self._problems.append(Problem(location, f"a key must be text: line {key.start_mark.line + 1}"))
                continue
            place = (*location, key.value)
            self._keys[place] = (key.start_mark.line + 1, key.start_mark.column + 1)
            if key.value in own:
                self._problems.append(Problem(place, "the key stands here a second time", at_key=True))
            own[key.value] = self._read(value, place)
        return merged | own

    def _scalar(self, node: ScalarNode, location: Location) -> Any:
        kind = str(node.tag).removeprefix(_TAG)
        text: str = node.value
        try:
            value = _SCALARS[kind](text)
        except (KeyError, ValueError):
            self._problems.append(
                Problem(location, f"there are no values such as {text[:40]!r} here: quote what is text")
            )
            return None
        return self._expanded(value, location) if isinstance(value, str) else value

    def _expanded(self, text: str, location: Location) -> str:
        in_settings = SETTINGS in location[:-1]
        if in_settings and self._environment is None:
            return text

        def value(match: re.Match[str]) -> str:
            if match[1]:
                return match[0][1:]
            if not in_settings:
                self._problems.append(
                    Problem(
                        location,
                        f"{match[0]}: values of the environment stand in settings only; "
                        f"the text itself is written ${match[0]}",
                    )
                )
                return match[0]
            found = (self._environment or {}).get(match[2])
            if found is None:
                self._problems.append(Problem(location, f"the environment variable {match[2]} is not set"))
                return ""
            if len(found) >= _SHORTEST_SECRET:
                self._secrets.add(found)
            return found

        return _VARIABLE.sub(value, text)


def _too_deep_at(text: str) -> int:
    """Return the first line at which YAML is nested too deep."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST:
            return int(event.start_mark.line) + 1
    return 1


def read(path: Path, environment: Mapping[str, str] | None = os.environ) -> Document:
    """
    Read a workspace file.

    :param path: the file.
    :param environment: the environment variables; None leaves variables in settings unchanged.
    :raises WorkspaceError: if the file cannot be read, or is not a YAML mapping.
    """
    return Document(text_of(path), str(path), environment)


def text_of(path: Path) -> str:
    """
    Return the text of a file.

    :raises WorkspaceError: if the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WorkspaceError(f"{path} can't be read: {error.strerror or error}.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise WorkspaceError(f"{path}:{line}:1: this is not UTF-8.") from None


def escaped(text: str) -> str:
    """Return text in which variables are escaped, so that it is read unchanged."""
    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", r"$\g<0>", text)


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _whole(text: str) -> int:
    plain = text.replace("_", "")
    return int(plain, 0) if plain.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(plain)


def _real(text: str) -> float:
    value = float(text.replace("_", ""))
    if not isfinite(value):
        raise ValueError
    return value


_SCALARS: dict[str, Any] = {
    "null": lambda _: None,
    "bool": _boolean,
    "int": _whole,
    "float": _real,
    # Dates are text, as in JSON.
    "timestamp": str,
    "str": str,
    "value": str,
}


def _where(location: Location) -> str:
    where = "".join(_parts(location)).lstrip(".")
    return f"{where}: " if where else ""


def _parts(location: Location) -> Iterator[str]:
    for part in location:
        yield f"[{part}]" if isinstance(part, int) else f".{part}"


def _first_line(text: str | None) -> str:
    return (text or "it can't be read").strip().splitlines()[0]
