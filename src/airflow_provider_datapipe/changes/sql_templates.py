"""
Jinja in SQL whose references of the service are written in the same braces.

``{{ ds }}`` is Airflow's, ``{{raw.stripe.payments}}`` the service's. What begins with a name that Jinja knows where it
stands is rendered; what begins with any other name is left for the service, letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, TemplateSyntaxError
from jinja2.ext import Extension

#: The service's braces, which no setting changes.
_OPEN, _CLOSE = "{{", "}}"
#: Words that begin expressions, and are no names.
_WORDS = frozenset({"not", "true", "false", "none", "True", "False", "None"})
_NAME = re.compile(r"\s*([^\W\d]\w*)")
_REFERENCE = re.compile(r"[^{}]*(?=\}\})")
# What hides the end of an expression: quoted text and brackets, as Jinja reads them.
_WITHIN = re.compile(r"""'(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" | [(\[{] | [)\]}]""", re.VERBOSE | re.DOTALL)


class _Marks(NamedTuple):
    """How an environment writes statements, expressions and comments."""

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
    """Leaves the service's references in all templates of an environment, also in those that others include."""

    #: Names that are always Jinja's, so that one which is missing is an error, as ever.
    known: frozenset[str] = frozenset()
    #: The same environment without this extension.
    plain: Environment

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Rewrite a template, before Jinja reads it."""
        return protected(source, self.plain, self.known)


def keeping_references(environment: Environment, known: Iterable[str]) -> Environment:
    """
    Give an environment like another one, in whose templates the service's references stay.

    :param environment: the other one.
    :param known: names that templates can use beside the environment's own.
    """
    overlay = environment.overlay(extensions=[KeepReferences])
    extension = overlay.extensions[KeepReferences.identifier]
    assert isinstance(extension, KeepReferences)  # noqa: S101 - for the type checker
    extension.known = frozenset(known) | frozenset(environment.globals) | _WORDS
    extension.plain = environment
    return overlay


def keeps_references(environment: Environment) -> bool:
    """Tell whether an environment is one of :func:`keeping_references`."""
    return KeepReferences.identifier in environment.extensions


def protected(source: str, environment: Environment, known: frozenset[str]) -> str:
    """
    Rewrite a template so that Jinja gives the service's references as they are.

    A name that is not known before may be defined where it stands, as in a loop: that is left to Jinja to decide.

    :param source: the template.
    :param environment: what it is for.
    :param known: names that are Jinja's.
    """
    marks = _Marks.of(environment)
    if (marks.variable_start, marks.variable_end) != (_OPEN, _CLOSE):
        # A DAG with braces of its own for Jinja has no conflict.
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
            # It never ends: Jinja says so, and where.
            break
        position = end
    return "".join([*pieces, source[done:]])


class _Written(NamedTuple):
    """What stands for an expression, and where that ended."""

    text: str
    end: int


def _expression(source: str, begin: int, environment: Environment, known: frozenset[str]) -> _Written | None:
    """Write what may be a reference of the service; None for what is Jinja's."""
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
        # No Jinja, and perhaps the service's.
        tag = _REFERENCE.match(source, start)
        end = tag and tag.end()
        is_reference = tag is not None
        shape = "{open}{sign} {text} {last}{close}"
    if end is None or not is_reference:
        return None
    inner = source[start:end]
    last = "-" if inner.endswith("-") else ""
    inner = inner.removesuffix("-")
    # The lines are counted as before, for Jinja's messages.
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
    """Write a text as Jinja does."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("\r", "\\r").replace("\n", "\\n") + "'"


def _end_of_code(source: str, position: int, mark: str) -> int | None:
    """Tell where the mark stands that ends a statement or an expression; None if nowhere."""
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
    # The longest first, as one may begin like another.
    starts = sorted((marks.comment_start, marks.block_start, marks.variable_start), key=len, reverse=True)
    begin = "|".join(map(re.escape, starts))
    start, end = re.escape(marks.block_start), re.escape(marks.block_end)
    return (
        re.compile(begin),
        re.compile(rf"{start}[-+]?\s*raw\s*-?{end}"),
        re.compile(rf"{start}[-+]?\s*endraw\s*[-+]?{end}"),
    )
