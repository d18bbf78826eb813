"""Archives (zip): DuckDB's readers read none, so that what is in them is unpacked first."""

from __future__ import annotations

import lzma
import shutil
import zipfile
import zlib
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from datapipe_local import storage
from datapipe_local.errors import RunError
from datapipe_local.sources.formats import format_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHUNK = 1 << 20
# An archive that becomes so much larger is meant to fill the disk.
_LARGE = 1 << 30
_MOST_TIMES = 200
_MOST_FILES = 10_000


def is_archive(name: str) -> bool:
    """Tell whether a file is an archive, by its name."""
    return name.lower().endswith(".zip")


def begins_as_archive(path: Path) -> bool:
    """Return True if a file begins as archives do, whatever its name is."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def names(path: Path) -> list[str]:
    """Give the names of the files in an archive; none of what is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [member.filename for member in _files(archive)]
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return []


def unpack(
    path: Path, folder: Path, check: Callable[[], None], *, within: str | None = None, known: bool = True
) -> list[tuple[str, Path]]:
    """
    Unpack the files of an archive, under names of our own.

    :param path: The archive.
    :param folder: Where to.
    :param check: Raises an error once they are not needed any more.
    :param within: A pattern of their names; else all of them.
    :param known: The format of all is known: else those are passed over whose names do not tell it.
    :raises RunError: it cannot be unpacked, or had better not be.
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
            _refuse_what_fills_the_disk(path, wanted, folder)
            return [
                (member.filename, _unpack(archive, member, folder / f"data{number}", check))
                for number, member in enumerate(wanted)
            ]
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise RunError(f"{path} cannot be unpacked: {error}. Pack it again.") from error
    except RuntimeError as error:
        raise RunError(f"{path} cannot be unpacked: it is encrypted. Pack it without a password.") from error
    except OSError as error:
        failed = storage.failure(error)
        reason = (error.strerror or error) if failed is None else failed.at(folder.parent)
        raise RunError(f"{path} cannot be unpacked: {reason}.") from error


def _files(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    # macOS adds a folder of its own.
    return [
        member
        for member in archive.infolist()
        if not member.is_dir()
        and not member.filename.startswith("__MACOSX/")
        and not PurePosixPath(member.filename).name.startswith(".")
    ]


def _refuse_unclear_names(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Raise if names lead out of the archive, or if one stands for several files."""
    known: set[str] = set()
    for member in members:
        name = member.filename
        place = PurePosixPath(name.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts:
            raise RunError(f"{path} cannot be unpacked: the name {name!r} leads out of it. Pack it again.")
        if name in known:
            raise RunError(f"{path} cannot be unpacked: it holds several files named {name!r}. Pack it again.")
        known.add(name)


def _refuse_what_fills_the_disk(path: Path, members: list[zipfile.ZipInfo], folder: Path) -> None:
    # What an archive says of itself holds: a file that is larger in truth is refused as it is unpacked.
    size, packed = sum(member.file_size for member in members), path.stat().st_size
    if len(members) > _MOST_FILES:
        raise RunError(f"{path} holds {len(members)} files, more than {_MOST_FILES}: unpack it, and name its files.")
    if size > _LARGE and size > _MOST_TIMES * packed:
        raise RunError(
            f"{path} would become {size} bytes, {size // packed} times as many: unpack it, if that is meant."
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
