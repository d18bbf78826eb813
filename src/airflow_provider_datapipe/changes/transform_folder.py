"""A folder of SQL files as the transforms that it stands for, and in which order they are built."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from airflow_provider_datapipe.api.errors import InvalidInputError

#: How the name of a file with a transform ends.
SUFFIX = ".sql"
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
class DesiredTransform:
    """
    What a transform is to be.

    :param name: its name.
    :param folder_path: the folder that it is in; empty for none.
    :param sql_template: its SQL, with the service's references in it.
    :param materialization: ``view`` or ``table``; None for what it is, or the service's default.
    :param documentation: what it is, for people; None for what is there.
    :param cron_expression: schedule of a published table; ``none`` for none; None for what is there.
    """

    name: str
    folder_path: str
    sql_template: str
    materialization: str | None = None
    documentation: str | None = None
    cron_expression: str | None = None

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
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}


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
    by_segments = {tuple(each.path.split("/")): each.path for each in desired}

    def transform_of(tag: str) -> str | None:
        segments = tuple(tag.split("."))
        if tag in raw_tags or segments[0] == _RAW:
            return None
        return by_segments.get(segments[1:]) or by_segments.get(segments)

    found: dict[str, list[str]] = {}
    for each in desired:
        paths = (transform_of(tag) for tag in references(each.sql_template))
        found[each.path] = [path for path in dict.fromkeys(paths) if path is not None]
    return found


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
