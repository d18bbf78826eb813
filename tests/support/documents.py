"""Code blocks of the README and the docs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
#: Generated pages. Their sources are checked.
GENERATED = frozenset({"docs/interface.md"})
_BLOCK = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """
    Code block of a page.

    :param page: The path of the page in the repository.
    :param file: The file to which users save the code; empty for commands.
    """

    page: str
    file: str
    language: str
    text: str

    @property
    def first_line(self) -> str:
        """Return the first line, which identifies the block on its page."""
        return self.text.split("\n", 1)[0]


def pages() -> dict[str, str]:
    """Return the texts of all pages that are not generated."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {file.relative_to(ROOT).as_posix(): file for file in sorted(files)}
    return {name: file.read_text(encoding="utf-8") for name, file in named.items() if name not in GENERATED}


def names_of(code: str) -> dict[str, Any]:
    """Execute Python code of a page, and return its names."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)  # noqa: S102 - code of the docs
    return names


def blocks() -> list[Block]:
    """Return the code blocks of all pages in order."""
    return [
        Block(page, found[1] or "", found[2], found[3])
        for page, text in pages().items()
        for found in _BLOCK.finditer(text)
    ]
