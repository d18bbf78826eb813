"""
Check of the built HTML pages: all links have a target, and pages load nothing from the network.

Sphinx checks the references in the sources. This check covers the output, including themes, raw HTML and pictures.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: Attributes with addresses that a browser loads with the page. It loads the target of a link only on a click.
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
        # Browsers do not load links such as canonical addresses and previous pages.
        if tag in _LOADS and (tag != "link" or given.get("rel") in ("stylesheet", "icon", "preload")):
            self.loads.append(str(given.get(_LOADS[tag]) or ""))


def problems(folder: Path) -> list[str]:
    """
    Return the problems of the built pages, one line each.

    :param folder: The folder of the built pages.
    """
    pages = {}
    for file in sorted(folder.rglob("*.html")):
        pages[file] = _Page()
        pages[file].feed(file.read_text(encoding="utf-8"))
    found = []
    for file, page in pages.items():
        name = file.relative_to(folder).as_posix()
        found += [f"{name} loads {address} from the network" for address in page.loads if urlsplit(address).netloc]
        for link in page.links:
            path, anchor = urldefrag(link)
            if urlsplit(path).scheme or urlsplit(path).netloc:
                continue
            target = (file.parent / unquote(urlsplit(path).path)).resolve() if path else file
            if not target.exists():
                found.append(f"{name} links to {link}, which does not exist")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{name} links to {link}, but the page has no such anchor")
    return found


def check(app: Sphinx, failure: Exception | None) -> None:
    """
    Log a warning for each problem. Handler of the event ``build-finished``.

    :param app: The Sphinx application.
    :param failure: The error of a failed build, else None.
    """
    if failure is None and app.builder.name == "html":
        for problem in problems(Path(app.outdir).resolve()):
            _logger.warning("%s", problem)
