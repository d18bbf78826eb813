"""JSON Lines files: a record is appended as a line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datapipe_local.destinations.base import Record
from datapipe_local.destinations.settings import JsonLinesSettings
from datapipe_local.errors import RunError


class JsonLinesDestination:
    """
    The file ``<path>/<object type>.jsonl``.

    The checkpoint is the file's length. What a killed process has written after it is read back, so that no
    record of the run stands there twice and no line stays half-written.

    :param settings: As :class:`~datapipe_local.destinations.settings.JsonLinesSettings` describes.
    :param object_type_id: The file's name, without suffix.
    :param checkpoint: The checkpoint of the process that began the run.
    :raises RunError: the file cannot be written.
    """

    batch_size = 1_000

    def __init__(self, settings: dict[str, Any], object_type_id: str, checkpoint: str | None) -> None:
        folder = Path(JsonLinesSettings.model_validate(settings).path)
        self._path = folder / f"{object_type_id}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab+")
        except OSError as error:
            raise self._unwritable(error) from error
        self._written_before = set() if checkpoint is None else self._read_back(int(checkpoint))

    def send(self, records: Sequence[Record]) -> list[str | None]:
        """
        Append records.

        :raises RunError: the file cannot be written.
        """
        lines = [json.dumps(record.properties, ensure_ascii=False).encode() + b"\n" for record in records]
        try:
            self._file.write(b"".join(line for line in lines if line not in self._written_before))
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error
        return [None] * len(records)

    def checkpoint(self) -> str:
        """Give the file's length."""
        return str(self._file.seek(0, 2))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_back(self, length: int) -> set[bytes]:
        self._file.seek(length)
        lines = self._file.readlines()
        if lines and not lines[-1].endswith(b"\n"):
            torn = lines.pop()
            self._file.truncate(self._file.seek(0, 2) - len(torn))
        return set(lines)

    def _unwritable(self, error: OSError) -> RunError:
        return RunError(f"The destination {self._path} cannot be written: {error.strerror or error}.")
