"""The distribution: what is built, and that what the README installs works where nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.documents import ROOT, blocks

PROJECT = "airflow-provider-datapipe"
#: Imports all that Airflow is told of, and says what it was.
IMPORT_ALL = """
import importlib, importlib.metadata, json
points = importlib.metadata.distribution("airflow-provider-datapipe").entry_points
(point,) = points.select(group="apache_airflow_provider")
def names(value):
    if isinstance(value, dict):
        for entry in value.values():
            yield from names(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from names(entry)
    elif isinstance(value, str) and value.startswith("airflow_provider_datapipe."):
        yield value
told = sorted(set(names(point.load()())))
for name in told:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        # It is a class.
        module, _, attribute = name.rpartition(".")
        getattr(importlib.import_module(module), attribute)
print(json.dumps(told))
"""


class Distribution(NamedTuple):
    wheel: Path
    sdist: Path


class Installed(NamedTuple):
    """An environment that has nothing but what a requirement brings."""

    programs: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        inherited = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
        return subprocess.run(  # noqa: S603 - our own programs
            [str(self.programs / program), *arguments],
            cwd=self.programs,
            env={name: value for name, value in os.environ.items() if name not in inherited},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def all_that_airflow_is_told_of(self) -> list[str]:
        done = self.run("python", "-c", IMPORT_ALL)
        assert done.returncode == 0, done.stderr
        told: list[str] = json.loads(done.stdout.splitlines()[-1])
        return told


def uv(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return Distribution(wheel, sdist)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment") / "venv"
    uv("venv", "--quiet", "--python", sys.executable, folder)
    return folder


def requirement(page: str, *, extra: str) -> str:
    """Read what a page has people install."""
    wanted = f"{PROJECT}{extra}"
    lines = [block.first_line for block in blocks() if block.page == page]
    assert {f"pip install {wanted}", f"pip install '{wanted}'"} & set(lines)
    return wanted


def install(what: str, built: Distribution, environment: Path) -> Installed:
    """Install with the versions that were tested, as from an index that has our wheel."""
    pins = ROOT / "constraints.txt"
    uv("pip", "install", "--quiet", "--python", environment, "-c", pins, f"{what} @ {built.wheel.as_uri()}")
    return Installed(environment / "bin")


@pytest.fixture(scope="module")
def alone(built: Distribution, empty: Path) -> Installed:
    return install(requirement("README.md", extra=""), built, empty)


def test_the_provider_alone(alone: Installed) -> None:
    told = alone.all_that_airflow_is_told_of()
    assert "airflow_provider_datapipe.hooks.datapipe.DatapipeHook" in told
    assert "airflow_provider_datapipe.operators.elt" in told
    assert alone.run("python", "-c", "import duckdb").returncode == 1
    # Without what it needs, the other command says how to get it.
    assert alone.run("datapipe-local", "--help").returncode == 0
    refused = alone.run("datapipe-local", "init", "--home", "home")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "datapipe-local: duckdb is not installed: pip install 'airflow-provider-datapipe[local]'\n"
    )


def test_with_the_local_service(built: Distribution, alone: Installed) -> None:
    (what,) = {requirement(page, extra="[local]") for page in ("README.md", "docs/local.md")}
    both = install(what, built, alone.programs.parent)
    assert both.all_that_airflow_is_told_of()
    helped = both.run("datapipe-local", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert all(command in helped.stdout for command in ("init", "serve"))
    # What is read from files of the package is there.
    done = both.run("datapipe-local", "init", "--home", "home")
    assert (done.returncode, done.stderr) == (0, "")
    assert both.run("python", "-m", "uv", "--version").returncode == 1


def test_the_index_can_show_it(built: Distribution) -> None:
    done = subprocess.run(  # noqa: S603 - our own distribution
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_what_the_wheel_has(built: Distribution) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_provider_datapipe", "datapipe_local"}
    source = ROOT / "src"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.as_posix() for path in files} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_what_the_source_distribution_has(built: Distribution) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt", "pyproject.toml", "docs/local.md"}
    assert needed <= names
    assert [name for name in names if name.endswith(".pyc") or "_build/" in name] == []
