"""Browser tests of the page at ``/``: of a full, an empty and a stopped service."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.browser import (
    chromium,
    complete_tree,
    found,
    logged,
    notices,
    press,
    refusals,
    requested,
    table,
    texts,
    until,
)
from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.seeds import NIGHTLY, connection, elt_sync, reverse_etl_sync, stream, transform
from tests.support.local_service import LocalService

HOSTILE = '<img src=x onerror="window.hacked = true">&amp;\''
KEY = "datapipe-local-key"
#: The dash for an absent value, and between two numbers.
NONE = "\N{EN DASH}"
#: Roles that need an accessible name.
NAMED = {"link", "button", "searchbox", "textbox", "checkbox", "navigation", "region", "table", "image", "img"}

PLACES = {
    "/": "Overview",
    "/connections": "Connections",
    "/syncs": "ELT syncs",
    "/syncs/shop": "shop",
    "/streams": "Streams",
    "/streams/orders": "orders",
    "/transforms": "Transforms",
    "/transforms/top": "reports/top",
    "/orchestrations": "Orchestrations",
    "/orchestrations/nightly": HOSTILE,
    "/reverse": "Reverse ETL",
    "/reverse/people_out": "shop.people → people",
    "/journal": "Journal",
    "/journal?kind=requests": "Journal",
}


def seed(data: Path, partner: Partner) -> dict[str, Any]:
    streams = [stream("orders", "orders.jsonl"), stream("people")]
    return {
        "runs": {"minimum_duration": 0.05},
        "connections": [
            connection("files", "files", path=str(data)) | {"label": HOSTILE},
            connection("crm", "http", url=partner.url) | {"label": "CRM"},
        ],
        "orchestrations": [NIGHTLY | {"name": HOSTILE}],
        "elt_syncs": [elt_sync("shop", "files", streams, orchestration_workflow_id="nightly")],
        "transforms": [
            transform("spend", "SELECT * FROM {{raw.shop.people}}, {{raw.shop.orders}}"),
            transform("top", "SELECT * FROM {{model.spend}}", folder_path="reports", documentation=HOSTILE),
            transform("table", "SELECT 1 AS x", name="t", materialization="table", publish=True),
        ],
        "reverse_etl_syncs": [
            reverse_etl_sync("people_out", "shop.people", "crm", "people", "name", "age"),
            reverse_etl_sync("spend_out", "spend", "crm", "spend", "id"),
        ],
    }


@pytest.fixture(scope="module")
def running(data: Path, partner: Partner) -> Iterator[LocalService]:
    with served(seed(data, partner), control=True) as (service, _):
        yield service
        assert service.api_key not in service.log


@pytest.fixture
def service(running: LocalService, partner: Partner) -> LocalService:
    running.reset()
    partner.reset()
    return running


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with chromium() as driver:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
        yield driver


@pytest.fixture
def browser(chrome: Chrome) -> Iterator[Chrome]:
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chrome.get("about:blank")
    logged(chrome, "performance")
    yield chrome
    # Errors and violations of the content security policy.
    assert logged(chrome, "browser") == []
    addresses = {urlsplit(url) for url in requested(chrome) if not url.startswith(("about:", "data:"))}
    assert {one.hostname for one in addresses} <= {"127.0.0.1"}, addresses
    assert len({one.port for one in addresses}) <= 1, addresses


def go(browser: Chrome, service: LocalService, path: str = "/") -> None:
    """Open a page with the API key in the session storage."""
    if browser.current_url == f"{service.base_url}/#{path}":
        browser.refresh()
    browser.get(f"{service.base_url}/#{path}")
    if not browser.execute_script("return sessionStorage.getItem(arguments[0])", KEY):
        browser.execute_script("sessionStorage.setItem(arguments[0], arguments[1])", KEY, service.api_key)
        browser.refresh()
    until(browser, lambda: found(browser, "#main h1") and not found(browser, ".loading"))


def rows_of(browser: Chrome, service: LocalService, path: str, caption: str) -> list[list[str]]:
    """Open a page, and return the rows of a table as soon as it has some."""
    go(browser, service, path)
    rows: list[list[str]] = until(browser, lambda: table(browser, caption))
    return rows


@pytest.mark.slow
def test_key_is_requested_and_kept_in_the_tab(browser: Chrome, service: LocalService) -> None:
    browser.get(f"{service.base_url}/#/streams")
    (field,) = until(browser, lambda: found(browser, "#key"))
    assert field.get_attribute("type") == "password"
    assert browser.find_element(By.CSS_SELECTOR, "label[for=key]").text == "API key"
    for wrong in ("wrong", "schlüssel", ""):
        field.clear()
        field.send_keys(wrong, Keys.ENTER)
        until(browser, lambda: texts(browser, "#wrong") == ["This key is wrong."])
        assert field.get_attribute("aria-invalid") == "true"
        assert browser.switch_to.active_element == field
        assert browser.execute_script("return sessionStorage.length") == 0
    assert ["401" in message for message in refusals(browser)] == [True]

    field.clear()
    field.send_keys(service.api_key, Keys.ENTER)
    until(browser, lambda: browser.title == "Streams · datapipe-local")
    browser.refresh()
    until(browser, lambda: table(browser, "Streams"))
    assert browser.execute_script("return [localStorage.length, document.cookie]") == [0, ""]
    assert service.api_key not in "".join(requested(browser))
    press(browser, "Sign out")
    assert browser.title == "Sign in · datapipe-local"
    assert browser.execute_script("return sessionStorage.length") == 0

    # A key that has become wrong.
    go(browser, service)
    browser.execute_script("sessionStorage.setItem(arguments[0], 'other')", KEY)
    browser.refresh()
    until(browser, lambda: texts(browser, "#wrong") == ["The API key is no longer valid."])
    assert browser.execute_script("return sessionStorage.length") == 0
    assert all("401" in message for message in refusals(browser))


@pytest.mark.slow
def test_every_page_is_accessible_and_fits_a_phone(
    browser: Chrome, service: LocalService, api: Api, tmp_path: Path
) -> None:
    api.run_stream("people")
    api.run_orchestration("nightly")
    # A phone shows the whole page without horizontal scrolling.
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for path, title in PLACES.items():
        go(browser, service, path)
        until(browser, lambda: browser.title == f"{title} · datapipe-local")  # noqa: B023 - called within the iteration
        until(browser, lambda: not found(browser, ".loading"))
        assert texts(browser, "h1") == [title]
        assert texts(browser, ".side [aria-current=page]") == [navigation_entry(path)]
        # The navigation is scrolled to the page.
        row, entry = (found(browser, css)[0].rect for css in (".side nav", ".side [aria-current=page]"))
        assert 0 < entry["x"] + entry["width"] / 2 - row["x"] < row["width"]
        html = "document.documentElement"
        assert browser.execute_script(f"return {html}.scrollWidth <= {html}.clientWidth"), path
        # All controls have names, and no heading level is skipped.
        tree = until(browser, lambda: complete_tree(browser))
        named = [one for one in tree if one.get("role", {}).get("value") in NAMED]
        assert {one["role"]["value"] for one in named} >= {"link", "button", "navigation"}
        assert [one for one in named if not one["name"]["value"]] == [], path
        levels = [
            property_["value"]["value"]
            for one in tree
            if one.get("role", {}).get("value") == "heading"
            for property_ in one["properties"]
            if property_["name"] == "level"
        ]
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels)), path
    assert browser.save_screenshot(str(tmp_path / "narrow.png"))
    assert browser.execute_script("return window.hacked") is None


def navigation_entry(path: str) -> str:
    """Return the navigation entry of a path."""
    return PLACES["/" + path.partition("?")[0].split("/")[1]]


def test_query_previews(browser: Chrome, service: LocalService, api: Api) -> None:
    def show(sql: str, status: str) -> None:
        created = api.post("/transforms/query_previews", {"sql_template": sql}, status=201)
        go(browser, service, f"/query_previews/{created['query_execution_id']}")
        until(browser, lambda: texts(browser, ".heading .badge") == [status])

    api.run_stream("people")
    sql = "SELECT name, {'city': 'Bern'} AS address, NULL AS note FROM {{raw.shop.people}} ORDER BY name LIMIT 1"
    show(sql, "Done")
    assert texts(browser, "h1") == ["Query preview"]
    assert texts(browser, "thead th") == ["name", "address", "note"]
    assert texts(browser, "tbody tr > *")[1:] == ['{"city":"Bern"}', "null"]
    # The navigation has no entry for it.
    assert texts(browser, ".side [aria-current=page]") == []

    show("SELECT CAST('x' AS INTEGER)", "Failed")
    assert "Could not convert string 'x'" in texts(browser, ".problem")[0]
    assert found(browser, "table") == []
    assert_not_here(browser, service, "/query_previews/gone")


def assert_not_here(browser: Chrome, service: LocalService, path: str) -> None:
    go(browser, service, path)
    until(browser, lambda: texts(browser, "h1") == ["Not found"])
    messages = refusals(browser)
    assert messages
    assert all("404" in message for message in messages)


def test_overview_and_lists(browser: Chrome, service: LocalService, api: Api) -> None:
    api.run_stream("people")
    go(browser, service)
    until(browser, lambda: texts(browser, ".tiles .count") == ["2", "1", "2", "3", "1", "2"])
    assert "Nothing has failed." in texts(browser, ".fine")[0]
    rows = {
        "/connections": ("Connections", [HOSTILE, "CRM"]),
        "/syncs": ("ELT syncs", ["shop"]),
        "/streams": ("Streams", ["orders", "people"]),
        "/transforms": ("Transforms", ["reports/top", "spend", "t"]),
        "/orchestrations": ("Orchestrations", [HOSTILE]),
        "/reverse": ("Reverse ETL syncs", ["shop.people → people", "spend → spend"]),
    }
    for path, (caption, names) in rows.items():
        browser.get(f"{service.base_url}/#{path}")
        until(browser, lambda: sorted(row[0] for row in table(browser, caption)) == names)  # noqa: B023 - called within the iteration
    browser.get(f"{service.base_url}/#/connections")
    until(browser, lambda: [row[4] for row in table(browser, "Connections")] == ["ELT syncs", "Reverse ETL"])
    browser.get(f"{service.base_url}/#/streams")
    people = until(browser, lambda: [row for row in table(browser, "Streams") if row[0] == "people" and row[3] == "3"])
    assert people[0][1:4] == ["shop", "Completed", "3"]


@pytest.mark.slow
def test_columns_and_times_of_a_stream(browser: Chrome, service: LocalService, api: Api) -> None:
    # Links of Airflow's tasks use the names of the interface.
    go(browser, service, "/elt_streams/people")
    assert "There is no table yet." in texts(browser, ".empty .lead")
    run = api.run_stream("people")
    until(browser, lambda: table(browser, "Columns of people"))
    names = [column["name"] for column in api.get("/web/streams/people/columns")["columns"]]
    assert [row[0] for row in table(browser, "Columns of people")] == names
    assert "Rows of the last load: 3." in texts(browser, ".note")
    shown = until(browser, lambda: found(browser, "tbody th time"))[0]
    utc = run.started_at.strftime("%Y-%m-%d %H:%M:%S")
    assert shown.get_attribute("title").startswith(utc)
    assert shown.get_attribute("title").endswith(" UTC")
    assert f"{(run.started_at.hour + 9) % 12 or 12:02}:" in shown.text
    assert texts(browser, ".zone") == ["Asia/Tokyo"]


def test_shown_runs_can_disappear(browser: Chrome, service: LocalService, api: Api) -> None:
    api.run_stream("people")
    go(browser, service, "/streams/people")
    until(browser, lambda: len(table(browser, "Runs of people")) == 1)
    service.runs({"resources": {"people": {"vanish": True}}})
    until(browser, lambda: "It has not run yet." in texts(browser, ".empty .lead"))


@pytest.mark.slow
def test_requested_run_of_a_stream(browser: Chrome, service: LocalService) -> None:
    # Long enough for the second request on a busy machine.
    service.runs({"resources": {"orders": {"minimum_duration": 4}}})
    go(browser, service, "/streams")

    def status() -> list[str]:
        return [row[2] for row in table(browser, "Streams") if row[0] == "orders"]

    assert until(browser, status) == [NONE]
    press(browser, "Run orders now")
    until(browser, lambda: status() == ["Running"])
    assert "A run of orders was requested." in notices(browser)
    press(browser, "Run orders now")
    until(browser, lambda: len(notices(browser)) == 2)
    assert notices(browser)[1] == "The ELT stream 'orders' is already running."
    assert ["409" in message for message in refusals(browser)] == [True]
    until(browser, lambda: status() == ["Completed"])
    # An update of the page keeps the focus.
    assert browser.switch_to.active_element.accessible_name == "Run orders now"
    (run,) = service.journal_runs("orders")
    assert run["trigger"] == "request"

    service.runs({})
    found(browser, "tbody a")[0].click()
    until(browser, lambda: table(browser, "Runs of orders"))
    assert [row[1:3] for row in table(browser, "Runs of orders")] == [["Completed", "2"]]
    press(browser, "Run orders now")
    until(browser, lambda: [row[1] for row in table(browser, "Runs of orders")] == ["Completed", "Completed"])


def test_requested_runs_of_an_orchestration_and_a_table(browser: Chrome, service: LocalService, api: Api) -> None:
    go(browser, service, "/orchestrations/nightly")
    until(browser, lambda: texts(browser, ".chips a") == ["shop"])
    press(browser, "Run now")
    until(browser, lambda: [row[1] for row in table(browser, f"Runs of {HOSTILE}")] == ["Completed"])
    assert len(found(browser, ".plot.durations .point")) == 1
    assert found(browser, ".plot.rows") == []

    before = api.get("/transforms/table")["updated_at"]
    go(browser, service, "/transforms")
    until(browser, lambda: [row[1] for row in table(browser, "Transforms") if row[0] == "t"] == ["Completed"])
    press(browser, "Rematerialize t")
    until(browser, lambda: "t is being built again." in notices(browser))
    until(browser, lambda: len(service.journal_runs("table")) == 1)
    assert api.get("/transforms/table")["updated_at"] >= before


def test_plots_of_rows_and_durations(browser: Chrome, service: LocalService, api: Api, data: Path) -> None:
    for _ in range(3):
        api.run_stream("people")
    service.runs({"resources": {"people": {"outcomes": [{"fail": HOSTILE}]}}})
    api.run_stream("people")
    go(browser, service, "/streams/people")
    runs = [run["id"] for run in reversed(api.get("/elt_stream_runs", elt_stream_id="people")["data"])]
    for kind in ("rows", "durations"):
        points = until(browser, lambda: found(browser, f".plot.{kind} .point"))  # noqa: B023 - called within the iteration
        assert [one.get_attribute("data-run") for one in points] == runs
        assert [one.get_attribute("class") for one in points] == ["point good"] * 3 + ["point bad"]
        across = [one.rect["x"] for one in points]
        assert across == sorted(across)
        summary = browser.find_element(By.CSS_SELECTOR, f".plot.{kind} svg").accessible_name
        assert "4 runs" in summary
        assert "1 failed" in summary
    heights = {
        float(one.get_attribute("cy") or "") for one in found(browser, ".plot.rows .point.good circle:not(.target)")
    }
    (bottom,) = {float(one.get_attribute("y1") or "") for one in found(browser, ".plot.rows .stem")}
    assert len(heights) == 1
    assert heights.pop() < bottom
    assert texts(browser, ".problem") == [f"The latest run failed. {HOSTILE}"]


@pytest.mark.parametrize(
    ("finished", "marks"),
    [("00:01:35", ["0 ms", "1 min", "2 min"]), ("01:23:20", ["0 ms", "30 min", "1 h", "1 h 30 min"])],
)
def test_axis_of_long_runs(browser: Chrome, service: LocalService, api: Api, finished: str, marks: list[str]) -> None:
    api.run_stream("people")
    times = {"started_at": "2026-01-01T00:00:00.000Z", "finished_at": f"2026-01-01T{finished}.000Z"}
    service.faults([{"path": "/elt_stream_runs", "rewrite": times, "times": "always"}])
    go(browser, service, "/streams/people")
    until(browser, lambda: found(browser, ".plot.durations .point"))
    assert texts(browser, ".plot.durations .step text") == marks
    cut_off = "return [...document.querySelectorAll('.plot text')].filter((one) => one.getBBox().x < 0).length"
    assert browser.execute_script(cut_off) == 0


def test_long_names_do_not_wrap_short_ones(browser: Chrome, service: LocalService) -> None:
    service.faults([{"path": "/connections", "rewrite": {"label": "long" * 60}, "times": "always"}])
    rows_of(browser, service, "/connections", "Connections")
    lines = "return [...document.querySelectorAll('code.whole')].map((one) => one.getClientRects().length)"
    assert browser.execute_script(lines) == [1, 1]


def test_graph_of_transforms(browser: Chrome, service: LocalService, api: Api) -> None:
    for stream_id in ("people", "orders"):
        api.run_stream(stream_id)
    go(browser, service, "/transforms")
    script = "return [...document.querySelectorAll('.edge')].map((one) => [one.dataset.from, one.dataset.to])"
    expected = {
        ("r:shop.people", "t:spend"),
        ("r:shop.orders", "t:spend"),
        ("t:spend", "t:top"),
        ("t:spend", "x:spend_out"),
        ("r:shop.people", "x:people_out"),
    }
    edges = until(browser, lambda: len(got := browser.execute_script(script)) == len(expected) and got)
    assert {tuple(edge) for edge in edges} == expected
    at = {one.get_attribute("data-node"): one.rect for one in found(browser, ".node")}
    assert set(at) == {name for edge in expected for name in edge} | {"t:table"}
    for before, after in expected:
        assert at[before]["x"] < at[after]["x"]
    spend = browser.find_element(By.CSS_SELECTOR, "[data-node='t:spend']")
    assert spend.accessible_name.partition(": ")[2].startswith("spend; reads shop.people, shop.orders; read by ")
    assert spend.accessible_name.partition(": ")[0] in ("view", "draft")
    browser.execute_script("arguments[0].focus()", spend)
    until(browser, lambda: len(found(browser, ".edge.on")) == 4)
    spend.send_keys(Keys.ENTER)
    until(browser, lambda: browser.title == "spend · datapipe-local")
    # The page of a transform has only its own edges.
    until(browser, lambda: len(browser.execute_script(script)) == 4)


@pytest.mark.slow
def test_retry_of_failed_records(browser: Chrome, service: LocalService, api: Api, partner: Partner) -> None:
    api.run_stream("people")
    partner.rule = lambda record: (422, {"message": f"{HOSTILE} {record['name']}"})
    assert api.run_reverse("people_out").failed_rows == 3
    go(browser, service, "/reverse/people_out")
    until(browser, lambda: [row[:2] for row in table(browser, "Failed records")])
    assert [row[:2] for row in table(browser, "Failed records")] == [
        [name, f"{HOSTILE} {name}"] for name in ("Ada", "Bob", "Cyd")
    ]
    partner.rule = lambda _: (201, {})
    press(browser, "Retry record Bob")
    until(browser, lambda: [row[0] for row in table(browser, "Failed records")] == ["Ada", "Cyd"])
    assert notices(browser) == ["Record Bob is sent again by the next run."]
    partner.received.clear()
    press(browser, "Run now")
    until(browser, lambda: partner.records)
    assert [record["name"] for record in partner.records] == ["Bob"]
    press(browser, "Retry all")
    until(browser, lambda: "No record has failed." in texts(browser, ".empty .lead"))
    assert api.get("/reverse_etl_failed_records/count", reverse_etl_sync_id="people_out") == {"count": 0}


def test_hostile_names_are_text(browser: Chrome, service: LocalService) -> None:
    name = [{"path": path, "rewrite": {"name": HOSTILE}, "times": "always"} for path in ("/elt_streams", "/transforms")]
    service.faults(name)
    for path, caption in (("/streams", "Streams"), ("/transforms", "Transforms"), ("/connections", "Connections")):
        rows = rows_of(browser, service, path, caption)
        assert HOSTILE in [row[0] for row in rows]
        assert [one.get_attribute("class") for one in found(browser, "img")] == ["mark"]
        assert browser.execute_script("return window.hacked") is None
    # The browser refuses such a change.
    tried = "try { document.body.innerHTML = '<p>x'; return 'done' } catch (error) { return error.name }"
    assert browser.execute_script(tried) == "TypeError"
    (message,) = (entry["message"] for entry in logged(browser, "browser"))
    assert "TrustedHTML" in message


@pytest.mark.slow
def test_malformed_responses_are_tolerated(browser: Chrome, service: LocalService) -> None:
    service.faults([{"path": "/connections", "malformed": "other", "skip": 0}])
    rows_of(browser, service, "/connections", "Connections")
    service.faults([{"path": "/elt_streams", "rewrite": {"name": None, "id": None, "elt_sync_id": 7}}])
    go(browser, service, "/streams")
    until(browser, lambda: "orders" in [row[0] for row in table(browser, "Streams")])
    logged(browser, "browser")


@pytest.mark.slow
def test_unreachable_service(browser: Chrome, running: LocalService) -> None:
    running.reset()
    rows_of(browser, running, "/streams", "Streams")
    running.stop()
    press(browser, "Run orders now")
    until(browser, lambda: texts(browser, "[role=alert] .banner"))
    assert texts(browser, ".banner") == ["The service does not respond. The page updates as soon as it does."]
    # The last rows stay visible.
    assert len(table(browser, "Streams")) == 2
    running.start()
    until(browser, lambda: not found(browser, ".banner"))
    press(browser, "Run orders now")
    until(browser, lambda: "Completed" in [row[2] for row in table(browser, "Streams")])
    assert all("ERR_CONNECTION_REFUSED" in message for message in refusals(browser))


@pytest.mark.slow
def test_hidden_page_sends_no_requests(browser: Chrome, service: LocalService, api: Api) -> None:
    service.runs({"resources": {"orders": {"minimum_duration": 2}}})
    go(browser, service, "/streams/orders")
    press(browser, "Run now")
    until(browser, lambda: [row[1] for row in table(browser, "Runs of orders")] == ["Running"])
    hide = "Object.defineProperty(document, 'hidden', {get: () => arguments[0], configurable: true});"
    browser.execute_script(f"{hide} document.dispatchEvent(new Event('visibilitychange'));", True)
    # Active requests have ended. A visible page would send one each second.
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    requested(browser)
    api.ended("/elt_stream_runs?elt_stream_id=orders&limit=1")
    assert requested(browser) == []
    assert [row[1] for row in table(browser, "Runs of orders")] == ["Running"]
    browser.execute_script(f"{hide} document.dispatchEvent(new Event('visibilitychange'));", False)
    until(browser, lambda: [row[1] for row in table(browser, "Runs of orders")] == ["Completed"])


def test_the_journal(browser: Chrome, service: LocalService, api: Api) -> None:
    service.faults([{"path": "/elt_streams/*/request_run", "status": 503}])
    assert api.client.post("/elt_streams/orders/request_run").status_code == 503
    api.run_stream("people")
    rows_of(browser, service, "/journal", "Runs")
    assert [row[:3] for row in table(browser, "Runs")] == [["people", "elt stream", "Completed"]]
    rows = rows_of(browser, service, "/journal?kind=requests", "Requests")
    assert [row[:3] for row in rows] == [
        ["POST /elt_streams/people/request_run", "200", "Yes"],
        ["POST /elt_streams/orders/request_run", "503", "No"],
    ]
    browser.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    until(browser, lambda: len(table(browser, "Requests")) > 2)
    # The journal does not contain the requests of the page for the journal.
    assert {row[0].split()[0] for row in table(browser, "Requests")} == {"GET", "POST"}


def test_unknown_pages(browser: Chrome, service: LocalService) -> None:
    assert_not_here(browser, service, "/streams/nope")
    for path in ("/nope", "/streams/%"):
        go(browser, service, path)
        assert texts(browser, "h1") == ["Page not found"]


def test_keyboard_navigation(browser: Chrome, service: LocalService) -> None:
    rows_of(browser, service, "/streams", "Streams")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the content"
    skip.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "main"
    browser.switch_to.active_element.send_keys(Keys.TAB)
    field = browser.switch_to.active_element
    assert field.accessible_name == "Filter streams"
    field.send_keys("peo")
    until(browser, lambda: [row[0] for row in table(browser, "Streams")] == ["people"])
    assert browser.current_url.endswith("#/streams?filter=peo")
    field.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    until(browser, lambda: browser.title == "people · datapipe-local")
    # A new page moves the focus to its heading.
    assert browser.switch_to.active_element.text == "people"


@pytest.mark.slow
def test_a_thousand_streams(browser: Chrome, service: LocalService, api: Api) -> None:
    many = [stream(f"s{n:04}", "people.csv") for n in range(1_000)]
    api.post("/_local/seed", {"elt_syncs": [elt_sync("many", "files", many)]})
    go(browser, service, "/streams")
    until(browser, lambda: texts(browser, ".pager p") == [f"1{NONE}50 of 1,002"])
    assert len(table(browser, "Streams")) == 50
    press(browser, "Next")
    until(browser, lambda: texts(browser, ".pager p") == [f"51{NONE}100 of 1,002"])
    field = browser.find_element(By.ID, "filter")
    field.send_keys("s0777")
    until(browser, lambda: [row[0] for row in table(browser, "Streams")] == ["s0777"])
    assert texts(browser, ".pager p") == [f"1{NONE}1 of 1 (of 1,002 in all)"]
    press(browser, "Run s0777 now")
    until(browser, lambda: [row[2] for row in table(browser, "Streams")] == ["Completed"])
    # All pages of 100 once, then the visible streams.
    lists = [url for url in requested(browser) if "/elt_streams?" in url]
    assert len(lists) == 11
    # The overview states which resources it checked.
    go(browser, service)
    until(browser, lambda: "the first 100 of all other resources" in "".join(texts(browser, ".fine")))


@pytest.mark.slow
def test_empty_service_without_a_control_plane(browser: Chrome, running: LocalService) -> None:
    with LocalService() as plain:
        # The page has a flag, because a request without a control plane would log an error.
        pages = [httpx.get(one.base_url) for one in (plain, running)]
        reported = ['data-control="off"' in pages[0].text, 'data-control="on"' in pages[1].text]
        assert reported == [True, True]
        assert pages[0].headers["etag"] != pages[1].headers["etag"]

        go(browser, plain)
        until(browser, lambda: texts(browser, ".empty .lead") == ["There are no resources yet."])
        assert texts(browser, ".side nav a")[-1] == "Reverse ETL"
        for path in ("/connections", "/syncs", "/streams", "/transforms", "/orchestrations", "/reverse"):
            go(browser, plain, path)
            until(browser, lambda: [one[:13] for one in texts(browser, ".empty .lead")] == ["There are no "])
        go(browser, plain, "/journal")
        until(browser, lambda: texts(browser, "h1") == ["Page not found"])
        assert not [url for url in requested(browser) if "_local" in url]
