"""Airflow's interface in a browser: Test Connection, links, assets, mapped tasks and logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from airflow import __version__

from airflow_provider_datapipe.assets import elt_stream_asset
from airflow_provider_datapipe.links import DatapipeLink
from airflow_provider_datapipe.operators.deferral import DEFERRED
from tests.contract.datapipe_local.browser import chromium
from tests.support.airflow_versions import since
from tests.system.airflow_pages import AirflowPages
from tests.system.components import AirflowComponents
from tests.system.user_interface import ROWS, Installation, store_of

pytestmark = since("3.3", "pages with these texts")
LINK = DatapipeLink.name
CONNECTION = "datapipe_store"
ORDERS = elt_stream_asset("store.orders", datapipe_conn_id=CONNECTION)


@pytest.fixture(scope="module")
def installed(
    airflow: AirflowComponents, dags_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with store_of(airflow, dags_folder, tmp_path_factory.mktemp("store"), CONNECTION) as running:
        yield running


@pytest.fixture(scope="module")
def pages(installed: Installation) -> Iterator[AirflowPages]:
    with chromium() as browser:
        yield AirflowPages(browser, installed.airflow)


@pytest.fixture(scope="module")
def deferred_run(installed: Installation) -> str:
    """Return a run of the DAG ``store`` whose first task is deferred until ``finished_run``."""
    return installed.start_deferred("store", "orders", "store.orders")


@pytest.fixture(scope="module")
def finished_run(installed: Installation, deferred_run: str) -> str:
    """Return the same run, after its end."""
    installed.finish("store", deferred_run)
    return deferred_run


@pytest.mark.skipif(__version__ not in {"3.3.1", "3.3.2"}, reason="the form of Airflow 3.3.1 and 3.3.2 sends port 0")
def test_connection_without_port_is_a_bad_request(pages: AirflowPages) -> None:
    pages.open("/connections", CONNECTION)
    pages.press("Test Connection")
    pages.wait_for_texts("Test Connection Failed", "Bad Request")


def test_connection_with_the_port_of_its_address(installed: Installation, pages: AirflowPages) -> None:
    port = installed.service.base_url.rpartition(":")[2]
    pages.save_port(CONNECTION, port)
    pages.open("/connections", f"{installed.service.base_url} {port}")
    assert not pages.shows_connected
    pages.press("Test Connection")
    pages.until(lambda: pages.shows_connected, "the symbol of success")
    assert "Test Connection Failed" not in pages.text


def test_pages_while_the_task_is_deferred(installed: Installation, pages: AirflowPages, deferred_run: str) -> None:
    assert installed.airflow.links("store", deferred_run, "revenue") == {LINK: None}
    pages.open_task("store", deferred_run, "revenue", "details", "Extra Links", "Trigger Rule", "No Status")
    # Airflow has no URL until the task starts. A link without a URL must not appear.
    assert LINK not in pages.links

    waiting = "Waiting for the run of ELT stream store.orders"
    pages.open_task("store", deferred_run, "orders", "", "Deferred", waiting, DEFERRED)

    pages.open_task("store", deferred_run, "orders", "details", "Deferred", LINK)
    assert_stream_page(installed, pages, pages.links[LINK], "store.orders")


@pytest.mark.parametrize(
    ("task", "stream"), [("orders", "store.orders"), ("tables/mapped/1", "store.products")], ids=["task", "mapped"]
)
def test_link_after_the_run(
    installed: Installation, pages: AirflowPages, finished_run: str, task: str, stream: str
) -> None:
    pages.open_task("store", finished_run, task, "details", "Success", LINK)
    assert_stream_page(installed, pages, pages.links[LINK], stream)


def test_links_of_the_streams_of_a_sync(installed: Installation, pages: AirflowPages, finished_run: str) -> None:
    names = ("ELT stream orders", "ELT stream store.products")
    pages.open_task("store", finished_run, "again", "details", "Success", LINK, *names)
    addresses = pages.links
    assert_stream_page(installed, pages, addresses[names[0]], "store.orders")
    assert_stream_page(installed, pages, addresses[names[1]], "store.products")


def test_link_of_a_check(installed: Installation, pages: AirflowPages, finished_run: str) -> None:
    pages.open_task("store", finished_run, "check", "details", "Success", LINK)
    pages.open_service_page(pages.links[LINK], installed.service.api_key, title="Query preview")


def test_label_of_a_mapped_task(pages: AirflowPages, finished_run: str) -> None:
    pages.open_task("store", finished_run, "tables/mapped", "", "store.customers", "store.products")


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("orders", f"ELT stream store.orders: {ROWS['orders']:,} rows in "),
        ("tables/mapped/0", f"ELT stream store.customers: {ROWS['customers']} rows in "),
        ("revenue", "Transform reports/revenue was published in "),
    ],
    ids=["deferred", "mapped", "transform"],
)
def test_log_of_a_finished_task(pages: AirflowPages, finished_run: str, task: str, line: str) -> None:
    pages.open_task("store", finished_run, task, "", "Success", line)
    assert "Traceback" not in pages.text


def test_asset_with_its_task_its_event_and_the_dag_it_starts(pages: AirflowPages, finished_run: str) -> None:
    assert finished_run
    pages.open(f"/assets?name_pattern={ORDERS.name}", ORDERS.name)
    address = pages.links[ORDERS.name]
    pages.open(urlsplit(address).path, ORDERS.name, ORDERS.group, "1 Asset Event", "Triggered Dag Run")
    pages.unfold_json('"resource_id": "store.orders"', '"outcome": "succeeded"')
    pages.press("1 Task")
    pages.wait_for_texts("orders")
    assert {"store", "report"} <= pages.links.keys()


def assert_stream_page(installed: Installation, pages: AirflowPages, address: str, stream_id: str) -> None:
    """Assert that a link leads to the page of a stream in datapipe-local."""
    assert httpx.get(address).status_code == httpx.codes.OK
    pages.open_service_page(address, installed.service.api_key, title=stream_id.rpartition(".")[2])
