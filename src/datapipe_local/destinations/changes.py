"""What is to become of the lines of a file: kept on disk, however many there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from datapipe_local.spill import open_spill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Json = dict[str, Any]
#: The names of a record's key, in order.
Names: TypeAlias = tuple[str, ...]


class Changes:
    """
    What is to become of lines.

    :param entries: The changes, oldest first: ``key``; ``set``, or it is to go; ``add``, if it may be a new one.
    """

    def __init__(self, entries: Iterable[Json]) -> None:
        self._database = open_spill()
        # Usually there is one kind of key.
        self._kinds: dict[Names, int] = {}
        #: The names of all that is set, in the order in which they come.
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

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def close(self) -> None:
        """Let go of what is kept."""
        self._database.close()

    def applied_to(self, lines: Iterable[tuple[bytes, Json | None]]) -> Iterator[tuple[bytes | None, Json]]:
        """Give all lines as they are afterwards, the new ones behind the others: as they stood there if they stay."""
        self._database.execute("BEGIN")
        self._database.execute("UPDATE changes SET done = 0 WHERE done")
        for text, line in lines:
            now = line
            for names, kind in self._kinds.items():
                key = None if now is None else key_of(now, names)
                entries = None if key is None else self._of(kind, key)
                if entries is not None:
                    # Of several lines with one key all are changed.
                    now = _changed(now, entries)
            if now is line:
                yield text, line or {}
            elif now is not None:
                yield None, now
        left = self._database.execute("SELECT entries FROM changes WHERE NOT done ORDER BY number")
        for (entries,) in left:
            added = _changed(None, entries)
            if added is not None:
                yield None, added
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
    """Give the key of a line as text; ``None`` if it has none of these names."""
    if any(name not in line for name in names):
        return None
    return json.dumps([line[name] for name in names], sort_keys=True)


def _changed(line: Json | None, entries: str) -> Json | None:
    for text in entries.splitlines():
        entry = json.loads(text)
        if "set" not in entry:
            line = None
        elif line is not None or entry["add"]:
            line = {**(line or {}), **entry["set"]}
    return line
