"""Tests of task and group IDs: valid for Airflow, unique, and independent of other nodes."""

from __future__ import annotations

import hashlib

from airflow.sdk.definitions._internal.node import validate_group_key, validate_key
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.naming import places, slug
from airflow_provider_datapipe.pipelines.snapshot import Node
from tests.unit.pipelines.graphs import node

#: Suffix of the first node if another node has the same name.
DIGEST = hashlib.sha256(b"transform:1").hexdigest()[:8]
ODD = ["a", "b", "a b", "a_b", "a.b", "A", "ä", "売上", "上売", "upstream_join_id", "x" * 300, "..", "-"]
TEXTS = st.sampled_from(ODD) | st.text(min_size=1)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    made: dict[str, Node] = {}
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["stream", "transform", "reverse_etl"]))
        folder = "/".join(draw(st.lists(TEXTS, max_size=8))) if kind == "transform" else draw(st.sampled_from("ab"))
        each = node(f"{kind}:{draw(st.integers(0, 99))}", name=draw(TEXTS), folder=folder)
        made[each.id] = each
    return list(made.values())


@given(nodes())
@example([node("transform:1", name="eu", folder="marts"), node("transform:2", name="x", folder="marts/eu")])
@example([node("transform:1", name="a b"), node("transform:2", name="a_b"), node("transform:3", name="a_b")])
@example([node("transform:1", name="upstream_join_id", folder="a")])
@example([node("transform:1", name="x" * 300, folder="/".join(f"{'f' * 60}{level}" for level in range(8)))])
@example([node("transform:1", name="x"), node("transform:2", name="x"), node("transform:3", name=f"x_{DIGEST}")])
def test_ids_are_valid_and_unique(given_: list[Node]) -> None:
    placed = places(given_)
    assert placed.keys() == {each.id for each in given_}
    paths = [place.path for place in placed.values()]
    assert len(set(paths)) == len(paths)
    groups = {".".join(place.groups[:count]) for place in placed.values() for count in range(len(place.groups) + 1)}
    assert groups.isdisjoint(paths)
    for place in placed.values():
        assert place.label not in ("upstream_join_id", "downstream_join_id")
        for group in place.groups:
            validate_group_key(group)
        # With an enclosing group of 40 characters.
        validate_key(f"{'g' * 40}.{place.path}")


@given(nodes(), st.randoms(use_true_random=False))
def test_ids_do_not_depend_on_the_node_order(given_: list[Node], shuffled: object) -> None:
    before = places(given_)
    shuffled.shuffle(given_)  # type: ignore[attr-defined]  # a random.Random
    assert places(given_) == before


def test_examples_of_ids() -> None:
    expected = {
        "elt.shop.orders": node("stream:1", name="orders", folder="shop"),
        "transforms.marts.Koln.Paid_orders_net_": node("transform:1", name="Paid orders (net)", folder="marts/Köln"),
        "transforms.top": node("transform:2", name="top"),
        "reverse_etl.paid_to_http": node("reverse_etl:1", name="paid_to_http"),
    }
    assert [place.path for place in places(list(expected.values())).values()] == list(expected)


def test_equal_names_get_a_suffix_from_the_node_id() -> None:
    same = [node("transform:1", name="x"), node("transform:2", name="x"), node("transform:3", name="y")]
    one, other, different = (places(same)[each.id].label for each in same)
    assert (one[:2], other[:2], different) == ("x_", "x_", "y")
    assert one != other
    # A third node does not change them.
    assert places([*same, node("transform:4", name="x")])["transform:1"].label == one


def test_names_without_ascii_characters_get_unique_slugs() -> None:
    assert slug("売上").startswith("unnamed_")
    assert slug("売上") != slug("上売")
