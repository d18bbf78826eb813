"""Task and group names of nodes: readable, valid, unique, and independent of the selection."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from airflow_provider_datapipe.pipelines.snapshot import REVERSE_ETL, STREAM, TRANSFORM, Node

#: Top-level group of each kind.
_TOP = {STREAM: "elt", TRANSFORM: "transforms", REVERSE_ETL: "reverse_etl"}
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
#: Airflow reserves these names in each group.
_TAKEN = frozenset({"upstream_join_id", "downstream_join_id"})
#: Maximum length of a folder or name. Airflow's IDs have at most 250 characters, and enclosing groups need some.
_LONGEST_PART = 48
_LONGEST = 180


class Place(NamedTuple):
    """
    Position of a node's task in the groups of the DAG.

    :param groups: names of its groups, outermost first.
    :param label: name of the task in the innermost group.
    """

    groups: tuple[str, ...]
    label: str

    @property
    def path(self) -> str:
        """ID of the task, relative to the enclosing groups."""
        return ".".join([*self.groups, self.label])


def places(nodes: Iterable[Node]) -> Mapping[str, Place]:
    """
    Return the place of each node.

    If places collide with each other or with a group, a part of the node ID's hash is appended to the names. The names
    do not depend on the order of the nodes.

    :param nodes: all runnable nodes of a snapshot, including those that are not selected.
    """
    wanted = {node.id: _wanted(node) for node in nodes}
    groups = {".".join(place.groups[:count]) for place in wanted.values() for count in range(1, len(place.groups) + 1)}
    times = Counter(place.path for place in wanted.values())
    given = {
        key: place
        for key, place in wanted.items()
        if times[place.path] == 1 and place.path not in groups and place.label not in _TAKEN
    }
    taken = groups | {place.path for place in given.values()}
    for key in sorted(wanted.keys() - given.keys()):
        several = (wanted[key]._replace(label=f"{wanted[key].label}_{_digest(key, digits)}") for digits in (8, 16, 32))
        place = next(place for place in several if place.path not in taken)
        taken.add(place.path)
        given[key] = place
    return given


def _wanted(node: Node) -> Place:
    folders = node.folder.split("/") if node.kind == TRANSFORM else [node.folder]
    groups = (_TOP[node.kind], *(slug(folder) for folder in folders if folder))
    place = Place(groups, slug(node.name))
    if len(place.path) <= _LONGEST:
        return place
    return Place(groups[:1], f"{place.label}_{_digest(node.id)}")


def slug(text: str) -> str:
    """Return a text with only those characters that are valid in IDs."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = _NOT_PLAIN.sub("_", plain)
    if not re.search(r"[A-Za-z0-9]", plain):
        return f"unnamed_{_digest(text)}"
    if len(plain) > _LONGEST_PART:
        return f"{plain[: _LONGEST_PART - 9]}_{_digest(text)}"
    return plain


def _digest(text: str, digits: int = 8) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
