"""Tests of Mermaid diagrams: complete nodes and edges, and escaped names."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.mermaid import diagram
from airflow_provider_datapipe.pipelines.snapshot import Snapshot
from tests.unit.pipelines.graphs import node, snapshots

DRAWN = re.compile(r'^ *(n\d+)(\[\(|\[/|\[)"(.*)"(\)\]|/\]|\]):::(\w+)$', re.MULTILINE)


def plain(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


@given(snapshots())
def test_every_node_and_edge_is_drawn(snapshot: Snapshot) -> None:
    graph = Graph(snapshot)
    parents = graph.among(graph.nodes)
    nodes = list(graph.nodes.values())
    drawn = diagram(nodes, parents)
    names = {found[1]: nodes[int(found[1][1:])].id for found in DRAWN.finditer(drawn)}
    assert {found[1]: (found[3], found[5]) for found in DRAWN.finditer(drawn)} == {
        f"n{place}": (each.name, each.kind) for place, each in enumerate(nodes)
    }
    edges = {(names[one], names[other]) for one, other in re.findall(r"^  (n\d+) --> (n\d+)$", drawn, re.MULTILINE)}
    assert edges == {(parent, key) for key, read in parents.items() for parent in read}
    assert drawn.count("subgraph") == drawn.count("  end\n") == len({each.folder for each in nodes if each.folder})


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_are_escaped(name: str, folder: str) -> None:
    drawn = diagram([node("transform:1", name=name, folder=folder)], {"transform:1": []})
    assert len(drawn.splitlines()) == 4 + 3
    (found,) = DRAWN.finditer(drawn)
    assert plain(found[3]) == name
    # Mermaid 11 shows these characters unchanged.
    assert re.fullmatch(r"[\w .,:/()#;-]*", found[3], re.ASCII)
    (box,) = re.findall(r'subgraph g0\["(.*)"\]', drawn)
    assert plain(box) == folder
