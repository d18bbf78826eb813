"""Small and random snapshots for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.snapshot import REVERSE_ETL, STREAM, TRANSFORM, Node, Snapshot

FOLDERS = ("", "marts", "marts/eu", "staging")


def node(key: str, *depends_on: str, **more: Any) -> Node:
    """Return a node. Its name is the second part of its ID."""
    kind, _, name = key.partition(":")
    if kind == TRANSFORM:
        more = {"status": "published", "materialization": "view"} | more
    return Node(key, kind, name, **({"name": name} | more), depends_on=tuple(sorted(depends_on)))


def of_edges(parents: Mapping[str, Iterable[str]]) -> Snapshot:
    """Return a snapshot with the given dependencies."""
    return Snapshot(node(key, *read) for key, read in parents.items())


@st.composite
def snapshots(draw: st.DrawFn, most: int = 12) -> Snapshot:
    """Draw a snapshot without cycles: each node may read earlier nodes."""
    nodes: list[Node] = []
    for place in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from([STREAM, TRANSFORM, TRANSFORM, REVERSE_ETL]))
        read = draw(st.sets(st.sampled_from(nodes).map(lambda one: one.id), max_size=3)) if nodes else set()
        folder = draw(st.sampled_from(FOLDERS)) if kind == TRANSFORM else ""
        nodes.append(node(f"{kind}:n{place}", *(() if kind == STREAM else read), folder=folder))
    return Snapshot(nodes)
