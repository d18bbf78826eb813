"""Where long names in tables may break: between their words. Else a column is as wide as a name, or breaks anywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: What is shorter stays in one piece.
_LONG = 16
_BETWEEN_WORDS = re.compile(r"(?<=[_/=(,])(?=\w)|(?<=\w)(?=::|\.\w)|(?<=[a-z])(?=[A-Z])")


def put_in(app: Sphinx, tree: nodes.document, _: str) -> None:
    """
    Let names break; Sphinx calls this with each page.

    :param app: Sphinx.
    :param tree: the page.
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
