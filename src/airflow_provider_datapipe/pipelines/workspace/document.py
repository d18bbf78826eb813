"""Parser of workspace files, with the line and column of each value."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from airflow_provider_datapipe.pipelines.errors import PipelineError
from airflow_provider_datapipe.pipelines.yaml_1_2 import YAML_1_2, scalar_value

#: Name of the fields that can contain environment variables.
SETTINGS = "settings"

#: Shorter values of environment variables are not masked, because they can occur in any text.
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """
    An error in a file.

    :param location: location of the value.
    :param message: the message.
    :param position: position of the error; None for that of the value, or of the nearest enclosing value.
    """

    location: Location
    message: str
    position: Position | None = None


class WorkspaceError(PipelineError, ValueError):
    """A workspace file cannot be read, or is invalid. The message lists all errors with their positions."""


class Document(YamlReader):
    """
    A parsed workspace file.

    ``${NAME}`` in settings is replaced by the environment variable, and ``$${NAME}`` anywhere by the text ``${NAME}``.
    This happens after parsing, so that no value can change the structure of the file.

    :param text: text of the file.
    :param name: name of the file in messages.
    :param environment: the environment variables; None leaves variables in settings unchanged.
    :raises WorkspaceError: if the text is not a YAML mapping.
    """

    library = YAML_1_2
    most_values = 200_000

    def __init__(self, text: str, name: str, environment: Mapping[str, str] | None) -> None:
        super().__init__()
        self.name = name
        self._environment = environment
        self._problems: list[Problem] = []
        self._secrets: set[str] = set()
        content = self.read(text)
        if not isinstance(content, dict | None):
            raise self.error([Problem((), "a workspace file must be a mapping with keys such as elt_syncs")])
        self.content: dict[str, Any] = content or {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Errors in single values, to be reported together with validation errors."""
        return tuple(self._problems)

    def error(self, problems: Sequence[Problem]) -> WorkspaceError:
        """Return the exception for problems, sorted by their positions in the file."""
        placed = sorted(
            {
                (each.position or nearest(self.values, each.location), path_text(each.location), each.message)
                for each in problems
            }
        )
        lines = [
            f"{self.name}:{position.line}:{position.column}: {f'{path}: ' if path else ''}{message}"
            for position, path, message in placed
        ]
        if len(lines) == 1:
            return WorkspaceError(lines[0])
        return WorkspaceError("\n  ".join([f"{len(lines)} errors:", *lines]))

    def masked(self, text: str) -> str:
        """Return a text without the values of environment variables in settings."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def syntax_error(self, position: Position | None, message: str) -> WorkspaceError:
        """Return the exception for text that is not YAML."""
        place = "" if position is None else f":{position.line}:{position.column}"
        return WorkspaceError(f"{self.name}{place}: {message}.")

    def problem(self, location: Location, position: Position, message: str) -> None:
        """Record an error, so that all errors are reported together."""
        self._problems.append(Problem(location, message, position))

    def fatal(self, location: Location, position: Position, message: str) -> WorkspaceError:
        """Return the exception for an error after which the rest of the file is not read."""
        return self.error([Problem(location, message, position)])

    def scalar(self, node: Any, location: Location) -> Any:
        """Return the value of a node, with environment variables in settings."""
        try:
            value = scalar_value(node)
        except ValueError as error:
            self._problems.append(Problem(location, str(error)))
            return None
        in_settings = SETTINGS in location[:-1]
        if not isinstance(value, str) or (in_settings and self._environment is None):
            return value
        return expand_variables(value, lambda name: self._variable(name, location, in_settings=in_settings))

    def _variable(self, name: str, location: Location, *, in_settings: bool) -> str:
        if not in_settings:
            text = f"${{{name}}}"
            message = f"{text}: environment variables are allowed only in settings: write ${text} for the literal text"
            self._problems.append(Problem(location, message))
            return text
        found = (self._environment or {}).get(name)
        if found is None:
            self._problems.append(Problem(location, f"the environment variable {name} is not set"))
            return ""
        try:
            found.encode()
        except UnicodeEncodeError:
            self._problems.append(Problem(location, f"the environment variable {name} is not valid UTF-8"))
            return ""
        if len(found) >= _SHORTEST_SECRET:
            self._secrets.add(found)
        return found


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
        return decode(content)
    except NotUtf8Error as error:
        raise WorkspaceError(f"{path}:{error.line}:1: {error}.") from None
