"""Files in a folder: CSV, JSON Lines and Parquet, also zipped."""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from datapipe_local.errors import RunError
from datapipe_local.names import numbered, snake_case
from datapipe_local.sources.base import Fetched, Offer, SourceError
from datapipe_local.sources.formats import FORMATS, format_of, stem_of
from datapipe_local.strict import Strict
from datapipe_local.warehouse import Scan

_CHUNK = 1 << 20
# What DuckDB takes for a pattern in a file's name.
_PATTERN_CHARACTERS = frozenset("*?[]{}")


class FilesSettings(Strict, title="Files in a folder"):
    """Settings of a connection to a folder."""

    path: str = Field(min_length=1, description="The folder that the files are in.")


class FileOrigin(Strict):
    """Which file of the folder a stream reads, and how."""

    file: str = Field(min_length=1)
    format: Literal["csv", "jsonl", "parquet"] | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("file")
    @classmethod
    def _stays_in_the_folder(cls, file: str) -> str:
        if PurePath(file).is_absolute() or ".." in PurePath(file).parts:
            raise ValueError("give the file's place within the connection's path, without '..'")
        return file

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        self.reader_options()
        return self

    @property
    def known_format(self) -> str:
        """The format: as given, else by the file's name."""
        name = self.format or format_of(self.file)
        if name is None:
            raise ValueError(f"the format of {self.file!r} is not known by its name: give `format`")
        return name

    def reader_options(self) -> dict[str, Any]:
        """Give the options for DuckDB's reader."""
        return FORMATS[self.known_format].check(self.options)


class FilesSource:
    """
    A folder of files.

    :param settings: As :class:`FilesSettings` describes.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = Path(FilesSettings.model_validate(settings).path)

    def offers(self) -> list[Offer]:
        """
        Give the files that stand in the folder itself, those whose format is known by their name.

        A stream is called after its file. Where another file has that name, the format, or else a number, stands behind
        it. A file whose name leaves nothing for a name can't be selected.

        :raises SourceError: the folder cannot be read.
        """
        try:
            with os.scandir(self._folder) as entries:
                files = sorted(entry.name for entry in entries if _is_offered(entry))
        except PermissionError as error:
            raise SourceError(
                f"The folder {self._folder} may not be read: give this user the right to.", lost_access=True
            ) from error
        except OSError as error:
            raise SourceError(
                f"The folder {self._folder} cannot be read: {error.strerror or error}. Correct `path`."
            ) from error
        offers: dict[str, Offer] = {}
        for file in files:
            kind = format_of(file)
            if kind is not None:
                name = snake_case(stem_of(file))
                wanted = [
                    name,
                    snake_case(f"{name}_{kind}"),
                    *(numbered(name, number) for number in range(2, 2 + len(files))),
                ]
                offer = next(each for each in wanted if each not in offers) if name else file
                offers[offer] = Offer(offer, {"file": file}, is_selectable=bool(name))
        return list(offers.values())

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """Tell whether a file is one of JSON Lines that need not be unpacked to be looked at."""
        wanted = FileOrigin.model_validate(origin)
        return wanted.known_format == "jsonl" and not wanted.file.lower().endswith(".zip")

    def has(self, origin: dict[str, Any]) -> bool:
        """Tell whether a stream's file is there."""
        return (self._folder / FileOrigin.model_validate(origin).file).is_file()

    @contextmanager
    def fetch(self, origin: dict[str, Any], scratch: Path) -> Iterator[Fetched]:
        """
        Get one file, unpacked if need be.

        :param origin: As :class:`FileOrigin` describes.
        :param scratch: Where zipped files are unpacked.
        :raises RunError: it is not there, or cannot be unpacked.
        """
        wanted = FileOrigin.model_validate(origin)
        path = self._folder / wanted.file
        if not path.is_file():
            raise RunError(f"The source file {path} does not exist: put it there, or correct `file` of the stream.")
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            readable = self._readable(path, Path(folder))
            if readable.stat().st_size == 0:
                raise RunError(f"The source file {path} is empty: it has not even a header.")
            scan = Scan(FORMATS[wanted.known_format].reader, readable, wanted.reader_options())
            yield Fetched(str(path), scan, path.stat().st_size)

    def _readable(self, path: Path, folder: Path) -> Path:
        if path.suffix.lower() == ".zip":
            return _unpack(path, folder)
        if _PATTERN_CHARACTERS & set(str(path)):
            # Under a plain name it is one file and no pattern.
            alias = folder / "data"
            alias.symlink_to(path.absolute())
            return alias
        return path


def _is_offered(entry: os.DirEntry[str]) -> bool:
    # What is not printable cannot stand in an answer either.
    return not entry.name.startswith(".") and entry.name.isprintable() and entry.is_file()


def _unpack(path: Path, folder: Path) -> Path:
    """Unpack the one file of an archive: DuckDB's readers do not read zip."""
    unpacked = folder / "data"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                member
                for member in archive.infolist()
                # macOS adds a folder of its own.
                if not member.is_dir() and not member.filename.startswith("__MACOSX/")
            ]
            if len(members) != 1:
                raise RunError(f"{path} holds {len(members)} files: pack the one that the stream reads.")
            with archive.open(members[0]) as packed, unpacked.open("wb") as out:
                shutil.copyfileobj(packed, out, _CHUNK)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise RunError(f"{path} cannot be unpacked: {error}. Pack it again.") from error
    except RuntimeError as error:
        raise RunError(f"{path} cannot be unpacked: it is encrypted. Pack it without a password.") from error
    except OSError as error:
        raise RunError(f"{path} cannot be unpacked: {error.strerror or error}.") from error
    return unpacked
