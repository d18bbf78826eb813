"""JSON Lines files that syncs append to."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.base import Unanswered, as_json, from_json
from datapipe_local.storage import write_failures

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from datapipe_local.connectors.destinations.base import Outcome, Progress, Record

Json = dict[str, Any]

#: Lock for changes of files: another sync may write the same file.
WRITING = threading.RLock()


class AppendOnlyFile:
    """
    File to which records are appended.

    The text and its position are stored before they are written. So, after a kill, the continued run can check whether
    the file has the text, and remove a partial write. It keeps text of other writers.

    :param path: The file; it is created if it does not exist.
    :param progress: The progress of the run.
    :raises RunError: the file cannot be written.
    """

    batch_size = 1_000
    #: Outcome of a deletion.
    refusal: str

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self._note = progress.note
        self._under_way: Json | None = None if progress.checkpoint is None else json.loads(progress.checkpoint)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            raise unwritable(path, error) from error

    def unanswered(self) -> Unanswered | None:
        """Return the records of the interrupted write; None if there was none."""
        return None if self._under_way is None else Unanswered(from_json(self._under_way["records"]))

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Append records.

        :raises RunError: the file cannot be written, or has no column for a property.
        """
        with WRITING:
            # Finish an interrupted write first: it may contain the header.
            if not self._finish(records):
                self._append(records, b"".join(self.lines(records)))
        return [None] * len(records)

    def lines(self, records: Sequence[Record]) -> Iterable[bytes]:
        """Return the text of records."""
        raise NotImplementedError

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """Refuse deletions: this file is append-only."""
        return [self.refusal] * len(records)

    def close(self) -> None:
        """Do nothing: there are no open resources."""

    def _finish(self, records: Sequence[Record]) -> bool:
        """
        Complete the interrupted write of records, if these are its records.

        :return: True if they are, and the file has them.
        :raises RunError: the file cannot be written.
        """
        before = self._under_way
        if before is None or before["records"] != as_json(records):
            return False
        start, text = before["start"], before["text"].encode("utf-8", "surrogateescape")
        try:
            with WRITING, self.path.open("rb+", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(start)
                there = file.read(len(text)) if end > start else b""
                is_torn = start + len(there) == end and text.startswith(there)
                if there != text and is_torn:
                    write(file, start, text)
                elif there != text:
                    # Others have written at this position.
                    self._append(records, text.removeprefix(b"\n"))
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._under_way = None
        return True

    def _append(self, records: Sequence[Record], text: bytes) -> None:
        """
        Append a text completely or not at all.

        :param records: The records in the text.
        :raises RunError: the file cannot be written.
        """
        try:
            # Open the file each time: it may have been replaced or removed.
            with WRITING, self._opened() as file:
                start = file.seek(0, os.SEEK_END)
                file.seek(max(0, start - 1))
                if file.read(1) not in (b"", b"\n"):
                    # The last line of another writer has no line end.
                    text = b"\n" + text
                self._under_way = {
                    "start": start,
                    "text": text.decode("utf-8", "surrogateescape"),
                    "records": as_json(records),
                }
                self._note(self.checkpoint())
                write(file, start, text)
        except OSError as error:
            # Nothing was written: the next run starts from the beginning.
            self._under_way = None
            raise unwritable(self.path, error) from error
        self._under_way = None

    def _opened(self) -> IO[bytes]:
        self.path.touch()
        return self.path.open("rb+", buffering=0)

    def checkpoint(self) -> str:
        """Return the checkpoint, which contains the write in progress, if any."""
        return json.dumps(self._under_way)


class JsonLinesLog(AppendOnlyFile):
    """
    File to which each record is appended as a line.

    :param path: The file.
    :param progress: The progress of the run.
    :raises RunError: the file cannot be written.
    """

    refusal = "Lines are only appended to this file."

    def lines(self, records: Sequence[Record]) -> Iterable[bytes]:
        """Return the lines of records."""
        return (as_line(record.properties) for record in records)


def write(file: IO[bytes], start: int, text: bytes) -> None:
    """
    Write a text at the end of an unbuffered file completely or not at all.

    :param start: The position; the file is truncated there.
    :raises OSError: the text cannot be written.
    """
    file.truncate(start)
    file.seek(start)
    left = memoryview(text)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError:
        # Truncating needs no disk space.
        with suppress(OSError):
            file.truncate(start)
        raise


def as_line(entry: Any) -> bytes:
    """Return an entry as a line."""
    try:
        return json.dumps(entry, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        # An unpaired surrogate that others have written to the file.
        return json.dumps(entry).encode() + b"\n"


def unwritable(path: Path, error: OSError | sqlite3.Error) -> RunError:
    """Return the error of a run that cannot write its file."""
    failed = write_failures.failure(error, path.parent)
    reason = (getattr(error, "strerror", None) or error) if failed is None else f"{failed.reason}: {failed.advice}"
    return RunError(f"The destination {path} cannot be written: {reason}.")
