"""Tests of the DAGs of the shop with ``dag.test()`` and a local service, without a scheduler."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG

from example_dags.shop import (
    branches,
    daily_close,
    deploy_models,
    failed_records,
    generated,
    nightly,
    payments_loaded,
    till_receipts,
)
from example_dags.tests.conftest import Shop


def run(dag: DAG, *, at: pendulum.DateTime | None = None) -> Any:
    """Run a DAG, and return the DAG run."""
    return dag.test(logical_date=at)


def test_nightly_sends_customers_to_the_crm(shop: Shop) -> None:
    assert run(nightly.dag).state == "success"
    assert shop.ask_crm("SELECT name FROM contacts ORDER BY 1") == ["Ada", "Bob", "Dan"]
    assert shop.ask_crm("SELECT revenue FROM contacts WHERE name = 'Ada'") == [105.0]
    (sent,) = shop.service.journal.assert_runs("contacts")
    assert sent["status"] == "COMPLETED"
    # The schedule was paused and restored.
    changes = [one for one in shop.service.journal.requests("/elt_syncs/shop") if one["method"] != "GET"]
    assert len(changes) == 2
    assert shop.is_loaded_at() == ("0 * * * *", True)


def test_nightly_sends_nothing_after_a_failed_check(shop: Shop, chat: list[str]) -> None:
    shop.service.clock.set("2026-03-05T03:00:00Z")
    shop.replace("orders.csv", "104,1,2026-03-02,80.00", "104,99,2026-03-02,80.00")
    assert run(nightly.dag).state == "failed"
    (message,) = chat
    assert "each_order_has_a_customer" in message
    # The schedule is restored. It sends nothing.
    assert shop.is_loaded_at() == ("0 * * * *", True)
    loads = len(shop.service.journal.runs("shop.orders"))
    shop.service.clock.advance(days=1)
    assert len(shop.service.journal.runs("shop.orders")) == loads + 24
    shop.service.journal.assert_runs("contacts", 0)
    assert shop.ask_crm("SELECT name FROM contacts") == []


def test_other_dag_does_not_send_unchecked_rows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(nightly.dag).state == "success"
    shop.replace("orders.csv", "104,1,2026-03-02,80.00,2026-03-02", "104,99,2026-03-02,80.00,2026-03-09")
    assert run(nightly.dag).state == "failed"
    left = shop.service.rows("SELECT sum(amount)::double AS sum FROM shop.orders WHERE customer_id = 1")
    assert left == [{"sum": 25.0}]
    monkeypatch.setattr(failed_records.dag.get_task("delay"), "delta", timedelta(0))
    assert run(failed_records.dag).state == "success"
    shop.service.journal.assert_runs("contacts", 2)
    assert shop.ask_crm("SELECT revenue FROM contacts WHERE name = 'Ada'") == [105.0]


def test_open_orders_are_those_without_a_payment(shop: Shop) -> None:
    shop.load("shop.orders", "payments.payments")
    assert run(payments_loaded.dag).state == "success"
    left = shop.service.rows("SELECT id FROM marts.open_orders ORDER BY id")
    assert [row["id"] for row in left] == [103, 105, 107, 108, 109]


def test_closed_day_does_not_change(shop: Shop) -> None:
    shop.load("shop.orders")
    midnight = pendulum.datetime(2026, 3, 2)
    # The data interval of a DAG run is the day before it.
    for end in (midnight, midnight.add(days=2)):
        assert run(daily_close.dag, at=end).state == "success"
    closed = "SELECT id FROM closed.orders_20260301 ORDER BY id"
    assert [row["id"] for row in shop.service.rows(closed)] == [101, 102, 103]
    assert shop.service.rows("SELECT count(*) AS n FROM closed.orders_20260303") == [{"n": 4}]

    # A late order of that day does not change the closed table, and the check fails.
    shop.replace("orders.csv", "102,2,", "110,2,2026-03-01,1.00,2026-03-04 08:00:00\n102,2,")
    shop.load("shop.orders")
    assert run(daily_close.dag, at=midnight).state == "failed"
    assert len(shop.service.rows(closed)) == 3


def test_load_that_began_within_the_day_does_not_close_it(shop: Shop) -> None:
    shop.service.clock.set("2026-03-01T23:59:58Z")
    shop.service.runs("shop.orders", running_polls=2)
    asked = shop.service.api.post("/elt_streams/shop.orders/request_run").raise_for_status().json()
    shop.service.clock.set("2026-03-02T00:00:05Z")
    while not shop.service.journal.runs("shop.orders", status="COMPLETED"):
        shop.service.api.get(asked["status_url"]).raise_for_status()
    (load,) = shop.service.journal.runs("shop.orders")
    assert load["started_at"] < "2026-03-02" < load["finished_at"]

    # The next load, which is still active, contains the missing rows.
    shop.replace("orders.csv", "102,2,", "110,2,2026-03-01,1.00,2026-03-04 08:00:00\n102,2,")
    shop.service.api.post("/elt_streams/shop.orders/request_run").raise_for_status()
    assert run(daily_close.dag, at=pendulum.datetime(2026, 3, 2)).state == "success"
    closed = shop.service.rows("SELECT id FROM closed.orders_20260301 ORDER BY id")
    assert [row["id"] for row in closed] == [101, 102, 103, 110]


def test_new_branch_is_loaded(shop: Shop) -> None:
    assert run(branches.dag).state == "success"
    shop.service.journal.assert_one_run("branch_north.sales")
    shop.service.journal.assert_runs("branch_east.sales", 0)
    assert shop.service.rows("SELECT round(sum(amount), 2) AS sum FROM branch_south.sales") == [{"sum": 13.75}]

    shop.service.api.post("/elt_syncs/branch_east/enable").raise_for_status()
    assert run(branches.dag).state == "success"
    shop.service.journal.assert_one_run("branch_east.sales")
    shop.service.journal.assert_runs("branch_north.sales", 2)


def test_failed_branch_does_not_block_the_others(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop.folder / "data/branches/north.csv").unlink()
    for task in branches.dag.tasks:
        monkeypatch.setattr(task, "retries", 0)
    assert run(branches.dag).state == "failed"
    shop.service.journal.assert_one_run("branch_north.sales", status="FAILED")
    shop.service.journal.assert_one_run("branch_south.sales", status="COMPLETED")


def test_transform_with_a_failed_check_is_not_published(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for task in deploy_models.dag.tasks:
        monkeypatch.setattr(task, "folder", str(shop.folder / "models"))
    shop.load("shop.orders")
    assert run(deploy_models.dag).state == "success"
    revenue = "SELECT revenue::double AS revenue FROM finance.daily_revenue ORDER BY ordered_on"
    before = [{"revenue": 67.5}, {"revenue": 95.25}, {"revenue": 116.99}]
    assert shop.service.rows(revenue) == before

    file = shop.folder / "models/finance/clean_orders.sql"
    file.write_text(file.read_text().replace("amount > 0\n", "amount > 10\n"))
    assert run(deploy_models.dag).state == "failed"
    published = shop.service.journal.runs(trigger="request", kind="transform")
    assert len(published) == 2
    assert shop.service.rows(revenue) == before


@pytest.fixture
def till(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return the shop, with the connection of its till."""
    webhook = {
        "conn_type": "datapipe_webhook",
        "host": f"{shop.service.base_url}/webhooks/till",
        "password": "made up for this test",
        "extra": {"authentication": "hmac", "header": "X-Signature"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_TILL", json.dumps(webhook))
    return shop


def pushed(till: Shop, file: str, **receipts: str) -> str:
    """Run the DAG of the till with a file, optionally with new content, and return the final state."""
    path = till.folder / "till" / file
    if receipts:
        written = [{"receipt": name, "sold_at": time, "amount": 1.5} for name, time in receipts.items()]
        path.write_text("".join(f"{json.dumps(receipt)}\n" for receipt in written))
    return str(till_receipts.dag.test(run_conf={"file": str(path)}).state)


def test_late_and_repeated_receipts_are_loaded_once(till: Shop) -> None:
    assert pushed(till, "2026-03-02.jsonl", U1="2026-03-02T09:00:00Z") == "success"
    for _ in range(2):
        assert pushed(till, "2026-03-01.jsonl") == "success"
    # A day without sales.
    (till.folder / "till/2026-03-03.jsonl").touch()
    assert pushed(till, "2026-03-03.jsonl") == "success"
    found = till.service.rows("SELECT receipt FROM till.receipts ORDER BY 1")
    assert [row["receipt"] for row in found] == ["T1", "T2", "T3", "T4", "U1"]


def test_missing_receipts_fail_the_dag(till: Shop) -> None:
    # Load only new files.
    seed = till.folder / "seed.yaml"
    seed.write_text(seed.read_text().replace("full_sync_always: true", "full_sync_always: false"))
    till.service.seed(seed)
    newer = {f"U{number}": f"2026-03-02T0{number}:00:00Z" for number in range(9)}
    assert pushed(till, "2026-03-02.jsonl", **newer) == "success"
    assert pushed(till, "2026-03-01.jsonl") == "failed"


def test_invalid_receipt_number_does_not_become_sql(till: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for task in till_receipts.dag.tasks:
        monkeypatch.setattr(task, "retries", 0)
    assert pushed(till, "2026-03-02.jsonl", **{"1') --": "2026-03-02T09:00:00Z"}) == "failed"
    till.service.journal.assert_requests("/transforms/query_previews", 0)


def test_temporarily_failed_records_are_retried(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_records.dag.get_task("delay"), "delta", timedelta(0))
    assert run(nightly.dag).state == "success"
    assert run(failed_records.dag).state == "success"
    assert shop.ask_crm("SELECT name FROM contacts WHERE country = 'IS'") == []

    shop.ask_crm("INSERT INTO countries VALUES ('IS')")
    assert run(failed_records.dag).state == "success"
    assert shop.ask_crm("SELECT name FROM contacts ORDER BY 1") == ["Ada", "Bob", "Cyd", "Dan", "Fay"]
    left = shop.service.api.get("/reverse_etl_failed_records", params={"reverse_etl_sync_id": "contacts"})
    (record,) = left.json()["data"]
    assert record["record_id"] == "5"


def test_generated_group_runs_the_inputs_of_the_table(shop: Shop) -> None:
    assert run(generated.dag).state == "success"
    ran = [entry["resource_id"] for entry in shop.service.journal.runs()]
    assert sorted(ran[:2]) == ["payments.payments", "shop.orders"]
    assert ran[2:] == ["open_orders"]
    assert shop.service.rows("SELECT count(*) AS n FROM marts.open_orders") == [{"n": 5}]
