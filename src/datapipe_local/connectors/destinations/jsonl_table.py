"""JSON Lines files with one line per record."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.canonical import members
from datapipe_local.connectors.destinations.base import ABSENT
from datapipe_local.connectors.destinations.changes import Changes, key_of
from datapipe_local.connectors.destinations.jsonl import WRITING, as_line, unwritable, write
from datapipe_local.storage.temporary_data import DiskSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from datapipe_local.connectors.destinations.base import Outcome, Record

Json = dict[str, Any]

_TRIES = 5


class JsonLinesTable:
    """
    File in which each record has one line, identified by its key.

    A file cannot change or remove lines in place. Therefore the run stores its changes in a hidden file beside it. At
    its end it writes a new file with the changes applied, and renames it over the old one. A killed process has applied
    all changes or none; the next process applies the stored ones. Applying them twice has no further effect.

    The checkpoint is the length of the stored changes: changes that a killed process stored after its checkpoint are
    sent again.

    Properties that are not sent keep their text. Lines that are not objects, or lack the key, stay unchanged.

    :param path: The file.
    :param sync_id: The sync, which names the hidden file.
    :param mode: The mode: ``update`` adds no records, the others do.
    :param checkpoint: The checkpoint of the process that started the run; ``None`` for a new run.
    :raises RunError: the file cannot be read or written.
    """

    batch_size = 1_000

    def __init__(self, path: Path, sync_id: str, mode: OperationName, checkpoint: str | None) -> None:
        self.path = path
        self._adds = mode != OperationName.UPDATE
        self._kept = path.with_name(f".{path.name}.{sync_id}")
        self._there: dict[tuple[str, ...], DiskSet] = {}
        if checkpoint is None:
            # An earlier run could not write the file, although its changes were recorded as sent.
            self._apply_stored_changes()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._kept.open("ab") as file:
                # The changes may have been applied just before the kill: then the file is shorter.
                file.truncate(min(file.tell(), int(checkpoint or 0)))
                self._length = file.seek(0, 2)
        except OSError as error:
            raise unwritable(path, error) from error

    @classmethod
    def finish(cls, path: Path, sync_id: str) -> None:
        """
        Apply the stored changes of an earlier run, for a sync that now only appends.

        :raises RunError: the file cannot be written.
        """
        cls(path, sync_id, OperationName.UPSERT, None).close()

    def unanswered(self) -> None:
        """Return None: storing a change twice has no further effect."""

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Store records to write.

        :raises RunError: they cannot be stored.
        """
        outcomes: list[Outcome] = [None if self._adds or self._has(record) else ABSENT for record in records]
        self._keep(
            {"key": record.identity, "set": record.properties, "add": self._adds}
            for record, outcome in zip(records, outcomes, strict=True)
            if outcome is None
        )
        return outcomes

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Store records to delete.

        :raises RunError: they cannot be stored.
        """
        self._keep({"key": record.identity} for record in records)
        return [None] * len(records)

    def checkpoint(self) -> str:
        """Return the length of the stored changes."""
        return str(self._length)

    def close(self) -> None:
        """
        Apply the stored changes.

        :raises RunError: the file cannot be written; it is unchanged.
        """
        for keys in self._there.values():
            keys.close()
        self._apply_stored_changes()

    def lines(self) -> Iterator[tuple[bytes, Json | None]]:
        """Yield the raw lines of the file, each with its object; None for a line that is not an object."""
        return _lines(self.path)

    def rewritten(self, changes: Changes) -> Iterator[bytes]:
        """Yield the lines of the new file."""
        for text, changed in changes.applied_to(self.lines()):
            if text is None:
                yield as_line(changed)
            elif changed:
                yield _changed_line(text, changed)
            else:
                yield text if text.endswith(b"\n") else text + b"\n"

    def _has(self, record: Record) -> bool:
        names = tuple(sorted(record.identity))
        try:
            if names not in self._there:
                # Read the file once: no other writer is expected to add lines during the run.
                keys = self._there[names] = DiskSet()
                with WRITING:
                    found = (key_of(line, names) for _, line in self.lines() if line is not None)
                    keys.update(key for key in found if key is not None)
            return key_of(record.identity, names) in self._there[names]
        except (OSError, sqlite3.Error) as error:
            raise unwritable(self.path, error) from error

    def _keep(self, entries: Iterable[Json]) -> None:
        text = b"".join(map(as_line, entries))
        try:
            with self._kept.open("rb+", buffering=0) as file:
                write(file, self._length, text)
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._length += len(text)

    def _apply_stored_changes(self) -> None:
        try:
            with WRITING, closing(Changes(entry for _, entry in _lines(self._kept) if entry is not None)) as changes:
                if changes:
                    self._write(changes)
                elif not self.path.exists():
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self.path.touch()
                self._kept.unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise unwritable(self.path, error) from error

    def _write(self, changes: Changes) -> None:
        # If the path is a link, write its target.
        path = self.path.resolve()
        unfinished = path.with_name(f"{self._kept.name}.new")
        try:
            for _ in range(_TRIES):
                before = _stamp(path)
                with unfinished.open("wb") as file:
                    file.writelines(self.rewritten(changes))
                # Apply the changes again if another writer has changed the file: its changes must not be lost.
                if _stamp(path) == before:
                    break
            with suppress(FileNotFoundError):
                shutil.copymode(path, unfinished)
            unfinished.replace(path)
        except BaseException:
            # The unfinished file may fill the disk.
            unfinished.unlink(missing_ok=True)
            raise


def _changed_line(text: bytes, changed: Json) -> bytes:
    """Return a line with changed properties. The others keep their text, and so all digits of their numbers."""
    parts = members(text.decode(json.detect_encoding(text), "surrogatepass"))
    parts |= {name: as_line({name: value}).decode()[1:-2] for name, value in changed.items()}
    return f"{{{', '.join(parts.values())}}}\n".encode(errors="surrogatepass")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _lines(path: Path) -> Iterator[tuple[bytes, Json | None]]:
    """Yield the raw lines of a file, each with its object; None for a line that is not a complete object."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for text in file:
            line = None
            with suppress(ValueError, RecursionError):
                line = json.loads(text)
            yield text, line if isinstance(line, dict) else None
