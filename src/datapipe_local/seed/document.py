"""Reader of seed files: YAML with the line of each value."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from math import isfinite
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.formats.yaml_reader import (
    Location,
    NotUtf8Error,
    Position,
    YamlReader,
    decode,
    expand_variables,
    nearest,
    path_text,
)
from datapipe_local.common.errors import SetupError
from datapipe_local.services.checks import has_lone_surrogate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Document(YamlReader):
    """
    Parsed seed file.

    ``${NAME}`` in a string becomes the value of the environment variable; ``$${NAME}`` becomes the text ``${NAME}``.
    The replacement happens after parsing, so that no value can change the structure of the file.

    :param path: The file.
    :param text: The content of the file; without it, the file is read.
    :raises SetupError: the file cannot be read or is not a YAML mapping, a key occurs twice, or a variable is not set.
    """

    most_values = 1_000_000

    def __init__(self, path: Path, text: str | None = None) -> None:
        super().__init__()
        self.path = path
        content = self.read(_read(path) if text is None else text)
        if not isinstance(content, dict | None):
            raise self.error((), "a seed is a mapping, with keys such as connections and elt_syncs")
        self.content: dict[str, Any] = content or {}

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
        return self.fatal(place, nearest(self.values, place), message)

    def has(self, location: Location) -> bool:
        """Return True if the value exists."""
        return location in self.values

    def syntax_error(self, position: Position | None, message: str) -> SetupError:
        """Return the error for text that is not YAML."""
        return SetupError(f"{self.path}{'' if position is None else f', line {position.line}'}: {message}.")

    def problem(self, location: Location, position: Position, message: str) -> None:
        """Raise the error of a value."""
        raise self.fatal(location, position, message)

    def fatal(self, location: Location, position: Position, message: str) -> SetupError:
        """Return the error of a value."""
        return SetupError(f"{self.path}, line {position.line}: {_where(location)}{message}")

    def scalar(self, node: Any, location: Location) -> Any:
        """Return the value of a node, with environment variables."""
        value = super().scalar(node, location)
        if isinstance(value, dt.date):
            # YAML reads some strings as dates; a seed is stored as JSON, which has no dates.
            value = value.isoformat()
        if isinstance(value, str):
            return self._text(expand_variables(value, lambda name: self._variable(name, location)), location)
        if not isinstance(value, (bool, int, float, type(None))) or (isinstance(value, float) and not isfinite(value)):
            raise self.error(location, f"values such as {node.value[:40]!r} are not supported in a seed")
        return value

    def _found(self, location: Location) -> Location:
        """Return the location of a value if one level of the given location is missing, such as a file's options."""
        if location in self.values or not location:
            return location
        around, name = location[:-1], location[-1]
        near = [place for place in self.values if place[:-2] == around and place[-1:] == (name,)]
        return near[0] if len(near) == 1 else location

    def _text(self, text: str, location: Location) -> str:
        """Return a text if it can be stored and sent."""
        if "\0" in text or has_lone_surrogate(text):
            raise self.error(location, "the text contains NUL or half a character (a lone surrogate)")
        return text

    def _variable(self, name: str, location: Location) -> str:
        found = os.environ.get(name)
        if found is None:
            raise self.error(location, f"the environment variable {name} is not set")
        return found


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
        return decode(content)
    except NotUtf8Error as error:
        raise SetupError(f"{path}, line {error.line}: {error}.") from error


def _where(location: Sequence[str | int]) -> str:
    where = path_text(location)
    return f"{where}: " if where else ""
