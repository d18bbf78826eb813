"""Tests of the selection language, also against a simple reference model."""

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

#: A part of a selection: method, pattern, and steps to ancestors and descendants; None for all, 0 for none.
Part = tuple[str, str, int | None, int | None]

STEPS = st.sampled_from([0, 0, None, 1, 2, 3])


@st.composite
def parts(draw: st.DrawFn, snapshot: Snapshot) -> Part:
    known = [one for one in snapshot.nodes.values() if one.folder]
    method = draw(st.sampled_from(["name", "kind", "folder", "id"] if known else ["name", "kind", "id"]))
    one = draw(st.sampled_from(sorted(snapshot.nodes.values(), key=lambda each: each.id)))
    if method == "folder":
        folder = draw(st.sampled_from(sorted({each.folder for each in known})))
        what = draw(st.sampled_from([folder, folder.partition("/")[0]]))
    else:
        what = {"name": one.name, "kind": one.kind, "id": one.id}[method]
    return method, what, draw(STEPS), draw(STEPS)


def as_text(part: Part) -> str:
    method, what, before, after = part
    text = what if method == "name" else f"{method}:{what}"
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


def is_selected(node: Node, part: Part, snapshot: Snapshot) -> bool:
    method, what, before, after = part
    parents = {one.id: set(one.depends_on) for one in snapshot.nodes.values()}

    def matches(one: Node) -> bool:
        if method == "folder":
            return one.folder == what or one.folder.startswith(f"{what}/")
        return {"name": one.name, "kind": one.kind, "id": one.id}[method] == what

    def near(steps: int | None, limit: int | None) -> bool:
        return steps is not None and (limit is None or steps <= limit)

    return any(
        near(distance(parents, one.id, node.id), before) or near(distance(parents, node.id, one.id), after)
        for one in snapshot.nodes.values()
        if matches(one)
    )


@given(st.data())
def test_selection_matches_the_reference_model(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    terms = data.draw(st.lists(st.lists(parts(snapshot), min_size=1, max_size=3), min_size=1, max_size=3))
    excluded = data.draw(st.lists(st.lists(parts(snapshot), min_size=1, max_size=2), max_size=2))

    def selected_ids(selection: list[list[Part]]) -> set[str]:
        return {
            one.id
            for one in snapshot.nodes.values()
            if any(all(is_selected(one, part, snapshot) for part in term) for term in selection)
        }

    def written(selection: list[list[Part]]) -> list[str]:
        return [",".join(as_text(part) for part in term) for term in selection]

    expected = selected_ids(terms) - selected_ids(excluded)
    assume(expected)
    graph = Graph(snapshot)
    assert select(graph, written(terms), written(excluded)) == sorted(expected)
    assert select(graph, "  ".join(written(terms)), " ".join(written(excluded))) == sorted(expected)


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
    ("selection", "expected"),
    [
        *((one, {"stream:1"}) for one in ("orders", "shop.orders", ("orders",))),
        ("status:disabled", {"stream:2"}),
        *((many, {"stream:1", "stream:2"}) for many in ("kind:stream", "sync:shop sync:s2", "+all,kind:stream")),
        *((one, {"transform:stg"}) for one in ("stg_*", "id:transform:stg")),
        *((one, {"transform:paid"}) for one in ("marts/eu/paid", "folder:marts/eu", "folder:*/eu", "status:draft")),
        ("materialization:table paid", {"transform:paid"}),
        *((many, {"transform:paid", "transform:all"}) for many in ("folder:marts", "folder:marts/*")),
        *((many, {"stream:1", "transform:all"}) for many in ("orchestration:Nightly", "orchestration:night")),
        ("0+all", {"transform:all"}),
        ("2+all", {"transform:all", "transform:paid", "transform:stg", "stream:2"}),
        ("orders+1", {"stream:1", "transform:stg"}),
        ("+paid+", {"transform:paid", "transform:stg", "stream:1", "stream:2", "transform:all", "reverse_etl:r"}),
        (["a b?c?d"], {"transform:odd"}),
        (["folder:x y", "orders , kind:stream"], {"transform:odd", "stream:1"}),
    ],
)
def test_selection_examples(selection: Any, expected: set[str]) -> None:
    assert set(select(Graph(SHOP), selection)) == expected


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("orders[1]", {"stream:orders[1]"}),
        ("kind:stream,orders[*", {"stream:orders[1]", "stream:orders[2]"}),
        ("[!a]x", {"stream:[!a]x"}),
        ("id:stream:a]", {"stream:a]"}),
    ],
)
def test_brackets_have_no_meaning_in_selections(selection: str, expected: set[str]) -> None:
    names = ("orders1", "orders[1]", "orders[2]", "bx", "[!a]x", "a]")
    graph = Graph(Snapshot(node(f"stream:{name}") for name in names))
    assert set(select(graph, selection)) == expected
    assert set(select(graph, None, selection)) == graph.nodes.keys() - expected
    # An unknown name is an error, because it is no pattern.
    with pytest.raises(SelectionError, match="there is no node 'orders"):
        select(graph, None, "orders[3]")


def test_default_selection_is_all_nodes() -> None:
    graph = Graph(SHOP)
    assert select(graph) == sorted(graph.nodes)
    assert "stream:1" not in select(graph, None, "orders")
    # A pattern without matches can be excluded.
    assert select(graph, None, "legacy_*") == sorted(graph.nodes)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("order", "there is no node 'order' in The snapshot. Did you mean orders"),
        ("ORDERS", "Did you mean orders"),
        ("zzz", "there is no node 'zzz' in The snapshot. Known values: "),
        ("folder:mart", "there is no folder 'mart' in The snapshot. Did you mean marts"),
        ("sync:nope", "there is no sync 'nope'"),
        ("kind:table", "there is no kind 'table'"),
        ("status:drafts", "Did you mean draft"),
        ("id:paid", "there is no id 'paid'"),
        ("folders:marts", "folders: is not a selection method. Did you mean folder:?"),
        ("tag:x", "Use name:, folder:"),
        ("folder:", "'folder:' has no value after the colon"),
        ("+", "'+' is not a valid selection"),
        ("orders,", "'' is not a valid selection"),
        ("", "select='' matches no nodes."),
        ([], "select=[] matches no nodes."),
        ("legacy_*", "select='legacy_*' matches no nodes."),
        ("kind:stream,kind:transform", "matches no nodes."),
        ([1], "1 is not text"),
    ],
)
def test_invalid_selections_are_rejected(selection: Any, message: str) -> None:
    with pytest.raises(SelectionError) as refused:
        select(Graph(SHOP), selection)
    assert message in str(refused.value)


def test_empty_results_are_rejected() -> None:
    with pytest.raises(SelectionError, match="exclude='order': there is no node 'order'"):
        select(Graph(SHOP), None, "order")
    with pytest.raises(SelectionError, match="exclude='kind:stream' excludes all selected nodes"):
        select(Graph(SHOP), "orders", "kind:stream")
    with pytest.raises(SelectionError, match="there are no runnable nodes"):
        select(Graph(Snapshot([node("sync:s")])))
