"""Built distribution, and environments in which only this distribution is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.packaging.versions import ROOT, pins_of_this_environment
from tests.support.documents import blocks

PROJECT = "airflow-provider-datapipe"
#: Environment variables that would lead programs of another environment back to this one.
_OURS = frozenset({"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"})


class Distribution(NamedTuple):
    """Files of the distribution."""

    wheel: Path
    sdist: Path


class Installed(NamedTuple):
    """Environment with one requirement and its dependencies."""

    programs: Path

    def environment(self) -> dict[str, str]:
        """Return the variables of an activated environment, without those of this environment."""
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {name: value for name, value in os.environ.items() if name not in _OURS} | {"PATH": path}

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - installed programs of this project
            [str(self.programs / program), *arguments],
            cwd=self.programs,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def uv(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - uv
    assert done.returncode == 0, done.stderr


def build(folder: Path) -> Distribution:
    """Build like ``make dist``: the source distribution, and the wheel from it."""
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return Distribution(wheel, sdist)


def fresh(folder: Path) -> Path:
    """Create an empty environment."""
    uv("venv", "--quiet", "--python", sys.executable, folder)
    return folder


def requirement(page: str, *, extra: str) -> str:
    """Return the requirement in the installation command of a page."""
    wanted = f"{PROJECT}{extra}"
    lines = [block.first_line for block in blocks() if block.page == page]
    assert {f"pip install {wanted}", f"pip install '{wanted}'"} & set(lines)
    return wanted


def install(what: str, built: Distribution, environment: Path) -> Installed:
    """Install with the tested versions, as from an index with the built wheel."""
    pins = pins_of_this_environment()
    uv("pip", "install", "--quiet", "--python", environment, "-c", pins, f"{what} @ {built.wheel.as_uri()}")
    return Installed(environment / "bin")
