"""Line breaks of long names in tables, between their words. Otherwise, columns get too wide or names break anywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: Names of at most this length do not break.
_LONG = 16
_BETWEEN_WORDS = re.compile(r"(?<=[_/=(,])(?=\w)|(?<=\w)(?=::|\.\w)|(?<=[a-z])(?=[A-Z])")


def put_in(app: Sphinx, tree: nodes.document, _: str) -> None:
    """
    Insert possible line breaks into names in tables. Handler of the event ``doctree-resolved``.

    :param app: The Sphinx application.
    :param tree: The document tree of a page.
    """
    if app.builder.format != "html":
        return
    for cell in tree.findall(nodes.entry):
        for name in list(cell.findall(nodes.literal)):
            if len(name.astext()) > _LONG:
                parts = _parts(name.astext())
                name.clear()
                name.extend(parts)


def _parts(text: str) -> list[nodes.Node]:
    first, *rest = _BETWEEN_WORDS.split(text)
    parts: list[nodes.Node] = [nodes.Text(first)]
    for part in rest:
        parts += [nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]
    return parts
