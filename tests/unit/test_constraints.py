"""What ``constraints.txt`` pins, so that a fresh clone gets what was tested, from whatever index it has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(text) for texts in lists for text in texts]
    return [one for one in found if one.name != project["name"]]


def test_it_has_versions_only() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in PINS)
    assert all(str(Version(version)) for version in PINS.values())


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_dependency_is_pinned_to_a_version_that_is_asked_for(requirement: Requirement) -> None:
    assert PINS[canonicalize_name(requirement.name)] in requirement.specifier


def test_what_installs_the_others_is_pinned() -> None:
    assert "uv" in PINS
