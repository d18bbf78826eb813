"""JSON Lines files with one line per record."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.destinations.base import ABSENT
from datapipe_local.destinations.jsonl import WRITING, Log, as_line, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from datapipe_local.destinations.base import Outcome, Record

Json = dict[str, Any]
#: The names and values of a record's key, in the order of the names.
_Key: TypeAlias = tuple[tuple[str, str], ...]


class JsonLinesTable:
    """
    A file in which each record has one line, told by its key.

    A line has to be changed or to go, which a file cannot do in place. So what is to be done is kept in another,
    hidden file beside it while the run goes on, and done at its end: the whole file is written anew and takes the
    old one's place at one instant. A process that is killed has changed nothing or all of it; what it kept is
    done by the next. To do it twice changes nothing.

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
        if checkpoint is None:
            # A run that failed could not write the file; what it kept was noted as sent.
            self._do_what_is_kept()
        self._log = Log(self._kept, checkpoint)
        self._there: dict[tuple[str, ...], set[_Key]] = {}

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Keep what is to be written.

        :raises RunError: it cannot be kept.
        """
        outcomes: list[Outcome] = [None if self._adds or self._has(record) else ABSENT for record in records]
        self._log.append(
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
        self._log.append({"key": record.identity} for record in records)
        return [None] * len(records)

    def checkpoint(self) -> str:
        """Give the length of what is kept."""
        return self._log.checkpoint()

    def close(self) -> None:
        """
        Do what was kept.

        :raises RunError: the file cannot be written; it is as it was.
        """
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
        if names not in self._there:
            # Read once: nobody but this run is expected to add lines meanwhile.
            try:
                with WRITING:
                    found = {_key_of(line, names) for _, line in self.lines()}
            except OSError as error:
                raise unwritable(self.path, error) from error
            self._there[names] = {key for key in found if key is not None}
        return _key_of(record.identity, names) in self._there[names]

    def _do_what_is_kept(self) -> None:
        try:
            with WRITING:
                changes = Changes(entry for _, entry in _lines(self._kept) if entry is not None)
                if changes:
                    unfinished = self._kept.with_name(f"{self._kept.name}.new")
                    with unfinished.open("wb") as file:
                        file.writelines(self.rewritten(changes))
                    unfinished.replace(self.path)
                elif not self.path.exists():
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self.path.touch()
                self._kept.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(self.path, error) from error


class Changes:
    """
    What is to become of lines.

    :param entries: The changes, oldest first.
    """

    def __init__(self, entries: Iterable[Json]) -> None:
        self._sets: dict[tuple[str, ...], dict[_Key, list[Json]]] = {}
        for entry in entries:
            names = tuple(sorted(entry["key"]))
            key = _key_of(entry["key"], names)
            assert key is not None  # noqa: S101 - the names are its own
            self._sets.setdefault(names, {}).setdefault(key, []).append(entry)

    def __bool__(self) -> bool:
        return bool(self._sets)

    def names(self) -> list[str]:
        """Give the names of all that is set, in the order in which they come."""
        found: dict[str, None] = {}
        for changes in self._sets.values():
            for entries in changes.values():
                for entry in entries:
                    found.update(dict.fromkeys(entry.get("set", ())))
        return list(found)

    def applied_to(self, lines: Iterable[tuple[bytes, Json | None]]) -> Iterator[tuple[bytes | None, Json]]:
        """Give all lines as they are afterwards, the new ones behind the others: as they stood there if they stay."""
        done: set[tuple[tuple[str, ...], _Key]] = set()
        for text, line in lines:
            now = line
            for names, changes in self._sets.items():
                key = None if now is None else _key_of(now, names)
                if key in changes:
                    # Of several lines with one key all are changed.
                    done.add((names, key))
                    now = _changed(now, changes[key])
            if now is line:
                yield text, line or {}
            elif now is not None:
                yield None, now
        for names, changes in self._sets.items():
            for key, entries in changes.items():
                added = None if (names, key) in done else _changed(None, entries)
                if added is not None:
                    yield None, added


def _changed(line: Json | None, entries: Sequence[Json]) -> Json | None:
    for entry in entries:
        if "set" not in entry:
            line = None
        elif line is not None or entry["add"]:
            line = {**(line or {}), **entry["set"]}
    return line


def _key_of(line: Json | None, names: Sequence[str]) -> _Key | None:
    if line is None or any(name not in line for name in names):
        return None
    return tuple((name, json.dumps(line[name], sort_keys=True)) for name in names)


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
