"""
Pictures of Airflow's interface for the docs: ``python -m tests.system.screenshots [FOLDER]`` writes ``docs/pictures``.

Starts Airflow and datapipe-local, and requires Chromium. Each picture is written after the checks of its page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_datapipe.assets import elt_stream_asset
from airflow_provider_datapipe.links import DatapipeLink
from tests.contract.datapipe_local.browser import chromium
from tests.support.documents import ROOT
from tests.system.airflow_pages import AirflowPages
from tests.system.user_interface import CONNECTION, Installation, installation

FOLDER = ROOT / "docs" / "pictures"
#: Heights of pictures in pixels: the parts of the pages that the docs describe.
LOW, HIGH = 480, 800


def take(installed: Installation, pages: AirflowPages, folder: Path) -> None:
    airflow, service = installed.airflow, installed.service
    pages.resize(LOW)
    pages.open("/connections", CONNECTION)
    pages.press("Test Connection")
    pages.wait_for_texts("Test Connection Failed", "Bad Request")
    pages.screenshot(folder / "connection_bad_request.png")

    pages.save_port(CONNECTION, service.base_url.rpartition(":")[2])
    pages.open("/connections", CONNECTION)
    pages.press("Test Connection")
    pages.until(lambda: pages.shows_connected, "the symbol of success")
    pages.screenshot(folder / "connection_tested.png")

    shop = airflow.trigger("shop")
    installed.finish("shop", shop)
    pages.open_task("shop", shop, "people", "", "Success", "ELT stream shop.people: 3 rows in ")
    pages.screenshot(folder / "log.png")

    store = installed.start_deferred("store", "orders", "store.orders")
    pages.open_task("store", store, "orders", "details", "Deferred", DatapipeLink.name)
    pages.screenshot(folder / "link.png")

    installed.finish("store", store)
    pages.resize(HIGH)
    orders = elt_stream_asset("store.orders")
    pages.open("/assets", orders.name)
    pages.open(urlsplit(pages.links[orders.name]).path, orders.name, "1 Asset Event", "Triggered Dag Run")
    pages.unfold_json()
    pages.screenshot(folder / "asset.png")


def main(folder: Path) -> None:
    """Start the components and the browser, and write all pictures."""
    with installation() as installed, chromium() as browser:
        take(installed, AirflowPages(browser, installed.airflow), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
