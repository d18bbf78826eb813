"""Dependency graph of runnable nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from airflow_provider_datapipe.pipelines.errors import CycleError
from airflow_provider_datapipe.pipelines.snapshot import RUNNABLE, Node, Snapshot

Which = Literal["published", "newest"]


class Graph:
    """
    Runnable nodes of a snapshot, and their dependencies.

    :param snapshot: the snapshot.
    :param sql: the SQL whose references count if a transform was changed after its publication: ``published`` or
        ``newest``.
    """

    def __init__(self, snapshot: Snapshot, *, sql: Which = "published") -> None:
        self.snapshot = snapshot
        self.nodes: Mapping[str, Node] = {key: node for key, node in snapshot.nodes.items() if node.kind in RUNNABLE}
        self.parents: Mapping[str, tuple[str, ...]] = {
            key: node.depends_on if sql == "published" or node.draft_depends_on is None else node.draft_depends_on
            for key, node in self.nodes.items()
        }
        children: dict[str, list[str]] = {key: [] for key in self.nodes}
        for key, parents in self.parents.items():
            for parent in dict.fromkeys(parents):
                children[parent].append(key)
        self.children: Mapping[str, list[str]] = children

    def ancestors(self, begin: Collection[str], steps: int | None = None) -> set[str]:
        """
        Return nodes and their direct and indirect dependencies.

        :param begin: the nodes.
        :param steps: maximum distance; None for all.
        """
        return _reached(begin, self.parents, steps)

    def descendants(self, begin: Collection[str], steps: int | None = None) -> set[str]:
        """
        Return nodes and those that depend on them, directly or indirectly.

        :param begin: the nodes.
        :param steps: maximum distance; None for all.
        """
        return _reached(begin, self.children, steps)

    def among(self, chosen: Collection[str]) -> dict[str, list[str]]:
        """
        Return the dependencies of nodes among each other, including those through other nodes.

        :param chosen: the nodes.
        :raises CycleError: if the dependencies form a cycle.
        """
        chosen_ids = frozenset(chosen)
        within = {key: sorted(self._nearest(key, chosen_ids)) for key in sorted(chosen_ids)}
        cycle = _cycle(within)
        if cycle:
            reported = " -> ".join(self.nodes[key].title for key in cycle)
            raise CycleError(
                f"{self.snapshot.origin}: the references form a cycle, so no node can run first: {reported}. Each node "
                "is read by the next one. Change the SQL of one of them, and write the snapshot again."
            )
        return within

    def _nearest(self, key: str, chosen: frozenset[str]) -> set[str]:
        """Return the chosen nodes that a node reads, directly or through nodes that are not chosen."""
        found: set[str] = set()
        seen: set[str] = set()
        ahead = list(self.parents[key])
        while ahead:
            parent = ahead.pop()
            if parent in chosen:
                found.add(parent)
            elif parent not in seen:
                seen.add(parent)
                ahead += self.parents[parent]
        return found


def _reached(begin: Collection[str], following: Mapping[str, Collection[str]], steps: int | None) -> set[str]:
    reached = set(begin)
    edge = reached
    while edge and (steps is None or steps > 0):
        edge = {each for key in edge for each in following[key]} - reached
        reached = reached | edge
        steps = None if steps is None else steps - 1
    return reached


def _cycle(parents: Mapping[str, Collection[str]]) -> list[str]:
    """Return a cycle in the direction of the data, with the same first and last node; empty if there is none."""
    done: set[str] = set()
    for begin in parents:
        if begin in done:
            continue
        path: dict[str, Iterator[str]] = {begin: iter(parents[begin])}
        while path:
            last = next(reversed(path))
            for parent in path[last]:
                if parent in path:
                    visited = list(path)
                    return [*visited[visited.index(parent) :], parent][::-1]
                if parent not in done:
                    path[parent] = iter(parents[parent])
                    break
            else:
                done.add(last)
                del path[last]
    return []
