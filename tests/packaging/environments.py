"""Environments in ``.venv-matrix``, one for each pair of Airflow and Python. Created again if the pins change."""

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
    """An environment cannot be created. The message has the reason."""


class NoPythonError(NotThereError):
    """The machine does not have this version of Python."""


def interpreters(version: str) -> Iterator[Path]:
    """Yield possible paths of a Python: on the PATH, of pyenv, and of uv."""
    name = f"python{version}"
    yield from (Path(folder) / name for folder in os.get_exec_path())
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((pyenv / "versions").glob(f"{version}.*/bin/{name}"), reverse=True)
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    yield from sorted(uv.glob(f"cpython-{version}.*/bin/{name}"), reverse=True)


def interpreter(version: str) -> Path:
    """
    Return the path of a working Python. Shims of pyenv on the PATH may not work.

    :raises NoPythonError: no working Python was found.
    """
    say = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in interpreters(version):
        if not path.exists():
            continue
        done = subprocess.run([str(path), "-c", say], capture_output=True, text=True, check=False)  # noqa: S603 - interpreter
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    raise NoPythonError(f"no Python {version} on this machine")


def environment(airflow: str, pins: Path, python: str) -> Path:
    """
    Create an environment unless it exists, and return its interpreter.

    :raises NotThereError: it cannot be created.
    """
    base = interpreter(python)
    folder = FOLDER / f"airflow-{airflow}-python-{python}"
    program = folder / "bin" / "python"
    asked = b"\n".join(file.read_bytes() for file in (pins, ROOT / "pyproject.toml"))
    # Written last, so that an incomplete environment is created again.
    ready = folder / ".made-from"
    made_from = hashlib.sha256(asked).hexdigest()
    if ready.is_file() and ready.read_text() == made_from:
        return program
    FOLDER.mkdir(exist_ok=True)
    # Exclude the folder from git, like the environments of uv.
    (FOLDER / ".gitignore").write_text("*\n")
    _uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", base, folder)
    # Compile on all cores now, so that the first start of Airflow in a test is not slow.
    _uv("pip", "install", "--quiet", "--compile-bytecode", "--python", program, "-c", pins, "uv", "-e", ".[dev]")
    ready.write_text(made_from)
    return program


def _uv(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - commands of this module
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise NotThereError(" ".join(lines)[:500] or f"uv {arguments[0]} ended with {done.returncode}")
