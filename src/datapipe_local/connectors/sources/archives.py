"""Zip archives: DuckDB cannot read them, so that their files are unpacked first."""

from __future__ import annotations

import lzma
import shutil
import zipfile
import zlib
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources.formats import format_of
from datapipe_local.storage import write_failures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHUNK = 1 << 20
# Limits against archives that are made to fill the disk.
_LARGE = 1 << 30
_MOST_TIMES = 200
_MOST_FILES = 10_000


def is_archive(name: str) -> bool:
    """Return True if the name of a file is that of an archive."""
    return name.lower().endswith(".zip")


def begins_as_archive(path: Path) -> bool:
    """Return True if a file has the first bytes of a zip archive, regardless of its name."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def names(path: Path) -> list[str]:
    """Return the names of the files in an archive; an empty list if it is not a valid archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [member.filename for member in _files(archive)]
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return []


def unpack(
    path: Path, folder: Path, check: Callable[[], None], *, within: str | None = None, known: bool = True
) -> list[tuple[str, Path]]:
    """
    Unpack the files of an archive, under new names.

    :param path: The archive.
    :param folder: The target folder.
    :param check: A function that raises if the files are no longer needed.
    :param within: A pattern of the names to unpack; None for all.
    :param known: The format of the files is known. Otherwise, files whose names do not show the format are skipped.
    :raises RunError: the archive cannot be unpacked, or is not safe to unpack.
    :return: The names in the archive, and the files.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = [
                member
                for member in _files(archive)
                if (within is None or fnmatchcase(member.filename, within))
                and (known or format_of(member.filename) is not None)
            ]
            _refuse_unclear_names(path, wanted)
            _check_unpacked_size(path, wanted, folder)
            return [
                (member.filename, _unpack(archive, member, folder / f"data{number}", check))
                for number, member in enumerate(wanted)
            ]
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise RunError(f"{path} cannot be unpacked: {error}. Pack it again.") from error
    except RuntimeError as error:
        raise RunError(f"{path} cannot be unpacked: it is encrypted. Pack it without a password.") from error
    except OSError as error:
        failed = write_failures.failure(error)
        reason = (error.strerror or error) if failed is None else failed.at(folder.parent)
        raise RunError(f"{path} cannot be unpacked: {reason}.") from error


def _files(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    # macOS adds a folder of metadata.
    return [
        member
        for member in archive.infolist()
        if not member.is_dir()
        and not member.filename.startswith("__MACOSX/")
        and not PurePosixPath(member.filename).name.startswith(".")
    ]


def _refuse_unclear_names(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Raise if a name leads out of the archive, or occurs more than once."""
    known: set[str] = set()
    for member in members:
        name = member.filename
        place = PurePosixPath(name.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts:
            raise RunError(
                f"{path} cannot be unpacked: the name {name!r} is outside the archive's folder. Pack it again."
            )
        if name in known:
            raise RunError(f"{path} cannot be unpacked: it holds several files named {name!r}. Pack it again.")
        known.add(name)


def _check_unpacked_size(path: Path, members: list[zipfile.ZipInfo], folder: Path) -> None:
    # The declared sizes are reliable: unpacking a file fails if it is larger.
    size, packed = sum(member.file_size for member in members), path.stat().st_size
    if len(members) > _MOST_FILES:
        raise RunError(f"{path} holds {len(members)} files, more than {_MOST_FILES}: unpack it, and name its files.")
    if size > _LARGE and size > _MOST_TIMES * packed:
        raise RunError(
            f"{path} would become {size} bytes, {size // packed} times as many: unpack it, if that is intended."
        )
    if size > shutil.disk_usage(folder).free:
        raise RunError(
            f"{path} would become {size} bytes, and there is no room for them in {folder.parent}: make room there."
        )


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, out: Path, check: Callable[[], None]) -> Path:
    with archive.open(member) as packed, out.open("wb") as file:
        while chunk := packed.read(_CHUNK):
            check()
            file.write(chunk)
    return out
