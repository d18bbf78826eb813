"""Tests of the dependency graph, also through omitted nodes, and of its Mermaid diagram."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.errors import CycleError
from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.mermaid import diagram
from airflow_provider_datapipe.pipelines.snapshot import Snapshot
from tests.unit.pipelines.graphs import node, of_edges, snapshots


def naive_among(graph: Graph, chosen: set[str]) -> dict[str, list[str]]:
    """Follow each path back to its first chosen node."""

    def first(key: str) -> set[str]:
        found: set[str] = set()
        for parent in graph.parents[key]:
            found |= {parent} if parent in chosen else first(parent)
        return found

    return {key: sorted(first(key)) for key in chosen}


@given(snapshots(), st.data())
def test_dependencies_pass_through_omitted_nodes(snapshot: Snapshot, data: st.DataObject) -> None:
    graph = Graph(snapshot)
    chosen = data.draw(st.sets(st.sampled_from(sorted(graph.nodes))))
    assert graph.among(chosen) == naive_among(graph, chosen)


@given(snapshots(), st.data())
def test_order_of_a_selection_is_that_of_all_nodes(snapshot: Snapshot, data: st.DataObject) -> None:
    graph = Graph(snapshot)
    chosen = data.draw(st.sets(st.sampled_from(sorted(graph.nodes))))
    within = graph.among(chosen)
    for one in chosen:
        waits_for, ahead = set[str](), list(within[one])
        while ahead:
            each = ahead.pop()
            waits_for.add(each)
            ahead += within[each]
        assert waits_for == (graph.ancestors({one}) - {one}) & chosen


def test_graph_of_published_or_newest_sql() -> None:
    transform = node("transform:t", "stream:a", draft_depends_on=("stream:b",))
    snapshot = Snapshot([node("stream:a"), node("stream:b"), transform])
    assert Graph(snapshot).parents["transform:t"] == ("stream:a",)
    assert Graph(snapshot, sql="newest").parents["transform:t"] == ("stream:b",)


def test_graph_contains_only_runnable_nodes() -> None:
    snapshot = Snapshot([node("sync:s"), node("orchestration:o"), node("stream:a", sync="sync:s")])
    assert list(Graph(snapshot).nodes) == ["stream:a"]


CYCLE = {
    "transform:a": ["transform:c"],
    "transform:b": ["transform:a"],
    "transform:c": ["transform:b", "stream:s"],
    "stream:s": [],
    "transform:d": ["transform:a"],
}


@pytest.mark.parametrize("chosen", [set(CYCLE), {"transform:a", "transform:b", "transform:c"}])
def test_cycle_error_lists_the_nodes(chosen: set[str]) -> None:
    with pytest.raises(CycleError) as error:
        Graph(of_edges(CYCLE)).among(chosen)
    cycle = str(error.value).partition("run first: ")[2].partition(".")[0].split(" -> ")
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"a", "b", "c"}
    # In the order of the data flow.
    assert all(f"transform:{one}" in CYCLE[f"transform:{next_}"] for one, next_ in pairwise(cycle))


def test_cycle_of_omitted_nodes_is_ignored() -> None:
    graph = Graph(of_edges(CYCLE))
    assert graph.among({"stream:s", "transform:d"}) == {"stream:s": [], "transform:d": ["stream:s"]}
    with pytest.raises(CycleError, match=r"a -> a\. "):
        # The cycle passes through the two omitted nodes.
        graph.among({"transform:a"})


def test_self_reference_is_a_cycle() -> None:
    with pytest.raises(CycleError, match=r"a -> a\. "):
        Graph(of_edges({"transform:a": ["transform:a"]})).among({"transform:a"})


@given(st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from("abcdefg")), min_size=1))
def test_every_cycle_is_detected(read: dict[str, set[str]]) -> None:
    parents = {f"transform:{key}": [f"transform:{each}" for each in sorted(read.get(key, ()))] for key in "abcdefg"}
    left = {key: set(each) for key, each in parents.items()}
    while free := [key for key, each in left.items() if not each & left.keys()]:
        for key in free:
            del left[key]
    graph = Graph(of_edges(parents))
    if left:
        with pytest.raises(CycleError):
            graph.among(graph.nodes)
    else:
        assert graph.among(graph.nodes) == {key: sorted(each) for key, each in parents.items()}


@pytest.mark.slow
def test_chain_of_20000_nodes() -> None:
    chain = {f"transform:{place:05}": [f"transform:{place - 1:05}"] if place else [] for place in range(20_000)}
    graph = Graph(of_edges(chain))
    assert len(graph.ancestors(["transform:19999"])) == 20_000
    assert graph.among({"transform:00000", "transform:19999"})["transform:19999"] == ["transform:00000"]
    assert graph.among(graph.nodes) == {key: list(each) for key, each in chain.items()}


#: Node of a Mermaid diagram: its name, brackets of its kind, label, and class.
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
