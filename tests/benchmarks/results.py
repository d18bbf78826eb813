"""Storage of results: one file per set, with one JSON line per result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.benchmarks.by_history import Followed
from tests.benchmarks.environment import ROOT, Machine
from tests.benchmarks.imports import Imported
from tests.benchmarks.waits import Waited

#: Folder of the results. It is not committed.
FOLDER = ROOT / ".bench"


@dataclass(slots=True)
class Results:
    """Set of results."""

    machines: list[Machine] = field(default_factory=list)
    imported: list[Imported] = field(default_factory=list)
    waited: list[Waited] = field(default_factory=list)
    followed: list[Followed] = field(default_factory=list)
    failures: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        results = cls()
        for line in path.read_text(encoding="utf-8").splitlines():
            kind, data = json.loads(line)
            match kind:
                case "machine":
                    results.machines.append(Machine(**data))
                case "imported":
                    results.imported.append(Imported(**data))
                case "waited":
                    results.waited.append(Waited.from_dict(data))
                case "followed":
                    results.followed.append(Followed(**data))
                case "failure":
                    results.failures.append(data)
        return results


class Keeper:
    """Writer that appends results to a set."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def keep(self, result: Machine | Imported | Waited | Followed) -> None:
        kinds = {Machine: "machine", Imported: "imported", Waited: "waited", Followed: "followed"}
        self._write(kinds[type(result)], asdict(result))

    def keep_failure(self, what: str, count: int, latency: float, why: str) -> None:
        """Store a failed measurement."""
        self._write("failure", {"what": what, "count": count, "latency": latency, "why": why})

    def _write(self, kind: str, data: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, data]) + "\n")
