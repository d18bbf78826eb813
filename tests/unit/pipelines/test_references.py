"""Whose a reference is: told exactly, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.models.elt_syncs import AvailableStream
from airflow_provider_datapipe.api.models.transforms import Reference, Transform
from airflow_provider_datapipe.pipelines.references import Catalogue

TIMES = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}


def transform(transform_id: str, folder: str, name: str, status: str = "published") -> Transform:
    fixed = {"materialization": "view", "sql_template": "SELECT 1", "parameters": []}
    given: dict[str, Any] = {"id": transform_id, "folder_path": folder, "name": name, "status": status}
    return Transform.model_validate(fixed | given | TIMES)


def reference(tag: str, dw_item_id: str | None = None, kind: str | None = None) -> Reference:
    kind = kind or ("raw_view" if tag.startswith("raw.") else "model_view")
    return Reference.model_validate({"weld_tag": tag, "type": kind, "dw_item_id": dw_item_id or tag.partition(".")[2]})


@pytest.fixture
def catalogue() -> Catalogue:
    made = Catalogue()
    made.add_stream("1", "shop", "orders")
    made.add_stream("2", "shop", "people")
    made.add_stream("3", "Shop", "orders")
    made.add_stream("4", "twice", "table")
    made.add_stream("5", "twice", "table")
    made.add_stream("6", None, "bare")
    for each in (
        transform("a", "marts/eu", "paid"),
        transform("b", "", "paid"),
        transform("c", "marts", "sketch", "draft"),
        transform("d", "marts", "both", "draft"),
        transform("e", "marts", "both"),
        transform("f", "a.b", "c"),
        transform("g", "a/b", "c"),
    ):
        made.add_transform(each)
    return made


@pytest.mark.parametrize(
    ("named", "nodes"),
    [
        (reference("raw.shop.orders"), ["stream:1"]),
        (reference("raw.Shop.orders"), ["stream:3"]),
        # A service may give its tags otherwise: where it stands tells it, too.
        (reference("raw.my-shop.orders", "shop.orders"), ["stream:1"]),
        (reference("orders", "shop.orders", "raw_view"), ["stream:1"]),
        (reference("raw.shop.order"), []),
        (reference("raw.shop.orders__items"), []),
        # Which of the two it is does not matter: both load that table.
        (reference("raw.twice.table"), ["stream:4", "stream:5"]),
        (reference("raw.bare"), ["stream:6"]),
        (reference("model.marts.eu.paid"), ["transform:a"]),
        (reference("model.paid", "models.paid"), ["transform:b"]),
        (reference("model.paid", "models.paid", "materialized_table"), ["transform:b"]),
        (reference("model.marts.sketch"), ["transform:c"]),
        # Only what is published can be read.
        (reference("model.marts.both"), ["transform:e"]),
        (reference("model.a.b.c"), ["transform:f", "transform:g"]),
        (reference("model.marts.paid"), []),
        (reference("model.shop.orders"), []),
    ],
    ids=lambda value: value.tag if isinstance(value, Reference) else ",".join(value),
)
def test_whose_it_is(catalogue: Catalogue, named: Reference, nodes: list[str]) -> None:
    assert catalogue.leads_to(named) == nodes


def test_what_leads_nowhere_is_named(catalogue: Catalogue) -> None:
    found = catalogue.resolve([reference("raw.shop.people"), reference("model.gone"), reference("raw.shop.people")])
    assert found == (("stream:2",), ("model.gone",))


@pytest.mark.parametrize(
    ("source_type", "source_id", "nodes"),
    [
        ("Transform", "a", ("transform:a",)),
        ("RawView", "shop.orders", ("stream:1",)),
        ("RawView", "raw.shop.orders", ("stream:1",)),
        ("RawView", "shop.gone", ()),
    ],
)
def test_what_is_sent(catalogue: Catalogue, source_type: str, source_id: str, nodes: tuple[str, ...]) -> None:
    assert catalogue.source(source_type, source_id).nodes == nodes


@pytest.mark.parametrize("name", ["items", "orders_items", "orders__items"])
def test_a_part_of_a_stream_is_the_streams(catalogue: Catalogue, name: str) -> None:
    offered = [
        AvailableStream.model_validate({"name": "orders", "retired": False, "sub_streams": ["items"]}),
        AvailableStream.model_validate({"name": "others", "retired": False, "sub_streams": ["people"]}),
        AvailableStream.model_validate({"name": "people", "retired": False}),
    ]
    catalogue.add_parts("shop", offered, {"orders": "1", "people": "2"})
    assert catalogue.leads_to(reference(f"raw.shop.{name}")) == ["stream:1"]
    assert catalogue.leads_to(reference("raw.shop.people")) == ["stream:2"]


def test_a_stream_is_meant_before_a_part_of_another(catalogue: Catalogue) -> None:
    catalogue.add_stream("7", "shop", "orders_items")
    offered = [AvailableStream.model_validate({"name": "orders", "retired": False, "sub_streams": ["items"]})]
    catalogue.add_parts("shop", offered, {"orders": "1"})
    assert catalogue.leads_to(reference("raw.shop.orders_items")) == ["stream:7"]
