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


@pytest.fixture
def client(empty_service: LocalService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=empty_service.base_url) as client:
        yield client


@pytest.mark.parametrize("path", ["/", *(f"/web/{name}" for name in FILES)])
def test_files_are_public_and_have_security_headers(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    content = (FOLDER / (path.removeprefix("/web/") if path != "/" else "index.html")).read_bytes()
    # With the control plane.
    assert answer.content == content.replace(b'data-control="off"', b'data-control="on"')
    kind = {"": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[path.partition(".")[2]]
    assert answer.headers["content-type"].partition(";")[0] == kind
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy.items() >= POLICY.items()
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


def test_other_files_and_methods_are_refused(client: httpx.Client, empty_service: LocalService) -> None:
    for path in ("/web/", "/web/nope.js", "/web/index.html", "/web/__init__.py", "/web/../web.py", "/web"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=empty_service.headers).status_code == 404
    for path in ("/", "/web/app.js"):
        answer = client.post(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_files_refer_only_to_each_other_and_insert_no_html() -> None:
    html = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser")
    named = set()
    for name in ["index.html", *FILES]:
        text = (FOLDER / name).read_text()
        assert not [way for way in html if way in text], name
        # The only address is the XML namespace of SVG, which a browser does not request.
        assert set(re.findall(r"""https?://[^"'\s]+""", text)) <= {"http://www.w3.org/2000/svg"}, name
        assert "//" not in re.sub(r"^\s*//.*$|http://www.w3.org", "", text, flags=re.MULTILINE), name
        named |= {f"web/{path}" for path in re.findall(r'"/web/([^"]+)"', text)}
        named |= {
            f"web/{(FOLDER / name).parent.joinpath(path).resolve().relative_to(FOLDER).as_posix()}"
            for path in re.findall(r'from "(\.[^"]+)"', text)
        }
    assert named == {f"web/{name}" for name in FILES}


COLUMNS = "/web/streams/people/columns"


def test_columns_of_a_stream(home: Home, client: httpx.Client) -> None:
    home.seed({"name": "people", "hashed_columns": ["EMAIL"]})
    home.write("people", *[{"id": number, "email": "ann@x.org"} for number in range(3)])
    assert home.api.get(COLUMNS) == {"columns": [], "rows": None}
    home.run("people")
    columns = [
        {"name": "id", "type": "BIGINT", "hashed": False},
        {"name": "email", "type": "VARCHAR", "hashed": True},
    ]
    assert home.api.get(COLUMNS) == {"columns": columns, "rows": 3}
    home.api.refused("GET", "/web/streams/nope/columns", 404, code="not_found")
    assert client.get(COLUMNS).status_code == 401
