"""Browser tests of the page at ``/``: of a full, an empty and a stopped service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.browser import chromium
from tests.contract.datapipe_local.partner import Partner
from tests.support.local_service import LocalService

HOSTILE = '<img src=x onerror="window.hacked = true">&amp;\''
KEY = "datapipe-local-key"
#: What a browser itself says of an answer that is a refusal, or of none.
REFUSED = "Failed to load resource"
LIMIT = 15
#: The dash that stands for nothing, and between two numbers.
NONE = "\N{EN DASH}"
#: What has to have a name, for those who can't see it.
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


def mappings(*names: str) -> list[dict[str, Any]]:
    return [{"source_property_id": n, "destination_property_id": n, "primary_key": n == names[0]} for n in names]


def seed(data: Path, partner: Partner) -> dict[str, Any]:
    files = {"orders": "orders.jsonl", "people": "people.csv"}
    return {
        "runs": {"minimum_duration": 0.05},
        "connections": [
            {"id": "files", "integration_id": "files", "label": HOSTILE, "settings": {"path": str(data)}},
            {"id": "crm", "integration_id": "http", "label": "CRM", "settings": {"url": partner.url}},
        ],
        "orchestrations": [{"id": "nightly", "name": HOSTILE, "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "files",
                "destination_schema_name": "shop",
                "orchestration_workflow_id": "nightly",
                "source_streams": [{"id": name, "name": name, "file": file} for name, file in files.items()],
            }
        ],
        "transforms": [
            {"id": "spend", "name": "spend", "sql_template": "SELECT * FROM {{raw.shop.people}}, {{raw.shop.orders}}"},
            {
                "id": "top",
                "name": "top",
                "folder_path": "reports",
                "sql_template": "SELECT * FROM {{model.spend}}",
                "documentation": HOSTILE,
            },
            {"id": "table", "name": "t", "sql_template": "SELECT 1 AS x", "materialization": "table", "publish": True},
        ],
        "reverse_etl_syncs": [
            {
                "id": "people_out",
                "source_id": "shop.people",
                "destination_connection_id": "crm",
                "object_type_id": "people",
                "operation": {"mode": "upsert", "mappings": mappings("name", "age")},
            },
            {
                "id": "spend_out",
                "source_id": "spend",
                "destination_connection_id": "crm",
                "object_type_id": "spend",
                "operation": {"mode": "upsert", "mappings": mappings("id")},
            },
        ],
    }


@pytest.fixture(scope="module")
def running(data: Path, partner: Partner) -> Iterator[LocalService]:
    with LocalService(seed(data, partner), control=True) as service:
        yield service
        assert "Traceback" not in service.log
        assert service.api_key not in service.log


@pytest.fixture
def service(running: LocalService, partner: Partner) -> LocalService:
    running.reset()
    partner.reset()
    return running


@pytest.fixture
def api(service: LocalService) -> Api:
    return Api(service)


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
    # Errors, refused policies, and whatever was not foreseen.
    assert logged(chrome, "browser") == []
    asked = {urlsplit(url) for url in requested(chrome) if not url.startswith(("about:", "data:"))}
    assert {one.hostname for one in asked} <= {"127.0.0.1"}, asked
    assert len({one.port for one in asked}) <= 1, asked


def logged(browser: Chrome, kind: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call] # selenium's own
    return entries


def requested(browser: Chrome) -> list[str]:
    """Return the URLs of the requests since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in logged(browser, "performance")]
    return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]


def refusals(browser: Chrome) -> list[str]:
    """Return the console messages about refused requests. Fail for other messages."""
    said = [entry["message"] for entry in logged(browser, "browser")]
    assert all(REFUSED in message for message in said), said
    return said


def until(browser: Chrome, condition: Callable[[], Any]) -> Any:
    wait = WebDriverWait(browser, LIMIT, poll_frequency=0.03, ignored_exceptions=[StaleElementReferenceException])
    return wait.until(lambda _: condition())


def go(browser: Chrome, service: LocalService, path: str = "/") -> None:
    """Open a page with the API key in the session storage."""
    if browser.current_url == f"{service.base_url}/#{path}":
        browser.refresh()
    browser.get(f"{service.base_url}/#{path}")
    if not browser.execute_script("return sessionStorage.getItem(arguments[0])", KEY):
        browser.execute_script("sessionStorage.setItem(arguments[0], arguments[1])", KEY, service.api_key)
        browser.refresh()
    until(browser, lambda: found(browser, "#main h1") and not found(browser, ".loading"))


def found(browser: Chrome, selector: str) -> list[WebElement]:
    return browser.find_elements(By.CSS_SELECTOR, selector)


def texts(browser: Chrome, selector: str) -> list[str]:
    """Return the texts of elements, all of one instant."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    said: list[str] = browser.execute_script(script, selector)
    return said


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


@pytest.mark.slow
def test_the_key_is_asked_for_and_kept_by_this_tab_alone(browser: Chrome, service: LocalService) -> None:
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


def test_a_key_that_is_right_no_more(browser: Chrome, service: LocalService) -> None:
    go(browser, service)
    browser.execute_script("sessionStorage.setItem(arguments[0], 'other')", KEY)
    browser.refresh()
    until(browser, lambda: texts(browser, "#wrong") == ["The API key is not right any more."])
    assert browser.execute_script("return sessionStorage.length") == 0
    assert all("401" in message for message in refusals(browser))


@pytest.mark.slow
def test_every_place_can_be_read_by_everybody(browser: Chrome, service: LocalService, api: Api, tmp_path: Path) -> None:
    api.run_stream("people")
    api.run_orchestration("nightly")
    # A phone shows all of it, without a way to the side.
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for path, title in PLACES.items():
        go(browser, service, path)
        until(browser, lambda: browser.title == f"{title} · datapipe-local")  # noqa: B023 - at once
        until(browser, lambda: not found(browser, ".loading"))
        assert texts(browser, "h1") == [title]
        # It is known where one is.
        assert texts(browser, ".side [aria-current=page]") == [current(path)]
        html = "document.documentElement"
        assert browser.execute_script(f"return {html}.scrollWidth <= {html}.clientWidth"), path
        # Nothing is without a name, and levels of headings are not left out.
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


def complete_tree(browser: Chrome) -> list[dict[str, Any]] | None:
    """
    Return the nodes of the accessibility tree.

    :returns: None unless each visible table is a table of the tree, as for a moment while the page renders again.
    """
    tree: list[dict[str, Any]] = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = [one.get("role", {}).get("value") for one in tree]
    # Also as cards.
    shown = {"table": "table", "rowheader": "tbody tr"}
    return tree if all(roles.count(role) == len(found(browser, css)) for role, css in shown.items()) else None


def current(path: str) -> str:
    """Return the navigation entry of a path."""
    return PLACES["/" + path.partition("?")[0].split("/")[1]]


def test_query_preview(browser: Chrome, service: LocalService, api: Api) -> None:
    api.run_stream("people")
    sql = "SELECT name, {'city': 'Bern'} AS address, NULL AS note FROM {{raw.shop.people}} ORDER BY name LIMIT 1"
    query_id = asked(api, sql)
    go(browser, service, f"/query_previews/{query_id}")
    until(browser, lambda: texts(browser, ".heading .badge") == ["Done"])
    assert texts(browser, "h1") == ["Query preview"]
    assert texts(browser, "thead th") == ["name", "address", "note"]
    assert texts(browser, "tbody tr > *")[1:] == ['{"city":"Bern"}', "null"]
    # It is no place in the navigation.
    assert texts(browser, ".side [aria-current=page]") == []


def test_query_preview_that_failed(browser: Chrome, service: LocalService, api: Api) -> None:
    query_id = asked(api, "SELECT CAST('x' AS INTEGER)")
    go(browser, service, f"/query_previews/{query_id}")
    until(browser, lambda: texts(browser, ".heading .badge") == ["Failed"])
    assert "Could not convert string 'x'" in texts(browser, ".problem")[0]
    assert found(browser, "table") == []


def test_query_preview_that_is_unknown(browser: Chrome, service: LocalService) -> None:
    go(browser, service, "/query_previews/gone")
    until(browser, lambda: texts(browser, "h1") == ["It is not here"])
    assert refusals(browser)


def asked(api: Api, sql: str) -> str:
    """Return the ID of a query preview."""
    created: dict[str, Any] = api.post("/transforms/query_previews", {"sql_template": sql}, status=201)
    return str(created["query_execution_id"])


def test_what_there_is(browser: Chrome, service: LocalService, api: Api) -> None:
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
        until(browser, lambda: sorted(row[0] for row in table(browser, caption)) == names)  # noqa: B023 - at once
    browser.get(f"{service.base_url}/#/connections")
    until(browser, lambda: [row[4] for row in table(browser, "Connections")] == ["ELT syncs", "Reverse ETL"])
    browser.get(f"{service.base_url}/#/streams")
    people = until(browser, lambda: [row for row in table(browser, "Streams") if row[0] == "people" and row[3] == "3"])
    assert people[0][1:4] == ["shop", "Completed", "3"]


@pytest.mark.slow
def test_the_columns_of_a_stream(browser: Chrome, service: LocalService, api: Api) -> None:
    go(browser, service, "/streams/people")
    assert "There is no table yet." in texts(browser, ".empty .lead")
    api.run_stream("people")
    until(browser, lambda: table(browser, "Columns of people"))
    names = [column["name"] for column in api.get("/web/streams/people/columns")["columns"]]
    assert [row[0] for row in table(browser, "Columns of people")] == names
    assert "Rows of the last load: 3." in texts(browser, ".note")


def test_times_are_those_of_the_user(browser: Chrome, service: LocalService, api: Api) -> None:
    run = api.run_stream("people")
    # Links of Airflow's tasks are made of the interface's names.
    go(browser, service, "/elt_streams/people")
    shown = until(browser, lambda: found(browser, "tbody th time"))[0]
    utc = run.started_at.strftime("%Y-%m-%d %H:%M:%S")
    assert shown.get_attribute("title").startswith(utc)
    assert shown.get_attribute("title").endswith(" UTC")
    assert f"{(run.started_at.hour + 9) % 12 or 12:02}:" in shown.text
    assert texts(browser, ".zone") == ["Asia/Tokyo"]


@pytest.mark.slow
def test_a_run_is_asked_for_appears_and_ends(browser: Chrome, service: LocalService) -> None:
    # Long enough to ask once more while it goes on, on a machine that is busy with other things.
    service.runs({"resources": {"orders": {"minimum_duration": 4}}})
    go(browser, service, "/streams")

    def status() -> list[str]:
        return [row[2] for row in table(browser, "Streams") if row[0] == "orders"]

    assert until(browser, status) == [NONE]
    press(browser, "Run orders now")
    until(browser, lambda: status() == ["Running"])
    assert "A run of orders was asked for." in notices(browser)
    press(browser, "Run orders now")
    until(browser, lambda: len(notices(browser)) == 2)
    assert notices(browser)[1] == "The ELT stream 'orders' is already running."
    assert ["409" in message for message in refusals(browser)] == [True]
    until(browser, lambda: status() == ["Completed"])
    # The focus stays where it was, whatever has changed around it.
    assert browser.switch_to.active_element.accessible_name == "Run orders now"
    (run,) = service.journal_runs("orders")
    assert run["trigger"] == "request"

    service.runs({})
    found(browser, "tbody a")[0].click()
    until(browser, lambda: table(browser, "Runs of orders"))
    assert [row[1:3] for row in table(browser, "Runs of orders")] == [["Completed", "2"]]
    press(browser, "Run orders now")
    until(browser, lambda: [row[1] for row in table(browser, "Runs of orders")] == ["Completed", "Completed"])


def test_an_orchestration_and_a_table_are_run(browser: Chrome, service: LocalService, api: Api) -> None:
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


def test_the_plot_has_its_points(browser: Chrome, service: LocalService, api: Api, data: Path) -> None:
    for _ in range(3):
        api.run_stream("people")
    service.runs({"resources": {"people": {"outcomes": [{"fail": HOSTILE}]}}})
    api.run_stream("people")
    go(browser, service, "/streams/people")
    runs = [run["id"] for run in reversed(api.get("/elt_stream_runs", elt_stream_id="people")["data"])]
    for kind in ("rows", "durations"):
        points = until(browser, lambda: found(browser, f".plot.{kind} .point"))  # noqa: B023 - at once
        assert [one.get_attribute("data-run") for one in points] == runs
        assert [one.get_attribute("class") for one in points] == ["point good"] * 3 + ["point bad"]
        across = [one.rect["x"] for one in points]
        assert across == sorted(across)
        said = browser.find_element(By.CSS_SELECTOR, f".plot.{kind} svg").accessible_name
        assert "4 runs" in said
        assert "1 failed" in said
    # The more rows, the higher.
    heights = [
        float(one.get_attribute("cy") or "") for one in found(browser, ".plot.rows .point.good circle:not(.target)")
    ]
    (bottom,) = {float(one.get_attribute("y1") or "") for one in found(browser, ".plot.rows .stem")}
    assert len(set(heights)) == 1
    assert heights[0] < bottom
    assert texts(browser, ".problem") == [f"The latest run failed. {HOSTILE}"]


@pytest.mark.parametrize(
    ("finished", "marks"),
    [("00:01:35", ["0 ms", "1 min", "2 min"]), ("01:23:20", ["0 ms", "30 min", "1 h", "1 h 30 min"])],
)
def test_long_runs_are_counted_by_minutes_and_hours(
    browser: Chrome, service: LocalService, api: Api, finished: str, marks: list[str]
) -> None:
    api.run_stream("people")
    times = {"started_at": "2026-01-01T00:00:00.000Z", "finished_at": f"2026-01-01T{finished}.000Z"}
    service.faults([{"path": "/elt_stream_runs", "rewrite": times, "times": "always"}])
    go(browser, service, "/streams/people")
    until(browser, lambda: found(browser, ".plot.durations .point"))
    assert texts(browser, ".plot.durations .step text") == marks
    # All of each can be read.
    outside = "return [...document.querySelectorAll('.plot text')].filter((one) => one.getBBox().x < 0).length"
    assert browser.execute_script(outside) == 0


def test_long_names_leave_short_ones_whole(browser: Chrome, service: LocalService) -> None:
    service.faults([{"path": "/connections", "rewrite": {"label": "long" * 60}, "times": "always"}])
    go(browser, service, "/connections")
    until(browser, lambda: table(browser, "Connections"))
    lines = "return [...document.querySelectorAll('code.whole')].map((one) => one.getClientRects().length)"
    assert browser.execute_script(lines) == [1, 1]


def test_the_graph_has_its_edges(browser: Chrome, service: LocalService, api: Api) -> None:
    for stream in ("people", "orders"):
        api.run_stream(stream)
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
    # It can be read, and walked along.
    spend = browser.find_element(By.CSS_SELECTOR, "[data-node='t:spend']")
    assert spend.accessible_name == "view: spend; reads shop.people, shop.orders; read by reports/top, spend" or (
        spend.accessible_name.startswith("draft: spend; reads shop.people, shop.orders; read by ")
    )
    browser.execute_script("arguments[0].focus()", spend)
    until(browser, lambda: len(found(browser, ".edge.on")) == 4)
    spend.send_keys(Keys.ENTER)
    until(browser, lambda: browser.title == "spend · datapipe-local")
    # There, only what has to do with it.
    until(browser, lambda: len(browser.execute_script(script)) == 4)


@pytest.mark.slow
def test_a_failed_record_is_retried(browser: Chrome, service: LocalService, api: Api, partner: Partner) -> None:
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
        go(browser, service, path)
        rows = until(browser, lambda: table(browser, caption))  # noqa: B023 - at once
        assert HOSTILE in [row[0] for row in rows]
        assert [one.get_attribute("class") for one in found(browser, "img")] == ["mark"]
        assert browser.execute_script("return window.hacked") is None
    # The browser itself would refuse it.
    tried = "try { document.body.innerHTML = '<p>x'; return 'done' } catch (error) { return error.name }"
    assert browser.execute_script(tried) == "TypeError"
    (said,) = (entry["message"] for entry in logged(browser, "browser"))
    assert "TrustedHTML" in said


@pytest.mark.slow
def test_answers_that_are_none_are_told_and_got_over(browser: Chrome, service: LocalService) -> None:
    service.faults([{"path": "/connections", "malformed": "other", "skip": 0}])
    go(browser, service, "/connections")
    until(browser, lambda: table(browser, "Connections"))
    service.faults([{"path": "/elt_streams", "rewrite": {"name": None, "id": None, "elt_sync_id": 7}}])
    go(browser, service, "/streams")
    until(browser, lambda: "orders" in [row[0] for row in table(browser, "Streams")])
    logged(browser, "browser")


@pytest.mark.slow
def test_a_service_that_goes_away_and_comes_back(browser: Chrome, running: LocalService) -> None:
    running.reset()
    go(browser, running, "/streams")
    until(browser, lambda: table(browser, "Streams"))
    running.stop()
    press(browser, "Run orders now")
    until(browser, lambda: texts(browser, "[role=alert] .banner"))
    assert texts(browser, ".banner") == ["The service does not answer. The page goes on as soon as it does."]
    # What was there can still be read.
    assert len(table(browser, "Streams")) == 2
    running.start()
    until(browser, lambda: not found(browser, ".banner"))
    press(browser, "Run orders now")
    until(browser, lambda: "Completed" in [row[2] for row in table(browser, "Streams")])
    assert all("ERR_CONNECTION_REFUSED" in message for message in refusals(browser))


@pytest.mark.slow
def test_nothing_is_asked_for_while_nobody_looks(browser: Chrome, service: LocalService, api: Api) -> None:
    service.runs({"resources": {"orders": {"minimum_duration": 2}}})
    go(browser, service, "/streams/orders")
    press(browser, "Run now")
    until(browser, lambda: [row[1] for row in table(browser, "Runs of orders")] == ["Running"])
    hide = "Object.defineProperty(document, 'hidden', {get: () => arguments[0], configurable: true});"
    browser.execute_script(f"{hide} document.dispatchEvent(new Event('visibilitychange'));", True)
    # What was under way has ended; a look would come each second.
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
    go(browser, service, "/journal")
    until(browser, lambda: table(browser, "Runs"))
    assert [row[:3] for row in table(browser, "Runs")] == [["people", "elt stream", "Completed"]]
    go(browser, service, "/journal?kind=requests")
    rows = until(browser, lambda: table(browser, "Requests"))
    assert [row[:3] for row in rows] == [
        ["POST /elt_streams/people/request_run", "200", "Yes"],
        ["POST /elt_streams/orders/request_run", "503", "No"],
    ]
    browser.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    until(browser, lambda: len(table(browser, "Requests")) > 2)
    # It changes nothing: to look at it is not in it.
    assert {row[0].split()[0] for row in table(browser, "Requests")} == {"GET", "POST"}


def test_what_is_not_there(browser: Chrome, service: LocalService) -> None:
    go(browser, service, "/streams/nope")
    until(browser, lambda: texts(browser, "h1") == ["It is not here"])
    assert all("404" in message for message in refusals(browser))
    go(browser, service, "/nope")
    assert texts(browser, "h1") == ["There is no such page"]
    go(browser, service, "/streams/%")
    assert texts(browser, "h1") == ["There is no such page"]


def test_it_can_be_done_with_keys_alone(browser: Chrome, service: LocalService) -> None:
    go(browser, service, "/streams")
    until(browser, lambda: table(browser, "Streams"))
    browser.execute_script("document.activeElement.blur()")
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
    # Where the page is another one, who hears it is told so.
    assert browser.switch_to.active_element.text == "people"


@pytest.mark.slow
def test_a_thousand_streams(browser: Chrome, service: LocalService, data: Path) -> None:
    many = [{"id": f"s{n:04}", "name": f"s{n:04}", "file": "people.csv"} for n in range(1_000)]
    sync = {"id": "many", "connection_id": "files", "destination_schema_name": "many", "source_streams": many}
    answer = httpx.post(f"{service.base_url}/_local/seed", json={"elt_syncs": [sync]}, headers=service.headers)
    assert answer.status_code == 200, answer.text
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
    # Pages of a hundred, once, and then the state of what is shown.
    lists = [url for url in requested(browser) if "/elt_streams?" in url]
    assert len(lists) == 11
    # What was not looked at is not called well.
    go(browser, service)
    until(browser, lambda: "the first 100 of all else" in "".join(texts(browser, ".fine")))


@pytest.mark.slow
def test_a_service_that_has_nothing_and_no_control_plane(browser: Chrome, running: LocalService) -> None:
    with LocalService() as plain:
        # The script is told so: to try for one would be logged as an error.
        pages = [httpx.get(one.base_url) for one in (plain, running)]
        told = ['data-control="off"' in pages[0].text, 'data-control="on"' in pages[1].text]
        assert told == [True, True]
        assert pages[0].headers["etag"] != pages[1].headers["etag"]

        go(browser, plain)
        until(browser, lambda: texts(browser, ".empty .lead") == ["There is nothing here yet."])
        assert texts(browser, ".side nav a")[-1] == "Reverse ETL"
        for path in ("/connections", "/syncs", "/streams", "/transforms", "/orchestrations", "/reverse"):
            go(browser, plain, path)
            until(browser, lambda: [one[:13] for one in texts(browser, ".empty .lead")] == ["There are no "])
        go(browser, plain, "/journal")
        until(browser, lambda: texts(browser, "h1") == ["There is no such page"])
        assert not [url for url in requested(browser) if "_local" in url]
