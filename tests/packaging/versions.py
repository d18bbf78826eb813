"""
Supported versions of Airflow and Python.

Each version has one source: for Airflow the files of pins, ``constraints.txt`` for the newest version and
``constraints-<minor>.txt`` for earlier ones; for Python the classifiers of the project.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parents[2]
_PYTHON = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def airflow_in(pins: Path) -> Version:
    (version,) = re.findall(r"^apache-airflow==(\S+)$", pins.read_text(), re.MULTILINE)
    return Version(version)


def minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def airflows() -> dict[str, Path]:
    """Return the constraints file for each minor version of Airflow, the oldest first."""
    files = {airflow_in(file): file for file in ROOT.glob("constraints*.txt")}
    return {minor(version): files[version] for version in sorted(files)}


def pythons() -> list[str]:
    """Return the versions of Python, the oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [_PYTHON.fullmatch(classifier) for classifier in project["classifiers"]]
    return sorted((one[1] for one in found if one), key=Version)


def pins_of_this_environment() -> Path:
    """Return the constraints of the installed Airflow."""
    from airflow import __version__

    return airflows()[minor(Version(__version__))]


def this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
