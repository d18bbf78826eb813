"""Tests that every row of the tables of the interface has one test."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.contract.datapipe_local.rules.rows import ERRORS, LIMITS, TRANSITIONS


def names_of_tests() -> list[str]:
    return [
        node.name
        for file in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


def test_each_row_has_one_test() -> None:
    rows = [*TRANSITIONS, *ERRORS, *LIMITS]
    found = names_of_tests()
    assert [name for name in rows if found.count(name) != 1] == []
