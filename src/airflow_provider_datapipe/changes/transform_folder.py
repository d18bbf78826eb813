"""A folder of SQL files as the transforms that it stands for, and in which order they are built."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from airflow_provider_datapipe.api.errors import InvalidInputError

#: How the name of a file with a transform ends.
SUFFIX = ".sql"
#: The tag that stands for the transform itself in what is checked of it.
THIS = "this"
#: What references to raw views begin with (observed); no transform has such a tag.
_RAW = "raw"
# What begins here is no plain SQL: a comment or quoted text, which go on up to ends of their own, or a reference.
_BEGIN = re.compile(
    r"""(?P<line>--[^\n]*)
    | (?P<comment>/\*)
    | (?P<quoted>(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z) | '(?:[^']|'')*+(?:'|\Z) | "(?:[^"]|"")*+(?:"|\Z))
    | (?P<dollar>(?<![\w$])\$(?:[A-Za-z_]\w*)?\$)
    | \{\{(?P<tag>[^{}]*)\}\}""",
    re.VERBOSE | re.DOTALL,
)
#: What may follow a statement.
_ENDS = "; \t\r\n"
_COMMENT_MARK = re.compile(r"/\*|\*/")


class CyclicTransformsError(InvalidInputError):
    """Transforms read one another in a circle, so that none can be the first; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """
    An orchestration, by its name or its id, or none if neither is given.

    :param name: its name.
    :param id: its id.
    """

    name: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class DataCheck:
    """
    Something that has to hold before a transform is published.

    :param name: what it is called in messages.
    :param sql: a query in whose first row every value has to be true. :data:`THIS` in it is the new SQL.
    """

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class DesiredTransform:
    """
    What a transform is to be.

    :param name: its name.
    :param folder_path: the folder that it is in; empty for none.
    :param sql_template: its SQL, with the service's references in it.
    :param materialization: ``view`` or ``table``; None for what it is, or the service's default.
    :param documentation: what it is, for people; None for what is there.
    :param cron_expression: schedule of a published table; ``none`` for none; None for what is there.
    :param orchestration: the orchestration that it is attached to; None for what is there.
    :param publish: whether it is published, too; otherwise it stays a draft, or as it was published.
    :param checks: what has to hold before it is published.
    """

    name: str
    folder_path: str
    sql_template: str
    materialization: str | None = None
    documentation: str | None = None
    cron_expression: str | None = None
    orchestration: Attachment | None = None
    publish: bool = True
    checks: tuple[DataCheck, ...] = ()

    @property
    def path(self) -> str:
        """Folder and name, by which it is known."""
        return path_of(self.folder_path, self.name)


def path_of(folder_path: str, name: str) -> str:
    """Give folder and name of a transform as one text."""
    return f"{folder_path}/{name}".lstrip("/")


def read_folder(folder: Path) -> dict[str, str]:
    """
    Read all SQL files in a folder and below it, by their paths in it.

    Files and folders whose names begin with a dot are left out.

    :raises ValueError: it is no folder, or there is none in it, or a link leads out of it: what is read here is shown
        and sent, so that whoever may write in this folder, and nowhere else, must not choose what that is.
    """
    if not folder.is_dir():
        raise ValueError(f"folder: {str(folder)!r} is no folder")
    _refuse_links(folder)
    files = sorted(
        file for file in folder.rglob(f"*{SUFFIX}") if file.is_file() and not _is_hidden(file.relative_to(folder))
    )
    if not files:
        raise ValueError(f"folder: there is no {SUFFIX} file in {str(folder)!r}")
    return {file.relative_to(folder).as_posix(): _text_of(file) for file in files}


def _refuse_links(folder: Path) -> None:
    """Refuse links to folders, which are not gone into, and those of files that lead elsewhere."""
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink() or _is_hidden(path.relative_to(folder)):
            continue
        if path.is_dir():
            raise ValueError(f"folder: {str(path)!r} is a link to a folder: put the files there themselves")
        if path.name.endswith(SUFFIX) and path.is_file() and not path.resolve().is_relative_to(root):
            raise ValueError(f"folder: {str(path)!r} is a link that leads out of the folder: put the file there itself")


def _text_of(file: Path) -> str:
    """Read a file, with the ends of its lines as they are: they may stand in quoted text."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"folder: {str(file)!r} is no text in UTF-8, from byte {error.start} on") from None


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def desired_transforms(
    files: Mapping[str, str], *, folder_path: str = "", materialization: str | None = None
) -> list[DesiredTransform]:
    """
    Tell which transforms files stand for: a file's name is a transform's, and its folder is that one's folder.

    :param files: SQL by path, such as ``sales/orders.sql``.
    :param folder_path: the folder of the service that all of them are in or below.
    :param materialization: ``view`` or ``table`` for all; None for what they are.
    """
    desired = []
    for path, sql in files.items():
        place = PurePosixPath(path)
        above = [part for part in (folder_path.strip("/"), place.parent.as_posix()) if part not in ("", ".")]
        desired.append(DesiredTransform(place.name.removesuffix(SUFFIX), "/".join(above), sql, materialization))
    return desired


class _Part(NamedTuple):
    """
    A part of SQL that is not plain.

    :param start: where it begins.
    :param end: where it has ended.
    :param tag: the text in double braces, if that is what it is.
    :param is_comment: whether it is a comment.
    """

    start: int
    end: int
    tag: str | None
    is_comment: bool


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
    # One can stand in another.
    for found in _COMMENT_MARK.finditer(sql, position):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(sql)


def references(sql: str) -> list[str]:
    """Give the tags that SQL names in double braces, each once, in order: not those in comments and quotes."""
    return list(dict.fromkeys(part.tag for part in _parts(sql) if part.tag is not None))


def without_references(sql: str, instead: str) -> str:
    """Put a name where references stand."""
    pieces, position = [], 0
    for part in _parts(sql):
        if part.tag is not None:
            pieces += [sql[position : part.start], instead]
            position = part.end
    return "".join([*pieces, sql[position:]])


def with_names(sql: str, names: Mapping[str, str]) -> str:
    """
    Put names where references stand.

    :param names: the names by the tags; a reference without one stays.
    """
    pieces, position = [], 0
    for part in _parts(sql):
        if part.tag is not None and part.tag in names:
            pieces += [sql[position : part.start], names[part.tag]]
            position = part.end
    return "".join([*pieces, sql[position:]])


def as_subquery(sql: str) -> str:
    """Put SQL into brackets, to stand where a table does: without the comments and semicolons at its end."""
    comments = [part for part in _parts(sql) if part.is_comment]
    end = len(sql.rstrip(_ENDS))
    while comments and comments[-1].end >= end:
        end = len(sql[: comments.pop().start].rstrip(_ENDS))
    return f"({sql[:end]})"


def about(sql: str, itself: str) -> str:
    """
    Let a query be about a transform.

    :param sql: the query, with :data:`THIS` in double braces where the transform is read.
    :param itself: the SQL of the transform.
    """
    pieces, position = [], 0
    for part in _parts(sql):
        if part.tag == THIS:
            pieces += [sql[position : part.start], as_subquery(itself)]
            position = part.end
    return "".join([*pieces, sql[position:]])


def reads(desired: Sequence[DesiredTransform], raw_tags: Collection[str] = ()) -> dict[str, list[str]]:
    """
    Tell which of some transforms each of them reads.

    The interface does not say how the tag of a transform is made. So a tag is taken for that of a transform here if it
    is its folders and its name with dots between, after one more word or none: ``model.sales.orders`` is
    ``sales/orders``.

    :param desired: the transforms.
    :param raw_tags: tags that are known to be those of something else.
    :return: by path, the paths of those that it reads, in the order of its SQL.
    """
    transform_of = leading_to(desired, raw_tags)
    found: dict[str, list[str]] = {}
    for each in desired:
        paths = (transform_of(tag) for tag in references(each.sql_template))
        found[each.path] = [path for path in dict.fromkeys(paths) if path is not None]
    return found


def leading_to(desired: Iterable[DesiredTransform], raw_tags: Collection[str] = ()) -> Callable[[str], str | None]:
    """
    Give what tells which of some transforms a tag stands for, as :func:`reads` does.

    :param desired: the transforms.
    :param raw_tags: tags that are known to be those of something else.
    """
    by_segments = {tuple(each.path.split("/")): each.path for each in desired}

    def transform_of(tag: str) -> str | None:
        segments = tuple(tag.split("."))
        if tag in raw_tags or segments[0] == _RAW:
            return None
        return by_segments.get(segments[1:]) or by_segments.get(segments)

    return transform_of


def levels(read: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """
    Order transforms so that each comes after those that it reads: what is in one level can be built at once.

    :param read: by path, the paths of those that it reads.
    :raises CyclicTransformsError: some read one another; the message names them.
    """
    waiting = {path: set(others) for path, others in read.items()}
    ordered: list[list[str]] = []
    while waiting:
        free = sorted(path for path, others in waiting.items() if others.isdisjoint(waiting))
        if not free:
            circle = " -> ".join(_circle(waiting))
            raise CyclicTransformsError(
                f"These transforms read one another in a circle: {circle}. Take one of these references out."
            )
        for path in free:
            del waiting[path]
        ordered.append(free)
    return ordered


def _circle(waiting: Mapping[str, set[str]]) -> list[str]:
    """Give one circle, from one of its transforms back to it; each waits for another one."""
    way = [min(waiting)]
    while True:
        following = min(path for path in waiting[way[-1]] if path in waiting)
        if following in way:
            return [*way[way.index(following) :], following]
        way.append(following)
