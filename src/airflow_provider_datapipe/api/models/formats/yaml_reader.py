"""Reader of YAML that records the line and column of each value, and limits the size of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import yaml

#: Location of a value: the keys and positions that lead to it.
Location = tuple["str | int", ...]

_TAG = "tag:yaml.org,2002:"
_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BEFORE_VARIABLE = re.compile(r"\$(?=\{[A-Za-z_][A-Za-z0-9_]*\})")


class Position(NamedTuple):
    """Line and column in a file, both from 1."""

    line: int
    column: int


class YamlLibrary(NamedTuple):
    """
    Functions of a YAML library. The nodes and errors of PyYAML and of ruamel.yaml have the same attributes.

    :param compose: function that parses text to a tree of nodes; None for an empty text.
    :param parse: function that parses text to events.
    :param error: base class of its errors.
    :param starts: class of the events that start a mapping or a sequence.
    :param ends: class of the events that end one.
    """

    compose: Callable[[str], Any]
    parse: Callable[[str], Iterable[Any]]
    error: type[Exception]
    starts: type
    ends: type


#: YAML 1.1.
PYYAML = YamlLibrary(
    lambda text: yaml.compose(text, Loader=yaml.SafeLoader),
    lambda text: yaml.parse(text, Loader=yaml.SafeLoader),
    yaml.YAMLError,
    yaml.CollectionStartEvent,
    yaml.CollectionEndEvent,
)


class YamlReader:
    """
    Base class of readers of one document. Subclasses define the errors, and can restrict and convert the values.

    :cvar library: the YAML library.
    :cvar deepest: maximum depth of nested values.
    :cvar most_values: maximum number of values, including those that aliases repeat: a small file could expand to more
        than fits in memory.
    :cvar merges: True if mappings can include others with ``<<``.
    :ivar values: positions of the values.
    :ivar keys: positions of the keys.
    """

    library: ClassVar[YamlLibrary] = PYYAML
    deepest: ClassVar[int] = 50
    most_values: ClassVar[int]
    merges: ClassVar[bool] = True

    def __init__(self) -> None:
        self.values: dict[Location, Position] = {}
        self.keys: dict[Location, Position] = {}
        self._count = 0
        #: Mappings that include the current one with `<<`, outermost first.
        self._merging: list[Any] = []
        self._constructor = yaml.SafeLoader("")

    def syntax_error(self, position: Position | None, message: str) -> Exception:
        """
        Return the exception for text that is not YAML.

        :param position: the position; None if it is unknown.
        :param message: the problem.
        """
        raise NotImplementedError

    def problem(self, location: Location, position: Position, message: str) -> None:
        """Raise an exception for an invalid value, or record the problem. The reader then continues."""
        raise NotImplementedError

    def fatal(self, location: Location, position: Position, message: str) -> Exception:
        """Return the exception for an invalid value after which the reader cannot continue."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """Return the value of a document, None if it is empty."""
        root = self._root(text)
        return None if root is None else self._read(root, ())

    def scalar(self, node: Any, location: Location) -> Any:
        """Return the value of a node that is neither a mapping nor a sequence."""
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problem = getattr(error, "problem", None) or str(error)
            raise self.fatal(location, _position(node), f"the value can't be read: {problem}") from None

    def _root(self, text: str) -> Any:
        try:
            return self.library.compose(text)
        except RecursionError:
            raise self.syntax_error(Position(self._too_deep_at(text), 1), "it is nested too deep") from None
        except self.library.error as error:
            raise self._syntax_error(text, error) from None

    def _syntax_error(self, text: str, error: Any) -> Exception:
        offset = getattr(error, "position", None)
        if offset is not None:
            message = "a character that YAML does not allow: write it as an escape in double quotes"
            return self.syntax_error(Position(text.count("\n", 0, offset) + 1, 1), message)
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = str(getattr(error, "problem", None) or error).strip().splitlines()[0]
        hint = ". A value that begins with * belongs in quotes" if "alias" in str(getattr(error, "context", "")) else ""
        position = None if mark is None else Position(mark.line + 1, mark.column + 1)
        return self.syntax_error(position, f"this is not valid YAML: {problem}{hint}")

    def _too_deep_at(self, text: str) -> int:
        """Return the first line at which YAML is nested too deep."""
        depth = 0
        for event in self.library.parse(text):
            depth += isinstance(event, self.library.starts)
            depth -= isinstance(event, self.library.ends)
            if depth > self.deepest and event.start_mark is not None:
                return int(event.start_mark.line) + 1
        return 1

    def _read(self, node: Any, location: Location) -> Any:
        self.values[location] = _position(node)
        # The nesting can also be infinite: an alias can be nested in its own anchor.
        if len(location) > self.deepest:
            # The whole location would be too long for a message.
            raise self.fatal(location[:2], self.values[location[:2]], "it is nested too deep")
        self._add(location)
        if node.id == "mapping":
            return self._mapping(node, location)
        if node.id == "sequence":
            return [self._read(each, (*location, place)) for place, each in enumerate(node.value)]
        return self.scalar(node, location)

    def _add(self, location: Location) -> None:
        """Count a value, including those that `<<` repeats at the same location."""
        self._count += 1
        if self._count > self.most_values:
            message = f"there are more than {self.most_values:,} values, with what aliases repeat"
            raise self.fatal(location[:2], self.values[location[:2]], message)

    def _mapping(self, node: Any, location: Location) -> dict[str, Any]:
        # Read merged mappings first, so that the positions of overriding keys win.
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged |= self._merged(value, location, _position(key))
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                continue
            position = _position(key)
            place = (*location, key.value) if isinstance(key.value, str) else location
            if key.tag != f"{_TAG}str":
                self.problem(place, position, "a key must be text")
                continue
            self.keys[place] = position
            if key.value in own:
                self.problem(place, position, "the key stands here a second time")
            own[key.value] = self._read(value, place)
        return merged | own

    def _merged(self, node: Any, location: Location, position: Position) -> dict[str, Any]:
        """Return the entries that ``<<`` adds to a mapping. If it lists several mappings, the first one wins."""
        if not self.merges:
            raise self.fatal(location, position, "<< is not supported: write the keys themselves")
        merged: dict[str, Any] = {}
        for each in reversed(node.value if node.id == "sequence" else [node]):
            line = each.start_mark.line + 1
            if each.id != "mapping":
                self.problem(location, position, "what << merges must be a mapping")
                continue
            if each in self._merging:
                raise self.fatal(location, position, f"<< merges the mapping of line {line} into itself")
            if len(self._merging) > self.deepest:
                raise self.fatal(location, position, f"<< is nested too deep: line {line}")
            self._add(location)
            self._merging.append(each)
            merged |= self._mapping(each, location)
            self._merging.pop()
        return merged


def nearest(positions: dict[Location, Position], location: Sequence[str | int]) -> Position:
    """Return the position of a value, or of the nearest enclosing value."""
    known = tuple(location)
    while known and known not in positions:
        known = known[:-1]
    return positions.get(known, Position(1, 1))


def path_text(location: Sequence[str | int]) -> str:
    """Return a location as text, such as ``elt_syncs[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def expand_variables(text: str, value_of: Callable[[str], str]) -> str:
    """Return text in which ``${NAME}`` is replaced by a value, and ``$${NAME}`` by ``${NAME}``."""
    return _VARIABLE.sub(lambda found: found[0][1:] if found[1] else value_of(found[2]), text)


def escape_variables(value: Any) -> Any:
    """Return a value in whose texts variables are escaped, so that :func:`expand_variables` restores them."""
    if isinstance(value, dict):
        return {name: escape_variables(each) for name, each in value.items()}
    if isinstance(value, list):
        return [escape_variables(each) for each in value]
    return _BEFORE_VARIABLE.sub("$$", value) if isinstance(value, str) else value


class NotUtf8Error(ValueError):
    """
    The file is not UTF-8.

    :param line: the first line with an invalid byte, from 1.
    """

    def __init__(self, line: int) -> None:
        super().__init__("this is not UTF-8")
        self.line = line


def decode(content: bytes) -> str:
    """
    Return the text of a file in UTF-8, without a byte order mark.

    :raises NotUtf8Error: if it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotUtf8Error(content.count(b"\n", 0, error.start) + 1) from None


def _position(node: Any) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)
