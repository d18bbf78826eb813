"""What the tasks and task groups of nodes are called: readable, valid, unique, and the same whatever is selected."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from airflow_provider_datapipe.pipelines.snapshot import REVERSE_ETL, STREAM, TRANSFORM, Node

#: The group of each kind.
_TOP = {STREAM: "elt", TRANSFORM: "transforms", REVERSE_ETL: "reverse_etl"}
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
#: Airflow gives every group two nodes of these names.
_TAKEN = frozenset({"upstream_join_id", "downstream_join_id"})
#: Of a folder or name. Airflow's ids have 250 characters at the most, and the groups around ours need some.
_LONGEST_PART = 48
_LONGEST = 180


class Place(NamedTuple):
    """
    Where the task of a node is.

    :param groups: its groups, from the outermost one.
    :param label: its name in the innermost.
    """

    groups: tuple[str, ...]
    label: str

    @property
    def path(self) -> str:
        """Its id, below what is around it."""
        return ".".join([*self.groups, self.label])


def places(nodes: Iterable[Node]) -> Mapping[str, Place]:
    """
    Give the place of each node.

    Where several would be at the same, or one where a group is, each has a part of a hash of its id behind its name:
    neither the order nor what else is there matters.

    :param nodes: all nodes of a snapshot that can be run, also those that are not selected.
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
    """Write a text with the characters that ids may have."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = _NOT_PLAIN.sub("_", plain)
    if not re.search(r"[A-Za-z0-9]", plain):
        return f"unnamed_{_digest(text)}"
    if len(plain) > _LONGEST_PART:
        return f"{plain[: _LONGEST_PART - 9]}_{_digest(text)}"
    return plain


def _digest(text: str, digits: int = 8) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
