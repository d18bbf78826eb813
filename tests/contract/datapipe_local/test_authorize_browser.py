"""Browser tests of the page of a connection bridge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.browser import Landing, chromium, found, logged, press, until

ROW = 'Orders of <b>the shop</b> & "more"'


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served() as (_, api):
        yield api


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chromium() as driver:
        yield driver
        # No violation of the content security policy.
        assert [entry for entry in logged(driver, "browser") if "Content Security" in entry["message"]] == []


@pytest.fixture
def landing() -> Iterator[Landing]:
    server = Landing()
    yield server
    server.close()


def bridge(api: Api, landing: Landing, integration_id: str, **more: str) -> dict[str, Any]:
    body = {"redirect_uri": f"{landing.url}/back", "integration_id": integration_id, "label": ROW, "state": "s&=%/é"}
    return api.post("/connection_bridges", body | more, status=201)


def field(browser: Chrome, label: str) -> Any:
    """Return the visible form field with a label."""
    labels = [one for one in found(browser, "label") if one.is_displayed()]
    first = next(one for one in labels if one.text.removesuffix(" (optional)") == label)
    return browser.find_element(By.ID, first.get_attribute("for") or "")


def wait(browser: Chrome, title: str) -> None:
    until(browser, lambda: browser.title == title)


def answer(landing: Landing) -> dict[str, list[str]]:
    (path,) = landing.arrived("/back")
    return parse_qs(urlsplit(path).query)


@pytest.mark.slow
def test_a_webhook_is_connected(api: Api, browser: Chrome, landing: Landing) -> None:
    browser.get(bridge(api, landing, "webhook")["authorize_url"])
    assert browser.title == "Connect Webhook · datapipe-local"
    assert ROW in browser.find_element(By.TAG_NAME, "dl").text
    # Only the fields of the chosen kind are visible.
    labels = [one.text for one in found(browser, "label") if one.is_displayed()]
    assert labels[:2] == ["Kind of authentication", "Name"]
    Select(field(browser, "Kind of authentication")).select_by_visible_text("HMAC SHA-256")
    field(browser, "Header").send_keys("Bad header")
    field(browser, "Secret").send_keys("s3cret")
    field(browser, "Name").send_keys("orders")
    press(browser, "Connect")

    wait(browser, "Error: Connect Webhook · datapipe-local")
    header = field(browser, "Header")
    assert header.get_attribute("aria-invalid") == "true"
    described = [browser.find_element(By.ID, one).text for one in header.get_attribute("aria-describedby").split()]
    assert "Give the name of a header of your own, such as X-Signature." in described
    # The form keeps the input, except for the secret.
    assert header.get_attribute("value") == "Bad header"
    assert field(browser, "Name").get_attribute("value") == "orders"
    secret = field(browser, "Secret")
    assert secret.get_attribute("value") == ""
    hint = browser.find_element(By.ID, secret.get_attribute("aria-describedby"))
    assert hint.text == "Enter it again: the page never shows it."
    browser.find_element(By.CSS_SELECTOR, ".summary a").click()
    assert browser.current_url.endswith("#authentication.hmac.header")
    assert landing.paths == []

    header.clear()
    header.send_keys("X-Signature")
    field(browser, "Secret").send_keys("s3cret")
    press(browser, "Connect")
    wait(browser, "Arrived")
    parameters = answer(landing)
    assert parameters.keys() == {"connection_id", "state"}
    assert parameters["state"] == ["s&=%/é"]
    # The address of the page contains the credential, so it is not in any Referer header.
    assert set(landing.referrers) == {None} or all("authorize" not in (one or "") for one in landing.referrers)
    (connection,) = [one for one in api.all_pages("/connections") if [one["id"]] == parameters["connection_id"]]
    assert connection["integration_id"] == "webhook"
    assert connection["label"] == ROW


def test_the_page_is_usable_and_cancelable_by_keyboard(
    api: Api, browser: Chrome, landing: Landing, tmp_path: Path
) -> None:
    before = api.all_pages("/connections")
    url = bridge(api, landing, "files")["authorize_url"]
    browser.get(url)
    press(browser, "Cancel")
    wait(browser, "Arrived")
    assert answer(landing) == {"error": ["access_denied"], "state": ["s&=%/é"]}
    assert api.all_pages("/connections") == before

    landing.paths.clear()
    browser.get(url)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    first = browser.switch_to.active_element
    assert first.get_attribute("name") == "path"
    first.send_keys("relative", Keys.ENTER)
    wait(browser, "Error: Connect Files in a folder · datapipe-local")
    again = field(browser, "Path")
    assert again.get_attribute("value") == "relative"
    again.clear()
    again.send_keys(str(tmp_path), Keys.ENTER)
    wait(browser, "Arrived")
    assert "connection_id" in answer(landing)
