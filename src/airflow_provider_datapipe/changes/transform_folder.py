"""A folder of SQL files as the transforms that it stands for, and in which order they are built."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from airflow_provider_datapipe.api.errors import InvalidInputError

#: How the name of a file with a transform ends.
SUFFIX = ".sql"
#: The tag that stands for the transform itself in what is checked of it.
THIS = "this"
#: What references to raw views begin with (observed); no transform has such a tag.
_RAW = "raw"
# What stands in a comment or in quotes is no reference.
_REFERENCE = re.compile(
    r"""--[^\n]* | /\*.*?(?:\*/|\Z) | '(?:[^']|'')*+' | "(?:[^"]|"")*+" | \{\{(?P<tag>[^{}]*)\}\}""",
    re.VERBOSE | re.DOTALL,
)


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

    :raises ValueError: it is no folder, or there is none in it.
    """
    if not folder.is_dir():
        raise ValueError(f"folder: {str(folder)!r} is no folder")
    files = sorted(
        file for file in folder.rglob(f"*{SUFFIX}") if file.is_file() and not _is_hidden(file.relative_to(folder))
    )
    if not files:
        raise ValueError(f"folder: there is no {SUFFIX} file in {str(folder)!r}")
    return {file.relative_to(folder).as_posix(): _text_of(file) for file in files}


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


def references(sql: str) -> list[str]:
    """Give the tags that SQL names in double braces, each once, in order."""
    found = (match["tag"] for match in _REFERENCE.finditer(sql))
    return list(dict.fromkeys(tag.strip() for tag in found if tag is not None))


def as_subquery(sql: str) -> str:
    """Put SQL into brackets, so that it can stand where a table does: without what ends it."""
    end = 0
    for match in re.finditer(rf"{_REFERENCE.pattern} | (?P<other>[^\s;])", sql, _REFERENCE.flags):
        if not match[0].startswith(("--", "/*")):
            end = match.end()
    return f"({sql[:end]})"


def about(sql: str, itself: str) -> str:
    """
    Let a query be about a transform.

    :param sql: the query, with :data:`THIS` in double braces where the transform is read.
    :param itself: the SQL of the transform.
    """

    def written(match: re.Match[str]) -> str:
        tag = match["tag"]
        return as_subquery(itself) if tag is not None and tag.strip() == THIS else match[0]

    return _REFERENCE.sub(written, sql)


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
