"""Dependencies of resources, also through omitted ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.errors import CycleError
from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.snapshot import Snapshot
from tests.unit.pipelines.graphs import node, of_edges, snapshots


def naive_among(graph: Graph, chosen: set[str]) -> dict[str, list[str]]:
    """Follow every way back, one by one, to the first that is chosen."""

    def first(key: str) -> set[str]:
        found: set[str] = set()
        for parent in graph.parents[key]:
            found |= {parent} if parent in chosen else first(parent)
        return found

    return {key: sorted(first(key)) for key in chosen}


@given(snapshots(), st.data())
def test_what_is_chosen_waits_for_what_it_reads_through_others(snapshot: Snapshot, data: st.DataObject) -> None:
    graph = Graph(snapshot)
    chosen = data.draw(st.sets(st.sampled_from(sorted(graph.nodes))))
    assert graph.among(chosen) == naive_among(graph, chosen)


@given(snapshots(), st.data())
def test_the_order_is_that_of_the_whole(snapshot: Snapshot, data: st.DataObject) -> None:
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


def test_the_sql_that_counts_is_chosen() -> None:
    snapshot = Snapshot(
        [node("stream:a"), node("stream:b"), node("transform:t", "stream:a", draft_depends_on=("stream:b",))]
    )
    assert Graph(snapshot).parents["transform:t"] == ("stream:a",)
    assert Graph(snapshot, sql="newest").parents["transform:t"] == ("stream:b",)


def test_what_can_not_be_run_is_no_part() -> None:
    snapshot = Snapshot([node("sync:s"), node("orchestration:o"), node("stream:a", sync="sync:s")])
    assert list(Graph(snapshot).nodes) == ["stream:a"]


CIRCLE = {
    "transform:a": ["transform:c"],
    "transform:b": ["transform:a"],
    "transform:c": ["transform:b", "stream:s"],
    "stream:s": [],
    "transform:d": ["transform:a"],
}


@pytest.mark.parametrize("chosen", [set(CIRCLE), {"transform:a", "transform:b", "transform:c"}])
def test_a_circle_is_named(chosen: set[str]) -> None:
    with pytest.raises(CycleError) as refused:
        Graph(of_edges(CIRCLE)).among(chosen)
    circle = str(refused.value).partition("run first: ")[2].partition(".")[0].split(" -> ")
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}
    # In the order in which data would pass.
    assert all(f"transform:{one}" in CIRCLE[f"transform:{next_}"] for one, next_ in pairwise(circle))


def test_a_circle_of_what_is_left_out_does_no_harm() -> None:
    graph = Graph(of_edges(CIRCLE))
    assert graph.among({"stream:s", "transform:d"}) == {"stream:s": [], "transform:d": ["stream:s"]}
    with pytest.raises(CycleError, match=r"a -> a\. "):
        # Through the other two.
        graph.among({"transform:a"})


def test_what_reads_itself_is_a_circle() -> None:
    with pytest.raises(CycleError, match=r"a -> a\. "):
        Graph(of_edges({"transform:a": ["transform:a"]})).among({"transform:a"})


@given(st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from("abcdefg")), min_size=1))
def test_a_circle_is_found_if_there_is_one(read: dict[str, set[str]]) -> None:
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
def test_a_long_chain_is_no_problem() -> None:
    chain = {f"transform:{place:05}": [f"transform:{place - 1:05}"] if place else [] for place in range(20_000)}
    graph = Graph(of_edges(chain))
    assert len(graph.ancestors(["transform:19999"])) == 20_000
    assert graph.among({"transform:00000", "transform:19999"})["transform:19999"] == ["transform:00000"]
    assert graph.among(graph.nodes) == {key: list(each) for key, each in chain.items()}
