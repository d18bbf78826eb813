"""Static files of the page at ``/``, without authentication. The page requests its data with the API key."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "form-action": "'none'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    # The browser must refuse to parse text as HTML.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
_HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    # Browsers cache the files but revalidate them, so that a new version of the service is effective immediately.
    "cache-control": "no-cache",
}
_NOT_MODIFIED = 304
_PAGE = "index.html"
#: Attribute that shows the script if there is a control plane. A trial request would log an error in the browser.
_CONTROL_OFF, _CONTROL_ON = b'data-control="off"', b'data-control="on"'


class _File(NamedTuple):
    content: bytes
    media_type: str
    etag: str


def _file(name: str, content: bytes) -> _File:
    return _File(content, _TYPES[name.rpartition(".")[2]], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _contents(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _contents(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _TYPES:
            yield prefix + entry.name, entry.read_bytes()


def _page(content: bytes) -> tuple[_File, _File]:
    return _file(_PAGE, content), _file(_PAGE, content.replace(_CONTROL_OFF, _CONTROL_ON))


def _answer(request: Request, file: _File) -> Response:
    headers = {**_HEADERS, "etag": file.etag}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if known & {file.etag, "*"}:
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


_CONTENTS = dict(_contents(resources.files("datapipe_local.web")))
_WITHOUT_CONTROL, _WITH_CONTROL = _page(_CONTENTS.pop(_PAGE))
_FILES = {name: _file(name, content) for name, content in _CONTENTS.items()}
_METHODS = ["GET", "HEAD"]

#: Paths that need no API key.
PATHS = frozenset({"/", *(f"/web/{name}" for name in _FILES)})

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=_METHODS)
async def show(request: Request) -> Response:
    """Return the page."""
    with_control = getattr(request.app.state, "control", None) is not None
    return _answer(request, _WITH_CONTROL if with_control else _WITHOUT_CONTROL)


@router.api_route("/web/{name:path}", methods=_METHODS)
async def give(request: Request, name: str) -> Response:
    """Return a file of the page."""
    if name not in _FILES:
        raise HTTPException(404)
    return _answer(request, _FILES[name])
