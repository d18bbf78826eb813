"""Headless Chromium, functions that read and use a page, and a loopback server as target of redirects."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

DRIVER = Path("/usr/bin/chromedriver")
BROWSER = Path("/usr/bin/chromium")
#: Console message of the browser for error responses and failed requests.
_REFUSED = "Failed to load resource"
_LIMIT = 60
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=900,1400",
)


@contextmanager
def chromium() -> Iterator[Chrome]:
    """Start headless Chromium with a temporary profile."""
    if not (DRIVER.exists() and BROWSER.exists()):
        missing = f"there is no {DRIVER} or no {BROWSER}: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    profile = tempfile.mkdtemp(prefix="chromium-")
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for option in (*_OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    # Violations of the content security policy, and requests.
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = Chrome(options=options, service=Service(str(DRIVER)))
        try:
            yield driver
        finally:
            driver.quit()
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def logged(browser: Chrome, kind: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]  # selenium is untyped
    return entries


def requested(browser: Chrome) -> list[str]:
    """Return the URLs of the requests since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in logged(browser, "performance")]
    return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]


def refusals(browser: Chrome) -> list[str]:
    """Return the console messages about refused requests. Fail for other messages."""
    messages = [entry["message"] for entry in logged(browser, "browser")]
    assert all(_REFUSED in message for message in messages), messages
    return messages


def until(browser: Chrome, condition: Callable[[], Any]) -> Any:
    wait = WebDriverWait(browser, _LIMIT, poll_frequency=0.03, ignored_exceptions=[StaleElementReferenceException])
    return wait.until(lambda _: condition())


def found(browser: Chrome, selector: str) -> list[WebElement]:
    return browser.find_elements(By.CSS_SELECTOR, selector)


def texts(browser: Chrome, selector: str) -> list[str]:
    """Return the texts of elements, all of one instant."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    texts: list[str] = browser.execute_script(script, selector)
    return texts


def table(browser: Chrome, caption: str) -> list[list[str]]:
    """Return the rows of a table, all of one instant. Empty without the table."""
    script = """
        const found = [...document.querySelectorAll("table")].find((one) => one.caption.textContent === arguments[0]);
        return found ? [...found.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)) : [];
    """
    rows: list[list[str]] = browser.execute_script(script, caption)
    return rows


def press(browser: Chrome, name: str) -> None:
    """Click the button with this accessible name or text."""
    (button,) = (one for one in found(browser, "button") if name in {one.accessible_name, one.text})
    button.click()


def notices(browser: Chrome) -> list[str]:
    return texts(browser, ".notices p > span")


def complete_tree(browser: Chrome) -> list[dict[str, Any]] | None:
    """
    Return the nodes of the accessibility tree.

    :returns: None unless each visible table is a table of the tree, as for a moment while the page renders again.
    """
    tree: list[dict[str, Any]] = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = [one.get("role", {}).get("value") for one in tree]
    # Also in the layout with cards.
    shown = {"table": "table", "rowheader": "tbody tr"}
    return tree if all(roles.count(role) == len(found(browser, css)) for role, css in shown.items()) else None


class Landing:
    """Loopback server that records the paths of requests."""

    def __init__(self) -> None:
        landing = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                landing.paths.append(self.path)
                landing.referrers.append(self.headers.get("referer"))
                body = b"<!doctype html><title>Arrived</title><p>Arrived"
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.paths: list[str] = []
        self.referrers: list[str | None] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the address, with a host name for which HTTP is allowed."""
        return f"http://localhost:{self._server.server_address[1]}"

    def arrived(self, path: str) -> list[str]:
        """Return the requested paths below a path. Browsers also request an icon."""
        return [given for given in self.paths if given.startswith(path)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
