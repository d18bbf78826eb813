"""Headless Chromium, and a loopback server as target of redirects."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

DRIVER = Path("/usr/bin/chromedriver")
BROWSER = Path("/usr/bin/chromium")
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
    # What a page must not do is told there, and what it asks for.
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = Chrome(options=options, service=Service(str(DRIVER)))
        try:
            yield driver
        finally:
            driver.quit()
    finally:
        shutil.rmtree(profile, ignore_errors=True)


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
