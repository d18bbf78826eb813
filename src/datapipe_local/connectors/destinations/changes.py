"""Pending changes of the lines of a file, kept on disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from datapipe_local.connectors.destinations.base import key_value
from datapipe_local.storage.temporary_data import open_temporary_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Json = dict[str, Any]
#: Sorted names of the key properties of a record.
Names: TypeAlias = tuple[str, ...]


class Changes:
    """
    Pending changes of lines.

    :param entries: The changes, oldest first. Each has ``key``; ``set`` with the new values, or no ``set`` to delete
        the line; and ``add``, if a missing line is added.
    """

    def __init__(self, entries: Iterable[Json]) -> None:
        self._database = open_temporary_database()
        # Usually there is one kind of key.
        self._kinds: dict[Names, int] = {}
        #: Names of all properties that are set, in order of appearance.
        self.names: dict[str, None] = {}
        self._database.execute(
            "CREATE TABLE changes (kind INTEGER, key TEXT, number INTEGER, entries TEXT, done INTEGER DEFAULT 0,"
            " PRIMARY KEY (kind, key)) WITHOUT ROWID"
        )
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO changes (kind, key, number, entries) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET entries = entries || excluded.entries",
            self._rows(entries),
        )
        self._database.execute("COMMIT")

    @property
    def key_names(self) -> set[str]:
        """Names of all key properties."""
        return {name for names in self._kinds for name in names}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def close(self) -> None:
        """Delete the changes."""
        self._database.close()

    def applied_to(self, lines: Iterable[tuple[bytes, Json | None]]) -> Iterator[tuple[bytes | None, Json]]:
        """
        Yield the lines that stay, each with its text and its changed properties, and the new lines, without a text.

        :param lines: The lines of the file, each with its object; None for a line that is not an object.
        """
        self._database.execute("BEGIN")
        self._database.execute("UPDATE changes SET done = 0 WHERE done")
        for text, line in lines:
            now: _Line | None = _Line(text, line or {}, {})
            for names, kind in self._kinds.items():
                key = None if now is None else key_of(now.properties, names)
                entries = None if key is None else self._of(kind, key)
                if entries is not None:
                    # If several lines have the same key, change all of them.
                    now = _changed(now, entries)
            if now is not None:
                yield now.text, now.changes
        left = self._database.execute("SELECT entries FROM changes WHERE NOT done ORDER BY number")
        for (entries,) in left:
            added = _changed(None, entries)
            if added is not None:
                yield added.text, added.changes
        self._database.execute("COMMIT")

    def _rows(self, entries: Iterable[Json]) -> Iterator[tuple[int, str | None, int, str]]:
        for number, entry in enumerate(entries):
            names = tuple(sorted(entry["key"]))
            kind = self._kinds.setdefault(names, len(self._kinds))
            self.names.update(dict.fromkeys(entry.get("set", ())))
            yield kind, key_of(entry["key"], names), number, json.dumps(entry) + "\n"

    def _of(self, kind: int, key: str) -> str | None:
        row = self._database.execute(
            "SELECT entries, done FROM changes WHERE kind = ? AND key = ?", (kind, key)
        ).fetchone()
        if row is None:
            return None
        if not row[1]:
            self._database.execute("UPDATE changes SET done = 1 WHERE kind = ? AND key = ?", (kind, key))
        return str(row[0])


def key_of(line: Json, names: Sequence[str]) -> str | None:
    """
    Return the key of a line as text; ``None`` if the line lacks a name.

    A number and its text are the same key, as in record IDs: the type of a key column can change.
    """
    if any(name not in line for name in names):
        return None
    values = [line[name] for name in names]
    return json.dumps([None if value is None else _text_of(value) for value in values])


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(key_value(value), sort_keys=True)


class _Line(NamedTuple):
    """
    Line after some changes.

    :param text: Its original text; None for a new line.
    :param properties: All properties.
    :param changes: The properties that were set.
    """

    text: bytes | None
    properties: Json
    changes: Json


_NEW = _Line(None, {}, {})


def _changed(line: _Line | None, entries: str) -> _Line | None:
    for text in entries.splitlines():
        entry = json.loads(text)
        if "set" not in entry:
            line = None
        elif line is not None or entry["add"]:
            before = line or _NEW
            line = _Line(before.text, before.properties | entry["set"], before.changes | entry["set"])
    return line
