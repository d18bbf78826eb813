from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_datapipe.api.models.transforms import Reference
from airflow_provider_datapipe.lineage.names import (
    Naming,
    name_of_file,
    name_of_webhook,
    place_of_transform,
    places_of,
)
from airflow_provider_datapipe.pipelines.references import table_name


def reference(tag: str, place: str, kind: str = "model_view") -> Reference:
    return Reference.model_validate({"weld_tag": tag, "type": kind, "dw_item_id": place})


@pytest.mark.parametrize(
    ("warehouse", "table"),
    [
        *((none, ("datapipe://h.example:81", "shop.orders")) for none in (None, "")),
        ("snowflake://org-acct/ANALYTICS", ("snowflake://org-acct", "ANALYTICS.shop.orders")),
        ("datapipe://h.example/a/b/", ("datapipe://h.example", "a.b.shop.orders")),
        ("bigquery://", ("bigquery", "shop.orders")),
        ("duckdb://host", ("duckdb://host", "shop.orders")),
        # Many users can read events, so they must not contain credentials.
        ("snowflake://user:secret@acct/DB", ("snowflake://acct", "DB.shop.orders")),
        ("snowflake://user:sec/r@t?@acct/DB?role=R&token=t", ("snowflake://acct", "DB.shop.orders")),
        ("mssql://host:1433;user=sa;password=secret", ("mssql://host:1433", "shop.orders")),
    ],
)
def test_tables_have_the_namespace_of_the_warehouse(warehouse: str | None, table: tuple[str, str]) -> None:
    naming = Naming.of("h.example:81", warehouse)
    assert naming.table("shop.orders") == table
    # External resources have the namespace of the service.
    assert naming.external("c/1", "a b") == ("datapipe://h.example:81", "connections/c%2F1/a%20b")


@pytest.mark.parametrize("warehouse", ["snowflake", "://x", "/a/b", "user:secret@acct/DB"])
def test_invalid_namespace_is_refused_and_not_shown(warehouse: str) -> None:
    with pytest.raises(ValueError, match="lineage_warehouse") as caught:
        Naming.of("h.example", warehouse)
    assert "secret" not in str(caught.value)


def test_table_of_a_transform_is_found_by_its_tag() -> None:
    available = [
        reference("raw.core.orders", "core.orders", "raw_view"),
        reference("model.core.other", "x.other"),
        reference("model.core.daily.orders", "core_daily.orders_v2", "materialized_table"),
        reference("core.plain", "core.plain"),
    ]
    assert place_of_transform("core/daily", "orders", available) == "core_daily.orders_v2"
    assert place_of_transform("/core/", "plain", available) == "core.plain"
    # The table of a stream has the same folder and name, but another kind of tag.
    assert place_of_transform("core", "orders", available) is None
    assert place_of_transform("", "orders", available) is None
    assert places_of(available[:1]) == {"raw.core.orders": "core.orders"}


def test_folder_with_the_name_of_the_tag_prefix() -> None:
    available = [reference("model.orders", "public.orders"), reference("model.model.orders", "model.orders")]
    for known in (available, available[::-1]):
        assert place_of_transform("model", "orders", known) == "model.orders"
        assert place_of_transform("", "orders", known) == "public.orders"
    # A service with tags without a prefix.
    assert place_of_transform("core", "orders", [reference("core.orders", "core.orders")]) == "core.orders"


def test_tables_of_streams() -> None:
    assert table_name("shop", "orders") == "shop.orders"
    assert table_name(None, "orders") == "orders"


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        (None, "webhooks/hooks"),
        ("orders", "webhooks/hooks/orders"),
        ("/a b/orders?key=secret", "webhooks/hooks/a%20b/orders"),
        # The last part of the path may be a secret.
        ("orders/9f8a7c6b5d4e3f2a", "webhooks/hooks/orders/41512b631a69"),
    ],
)
def test_webhook_is_named_after_its_connection(endpoint: str | None, name: str) -> None:
    assert name_of_webhook("datapipe://h", "hooks", endpoint) == ("datapipe://h", name)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/data/a b.jsonl", ("file", "/data/a b.jsonl")),
        ("records#1.jsonl", ("file", str(Path("records#1.jsonl").absolute()))),
        ("file:///data/records.jsonl", ("file", "/data/records.jsonl")),
        ("s3://bucket/folder/records #1.jsonl", ("s3://bucket", "folder/records #1.jsonl")),
        ("s3a://aws_default@bucket/records.jsonl", ("s3://bucket", "records.jsonl")),
        ("gcs://bucket/records.parquet", ("gs://bucket", "records.parquet")),
        ("s3://bucket/what?.jsonl", ("s3://bucket", "what?.jsonl")),
        ("https://files.example.com/day/records.jsonl?sig=a/b@c", ("https://files.example.com", "day/records.jsonl")),
        ("memory://bucket/records.jsonl", ("memory://bucket", "records.jsonl")),
    ],
)
def test_files_are_named_like_in_openlineage(source: str, name: tuple[str, str]) -> None:
    assert name_of_file(source) == name
