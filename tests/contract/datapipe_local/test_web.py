"""Tests of the files of the page at ``/``: access, security headers and no external resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import datapipe_local.web
from tests.contract.datapipe_local.elt_home import Home
from tests.support.local_service import LocalService

FOLDER = Path(datapipe_local.web.__path__[0])
FILES = sorted(
    path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix in {".js", ".css", ".svg"}
)
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "frame-ancestors": "'none'",
}


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with LocalService() as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture(scope="module")
def client(service: LocalService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.base_url) as client:
        yield client


def test_what_there_is() -> None:
    assert {"app.js", "style.css", "icon.svg", "views/streams.js"} <= set(FILES)


@pytest.mark.parametrize("path", ["/", *(f"/web/{name}" for name in FILES)])
def test_a_file_is_for_anybody_and_is_told_as_what_it_is(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    content = (FOLDER / (path.removeprefix("/web/") if path != "/" else "index.html")).read_bytes()
    assert answer.content == content
    kind = {"": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[path.partition(".")[2]]
    assert answer.headers["content-type"].partition(";")[0] == kind
    said = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert said.items() >= POLICY.items()
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"

    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert {**head.headers, "date": ""} == {**answer.headers, "date": ""}

    etag = answer.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag), known
        assert again.headers["content-security-policy"] == answer.headers["content-security-policy"]
    assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/web/", "/web/nope.js", "/web/index.html", "/web/__init__.py", "/web/../web.py", "/web"]
)
def test_nothing_else_is_there(client: httpx.Client, service: LocalService, path: str) -> None:
    assert client.get(path).status_code == 401
    assert client.get(path, headers=service.headers).status_code == 404


@pytest.mark.parametrize("path", ["/", "/web/app.js"])
def test_it_can_only_be_read(client: httpx.Client, path: str) -> None:
    answer = client.post(path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_all_that_is_named_is_there_and_nothing_is_elsewhere() -> None:
    named = set()
    for name in ["index.html", *FILES]:
        text = (FOLDER / name).read_text()
        # The one address is the name of SVG, which nobody asks for.
        assert set(re.findall(r"""https?://[^"'\s]+""", text)) <= {"http://www.w3.org/2000/svg"}, name
        assert "//" not in re.sub(r"^\s*//.*$|http://www.w3.org", "", text, flags=re.MULTILINE), name
        named |= {f"web/{path}" for path in re.findall(r'"/web/([^"]+)"', text)}
        named |= {
            f"web/{(FOLDER / name).parent.joinpath(path).resolve().relative_to(FOLDER).as_posix()}"
            for path in re.findall(r'from "(\.[^"]+)"', text)
        }
    assert named == {f"web/{name}" for name in FILES}


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_no_text_can_become_html_or_a_program(name: str) -> None:
    text = (FOLDER / name).read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"):
        assert way not in text


COLUMNS = "/web/streams/people/columns"


@pytest.fixture(scope="module")
def controlled() -> Iterator[LocalService]:
    with LocalService({}, control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture
def home(controlled: LocalService, tmp_path: Path) -> Home:
    home = Home(controlled, tmp_path)
    home.seed({"name": "people", "hashed_columns": ["EMAIL"]})
    home.write("people", *[{"id": number, "email": "ann@x.org"} for number in range(3)])
    return home


def test_the_columns_of_a_stream(home: Home) -> None:
    assert home.api.get(COLUMNS) == {"columns": [], "rows": None}
    home.run("people")
    columns = [
        {"name": "id", "type": "BIGINT", "hashed": False},
        {"name": "email", "type": "VARCHAR", "hashed": True},
    ]
    assert home.api.get(COLUMNS) == {"columns": columns, "rows": 3}


def test_the_columns_of_an_unknown_stream(home: Home) -> None:
    assert home.api.refused("GET", "/web/streams/nope/columns", 404)["error_code"] == "not_found"


def test_the_columns_of_a_stream_need_the_key(home: Home) -> None:
    assert httpx.get(f"{home.service.base_url}{COLUMNS}").status_code == 401
