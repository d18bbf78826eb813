"""Conversion of SQL files to transforms, and file paths for transforms."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

from airflow_provider_datapipe.pipelines.transforms.data_checks import data_checks
from airflow_provider_datapipe.pipelines.transforms.front_matter import (
    NO_ORCHESTRATION,
    SqlFile,
    TransformFileError,
    parse,
)
from airflow_provider_datapipe.resources.transform_folder import SUFFIX, Attachment, DesiredTransform, read_folder

#: Maximum length of an escaped path segment, in bytes. File systems allow 255.
_LONGEST = 120
#: Names that are reserved on some systems.
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})


def read_files(folder: Path, *, may_be_empty: bool = False) -> list[SqlFile]:
    """
    Read all SQL files in a folder and below it.

    :param folder: the folder.
    :param may_be_empty: if True, the folder may be missing or contain no files.
    :raises TransformFileError: if a file or the folder is invalid.
    """
    if may_be_empty and not (folder.is_dir() and any(folder.rglob(f"*{SUFFIX}"))):
        return []
    try:
        texts = read_folder(folder)
    except OSError as error:
        raise TransformFileError(f"{error.filename or folder} can't be read: {error.strerror or error}.") from None
    except ValueError as error:
        if may_be_empty and "there is no" in str(error):
            return []
        raise TransformFileError(f"{error}.") from None
    return parse_files(texts)


def parse_files(texts: Mapping[str, str]) -> list[SqlFile]:
    """
    Parse the texts of files.

    :param texts: the texts by the paths of the files, such as ``sales/orders.sql``.
    :raises TransformFileError: if files are invalid. The message names all of them.
    """
    files, wrong = [], []
    for path, text in texts.items():
        try:
            files.append(parse(text, path))
        except TransformFileError as error:
            wrong.append(str(error))
    if wrong:
        raise TransformFileError("\n".join(wrong))
    return files


def desired_from_files(
    files: Sequence[SqlFile],
    *,
    folder_path: str = "",
    materialization: str | None = None,
    render: Callable[[str, str], str] = lambda text, _: text,
) -> list[DesiredTransform]:
    """
    Return the transforms that files define.

    :param files: the files.
    :param folder_path: folder of the service that contains all of them.
    :param materialization: default for files without it: ``view`` or ``table``.
    :param render: function that renders a template to SQL. Its second argument is the path of the file.
    :raises TransformFileError: if two files define the same transform, or a file contains no SQL.
    """
    found: dict[str, tuple[DesiredTransform, str]] = {}
    for file in files:
        one = _desired_from_file(file, folder_path, materialization, render)
        if one.path in found:
            raise TransformFileError(
                f"{file.path} and {found[one.path][1]} both define the transform {one.path!r}: remove one of them."
            )
        if not one.sql_template.strip():
            raise TransformFileError(f"{file.path}: the file contains no SQL.")
        found[one.path] = one, file.path
    return [one for one, _ in found.values()]


def _desired_from_file(
    file: SqlFile, folder_path: str, materialization: str | None, render: Callable[[str, str], str]
) -> DesiredTransform:
    front = file.front
    # The front matter overrides the folder of the file.
    place = PurePosixPath(file.path)
    above = "" if place.parent == PurePosixPath() else place.parent.as_posix()
    folder = (above if front.folder is None else front.folder).strip("/")
    attachment = None
    if front.orchestration_id is not None:
        attachment = Attachment(id=front.orchestration_id)
    elif front.orchestration is not None:
        attachment = Attachment(name=None if front.orchestration == NO_ORCHESTRATION else front.orchestration)
    return DesiredTransform(
        name=front.name or place.name.removesuffix(SUFFIX),
        folder_path="/".join(part for part in (folder_path.strip("/"), folder) if part),
        sql_template=render(file.sql, file.path),
        materialization=front.materialization or materialization,
        documentation=front.documentation,
        cron_expression=front.schedule,
        orchestration=attachment,
        publish=front.publish,
        checks=tuple(
            replace(check, sql=render(check.sql, file.path)) for given in front.checks for check in data_checks(given)
        ),
    )


def path_for(folder: str, name: str, taken: Iterable[str]) -> str:
    """
    Return the path of a new file for a transform.

    It consists of folder and name if these are valid on all systems. Otherwise they must be in the front matter.

    :param folder: folder of the transform, below the common folder.
    :param name: its name.
    :param taken: paths of other files.
    """
    # Some file systems ignore case.
    others = {each.casefold() for each in taken}
    parts = [_escaped(part) for part in folder.split("/") if part]
    number = 1
    while True:
        tail = "" if number == 1 else f"~{number}"
        path = "/".join([*parts, f"{_escaped(name)}{tail}{SUFFIX}"])
        if path.casefold() not in others:
            return path
        number += 1


def path_matches(path: str, folder: str, name: str) -> bool:
    """Return True if the path of a file alone determines folder and name of the transform."""
    place = PurePosixPath(path)
    parent = place.parent.as_posix()
    return place.name == f"{name}{SUFFIX}" and ("" if parent == "." else parent) == folder


def _escaped(part: str) -> str:
    """Return a unique path segment that is valid on all systems."""
    usual = unicodedata.normalize("NFC", part)
    if usual != part:
        # Some file systems normalize names to this form.
        keep = "".join(character for character in part if character.isascii())
        written = f"{_escaped(keep)}~{sha256(part.encode(errors='surrogatepass')).hexdigest()[:8]}"
    else:
        written = "".join(map(_character, part))
    if written[:1] in ("", "."):
        written = f"%2E{written[1:]}" if written else "%"
    if written[-1:] in (".", " "):
        written = f"{written[:-1]}%{ord(written[-1]):02X}"
    if written.casefold().endswith(SUFFIX) or written.split(".", 1)[0].casefold() in _RESERVED:
        # Folders must not look like SQL files, and files must not have reserved names.
        written = written[:-1] + f"%{ord(written[-1]):02X}"
    if len(written.encode()) > _LONGEST:
        digest = sha256(part.encode(errors="surrogatepass")).hexdigest()[:12]
        short = written.encode()[: _LONGEST - len(digest) - 1].decode(errors="ignore")
        written = f"{short}~{digest}"
    return written


def _character(character: str) -> str:
    if character.isalnum() or character in "_-. ":
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
