"""Mermaid diagrams of graphs, for Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from airflow_provider_datapipe.pipelines.snapshot import REVERSE_ETL, STREAM, TRANSFORM, Node

_SHAPES = {STREAM: ("[(", ")]"), TRANSFORM: ("[", "]"), REVERSE_ETL: ("[/", "/]")}
_STYLES = (
    "classDef stream fill:#d7efe9,stroke:#2a7f6d,color:#111",
    "classDef transform fill:#dfe8f7,stroke:#3b5f9e,color:#111",
    "classDef reverse_etl fill:#f7e6d7,stroke:#a5682a,color:#111",
)
#: Special characters in labels. Mermaid accepts their character codes instead.
_SPECIAL = re.compile(r"[^\w .,:/()-]", re.ASCII)


def diagram(nodes: Sequence[Node], parents: Mapping[str, Sequence[str]]) -> str:
    """
    Return a diagram with nodes from left to right, each within its schema or folder.

    :param nodes: the nodes, in the order in which they are drawn.
    :param parents: IDs of the nodes that each node reads, by ID.
    """
    names = {node.id: f"n{place}" for place, node in enumerate(nodes)}
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.kind, node.folder), []).append(node)
    lines = ["flowchart LR"]
    for place, ((_, folder), members) in enumerate(sorted(groups.items())):
        node_lines = [_node_line(names[node.id], node) for node in members]
        if folder:
            node_lines = [f'subgraph g{place}["{_label(folder)}"]', *(f"  {line}" for line in node_lines), "end"]
        lines += [f"  {line}" for line in node_lines]
    for node in nodes:
        lines += [f"  {names[parent]} --> {names[node.id]}" for parent in parents[node.id]]
    lines += [f"  {style}" for style in _STYLES]
    return "\n".join(lines) + "\n"


def _node_line(name: str, node: Node) -> str:
    begin, end = _SHAPES[node.kind]
    return f'{name}{begin}"{_label(node.name)}"{end}:::{node.kind}'


def _label(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)
