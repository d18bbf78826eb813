"""Examples of every operator that changes something, and their seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.operator_examples import (
    connections,
    custom_reports,
    elt,
    generic,
    orchestrations,
    previews,
    reverse_etl,
    runs,
    schedules,
    transforms,
    workspaces,
)
from tests.support.operator_examples.example import Example

__all__ = ["ALONE", "EXAMPLES", "Example", "seed"]

_AREAS = (
    elt,
    orchestrations,
    runs,
    generic,
    reverse_etl,
    connections,
    custom_reports,
    transforms,
    previews,
    schedules,
    workspaces,
)

EXAMPLES: list[Example] = [example for area in _AREAS for example in area.EXAMPLES]
#: Examples that cannot run concurrently with others.
ALONE: list[Example] = workspaces.ALONE


def seed(folder: Path) -> dict[str, Any]:
    """
    Return the seed of all examples.

    :param folder: an empty folder, for files to read and to write. It replaces ``{folder}`` in the seeds of the areas.
    """
    (folder / "rows.csv").write_text("id,name\n1,x\n2,y\n3,z\n")
    merged: dict[str, Any] = {
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(folder)}},
            {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": str(folder / "out")}},
        ]
    }
    for area in _AREAS:
        # A path may contain characters that JSON escapes.
        there = json.dumps(area.SEED).replace("{folder}", json.dumps(str(folder))[1:-1])
        for section, items in json.loads(there).items():
            merged.setdefault(section, []).extend(items)
    return merged
