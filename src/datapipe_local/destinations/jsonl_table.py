"""JSON Lines files with one line per record."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.destinations.base import ABSENT
from datapipe_local.destinations.changes import Changes, key_of
from datapipe_local.destinations.jsonl import WRITING, as_line, unwritable, write
from datapipe_local.spill import DiskSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from datapipe_local.destinations.base import Outcome, Record

Json = dict[str, Any]

_TRIES = 5


class JsonLinesTable:
    """
    A file in which each record has one line, told by its key.

    A line has to be changed or to go, which a file cannot do in place. So what is to be done is kept in another,
    hidden file beside it while the run goes on, and done at its end: the whole file is written anew and takes the
    old one's place at one instant. A process that is killed has changed nothing or all of it; what it kept is
    done by the next. To do it twice changes nothing.

    The checkpoint is the length of what is kept: what a killed process has kept after it is sent again.

    A property that is not sent stays as it is. Lines that are no objects, or have no such key, are left alone.

    :param path: The file.
    :param sync_id: Whose changes these are.
    :param mode: Whether records that are not there are added.
    :param checkpoint: The checkpoint of the process that began the run.
    :raises RunError: the file cannot be read or written.
    """

    batch_size = 1_000

    def __init__(self, path: Path, sync_id: str, mode: OperationName, checkpoint: str | None) -> None:
        self.path = path
        self._adds = mode != OperationName.UPDATE
        self._kept = path.with_name(f".{path.name}.{sync_id}")
        self._there: dict[tuple[str, ...], DiskSet] = {}
        if checkpoint is None:
            # A run that failed could not write the file; what it kept was noted as sent.
            self._do_what_is_kept()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._kept.open("ab") as file:
                # It may have been done already, just before the kill: then there is less.
                file.truncate(min(file.tell(), int(checkpoint or 0)))
                self._length = file.seek(0, 2)
        except OSError as error:
            raise unwritable(path, error) from error

    @classmethod
    def finish(cls, path: Path, sync_id: str) -> None:
        """
        Do what a run has kept and could not do, for a sync that only appends since.

        :raises RunError: the file cannot be written.
        """
        cls(path, sync_id, OperationName.UPSERT, None).close()

    def unanswered(self) -> None:
        """There is nothing: to keep something twice changes nothing."""

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Keep what is to be written.

        :raises RunError: it cannot be kept.
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
        Keep what is to go.

        :raises RunError: it cannot be kept.
        """
        self._keep({"key": record.identity} for record in records)
        return [None] * len(records)

    def checkpoint(self) -> str:
        """Give the length of what is kept."""
        return str(self._length)

    def close(self) -> None:
        """
        Do what was kept.

        :raises RunError: the file cannot be written; it is as it was.
        """
        for keys in self._there.values():
            keys.close()
        self._do_what_is_kept()

    def lines(self) -> Iterator[tuple[bytes, Json | None]]:
        """Give the lines of the file as they stand there, and what they say; nothing of one that is not understood."""
        return _lines(self.path)

    def rewritten(self, changes: Changes) -> Iterator[bytes]:
        """Give the file as it is to be."""
        for text, line in changes.applied_to(self.lines()):
            if text is not None:
                yield text if text.endswith(b"\n") else text + b"\n"
            else:
                yield as_line(line)

    def _has(self, record: Record) -> bool:
        names = tuple(sorted(record.identity))
        try:
            if names not in self._there:
                # Read once: nobody but this run is expected to add lines meanwhile.
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

    def _do_what_is_kept(self) -> None:
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
        # The file itself, if it is a link.
        path = self.path.resolve()
        unfinished = path.with_name(f"{self._kept.name}.new")
        try:
            for _ in range(_TRIES):
                before = _stamp(path)
                with unfinished.open("wb") as file:
                    file.writelines(self.rewritten(changes))
                # Somebody may have written it meanwhile: that is not to be lost.
                if _stamp(path) == before:
                    break
            with suppress(FileNotFoundError):
                shutil.copymode(path, unfinished)
            unfinished.replace(path)
        except BaseException:
            # It would take the room that was missing.
            unfinished.unlink(missing_ok=True)
            raise


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _lines(path: Path) -> Iterator[tuple[bytes, Json | None]]:
    """Give the lines of a file, and what they say if they are objects; a torn one says nothing."""
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
