"""Environments with one Airflow and one Python each, in ``.venv-matrix``: made once, and anew when pins change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.versions import ROOT

FOLDER = ROOT / ".venv-matrix"


class NotThereError(Exception):
    """An environment can't be made here; the message says why."""


class NoPythonError(NotThereError):
    """The machine has no such Python."""


def interpreters(version: str) -> Iterator[Path]:
    """List where a Python may be: on the PATH, with pyenv, with uv."""
    name = f"python{version}"
    yield from (Path(folder) / name for folder in os.get_exec_path())
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((pyenv / "versions").glob(f"{version}.*/bin/{name}"), reverse=True)
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    yield from sorted(uv.glob(f"cpython-{version}.*/bin/{name}"), reverse=True)


def interpreter(version: str) -> Path:
    """
    Find a Python that starts: what pyenv has on the PATH may lead nowhere.

    :raises NoPythonError: there is none.
    """
    say = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in interpreters(version):
        if not path.exists():
            continue
        done = subprocess.run([str(path), "-c", say], capture_output=True, text=True, check=False)  # noqa: S603 - an interpreter
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    raise NoPythonError(f"no Python {version} on this machine")


def environment(airflow: str, pins: Path, python: str) -> Path:
    """
    Make an environment, or take the one that is there, and return its interpreter.

    :raises NotThereError: it can't be made.
    """
    base = interpreter(python)
    folder = FOLDER / f"airflow-{airflow}-python-{python}"
    program = folder / "bin" / "python"
    asked = b"\n".join(file.read_bytes() for file in (pins, ROOT / "pyproject.toml"))
    # Written last: an environment whose making was interrupted is made again.
    ready = folder / ".made-from"
    made_from = hashlib.sha256(asked).hexdigest()
    if ready.is_file() and ready.read_text() == made_from:
        return program
    FOLDER.mkdir(exist_ok=True)
    # Like what uv makes: nothing in it is git's.
    (FOLDER / ".gitignore").write_text("*\n")
    _uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", base, folder)
    # Compiled by all cores here, and not by the first start of Airflow that a test waits for.
    _uv("pip", "install", "--quiet", "--compile-bytecode", "--python", program, "-c", pins, "uv", "-e", ".[dev]")
    ready.write_text(made_from)
    return program


def _uv(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise NotThereError(" ".join(lines)[:500] or f"uv {arguments[0]} ended with {done.returncode}")
