"""The pins in the constraints files, so that a fresh clone installs the tested versions from any index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packaging.versions import ROOT, airflows, minor, pythons

FILES = [pytest.param(file, id=file.name) for file in airflows().values()]


def pins(file: Path) -> dict[str, str]:
    return dict(line.split("==") for line in file.read_text().splitlines())


def project() -> dict[str, Any]:
    read: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return read


def requirements() -> list[Requirement]:
    lists = [project()["dependencies"], *project()["optional-dependencies"].values()]
    found = [Requirement(text) for texts in lists for text in texts]
    return [one for one in found if one.name != project()["name"]]


@pytest.mark.parametrize("file", FILES)
def test_file_contains_only_versions(file: Path) -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in pins(file))
    assert all(str(Version(version)) for version in pins(file).values())


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_dependency_is_pinned_within_its_bounds(requirement: Requirement, file: Path) -> None:
    assert pins(file)[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("file", FILES)
def test_installer_is_pinned(file: Path) -> None:
    assert "uv" in pins(file)


def test_each_file_is_called_by_its_airflow() -> None:
    *older, newest = [file.name for file in airflows().values()]
    assert newest == "constraints.txt"
    assert older == [f"constraints-{airflow}.txt" for airflow in list(airflows())[:-1]]


def test_the_oldest_tested_versions_are_the_lower_bounds() -> None:
    (airflow,) = [one for one in requirements() if one.name == "apache-airflow"]
    lowest = [minor(Version(bound.version)) for bound in airflow.specifier if bound.operator == ">="]
    assert lowest == [next(iter(airflows()))]
    assert project()["requires-python"] == f">={pythons()[0]}"


def test_packages_for_celery_are_pinned_beside_the_others() -> None:
    folder = ROOT / "tests" / "system"
    beside = pins(folder / "celery-constraints.txt")
    needed = {line for line in (folder / "celery-requirements.txt").read_text().splitlines() if line[:1] != "#"}
    assert needed <= set(beside)
    assert not set(beside) & set(pins(ROOT / "constraints.txt"))
    assert all(str(Version(version)) for version in beside.values())
