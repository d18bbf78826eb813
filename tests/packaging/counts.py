"""Counts of tests in the JUnit file of pytest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple, Self
from xml.etree import ElementTree as ET  # parses only files of pytest


class Counts(NamedTuple):
    """Number of tests by result."""

    passed: int
    failed: int
    skipped: int
    reasons: Counter[str]
    names: list[str]

    @classmethod
    def read(cls, file: Path) -> Self:
        cases = list(ET.parse(file).iter("testcase"))  # noqa: S314 - file of pytest
        # A test that fails and then has an error in its teardown has two cases.
        bad = {
            f"{case.get('classname')}.{case.get('name')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        }
        skips = [skip for case in cases if (skip := case.find("skipped")) is not None]
        passed = (
            len(cases) - len(skips) - sum(1 for case in cases if f"{case.get('classname')}.{case.get('name')}" in bad)
        )
        return cls(passed, len(bad), len(skips), Counter(map(_reason, skips)), sorted(bad))

    def __str__(self) -> str:
        reported = f"{self.passed} passed"
        if self.failed:
            reported += f", {self.failed} failed"
        return f"{reported}, {self.skipped} skipped" if self.skipped else reported


def _reason(skip: ET.Element) -> str:
    """Return the reason of a skipped test. For a skipped module, it is in the text."""
    message = skip.get("message", "")
    return (skip.text or "").partition("Skipped: ")[2].rstrip("')") if message == "collection skipped" else message
