"""The language of selections, against a model that asks of each node alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.errors import SelectionError
from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.selection import select
from airflow_provider_datapipe.pipelines.snapshot import Node, Snapshot
from tests.unit.pipelines.graphs import node, snapshots

#: A part of a selection: what is meant, and how many steps it is followed to either side; None for all, 0 for none.
Part = tuple[str, str, int | None, int | None]

STEPS = st.sampled_from([0, 0, None, 1, 2, 3])


@st.composite
def parts(draw: st.DrawFn, snapshot: Snapshot) -> Part:
    known = [one for one in snapshot.nodes.values() if one.folder]
    word = draw(st.sampled_from(["name", "kind", "folder", "id"] if known else ["name", "kind", "id"]))
    one = draw(st.sampled_from(sorted(snapshot.nodes.values(), key=lambda each: each.id)))
    if word == "folder":
        folder = draw(st.sampled_from(sorted({each.folder for each in known})))
        what = draw(st.sampled_from([folder, folder.partition("/")[0]]))
    else:
        what = {"name": one.name, "kind": one.kind, "id": one.id}[word]
    return word, what, draw(STEPS), draw(STEPS)


def as_text(part: Part) -> str:
    word, what, before, after = part
    text = what if word == "name" else f"{word}:{what}"
    text = f"{before or ''}+{text}" if before != 0 else text
    return f"{text}+{after or ''}" if after != 0 else text


def distance(parents: dict[str, set[str]], begin: str, end: str) -> int | None:
    """Count the steps from a node to one that it reads."""
    edge, steps, seen = {begin}, 0, {begin}
    while edge:
        if end in edge:
            return steps
        edge = {each for key in edge for each in parents[key]} - seen
        seen |= edge
        steps += 1
    return None


def is_meant(node: Node, part: Part, snapshot: Snapshot) -> bool:
    word, what, before, after = part
    parents = {one.id: set(one.depends_on) for one in snapshot.nodes.values()}

    def said(one: Node) -> bool:
        if word == "folder":
            return one.folder == what or one.folder.startswith(f"{what}/")
        return {"name": one.name, "kind": one.kind, "id": one.id}[word] == what

    def near(steps: int | None, limit: int | None) -> bool:
        return steps is not None and (limit is None or steps <= limit)

    return any(
        near(distance(parents, one.id, node.id), before) or near(distance(parents, node.id, one.id), after)
        for one in snapshot.nodes.values()
        if said(one)
    )


@given(st.data())
def test_a_selection_means_what_the_model_says(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    terms = data.draw(st.lists(st.lists(parts(snapshot), min_size=1, max_size=3), min_size=1, max_size=3))
    left_out = data.draw(st.lists(st.lists(parts(snapshot), min_size=1, max_size=2), max_size=2))

    def means(selection: list[list[Part]]) -> set[str]:
        return {
            one.id
            for one in snapshot.nodes.values()
            if any(all(is_meant(one, part, snapshot) for part in term) for term in selection)
        }

    def written(selection: list[list[Part]]) -> list[str]:
        return [",".join(as_text(part) for part in term) for term in selection]

    expected = means(terms) - means(left_out)
    assume(expected)
    graph = Graph(snapshot)
    assert select(graph, written(terms), written(left_out)) == sorted(expected)
    assert select(graph, "  ".join(written(terms)), " ".join(written(left_out))) == sorted(expected)


SHOP = Snapshot(
    [
        node("orchestration:night", name="Nightly"),
        node("sync:s1", name="shop", orchestration="orchestration:night"),
        node("sync:s2", name="crm"),
        node("stream:1", name="orders", folder="shop", sync="sync:s1", status="enabled"),
        node("stream:2", name="people", folder="crm", sync="sync:s2", status="disabled"),
        node("transform:stg", "stream:1", name="stg_orders", folder="staging"),
        node("transform:paid", "transform:stg", "stream:2", name="paid", folder="marts/eu", status="draft"),
        node("transform:all", "transform:paid", name="all", folder="marts", orchestration="orchestration:night"),
        node("transform:odd", name="a b+c,d", folder="x y"),
        node("reverse_etl:r", "transform:all", name="all_to_http"),
    ]
)


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        ("orders", {"stream:1"}),
        ("shop.orders", {"stream:1"}),
        ("marts/eu/paid", {"transform:paid"}),
        ("stg_*", {"transform:stg"}),
        ("folder:marts", {"transform:paid", "transform:all"}),
        ("folder:marts/*", {"transform:paid", "transform:all"}),
        ("folder:marts/eu", {"transform:paid"}),
        ("folder:*/eu", {"transform:paid"}),
        ("kind:stream", {"stream:1", "stream:2"}),
        ("sync:shop sync:s2", {"stream:1", "stream:2"}),
        ("orchestration:Nightly", {"stream:1", "transform:all"}),
        ("orchestration:night", {"stream:1", "transform:all"}),
        ("status:disabled", {"stream:2"}),
        ("status:draft", {"transform:paid"}),
        ("materialization:table paid", {"transform:paid"}),
        ("id:transform:stg", {"transform:stg"}),
        ("2+all", {"transform:all", "transform:paid", "transform:stg", "stream:2"}),
        ("orders+1", {"stream:1", "transform:stg"}),
        ("0+all", {"transform:all"}),
        ("+paid+", {"transform:paid", "transform:stg", "stream:1", "stream:2", "transform:all", "reverse_etl:r"}),
        ("+all,kind:stream", {"stream:1", "stream:2"}),
        (["a b?c?d"], {"transform:odd"}),
        (["folder:x y", "orders , kind:stream"], {"transform:odd", "stream:1"}),
        (("orders",), {"stream:1"}),
    ],
)
def test_words(selection: Any, meant: set[str]) -> None:
    assert set(select(Graph(SHOP), selection)) == meant


def test_without_a_selection_all_is_meant() -> None:
    graph = Graph(SHOP)
    assert select(graph) == sorted(graph.nodes)
    assert "stream:1" not in select(graph, None, "orders")
    # What is gone already can be excluded as a pattern.
    assert select(graph, None, "legacy_*") == sorted(graph.nodes)


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ("order", "nothing is called 'order' in The snapshot. Did you mean orders"),
        ("ORDERS", "Did you mean orders"),
        ("zzz", "nothing is called 'zzz' in The snapshot. There is "),
        ("folder:mart", "there is no folder 'mart' in The snapshot. Did you mean marts"),
        ("sync:nope", "there is no sync 'nope'"),
        ("kind:table", "there is no kind 'table'"),
        ("status:drafts", "Did you mean draft"),
        ("id:paid", "there is no id 'paid'"),
        ("folders:marts", "folders: is no word of a selection. Was folder: meant?"),
        ("tag:x", "There are name:, folder:"),
        ("folder:", "something has to follow the colon"),
        ("+", "'+' means nothing"),
        ("orders,", "'' means nothing"),
        ("", "select='' means nothing."),
        ([], "select=[] means nothing."),
        ("legacy_*", "select='legacy_*' means nothing."),
        ("kind:stream,kind:transform", "means nothing."),
        ([1], "1 is no text"),
    ],
)
def test_what_means_nothing_is_refused(selection: Any, said: str) -> None:
    with pytest.raises(SelectionError) as refused:
        select(Graph(SHOP), selection)
    assert said in str(refused.value)


def test_what_leaves_nothing_is_refused() -> None:
    with pytest.raises(SelectionError, match="exclude='order': nothing is called 'order'"):
        select(Graph(SHOP), None, "order")
    with pytest.raises(SelectionError, match="exclude='kind:stream' leaves nothing of what is selected"):
        select(Graph(SHOP), "orders", "kind:stream")
    with pytest.raises(SelectionError, match="Nothing is there that can be run"):
        select(Graph(Snapshot([node("sync:s")])))
