"""
Which versions of Airflow and Python are supported.

Each is said once: Airflow's by the files of pins, ``constraints.txt`` for the newest and ``constraints-<minor>.txt``
for those before it, Python's by the classifiers of the project.
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
    """
    Tell which Airflow a file pins.

    :param pins: The file.
    """
    (version,) = re.findall(r"^apache-airflow==(\S+)$", pins.read_text(), re.MULTILINE)
    return Version(version)


def minor(version: Version) -> str:
    """
    Write a version without its patch.

    :param version: The version.
    """
    return f"{version.major}.{version.minor}"


def airflows() -> dict[str, Path]:
    """Give the file of pins for each minor version of Airflow, the oldest first."""
    files = {airflow_in(file): file for file in ROOT.glob("constraints*.txt")}
    return {minor(version): files[version] for version in sorted(files)}


def pythons() -> list[str]:
    """Give the versions of Python, the oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [_PYTHON.fullmatch(classifier) for classifier in project["classifiers"]]
    return sorted((one[1] for one in found if one), key=Version)


def pins_of_this_environment() -> Path:
    """Give the pins of the Airflow that runs here."""
    from airflow import __version__

    return airflows()[minor(Version(__version__))]


def this_python() -> str:
    """Give the version of the Python that runs here."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
