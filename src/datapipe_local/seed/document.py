"""Reader of seed files: YAML with the line of each value."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import yaml
from yaml.reader import ReaderError

from datapipe_local.common.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MERGE = "tag:yaml.org,2002:merge"
#: Limit of the number of values. Aliases count each time: a small file can expand to a very large seed.
_MOST_VALUES = 1_000_000
_DEEPEST = 50
_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")

#: Location of a value: the keys and indexes that lead to it.
Location = tuple["str | int", ...]


class Source(Protocol):
    """Source of a seed."""

    @property
    def name(self) -> str:
        """The unique name of the source."""

    @property
    def folder(self) -> Path:
        """The base folder of relative paths."""

    @property
    def content(self) -> Mapping[str, Any]:
        """The seed."""

    def error(self, location: Sequence[str | int], message: str) -> SetupError:
        """Return the error of a value."""

    def has(self, location: Location) -> bool:
        """Return True if the value exists."""


class Document:
    """
    Parsed seed file.

    ``${NAME}`` in a string becomes the value of the environment variable; ``$${NAME}`` becomes the text ``${NAME}``.
    The replacement happens after parsing, so that no value can change the structure of the file.

    :param path: The file.
    :param text: The content of the file; without it, the file is read.
    :raises SetupError: the file cannot be read or is not a YAML mapping, a key occurs twice, or a variable is not set.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self._lines: dict[Location, int] = {}
        self._read_count = 0
        #: The mappings that contain the current one through `<<`, outermost first.
        self._merging: list[yaml.MappingNode] = []
        text = _read(path) if text is None else text
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise SetupError(f"{path}{_line_of(error, text)}: this is no YAML: {_problem(error)}.") from error
        except RecursionError as error:
            raise SetupError(f"{path}, line {_too_deep_at(text)}: it is nested too deep.") from error
        self.content: dict[str, Any] = {}
        if root is not None:
            self._constructor = yaml.SafeLoader("")
            content = self._read(root, ())
            if not isinstance(content, dict):
                raise self.error((), "a seed is a mapping, with keys such as connections and elt_syncs")
            self.content = content

    @property
    def name(self) -> str:
        """The unique name of the seed: its absolute path."""
        return str(self.path.absolute())

    @property
    def folder(self) -> Path:
        """The base folder of relative paths: the folder of the file, so that a project can be moved."""
        return self.path.absolute().parent

    def error(self, location: Sequence[str | int], message: str) -> SetupError:
        """
        Return the error of a value.

        :param location: The location of the value, which may be missing; the line is that of the nearest value around
            it.
        :param message: The problem.
        """
        place = self._found(tuple(location))
        known = place
        while known and known not in self._lines:
            known = known[:-1]
        line = self._lines.get(known, 1)
        return SetupError(f"{self.path}, line {line}: {_where(place)}{message}")

    def has(self, location: Location) -> bool:
        """Return True if the value exists."""
        return location in self._lines

    def _found(self, location: Location) -> Location:
        """Return the location of a value if one level of the given location is missing, such as a file's options."""
        if location in self._lines or not location:
            return location
        around, name = location[:-1], location[-1]
        near = [place for place in self._lines if place[:-2] == around and place[-1:] == (name,)]
        return near[0] if len(near) == 1 else location

    def _read(self, node: yaml.Node, location: Location) -> Any:
        self._lines[location] = node.start_mark.line + 1
        if len(location) > _DEEPEST:
            # Also stops endless recursion: an alias can refer to a value that contains it.
            raise self.error(location[:2], "it is nested too deep")
        self._count(location)
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self._read(entry, (*location, index)) for index, entry in enumerate(node.value)]
        value = self._construct(node, location)
        if isinstance(value, dt.date):
            # YAML reads some strings as dates; a seed is stored as JSON, which has no dates.
            value = value.isoformat()
        if isinstance(value, str):
            return self._text(self._expanded(value, location), location)
        if not isinstance(value, (bool, int, float, type(None))) or (isinstance(value, float) and not isfinite(value)):
            raise self.error(location, f"a seed has no values such as {node.value[:40]!r}")
        return value

    def _text(self, text: str, location: Location) -> str:
        """Return a text if it can be stored and sent."""
        if "\0" in text or (not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)):
            raise self.error(location, "the text holds what is no character")
        return text

    def _count(self, location: Location) -> None:
        """Count a value, including those that `<<` repeats at the same location."""
        self._read_count += 1
        if self._read_count > _MOST_VALUES:
            raise self.error(
                location, f"a seed has {_MOST_VALUES:,} values at the most, with those that aliases repeat"
            )

    def _read_mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        own = [pair for pair in node.value if pair[0].tag != _MERGE]
        # Read merged mappings first, so that the lines of overriding keys win.
        merged: dict[str, Any] = {}
        for key_node, value_node in (pair for pair in node.value if pair[0].tag == _MERGE):
            # An alias has the line of its anchor: use the line of the key.
            self._lines[*location, "<<"] = key_node.start_mark.line + 1
            merged |= self._merged(value_node, location)
        for key_node, value_node in own:
            key = self._construct(key_node, location) if isinstance(key_node, yaml.ScalarNode) else None
            named = location if key is None else (*location, str(key))
            self._lines[named] = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise self.error(named, "a key must be text")
            if key in mapping:
                raise self.error(named, "the key stands here a second time")
            mapping[key] = self._read(value_node, named)
        return {**merged, **mapping}

    def _merged(self, node: yaml.Node, location: Location) -> dict[str, Any]:
        """Return the entries that ``<<`` adds to a mapping. If it lists several mappings, the first one wins."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for one in reversed(nodes):
            if not isinstance(one, yaml.MappingNode):
                raise self.error((*location, "<<"), "what is merged must be a mapping")
            line = one.start_mark.line + 1
            if one in self._merging:
                raise self.error((*location, "<<"), f"the mapping of line {line} is merged into itself")
            if len(self._merging) > _DEEPEST:
                raise self.error((*location, "<<"), f"merges are nested too deep: line {line}")
            self._count(location)
            self._merging.append(one)
            merged |= self._read_mapping(one, location)
            self._merging.pop()
        return merged

    def _construct(self, node: yaml.Node, location: Location) -> Any:
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self.error(location, f"the value cannot be read: {_problem(error)}") from error

    def _expanded(self, text: str, location: Location) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1]:
                return match[0][1:]
            found = os.environ.get(match[2])
            if found is None:
                raise self.error(location, f"the environment variable {match[2]} is not set")
            return found

        return _VARIABLE.sub(value, text)


class GivenError(SetupError):
    """
    Error of a value in a seed without lines.

    :param location: The location of the value.
    :param reason: The problem.
    """

    def __init__(self, location: Sequence[str | int], reason: str) -> None:
        super().__init__(f"{_where(location)}{reason}")
        self.location = tuple(location)
        self.reason = reason


class GivenDocument:
    """
    Seed from JSON or from the store. Variables are already replaced, or not supported.

    :param content: The seed.
    :param folder: The base folder of relative paths.
    :param name: The unique name of the seed; by default a hash of its content.
    """

    def __init__(self, content: Mapping[str, Any], folder: Path, name: str | None = None) -> None:
        self.content = content
        self.folder = folder
        self.name = name or hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def error(self, location: Sequence[str | int], message: str) -> SetupError:
        """Return the error of a value."""
        return GivenError(location, message)

    def has(self, location: Location) -> bool:
        """Return True if the value exists."""
        node: Any = self.content
        for part in location:
            try:
                node = node[part]
            except (LookupError, TypeError):
                return False
        return True


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SetupError(f"Cannot read the seed {path}: {error.strerror or error}.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SetupError(f"{path}, line {line}: this is not UTF-8.") from error


def _too_deep_at(text: str) -> int:
    """Return the line at which YAML is nested too deeply."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST and event.start_mark is not None:
            return int(event.start_mark.line) + 1
    return 1


def _where(location: Sequence[str | int]) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    return f"{where}: " if where else ""


def _line_of(error: yaml.YAMLError, text: str) -> str:
    if isinstance(error, ReaderError):
        return f", line {text.count(chr(10), 0, error.position) + 1}"
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f", line {mark.line + 1}"


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]
