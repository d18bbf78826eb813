"""References in SQL templates, in double braces. The scanner skips comments and quoted text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Start of a comment, quoted text, or a reference.
_BEGIN = re.compile(
    r"""(?P<line>--[^\n]*)
    | (?P<comment>/\*)
    | (?P<quoted>(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z) | '(?:[^']|'')*+(?:'|\Z) | "(?:[^"]|"")*+(?:"|\Z))
    | (?P<dollar>(?<![\w$])\$(?:[A-Za-z_]\w*)?\$)
    | \{\{(?P<tag>[^{}]*)\}\}""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
#: Characters that can follow a statement.
_ENDS = "; \t\r\n"


class _Part(NamedTuple):
    """
    A comment, quoted text or a reference in SQL.

    :param start: position of its first character.
    :param end: position after its last character.
    :param tag: text in double braces; None if it is not a reference.
    :param is_comment: True if it is a comment.
    """

    start: int
    end: int
    tag: str | None
    is_comment: bool


def tags(sql: str) -> list[str]:
    """Return the tags of references in SQL, each once, in order. References in comments and quotes are ignored."""
    return list(dict.fromkeys(part.tag for part in _parts(sql) if part.tag is not None))


def replace_tags(sql: str, name_of: Callable[[str], str | None]) -> str:
    """
    Return SQL in which references are replaced.

    :param sql: the template.
    :param name_of: function that returns the SQL for a tag; None keeps the reference.
    """
    pieces, position = [], 0
    for part in _parts(sql):
        name = None if part.tag is None else name_of(part.tag)
        if name is not None:
            pieces += [sql[position : part.start], name]
            position = part.end
    return "".join([*pieces, sql[position:]])


def without_end(sql: str) -> str:
    """Return SQL without the comments and semicolons at its end."""
    comments = [part for part in _parts(sql) if part.is_comment]
    end = len(sql.rstrip(_ENDS))
    while comments and comments[-1].end >= end:
        end = len(sql[: comments.pop().start].rstrip(_ENDS))
    return sql[:end]


def _parts(sql: str) -> Iterator[_Part]:
    position = 0
    while (begin := _BEGIN.search(sql, position)) is not None:
        position = begin.end()
        if begin["comment"] is not None:
            position = _end_of_comment(sql, position)
        elif begin["dollar"] is not None:
            end = sql.find(begin["dollar"], position)
            position = len(sql) if end < 0 else end + len(begin["dollar"])
        tag = None if begin["tag"] is None else begin["tag"].strip()
        is_comment = begin["comment"] is not None or begin["line"] is not None
        yield _Part(begin.start(), position, tag, is_comment)


def _end_of_comment(sql: str, position: int) -> int:
    depth = 1
    # Comments can be nested.
    for found in _COMMENT_MARK.finditer(sql, position):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(sql)
