"""Files in a folder: CSV, JSON Lines and Parquet, also compressed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from datapipe_local.common.base_model import Strict
from datapipe_local.common.errors import RunError
from datapipe_local.common.names import free_name, snake_case
from datapipe_local.connectors.sources import archives, gzipped
from datapipe_local.connectors.sources.archives import is_archive
from datapipe_local.connectors.sources.base import Fetched, Need, Offer, SourceError
from datapipe_local.connectors.sources.formats import FORMATS, extensions_of, format_of, stem_of
from datapipe_local.warehouse.warehouse import Scan

# Pattern characters of DuckDB in file names.
_PATTERN_CHARACTERS = frozenset("*?[]{}")


class FilesSettings(Strict, title="Files in a folder"):
    """Settings of a connection to a folder."""

    path: str = Field(min_length=1, description="The folder with the files.")


class FileOrigin(Strict):
    """File of the folder that a stream reads, or pattern of files that it reads as one, with reader options."""

    file: str | None = Field(default=None, min_length=1)
    files: str | None = Field(default=None, min_length=1)
    within: str | None = Field(default=None, min_length=1)
    format: Literal["csv", "jsonl", "parquet"] | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("file", "files")
    @classmethod
    def _stays_in_the_folder(cls, file: str | None) -> str | None:
        if file is not None and (PurePath(file).is_absolute() or ".." in PurePath(file).parts):
            raise ValueError("give the path of the file relative to the connection's path, without '..'")
        return file

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if (self.file is None) == (self.files is None):
            raise ValueError("give `file`, or else `files`, a pattern such as sales/*.csv")
        if self.known_format is not None:
            self.reader_options(self.known_format)
        elif not is_archive(self.declared):
            raise ValueError(f"the format of {self.declared!r} is not known by its name: give `format`")
        elif self.options:
            raise ValueError("give `format`, too: it determines the options")
        if self.within is not None and not is_archive(self.declared):
            raise ValueError("`within` is for archives: give a `file` or `files` that ends with .zip")
        return self

    @property
    def declared(self) -> str:
        """The file or the pattern."""
        return str(self.file or self.files)

    @property
    def known_format(self) -> str | None:
        """The format: as declared, otherwise by the name. None for an archive without a declared format."""
        return self.format or format_of(self.declared)

    def reader_options(self, kind: str) -> dict[str, Any]:
        """Return the options for DuckDB's reader of a format."""
        return FORMATS[kind].check(self.options)


class FilesSource:
    """
    Folder of files.

    :param settings: The settings of the connection: :class:`FilesSettings`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = Path(FilesSettings.model_validate(settings).path)

    def offers(self) -> list[Offer]:
        """
        Return the files in the folder whose format is known by their name.

        A stream has the name of its file. If another file has that name, the format or a number is appended. A file
        whose name has no usable characters cannot be selected.

        A subfolder whose files all have one format is also a stream, and so is an archive of such files.

        :raises SourceError: the folder cannot be read.
        """
        folders: dict[str, str] = {}
        try:
            with os.scandir(self._folder) as entries:
                present = [entry for entry in entries if _is_offered(entry)]
                files = sorted(entry.name for entry in present if entry.is_file())
                for entry in present:
                    pattern = _pattern(entry) if entry.is_dir() else None
                    if pattern is not None:
                        folders[entry.name] = pattern
        except PermissionError as error:
            raise SourceError(
                f"The folder {self._folder} cannot be read: give this user the permission to read it.", lost_access=True
            ) from error
        except OSError as error:
            raise SourceError(
                f"The folder {self._folder} cannot be read: {error.strerror or error}. Correct `path`."
            ) from error
        offers: dict[str, Offer] = {}
        for file in files:
            kind, origin = self._offered(file)
            if origin is not None:
                name = snake_case(stem_of(file))
                with_format = [snake_case(f"{name}_{kind}")] if kind else []
                offer = free_name(offers, name, *with_format) if name else file
                offers[offer] = Offer(offer, origin, is_selectable=bool(name))
        for folder, pattern in sorted(folders.items()):
            name = snake_case(folder)
            if name:
                offer = free_name(offers, name)
                offers[offer] = Offer(offer, {"files": pattern})
        return list(offers.values())

    def _offered(self, file: str) -> tuple[str | None, dict[str, Any] | None]:
        """Return the format of a file, and the origin that reads it; None where there is none."""
        kind = format_of(file)
        if kind is not None or not is_archive(file):
            return kind, None if kind is None else {"file": file}
        packed = [name for name in archives.names(self._folder / file) if format_of(name) is not None]
        if len({PurePath(name).suffix for name in packed}) != 1:
            return None, None
        if len(packed) == 1:
            return None, {"file": file}
        # Pattern characters in the name of the archive would be misread.
        return None, None if _PATTERN_CHARACTERS & set(file) else {"files": file}

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """Return True for uncompressed JSON Lines: only these files are checked for lists of records."""
        wanted = FileOrigin.model_validate(origin)
        is_packed = is_archive(wanted.declared) or gzipped.is_named_gzip(wanted.declared)
        return wanted.known_format == "jsonl" and not is_packed

    def has(self, origin: dict[str, Any]) -> bool:
        """Return True if a file of the stream exists."""
        wanted = FileOrigin.model_validate(origin)
        if wanted.file is not None:
            return (self._folder / wanted.file).is_file()
        return bool(self._matching(str(wanted.files)))

    @contextmanager
    def fetch(self, origin: dict[str, Any], scratch: Path, need: Need) -> Iterator[Fetched]:
        """
        Yield one file, or several as one, unpacked if necessary.

        :param origin: The origin of the stream: :class:`FileOrigin`.
        :param scratch: The folder for unpacked files.
        :param need: Used only to interrupt unpacking: DuckDB omits the columns and rows that are not needed.
        :raises RunError: a file does not exist, or cannot be unpacked.
        """
        wanted = FileOrigin.model_validate(origin)
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            if wanted.file is not None:
                yield self._one(wanted, self._folder / wanted.file, Path(folder), need)
            else:
                yield self._several(wanted, str(wanted.files), Path(folder), need)

    def _one(self, wanted: FileOrigin, path: Path, folder: Path, need: Need) -> Fetched:
        if not path.is_file():
            raise RunError(f"The source file {path} does not exist: put it there, or correct `file` of the stream.")
        found = _readable(wanted, path, folder, need)
        if len(found) != 1:
            raise RunError(
                f"{path} holds {len(found)} files: pack only one file, or set `files` instead of `file`"
                " to read all of them as one table."
            )
        ((name, readable),) = found
        if readable.stat().st_size == 0:
            raise RunError(f"The source file {path} is empty: it has no columns.")
        kind = wanted.known_format or str(format_of(name))
        scan = Scan(FORMATS[kind].reader, readable, wanted.reader_options(kind))
        return Fetched(str(path), scan.stamped(), path.stat().st_size)

    def _several(self, wanted: FileOrigin, pattern: str, folder: Path, need: Need) -> Fetched:
        where = self._folder / pattern
        found = self._matching(pattern)
        readable: list[tuple[str, Path]] = []
        for number, path in enumerate(found):
            own = folder / str(number)
            own.mkdir()
            readable += _readable(wanted, path, own, need)
        readable = [(name, path) for name, path in readable if path.stat().st_size]
        if not readable:
            raise RunError(f"No file with a row matches {where}: put one there, or correct `files` of the stream.")
        kinds = {wanted.known_format or str(format_of(name)) for name, _ in readable}
        if len(kinds) != 1:
            raise RunError(
                f"{where} holds files of several formats, {' and '.join(sorted(kinds))}:"
                " set `within` of the stream to a pattern of the files to read."
            )
        (kind,) = kinds
        options = {**wanted.reader_options(kind), "union_by_name": True}
        paths, names = tuple(path for _, path in readable), tuple(name for name, _ in readable)
        scan = Scan(FORMATS[kind].reader, paths, options, names=names)
        return Fetched(str(where), scan.stamped(), sum(path.stat().st_size for path in found))

    def _matching(self, pattern: str) -> list[Path]:
        try:
            found = sorted(self._folder.glob(pattern))
        except (OSError, ValueError) as error:
            raise RunError(f"{self._folder / pattern} cannot be searched: {error}. Correct `files`.") from error
        return [path for path in found if path.is_file() and not path.name.startswith(".")]


def _readable(wanted: FileOrigin, path: Path, folder: Path, need: Need) -> list[tuple[str, Path]]:
    """Return the names and the readable files of a file: all files of an archive, otherwise the file itself."""
    if is_archive(path.name):
        found = archives.unpack(path, folder, need.check, within=wanted.within, known=wanted.known_format is not None)
        return [_plain(wanted, name, member, path, need) for name, member in found]
    if gzipped.is_named_gzip(path.name) or _is_text(wanted, path.name):
        _refuse_zip(path, str(path))
    if gzipped.is_named_gzip(path.name) or (_is_text(wanted, path.name) and gzipped.is_gzip(path)):
        return [(path.name, gzipped.unpack(path, folder / "data", str(path), need.check))]
    if _PATTERN_CHARACTERS & set(str(path)):
        # An alias without pattern characters: DuckDB reads exactly this file.
        alias = folder / "data"
        alias.symlink_to(path.absolute())
        return [(path.name, alias)]
    return [(path.name, path)]


def _plain(wanted: FileOrigin, name: str, member: Path, archive: Path, need: Need) -> tuple[str, Path]:
    """Return a file of an archive, decompressed if it is a gzip file."""
    place = f"{name} in {archive}"
    if gzipped.is_named_gzip(name) or (_is_text(wanted, name) and gzipped.is_gzip(member)):
        return name, gzipped.unpack(member, member.with_name(f"{member.name}_plain"), place, need.check)
    if _is_text(wanted, name):
        _refuse_zip(member, place)
    return name, member


def _is_text(wanted: FileOrigin, name: str) -> bool:
    return (wanted.known_format or format_of(name)) in ("csv", "jsonl")


def _refuse_zip(path: Path, name: str) -> None:
    """Raise if a file is an archive without the extension of one, or an archive within another."""
    if archives.begins_as_archive(path):
        raise RunError(f"{name} is a zip archive: unpack it, or give the archive itself a name that ends with .zip.")


def _is_offered(entry: os.DirEntry[str]) -> bool:
    # Unprintable names cannot be used in responses either.
    return not entry.name.startswith(".") and entry.name.isprintable()


def _pattern(folder: os.DirEntry[str]) -> str | None:
    """Return the pattern for the files of a folder, if they all have one format and extension."""
    # Pattern characters in the name of the folder would be misread.
    if _PATTERN_CHARACTERS & set(folder.name):
        return None
    try:
        names = [path.name for path in Path(folder.path).iterdir() if path.is_file() and not path.name.startswith(".")]
    except OSError:
        return None
    ending = {extensions_of(name) for name in names}
    if len(ending) != 1 or format_of(names[0]) is None:
        return None
    return f"{folder.name}/*{ending.pop()}"
