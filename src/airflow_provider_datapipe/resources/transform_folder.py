"""Transforms in a folder of SQL files, their references, and the order in which they are built."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from airflow_provider_datapipe.api.errors import InvalidInputError
from airflow_provider_datapipe.api.models.formats.sql_references import replace_tags, tags, without_end

#: Suffix of the files.
SUFFIX = ".sql"
#: Tag in data checks that refers to the transform itself.
THIS = "this"
#: First segment of references to raw views (observed). No transform has such a tag.
_RAW = "raw"


class CyclicTransformsError(InvalidInputError):
    """Transforms read one another in a cycle, so that none can be built first. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """
    An orchestration, by its name or its ID; no orchestration if both are None.

    :param name: its name.
    :param id: its ID.
    """

    name: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class DataCheck:
    """
    Condition that must hold before a transform is published.

    :param name: its name in messages.
    :param sql: a query in whose first row every value must be true. :data:`THIS` in it refers to the new SQL.
    """

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class DesiredTransform:
    """
    Desired state of a transform.

    :param name: its name.
    :param folder_path: its folder; empty for none.
    :param sql_template: its SQL, with references of the service.
    :param materialization: ``view`` or ``table``; None for the current one, or the service's default.
    :param documentation: its description; None for the current one.
    :param cron_expression: schedule of a published table; ``none`` for none; None for the current one.
    :param orchestration: the orchestration that it is attached to; None for the current one.
    :param publish: if True, it is published; otherwise it remains a draft, or its published version stays unchanged.
    :param checks: conditions that must hold before it is published.
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
        """Folder and name, which identify the transform."""
        return path_of(self.folder_path, self.name)


def path_of(folder_path: str, name: str) -> str:
    """Return folder and name of a transform as one path."""
    return f"{folder_path}/{name}".lstrip("/")


def read_folder(folder: Path) -> dict[str, str]:
    """
    Return the contents of all SQL files in a folder and below it, by relative path.

    Files and folders whose names begin with a dot are ignored.

    :raises ValueError: if it is not a folder, contains no SQL file, or contains a link that leads out of it or to no
        file. The contents are shown and sent, so write access to this folder must not give read access to other files.
    :raises OSError: if a file or a subfolder cannot be read.
    """
    if not folder.is_dir():
        raise ValueError(f"folder: {str(folder)!r} is not a folder")
    paths = _paths_below(folder)
    _refuse_links(folder, paths)
    files = [path for path in paths if path.name.endswith(SUFFIX) and path.is_file()]
    if not files:
        raise ValueError(f"folder: there is no {SUFFIX} file in {str(folder)!r}")
    return {file.relative_to(folder).as_posix(): _text_of(file) for file in files}


def _paths_below(folder: Path) -> list[Path]:
    """
    Return the paths of all files and folders below a folder, except hidden ones.

    :raises OSError: if a folder cannot be read. Its transforms would otherwise count as orphans.
    """
    paths: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(place, name) for name in (*folders, *files) if not name.startswith(".")]
    return sorted(paths)


def _raise(error: OSError) -> NoReturn:
    raise error


def _refuse_links(folder: Path, paths: Iterable[Path]) -> None:
    """Raise if there is a link to a folder, which would not be followed, to a missing file, or out of the folder."""
    root = folder.resolve()
    for path in paths:
        if not path.is_symlink():
            continue
        if path.is_dir():
            raise ValueError(f"folder: {str(path)!r} is a link to a folder: replace it with the files")
        if not path.name.endswith(SUFFIX):
            continue
        if not path.is_file():
            raise ValueError(f"folder: {str(path)!r} is a link to a missing file: restore the file or remove the link")
        if not path.resolve().is_relative_to(root):
            raise ValueError(f"folder: {str(path)!r} is a link that leads out of the folder: replace it with the file")


def _text_of(file: Path) -> str:
    """Return the text of a file with its original line endings, because quoted text can contain them."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"folder: {str(file)!r} is not valid UTF-8 from byte {error.start}") from None


def replace_this(sql: str, itself: str) -> str:
    """
    Return a query in which references to :data:`THIS` are replaced by the SQL of a transform.

    :param sql: the query, with :data:`THIS` in double braces in place of the transform.
    :param itself: SQL of the transform.
    """
    return replace_tags(sql, lambda tag: f"({without_end(itself)})" if tag == THIS else None)


def reads(desired: Sequence[DesiredTransform], raw_tags: Collection[str] = ()) -> dict[str, list[str]]:
    """
    Return the transforms that each transform reads.

    The interface does not specify the tags of transforms. Here a tag belongs to a transform if it consists of the
    folders and the name, separated by dots, optionally after one more segment: ``model.sales.orders`` is
    ``sales/orders``.

    :param desired: the transforms.
    :param raw_tags: tags that do not belong to transforms.
    :return: paths of the transforms that each transform reads, by path, in the order of its SQL.
    """
    transform_of = tag_resolver(desired, raw_tags)
    return {each.path: read_by(each.sql_template, transform_of) for each in desired}


def read_by(sql: str, transform_of: Callable[[str], str | None]) -> list[str]:
    """
    Return the paths of the transforms that SQL reads, in the order of the SQL.

    :param sql: the SQL.
    :param transform_of: return value of :func:`tag_resolver`.
    """
    paths = (transform_of(tag) for tag in tags(sql))
    return [path for path in dict.fromkeys(paths) if path is not None]


def tag_resolver(desired: Iterable[DesiredTransform], raw_tags: Collection[str] = ()) -> Callable[[str], str | None]:
    """
    Return a function that returns the path of the transform that a tag refers to, None if there is none.

    :param desired: the transforms.
    :param raw_tags: tags that do not belong to transforms.
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
    Return transforms in levels: each comes after those that it reads, and those of a level are independent.

    :param read: paths of the transforms that each transform reads, by path.
    :raises CyclicTransformsError: if some read one another in a cycle. The message names them.
    """
    waiting = {path: set(others) for path, others in read.items()}
    ordered: list[list[str]] = []
    while waiting:
        free = sorted(path for path, others in waiting.items() if others.isdisjoint(waiting))
        if not free:
            cycle = " -> ".join(_cycle(waiting))
            raise CyclicTransformsError(
                f"These transforms read one another in a cycle: {cycle}. Remove one of these references."
            )
        for path in free:
            del waiting[path]
        ordered.append(free)
    return ordered


def _cycle(waiting: Mapping[str, set[str]]) -> list[str]:
    """Return the paths of a cycle, which begins and ends with the same path."""
    way = [min(waiting)]
    while True:
        following = min(path for path in waiting[way[-1]] if path in waiting)
        if following in way:
            return [*way[way.index(following) :], following]
        way.append(following)
