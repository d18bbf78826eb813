"""JSON Lines files, of which a sync appends lines."""

from __future__ import annotations

import json
import threading
from typing import IO, TYPE_CHECKING, Any

from datapipe_local.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from datapipe_local.destinations.base import Outcome, Record

#: Held by whoever changes a file: another sync may write the same.
WRITING = threading.RLock()


class Log:
    """
    A file that grows by lines.

    The checkpoint is the file's length. What a killed process has written after it is read back, so that no
    line of the run stands there twice and none stays half-written.

    :param path: The file; it is created where there is none.
    :param checkpoint: The checkpoint of the process that began the run.
    :param encode: Writes an entry; as a line of JSON if not given.
    :param split: Takes a file apart into what was written; into lines if not given.
    :raises RunError: the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        checkpoint: str | None,
        *,
        encode: Callable[[Any], bytes] | None = None,
        split: Callable[[IO[bytes]], Iterable[bytes]] = iter,
    ) -> None:
        self.path = path
        self._encode = encode or as_line
        self._split = split
        self._written_before: set[bytes] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            if checkpoint is not None:
                with WRITING:
                    self._written_before = self._read_back(int(checkpoint))
        except OSError as error:
            raise unwritable(path, error) from error

    def append(self, entries: Iterable[Any]) -> None:
        """
        Write entries that the run has not written before.

        :raises RunError: the file cannot be written.
        """
        lines = [line for entry in entries if (line := self._encode(entry)) not in self._written_before]
        try:
            # Opened each time: another sync may have put another file in its place.
            with WRITING, self.path.open("ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            raise unwritable(self.path, error) from error

    def checkpoint(self) -> str:
        """
        Give the file's length.

        :raises RunError: the file is gone.
        """
        try:
            return str(self.path.stat().st_size)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _read_back(self, length: int) -> set[bytes]:
        with self.path.open("rb+") as file:
            file.seek(length)
            lines = list(self._split(file))
            if lines and not lines[-1].endswith(b"\n"):
                lines.pop()
                file.truncate(length + sum(map(len, lines)))
        return set(lines)


class JsonLinesLog:
    """
    A file to which each record is appended as a line, whatever stands there.

    :param path: The file.
    :param checkpoint: The checkpoint of the process that began the run.
    :raises RunError: the file cannot be written.
    """

    batch_size = 1_000

    def __init__(self, path: Path, checkpoint: str | None) -> None:
        self._log = Log(path, checkpoint)

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Append records.

        :raises RunError: the file cannot be written.
        """
        self._log.append(record.properties for record in records)
        return [None] * len(records)

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """Refuse it: what is only appended to loses nothing."""
        return ["Lines are only appended to this file."] * len(records)

    def checkpoint(self) -> str:
        """Give the file's length."""
        return self._log.checkpoint()

    def close(self) -> None:
        """Nothing is held."""


def as_line(entry: Any) -> bytes:
    """Write an entry as a line."""
    try:
        return json.dumps(entry, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        # Half a character, which others have put into the file.
        return json.dumps(entry).encode() + b"\n"


def unwritable(path: Path, error: OSError) -> RunError:
    """Give the error of a run that cannot write its file."""
    return RunError(f"The destination {path} cannot be written: {error.strerror or error}.")
