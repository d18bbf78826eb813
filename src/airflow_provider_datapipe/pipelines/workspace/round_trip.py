"""YAML of workspace files for changes in place: comments, quotes and the text of unchanged scalars stay."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Collection
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.tokens import CommentToken

from airflow_provider_datapipe.pipelines.workspace.document import SETTINGS

_TAG = "tag:yaml.org,2002:"
#: An entry of a file: its section and position.
Place: TypeAlias = "tuple[str, int]"
#: Depth of entries in a file.
_DEPTH = 2


class _Detachment:
    """
    Replacement of aliases and merge keys by copies, so that a change of an entry affects no other entries.

    :param places: the entries to change.
    """

    def __init__(self, places: Collection[Place]) -> None:
        self._places = places
        self._seen: set[int] = set()
        #: Nodes of the entries to change. Other entries also get copies of them.
        self._detached: set[int] = set()

    def detach(self, node: Any, location: tuple[Any, ...] = ()) -> Any:
        """Return the node to use instead of a node of the file. Call this in the order of the text."""
        if isinstance(node, ScalarNode):
            # A change replaces scalars.
            return node
        # Sections are changed if any entry is.
        is_changed = len(location) < _DEPTH or (location[:_DEPTH] in self._places and SETTINGS not in location)
        if id(node) in self._seen:
            return _copy(node) if is_changed or id(node) in self._detached else node
        self._seen.add(id(node))
        if is_changed:
            self._detached.add(id(node))
            node.anchor = None
        if isinstance(node, MappingNode):
            node.value = [
                each for key, value in node.value for each in self._pairs(node, key, value, location, is_changed)
            ]
        else:
            node.value = [self.detach(each, (*location, place)) for place, each in enumerate(node.value)]
        return node

    def _pairs(self, node: Any, key: Any, value: Any, location: tuple[Any, ...], is_changed: bool) -> list[Any]:
        """Return the pairs to use instead of a pair of a mapping: several for a merge key."""
        if not _is_merge(key):
            return [(key, self.detach(value, (*location, key.value)))]
        if is_changed or any(id(each) in self._detached for each in _merged_mappings(value)):
            return _merged_pairs(node, value)
        return [(key, self.detach(value, location))]


def _is_merge(key: Any) -> bool:
    return bool(key.tag == f"{_TAG}merge")


def _merged_mappings(value: Any) -> list[Any]:
    """Return the mappings that a merge key includes. The first one wins."""
    return list(value.value) if isinstance(value, SequenceNode) else [value]


def _merged_pairs(node: Any, value: Any) -> list[Any]:
    """Return copies of the pairs that a merge key adds to a mapping."""
    own = {key.value for key, _ in node.value if not _is_merge(key)}
    found: dict[str, Any] = {}
    for each in _merged_mappings(value):
        for key, child in _copy(each).value:
            if key.value not in own:
                found.setdefault(key.value, (key, child))
    return list(found.values())


def _copy(node: Any) -> Any:
    """Return a copy of a node without comments, anchors and merge keys."""
    copied = copy.copy(node)
    copied.comment = copied.anchor = None
    if isinstance(node, MappingNode):
        copied.value = []
        for key, value in node.value:
            copied.value += _merged_pairs(node, value) if _is_merge(key) else [(_copy(key), _copy(value))]
    elif isinstance(node, SequenceNode):
        copied.value = [_copy(each) for each in node.value]
    return copied


class _Constructor(RoundTripConstructor):
    """YAML constructor that keeps the text of scalars. The library would format numbers and timestamps anew."""

    #: The entries to change.
    places: Collection[Place] = ()

    def construct_document(self, node: Any) -> Any:
        """Return the tree of a document in which the entries to change share no nodes with others."""
        return super().construct_document(_Detachment(self.places).detach(node))

    def construct_source(self, node: Any) -> TaggedScalar | None:
        """Return a scalar that is written as it is read, None for an empty one."""
        if not node.value:
            return None
        scalar = TaggedScalar(node.value, node.style, node.tag)
        if node.anchor:
            scalar.yaml_set_anchor(node.anchor, always_dump=True)
        return scalar


for _name in ("null", "bool", "int", "float", "timestamp"):
    _Constructor.add_constructor(_TAG + _name, _Constructor.construct_source)


class _Representer(RoundTripRepresenter):
    """YAML representer that writes null as a word, and text so that it is read unchanged."""

    def represent_nothing(self, _: None) -> Any:
        """Represent null."""
        return self.represent_scalar(f"{_TAG}null", "null")

    def represent_text(self, text: str) -> Any:
        """Represent text. Without double quotes, the library reads the line end U+0085 as a space."""
        return self.represent_scalar(f"{_TAG}str", text, style='"' if "\x85" in text else None)


_Representer.add_representer(type(None), _Representer.represent_nothing)
_Representer.add_representer(str, _Representer.represent_text)


def load(text: str, places: Collection[Place]) -> Any:
    """
    Return the tree of a file for changes.

    :param text: text of the file.
    :param places: the entries to change, which get their own copies of shared nodes.
    """
    yaml = _yaml()
    yaml.constructor.places = places
    return yaml.load(text)


def dump(tree: Any) -> str:
    """Return the text of a tree."""
    _repair_empty_lists(tree)
    text = io.StringIO()
    _yaml().dump(tree, text)
    return text.getvalue()


def _repair_empty_lists(node: Any) -> None:
    """Move comments from before the first entry to behind empty lists. Otherwise the library writes invalid YAML."""
    if isinstance(node, CommentedSeq):
        for each in node:
            _repair_empty_lists(each)
    elif isinstance(node, CommentedMap):
        for key, value in node.items():
            _repair_empty_lists(value)
            if isinstance(value, CommentedSeq) and not value and not value.fa.flow_style() and value.ca.comment:
                value.fa.set_flow_style()
                value.ca.comment = None
                *_, tokens = node.ca.items[key]
                if tokens:
                    text = "".join(" " * each.column + each.value for each in tokens)
                    node.ca.items[key] = [None, None, CommentToken(text.lstrip(), tokens[0].start_mark), None]


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Constructor = _Constructor
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = sys.maxsize
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
