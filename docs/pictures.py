"""
SVG files of the Mermaid diagrams in the pages.

GitHub renders Mermaid blocks itself. The built HTML pages contain the SVG file ``pictures/<hash of the text>.svg``
instead, so that they load no script, and nothing from the network.

``python docs/pictures.py MERMAID_JS`` draws missing files, and removes files that no page uses. It needs Chromium, and
the file ``dist/mermaid.min.js`` of the npm package ``mermaid`` (``npm pack mermaid``). A diagram without a file is a
warning, which fails ``make docs``.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
FOLDER = HERE / "pictures"
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_logger = logging.getLogger(__name__)

_PAGE = """<!doctype html><meta charset="utf-8"><pre id="source">{source}</pre><pre id="drawn"></pre>
<script>{script}</script>
<script>
  const shown = (text) => {{ document.getElementById("drawn").textContent = text; }};
  mermaid.initialize({{
    startOnLoad: false, theme: "neutral", htmlLabels: false, fontFamily: "sans-serif", deterministicIds: true,
    flowchart: {{ htmlLabels: false, useMaxWidth: false, wrappingWidth: 300 }}, sequence: {{ useMaxWidth: false }},
  }});
  mermaid.render("picture", document.getElementById("source").textContent)
    .then((drawn) => shown(drawn.svg), (error) => shown("failed: " + error));
</script>"""


def file_of(source: str) -> Path:
    """Return the SVG file of a diagram."""
    return FOLDER / f"{hashlib.sha256(source.strip().encode()).hexdigest()[:12]}.svg"


def sources() -> dict[Path, str]:
    """Return the source texts of all diagrams by their SVG files."""
    texts = [found for page in sorted(HERE.glob("*.md")) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    return {file_of(text): text for text in texts if text.strip()}


def put_in(app: Sphinx, tree: nodes.document) -> None:
    """Replace Mermaid blocks with their SVG files. Handler of the event ``doctree-read``."""
    for block in list(tree.findall(lambda node: isinstance(node, nodes.literal_block))):
        if block.get("language") != "mermaid":
            continue
        file = file_of(block.astext())
        if not file.exists():
            _logger.warning("this diagram has no file: run python docs/pictures.py MERMAID_JS", location=block)
            continue
        image = nodes.image(uri=f"/{file.relative_to(HERE).as_posix()}", alt="", classes=["picture"])
        # Users open wide diagrams as separate files.
        path = f"{'../' * app.env.docname.count('/')}_images/{file.name}"
        begin, end = f'<a class="picture" href="{path}" title="Open the diagram">', "</a>"
        block.replace_self([nodes.raw("", begin, format="html"), image, nodes.raw("", end, format="html")])


def draw(source: str, script: str) -> str:
    """
    Return the SVG of a diagram.

    :param source: The source text of the diagram.
    :param script: The content of ``mermaid.min.js``.
    """
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(_PAGE.format(source=html.escape(source), script=script), encoding="utf-8")
        done = subprocess.run(  # noqa: S603 - a browser with our own page
            [
                _CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={folder}/profile",
                "--virtual-time-budget=20000",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    drawn = html.unescape(done.stdout.partition('<pre id="drawn">')[2].partition("</pre>")[0])
    if not drawn.startswith("<svg"):
        raise SystemExit(f"Mermaid cannot draw this diagram: {drawn[:500]}\n{source}")
    return drawn + "\n"


def main(script: Path) -> None:
    """
    Draw missing files, and remove unused ones.

    :param script: The file ``mermaid.min.js``.
    """
    wanted = sources()
    FOLDER.mkdir(exist_ok=True)
    for file, source in wanted.items():
        if not file.exists():
            file.write_text(draw(source, script.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"{file.name}: drawn")
    for old in set(FOLDER.glob("*.svg")) - wanted.keys():
        old.unlink()
        print(f"{old.name}: removed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
