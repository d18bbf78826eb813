"""SQL templates: where references stand in them, and where what looks like one does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The longest text that is taken: a parser that is given millions of brackets may not survive it.
LONGEST = 100_000

# Where something begins that is no plain SQL. A comment or a quoted text goes on up to an end of its own.
_BEGIN = re.compile(
    r"""--[^\n]*
    | /\*
    | (?<![\w$])[eE]'
    | '
    | "
    | (?<![\w$])\$(?:[A-Za-z_]\w*)?\$
    | \{\{[^{}]*\}\}
    """,
    re.VERBOSE,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_END = {
    "'": re.compile(r"(?:[^']|'')*+'"),
    "e'": re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL),
    '"': re.compile(r'(?:[^"]|"")*+"'),
}


class Part(NamedTuple):
    """
    A part of a template that is no plain SQL.

    :param start: Where it begins.
    :param end: Where it has ended.
    :param tag: The text in the braces, if it is a reference.
    :param is_comment: It is a comment.
    """

    start: int
    end: int
    tag: str | None = None
    is_comment: bool = False


def tags(template: str) -> list[str]:
    """
    Give the references in a template, each once, in order.

    What stands in a comment or in quotes is none.
    """
    return list(dict.fromkeys(part.tag for part in _parts(template) if part.tag is not None))


def filled(template: str, name_of: Callable[[str], str]) -> str:
    """
    Give the SQL of a template, without what follows its last word: comments and semicolons.

    :param template: The template.
    :param name_of: Gives what stands for a tag.
    """
    pieces, position = [], 0
    for part in _parts(template[: _length(template)]):
        if part.tag is not None:
            pieces += [template[position : part.start], name_of(part.tag)]
            position = part.end
    return "".join([*pieces, template[position : _length(template)]]).strip()


def check(field: str, template: str) -> None:
    """
    See to it that a text can be SQL.

    :raises BadRequestError: it cannot.
    """
    if not template.strip():
        raise BadRequestError(f"{field}: there is no SQL: give a SELECT.")
    if "\0" in template:
        raise BadRequestError(f"{field}: the SQL holds a NUL character: leave it out.")
    if len(template) > LONGEST:
        raise BadRequestError(f"{field}: the SQL has {len(template)} characters: {LONGEST} are the most.")


def _length(template: str) -> int:
    """Tell where the SQL ends, without the comments and semicolons behind it."""
    comments = [part for part in _parts(template) if part.is_comment]
    end = len(template.rstrip("; \t\r\n"))
    while comments and comments[-1].end >= end:
        end = len(template[: comments.pop().start].rstrip("; \t\r\n"))
    return end


def _parts(template: str) -> Iterator[Part]:
    position = 0
    while (begin := _BEGIN.search(template, position)) is not None:
        mark = begin[0]
        if mark.startswith("{{"):
            part = Part(begin.start(), begin.end(), tag=mark[2:-2].strip())
        else:
            is_comment = mark.startswith(("--", "/*"))
            part = Part(begin.start(), _end(template, mark, begin.end()), is_comment=is_comment)
        yield part
        position = part.end


def _end(template: str, mark: str, position: int) -> int:
    """Tell where it ends: with the template, if it never does."""
    if mark.startswith("--"):
        return position
    if mark == "/*":
        return _end_of_comment(template, position)
    if mark.startswith("$"):
        found = template.find(mark, position)
        return len(template) if found < 0 else found + len(mark)
    end = _END[mark.lower()].match(template, position)
    return len(template) if end is None else end.end()


def _end_of_comment(template: str, position: int) -> int:
    depth = 1
    # One comment can stand in another, as DuckDB reads them.
    for found in _COMMENT_MARK.finditer(template, position):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(template)
