"""
Looks through the pages that were built: links lead somewhere, and nothing is loaded from the network.

Sphinx looks at references; this looks at what came of them, whoever wrote it: themes, raw HTML, pictures.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: Attributes by which a page loads something at once; a link is followed by a person.
_LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
_logger = logging.getLogger(__name__)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        # A canonical address, or the page before this one, is named and not loaded.
        if tag in _LOADS and (tag != "link" or given.get("rel") in ("stylesheet", "icon", "preload")):
            self.loads.append(str(given.get(_LOADS[tag]) or ""))


def problems(folder: Path) -> list[str]:
    """
    Give what is wrong, a line each.

    :param folder: where the pages were built.
    """
    pages = {}
    for file in sorted(folder.rglob("*.html")):
        pages[file] = _Page()
        pages[file].feed(file.read_text(encoding="utf-8"))
    found = []
    for file, page in pages.items():
        name = file.relative_to(folder).as_posix()
        found += [f"{name} loads {what}" for what in page.loads if urlsplit(what).netloc]
        for link in page.links:
            path, anchor = urldefrag(link)
            if urlsplit(path).scheme or urlsplit(path).netloc:
                continue
            target = (file.parent / unquote(urlsplit(path).path)).resolve() if path else file
            if not target.exists():
                found.append(f"{name} leads to {link}, which is not there")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{name} leads to {link}: the page has no such place")
    return found


def check(app: Sphinx, failure: Exception | None) -> None:
    """
    Warn of what is wrong; Sphinx calls this at its end.

    :param app: Sphinx.
    :param failure: why it has failed, if so.
    """
    if failure is None and app.builder.name == "html":
        for problem in problems(Path(app.outdir).resolve()):
            _logger.warning("%s", problem)
