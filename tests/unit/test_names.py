"""Names of tests."""

from __future__ import annotations

import re
from pathlib import Path

LONGEST = 60


def test_names_of_tests_are_short() -> None:
    files = Path(__file__).parents[1].rglob("*.py")
    names = [
        name for file in files for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    ]
    assert names
    assert [name for name in names if len(name) > LONGEST] == []
