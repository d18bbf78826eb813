"""Tests of the resolution of references to nodes."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.models.elt_syncs import AvailableStream
from airflow_provider_datapipe.api.models.transforms import Reference
from airflow_provider_datapipe.pipelines.references import ReferenceCatalog
from tests.unit.runs.model_service import transform

ORDERS = AvailableStream(name="orders", retired=False, sub_streams=("items",))
PEOPLE = AvailableStream(name="people", retired=False)


def reference(tag: str, dw_item_id: str | None = None, kind: str | None = None) -> Reference:
    kind = kind or ("raw_view" if tag.startswith("raw.") else "model_view")
    return Reference.model_validate({"weld_tag": tag, "type": kind, "dw_item_id": dw_item_id or tag.partition(".")[2]})


@pytest.fixture
def catalog() -> ReferenceCatalog:
    made = ReferenceCatalog()
    made.add_stream("1", "shop", "orders")
    made.add_stream("2", "shop", "people")
    made.add_stream("3", "Shop", "orders")
    made.add_stream("4", "twice", "table")
    made.add_stream("5", "twice", "table")
    made.add_stream("6", None, "bare")
    for transform_id, folder, name, status in (
        ("a", "marts/eu", "paid", "published"),
        ("b", "", "paid", "published"),
        ("c", "marts", "sketch", "draft"),
        ("d", "marts", "both", "draft"),
        ("e", "marts", "both", "published"),
        ("f", "a.b", "c", "published"),
        ("g", "a/b", "c", "published"),
    ):
        made.add_transform(transform(id=transform_id, folder_path=folder, name=name, status=status))
    return made


@pytest.mark.parametrize(
    ("named", "nodes"),
    [
        (reference("raw.shop.orders"), ["stream:1"]),
        (reference("raw.Shop.orders"), ["stream:3"]),
        # Services may use other tags, so the table name in the warehouse also identifies a stream.
        (reference("raw.my-shop.orders", "shop.orders"), ["stream:1"]),
        (reference("orders", "shop.orders", "raw_view"), ["stream:1"]),
        # Both streams load this table.
        (reference("raw.twice.table"), ["stream:4", "stream:5"]),
        (reference("raw.bare"), ["stream:6"]),
        (reference("model.marts.eu.paid"), ["transform:a"]),
        (reference("model.paid", "models.paid"), ["transform:b"]),
        (reference("model.paid", "models.paid", "materialized_table"), ["transform:b"]),
        (reference("model.marts.sketch"), ["transform:c"]),
        # Only published transforms can be read.
        (reference("model.marts.both"), ["transform:e"]),
        (reference("model.a.b.c"), ["transform:f", "transform:g"]),
        *((reference(tag), []) for tag in ("raw.shop.order", "raw.shop.orders__items")),
        *((reference(tag), []) for tag in ("model.marts.paid", "model.shop.orders")),
    ],
    ids=lambda value: value.tag if isinstance(value, Reference) else ",".join(value),
)
def test_reference_matches_its_nodes(catalog: ReferenceCatalog, named: Reference, nodes: list[str]) -> None:
    assert catalog.nodes_of(named) == nodes


def test_unresolved_references_are_listed(catalog: ReferenceCatalog) -> None:
    found = catalog.resolve([reference("raw.shop.people"), reference("model.gone"), reference("raw.shop.people")])
    assert found == (("stream:2",), ("model.gone",))


@pytest.mark.parametrize(
    ("source", "nodes"),
    [
        (("Transform", "a"), ("transform:a",)),
        *((("RawView", name), ("stream:1",)) for name in ("shop.orders", "raw.shop.orders")),
        (("RawView", "shop.gone"), ()),
    ],
)
def test_source_of_a_reverse_etl_sync(catalog: ReferenceCatalog, source: tuple[str, str], nodes: Any) -> None:
    assert catalog.source(*source).nodes == nodes


@pytest.mark.parametrize("name", ["items", "orders_items", "orders__items"])
def test_substream_belongs_to_its_stream(catalog: ReferenceCatalog, name: str) -> None:
    others = AvailableStream(name="others", retired=False, sub_streams=("people",))
    catalog.add_substreams("shop", [ORDERS, others, PEOPLE], {"orders": "1", "people": "2"})
    assert catalog.nodes_of(reference(f"raw.shop.{name}")) == ["stream:1"]
    assert catalog.nodes_of(reference("raw.shop.people")) == ["stream:2"]


def test_stream_takes_precedence_over_substream(catalog: ReferenceCatalog) -> None:
    catalog.add_stream("7", "shop", "orders_items")
    catalog.add_substreams("shop", [ORDERS], {"orders": "1"})
    assert catalog.nodes_of(reference("raw.shop.orders_items")) == ["stream:7"]
