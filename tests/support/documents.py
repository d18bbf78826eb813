"""The code that stands in the README and the docs, for the tests that run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: Written from the code when the docs are built.
GENERATED = frozenset({"docs/endpoints.md"})
_BLOCK = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """
    A piece of code.

    :param page: Where it stands, from the root of the repository.
    :param file: What it is to be saved as; empty for what is typed.
    :param language: Its language.
    :param text: The code.
    """

    page: str
    file: str
    language: str
    text: str

    @property
    def first_line(self) -> str:
        """What tells it apart from the others of its page."""
        return self.text.split("\n", 1)[0]


def pages() -> dict[str, str]:
    """Give the text of every page that somebody wrote."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {file.relative_to(ROOT).as_posix(): file for file in sorted(files)}
    return {name: file.read_text(encoding="utf-8") for name, file in named.items() if name not in GENERATED}


def blocks() -> list[Block]:
    """Give the code of all pages, in order."""
    return [
        Block(page, found[1] or "", found[2], found[3])
        for page, text in pages().items()
        for found in _BLOCK.finditer(text)
    ]
