"""Parser for references in SQL templates. It skips comments and quoted text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.common.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Maximum length of SQL. DuckDB's parser may crash on deeply nested SQL, such as millions of brackets.
LONGEST = 100_000

# Start of a comment, a quoted text or a reference. Each of them has its own end.
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
    Comment, quoted text or reference in a template.

    :param start: Start position.
    :param end: Position after the end.
    :param tag: Text in the braces, if the part is a reference.
    :param is_comment: True if the part is a comment.
    """

    start: int
    end: int
    tag: str | None = None
    is_comment: bool = False


def tags(template: str) -> list[str]:
    """Return the distinct references of a template, in order, except in comments and quoted text."""
    return list(dict.fromkeys(part.tag for part in _parts(template) if part.tag is not None))


def filled(template: str, name_of: Callable[[str], str]) -> str:
    """
    Return the SQL of a template, without comments and semicolons at its end.

    :param template: SQL template.
    :param name_of: Returns the SQL name for a tag.
    """
    pieces, position = [], 0
    for part in _parts(template[: _length(template)]):
        if part.tag is not None:
            pieces += [template[position : part.start], name_of(part.tag)]
            position = part.end
    return "".join([*pieces, template[position : _length(template)]]).strip()


def check(field: str, template: str) -> None:
    """
    Validate the length and the characters of a SQL text.

    :raises BadRequestError: if the text is empty or too long, or contains NUL.
    """
    if not template.strip():
        raise BadRequestError(f"{field}: there is no SQL: give a SELECT.")
    if "\0" in template:
        raise BadRequestError(f"{field}: the SQL holds a NUL character: leave it out.")
    if len(template) > LONGEST:
        raise BadRequestError(f"{field}: the SQL has {len(template)} characters: {LONGEST} are the most.")


def _length(template: str) -> int:
    """Return the length of the SQL without the comments and semicolons at its end."""
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
    """Return the end position of a part, which is the end of the template if the part is not closed."""
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
    # DuckDB allows nested comments.
    for found in _COMMENT_MARK.finditer(template, position):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(template)
