"""
Jinja templates in SQL that contains references of the service, which use the same braces.

``{{ ds }}`` is a Jinja expression, ``{{raw.stripe.payments}}`` a reference of the service. An expression is rendered if
its first name is defined in Jinja. Otherwise it is left unchanged for the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, TemplateSyntaxError
from jinja2.ext import Extension

#: The service's delimiters, which are fixed.
_OPEN, _CLOSE = "{{", "}}"
#: Words that can begin expressions, but are not names.
_WORDS = frozenset({"not", "true", "false", "none", "True", "False", "None"})
_NAME = re.compile(r"\s*([^\W\d]\w*)")
_REFERENCE = re.compile(r"[^{}]*(?=\}\})")
# Quoted text and brackets, as Jinja parses them: they can contain the end mark of an expression.
_WITHIN = re.compile(r"""'(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" | [(\[{] | [)\]}]""", re.VERBOSE | re.DOTALL)


class _Marks(NamedTuple):
    """Delimiters of statements, expressions and comments in an environment."""

    block_start: str
    block_end: str
    variable_start: str
    variable_end: str
    comment_start: str
    comment_end: str

    @classmethod
    def of(cls, environment: Environment) -> _Marks:
        return cls(
            environment.block_start_string,
            environment.block_end_string,
            environment.variable_start_string,
            environment.variable_end_string,
            environment.comment_start_string,
            environment.comment_end_string,
        )


class KeepReferences(Extension):
    """Jinja extension that keeps the service's references in all templates of an environment, also in included ones."""

    #: Names that always belong to Jinja, so that an undefined one is an error as usual.
    known: frozenset[str] = frozenset()
    #: The same environment without this extension.
    plain: Environment

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Escape the references of a template before Jinja parses it."""
        return protected(source, self.plain, self.known)


def keeping_references(environment: Environment, known: Iterable[str]) -> Environment:
    """
    Return a copy of an environment that keeps the service's references.

    :param environment: the environment to copy.
    :param known: names that templates can use in addition to the environment's globals.
    """
    overlay = environment.overlay(extensions=[KeepReferences])
    extension = overlay.extensions[KeepReferences.identifier]
    assert isinstance(extension, KeepReferences)  # noqa: S101 - for the type checker
    extension.known = frozenset(known) | frozenset(environment.globals) | _WORDS
    extension.plain = environment
    return overlay


def keeps_references(environment: Environment) -> bool:
    """Return True if an environment is a return value of :func:`keeping_references`."""
    return KeepReferences.identifier in environment.extensions


def with_own_line_ends(source: str, result: str) -> str:
    """
    Return the source if its rendering differs from it in line ends only, otherwise the result.

    Jinja replaces all line ends with those of Unix, also in quoted text, and omits the last one.
    """
    before, after = (text.replace("\r\n", "\n").replace("\r", "\n") for text in (source, result))
    return source if after in (before, before.removesuffix("\n")) else result


def protected(source: str, environment: Environment, known: frozenset[str]) -> str:
    """
    Return a template in which the service's references are escaped, so that Jinja renders them unchanged.

    A template can define further names, for example in a loop. Jinja decides about these when it renders the template.

    :param source: the template.
    :param environment: the environment that renders the template.
    :param known: names that belong to Jinja.
    """
    marks = _Marks.of(environment)
    if (marks.variable_start, marks.variable_end) != (_OPEN, _CLOSE):
        # With other delimiters for Jinja, there is no conflict.
        return source
    pieces, position, done = [], 0, 0
    begin, raw, end_of_raw = _patterns(marks)
    while (found := begin.search(source, position)) is not None:
        written = None
        if found[0] == marks.variable_start:
            written = _expression(source, found.start(), environment, known)
        if written is not None:
            pieces += [source[done : found.start()], written.text]
            position = done = written.end
            continue
        if found[0] == marks.comment_start:
            end = source.find(marks.comment_end, found.end()) + len(marks.comment_end)
        elif (opening := raw.match(source, found.start())) is not None:
            closing = end_of_raw.search(source, opening.end())
            end = closing.end() if closing else -1
        else:
            mark = marks.block_end if found[0] == marks.block_start else marks.variable_end
            stop = _end_of_code(source, found.end(), mark)
            end = -1 if stop is None else stop + len(mark)
        if end <= found.start():
            # It has no end: Jinja raises an error with the line.
            break
        position = end
    return "".join([*pieces, source[done:]])


class _Written(NamedTuple):
    """Replacement for an expression, and the position at which the expression ends."""

    text: str
    end: int


def _expression(source: str, begin: int, environment: Environment, known: frozenset[str]) -> _Written | None:
    """Return the replacement for a possible reference of the service; None if the expression belongs to Jinja."""
    start = begin + len(_OPEN)
    sign = source[start] if source[start : start + 1] in ("-", "+") else ""
    start += len(sign)
    name = _NAME.match(source, start)
    if name is None or name[1] in known:
        return None
    end = _end_of_code(source, start, _CLOSE)
    if end is not None and _is_expression(source[start:end].removesuffix("-"), environment):
        is_reference = not {"{", "}"} & set(source[start:end])
        shape = "{open}{sign} ({inner}) if {name} is defined else {text} {last}{close}"
    else:
        # This is not valid Jinja, and may be a reference of the service.
        tag = _REFERENCE.match(source, start)
        end = tag and tag.end()
        is_reference = tag is not None
        shape = "{open}{sign} {text} {last}{close}"
    if end is None or not is_reference:
        return None
    inner = source[start:end]
    last = "-" if inner.endswith("-") else ""
    inner = inner.removesuffix("-")
    # Keep the line numbers for Jinja's messages.
    text = _quoted(_OPEN + inner + _CLOSE) + "\n" * (inner.count("\n") if "inner" not in shape else 0)
    return _Written(
        shape.format(open=_OPEN, close=_CLOSE, sign=sign, last=last, inner=inner, name=name[1], text=text),
        end + len(_CLOSE),
    )


def _is_expression(inner: str, environment: Environment) -> bool:
    try:
        environment.parse(f"{_OPEN} {inner} {_CLOSE}")
    except TemplateSyntaxError:
        return False
    return True


def _quoted(text: str) -> str:
    """Return a text as a Jinja string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("\r", "\\r").replace("\n", "\\n") + "'"


def _end_of_code(source: str, position: int, mark: str) -> int | None:
    """Return the position of the mark that ends a statement or an expression; None if there is none."""
    depth = 0
    while position < len(source):
        if not depth and source.startswith(mark, position):
            return position
        within = _WITHIN.match(source, position)
        if within is None:
            position += 1
            continue
        if within[0] in "([{":
            depth += 1
        elif within[0] in ")]}":
            depth -= 1
            if depth < 0:
                return None
        position = within.end()
    return None


@cache
def _patterns(marks: _Marks) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    # Longest first, because a delimiter can be a prefix of another.
    starts = sorted((marks.comment_start, marks.block_start, marks.variable_start), key=len, reverse=True)
    begin = "|".join(map(re.escape, starts))
    start, end = re.escape(marks.block_start), re.escape(marks.block_end)
    return (
        re.compile(begin),
        re.compile(rf"{start}[-+]?\s*raw\s*-?{end}"),
        re.compile(rf"{start}[-+]?\s*endraw\s*[-+]?{end}"),
    )
