"""Catalog of a folder of JSON Lines files, and the file paths of syncs."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datapipe_local.connectors.destinations.catalog import DestinationCatalog, one_of, schema_of_settings
from datapipe_local.connectors.destinations.settings import LONGEST_NAME, Property, PropertyType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from datapipe_local.connectors.destinations.catalog import Json

#: Choice that means the folder of the connection.
_HERE = "."
_LINES_TO_READ = 100
_LONGEST_LINE = 100_000


def file_of(settings: Mapping[str, Any], object_type_id: str, of_sync: Mapping[str, Any], suffix: str) -> Path:
    """
    Return the file of a sync.

    :param settings: The connection's settings.
    :param object_type_id: The object type: the default name of the file.
    :param of_sync: The sync's settings.
    :param suffix: The file name extension, with a dot.
    """
    file = str(of_sync.get("file", f"{object_type_id}{suffix}"))
    return Path(settings["path"]) / str(of_sync.get("folder", _HERE)) / file


class JsonLinesCatalog(DestinationCatalog):
    """
    Catalog of a connection to a folder.

    :param settings: The connection's settings.
    """

    suffix = ".jsonl"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.folder = Path(settings["path"])

    def object_type_ids(self) -> list[str]:
        """Return the names of the files in the folder, without extension."""
        return [name.removesuffix(self.suffix) for name in _files(self.folder, self.suffix)]

    def properties(self, object_type_id: str) -> list[Property]:
        """Return the properties in the first lines of the file, if it exists."""
        found: dict[str, PropertyType] = {}
        for line in _first_lines(self.folder / f"{object_type_id}{self.suffix}"):
            for name, value in line.items():
                if 0 < len(name) <= LONGEST_NAME and value is not None:
                    found.setdefault(name, _type_of(value))
        return [Property(id=name, type=kind) for name, kind in found.items()]

    def settings_schema(self, known: Mapping[str, Any]) -> Json:
        """Return the schema of folder and file. The choices of the file depend on the folder."""
        folders = _folders(self.folder)
        file: Json = {
            "type": "string",
            "title": "File",
            "description": "An existing file in that folder. Default: a file named after the object type.",
        }
        if known.get("folder") in folders:
            names = _files(self.folder / known["folder"], self.suffix)
            file |= {"oneOf": one_of(dict(zip(names, names, strict=True)))} if names else {"enum": []}
        folder = {
            "type": "string",
            "title": "Folder",
            "description": "A folder within the folder of the connection. Default: the folder of the connection.",
            "oneOf": one_of({name: "The folder of the connection" if name == _HERE else name for name in folders}),
        }
        return schema_of_settings("Where records are written", {"folder": folder, "file": file}, {"file": ["folder"]})


def _folders(folder: Path) -> list[str]:
    return [_HERE, *sorted(entry.name for entry in _entries(folder) if entry.is_dir() and not entry.is_symlink())]


def _files(folder: Path, suffix: str) -> list[str]:
    return sorted(entry.name for entry in _entries(folder) if entry.suffix == suffix and entry.is_file())


def _entries(folder: Path) -> Iterable[Path]:
    try:
        # Hidden files are work in progress. Unprintable names cannot be displayed.
        return [entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name.isprintable()]
    except OSError:
        return []


def _first_lines(file: Path) -> list[Json]:
    lines = []
    try:
        with file.open("rb") as opened:
            for text in islice(iter(lambda: opened.readline(_LONGEST_LINE), b""), _LINES_TO_READ):
                line = json.loads(text)
                if isinstance(line, dict):
                    lines.append(line)
    except (OSError, ValueError, RecursionError):
        # Use the lines before the error.
        return lines
    return lines


def _type_of(value: Any) -> PropertyType:
    kinds: dict[type, PropertyType] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        list: "array",
        dict: "object",
    }
    return kinds.get(type(value), "string")
