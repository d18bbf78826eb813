"""Pages of Airflow's interface in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.system.components import AirflowComponents

WIDTH = 1280
#: Time limit in seconds for an expected text on a page, sufficient for a busy machine.
_LIMIT = 60.0
#: React replaces elements while a test uses them, and messages cover buttons.
_TEMPORARY = (StaleElementReferenceException, ElementClickInterceptedException)


class AirflowPages:
    """Pages of Airflow as a user sees them, who is logged in."""

    def __init__(self, browser: Chrome, airflow: AirflowComponents) -> None:
        self._browser = browser
        self._address = airflow.address
        self.resize(900)
        browser.get(f"{self._address}/auth/login")
        for name, value in (("username", airflow.login), ("password", airflow.password)):
            self.field(name).send_keys(value)
        self.press("Sign in")
        self.until(lambda: "/auth/login" not in browser.current_url, "the login ends")

    def resize(self, height: int) -> None:
        """Set the size of the visible part of the pages."""
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def open(self, path: str, *shown: str) -> None:
        """Open a page, and wait until it shows texts."""
        self._browser.get(self._address + path)
        self.wait_for_texts(*shown)

    def open_task(self, dag_id: str, run_id: str, task_id: str, tab: str, *shown: str) -> None:
        """Open a tab of the page of a task instance, and wait until it shows texts."""
        self.open(f"/dags/{dag_id}/runs/{quote(run_id, safe='')}/tasks/{task_id}/{tab}".rstrip("/"), *shown)

    def open_service_page(self, address: str, api_key: str, title: str) -> None:
        """Open a page of datapipe-local, sign in, and wait for its title."""
        self._browser.get(address)
        # Remove the API key of an earlier page of this service.
        self._browser.execute_script("sessionStorage.clear()")
        self._browser.refresh()
        self.field("key").send_keys(api_key, Keys.ENTER)
        self.until(lambda: self._browser.title == f"{title} \N{MIDDLE DOT} datapipe-local", f"the page of {title}")

    def save_port(self, conn_id: str, port: str) -> None:
        self.open("/connections", conn_id)
        self.press("Edit Connection")
        self.field("port").send_keys(port)
        self.press("Save")
        self.wait_for_texts("Connection has been successfully updated.")

    @property
    def shows_connected(self) -> bool:
        """Return True if the page shows a successful test of its connection: a green symbol without a message."""
        return self.has("button[aria-label='Test Connection'] svg[color=green]")

    @property
    def text(self) -> str:
        return self._browser.find_element(By.TAG_NAME, "body").text

    @property
    def links(self) -> dict[str, str]:
        """The addresses of the links on the page, by their texts."""
        script = "return [...document.querySelectorAll('a')].map((link) => [link.textContent, link.href])"
        return dict(self._browser.execute_script(script))

    def wait_for_texts(self, *texts: str) -> None:
        self.until(lambda: (page := self.text) and all(text in page for text in texts), f"the page shows {texts}")

    def field(self, name: str) -> WebElement:
        """Return a field of a form, as soon as it exists."""
        found: WebElement = self.until(lambda: self._browser.find_element(By.NAME, name), f"the field {name}")
        return found

    def press(self, label: str) -> None:
        """Press a button, as soon as it exists."""
        path = f"//button[@aria-label='{label}' or normalize-space()='{label}']"

        def pressed() -> bool:
            buttons = [one for one in self._browser.find_elements(By.XPATH, path) if one.is_enabled()]
            for button in buttons[:1]:
                button.click()
            return bool(buttons)

        self.until(pressed, f"the button {label}")

    def has(self, selector: str) -> bool:
        """Return True if the page has an element."""
        return bool(self._browser.find_elements(By.CSS_SELECTOR, selector))

    def unfold_json(self, *texts: str) -> None:
        """Unfold the first JSON value of the page, and wait until its visible lines contain all texts."""
        selector = ".codicon-folding-collapsed"
        self.until(lambda: self.has(selector), "a folded JSON value")
        self._browser.find_element(By.CSS_SELECTOR, selector).click()
        self.until(lambda: not self.has(selector), "the JSON value is unfolded")
        # The editor adds lines as it grows.
        self.until(
            lambda: (lines := self._editor_lines()) and all(text in lines for text in texts), f"JSON with {texts}"
        )

    def _editor_lines(self) -> str:
        script = "return [...document.querySelectorAll('.view-line')].map((line) => line.textContent).join('\\n')"
        lines: str = self._browser.execute_script(script)
        # The editor writes spaces that do not break.
        return lines.replace("\N{NO-BREAK SPACE}", " ")

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until a condition is true, and return its value."""
        wait = WebDriverWait(self._browser, _LIMIT, poll_frequency=0.1, ignored_exceptions=_TEMPORARY)
        try:
            return wait.until(lambda _: condition())
        except TimeoutException as error:
            message = f"Waited {_LIMIT:.0f} s in vain: {what}. The page {self._browser.current_url} shows:\n{self.text}"
            raise AssertionError(message) from error

    def screenshot(self, file: Path) -> None:
        file.write_bytes(self._browser.get_screenshot_as_png())
