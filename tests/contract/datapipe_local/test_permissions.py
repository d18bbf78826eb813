"""Tests of the permissions of the home: only the user who runs the service can read it."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.common.errors import SetupError
from datapipe_local.storage.home import Home
from tests.contract.datapipe_local.test_cli import KEY, failure, home, run, serving

__all__ = ["home"]

FOREIGN_USER = 54_321
OPEN = 0o777


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def run_with_umask(umask: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the program of this project
        [sys.executable, "-m", "datapipe_local", *map(str, arguments)],
        umask=umask,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def made_open(home: Path) -> None:
    """Set the permissions of a home that another program created."""
    home.chmod(0o755)
    for path in home.iterdir():
        path.chmod(0o644 if path.is_file() else 0o755)


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_init_creates_private_files(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "home"
    assert run_with_umask(umask, "init", "--home", home).returncode == 0
    assert mode(home) == 0o700
    assert {path.name: mode(path) for path in home.iterdir()} == {
        "api_key": 0o600,
        "lock": 0o600,
        "scratch": 0o700,
        "state.sqlite": 0o600,
        "warehouse.duckdb": 0o600,
    }


def test_init_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "README.md").write_text("A project.\n")
    for arguments in (["init"], ["serve", "--init", "--port", "0"]):
        assert failure(*arguments, "--home", tmp_path) == (
            f"{tmp_path} contains other files (README.md) and is not a home: choose a new or empty folder as --home."
        )
    assert mode(tmp_path) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_init_completes_an_interrupted_init(tmp_path: Path) -> None:
    for name in ("api_key.new", "lock", "state.sqlite-wal"):
        (tmp_path / name).touch()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "lost+found").mkdir()
    tmp_path.chmod(0o755)
    assert run("init", "--home", tmp_path).returncode == 0
    assert mode(tmp_path) == 0o700


@pytest.mark.slow
@pytest.mark.parametrize("command", [["reset"], ["reset", "--keep-seed"], ["init"]])
def test_commands_restrict_an_existing_home(home: Path, command: list[str]) -> None:
    made_open(home)
    assert run(*command, "--home", home).returncode == 0
    assert mode(home) == 0o700
    assert {mode(path) for path in home.iterdir()} == {0o600, 0o700}


@pytest.mark.slow
def test_serve_restricts_an_existing_home(home: Path) -> None:
    made_open(home)
    with serving(home, "--port", "0") as (process, _):
        assert mode(home) == 0o700
        assert {path.name for path in home.iterdir() if mode(path) & 0o077} <= {"warehouse.duckdb.wal"}
        assert mode(home / "state.sqlite-wal") == mode(home / "state.sqlite-shm") == 0o600
        process.terminate()
        assert process.stderr is not None
        log = process.stderr.read()
    assert f"Restricted the home {home} to its user: its mode was 0755" in log


def test_home_that_is_a_symlink_is_restricted(home: Path, tmp_path: Path) -> None:
    made_open(home)
    link = tmp_path / "link"
    link.symlink_to(home)
    assert run("init", "--home", link).returncode == 0
    assert mode(home) == 0o700
    assert (home / "api_key").read_text() == f"{KEY}\n"


def test_export_of_tables_keeps_the_umask(home: Path, tmp_path: Path) -> None:
    assert run_with_umask(0o022, "export", "--home", home, "--seed", tmp_path / "seed.yaml").returncode == 0
    assert mode(tmp_path / "seed.yaml") == 0o644


def refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


ANOTHER_USER = (
    "The home {home} belongs to another user (uid {owner}): run datapipe-local as that user, or choose another --home."
)
NO_MODES = (
    "Other users can read the home {home} (mode 0777), and its file system does not change modes:"
    " choose a --home on another file system."
)


@pytest.mark.parametrize(
    ("target", "replacement", "message"),
    [
        ("os.geteuid", lambda: FOREIGN_USER, ANOTHER_USER),
        ("pathlib.Path.chmod", lambda *_: None, NO_MODES),
        ("pathlib.Path.chmod", refuse, "Operation not permitted"),
    ],
    ids=["another user", "file system without modes", "mode cannot be changed"],
)
def test_home_that_cannot_be_private_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, target: str, replacement: Callable[..., Any], message: str
) -> None:
    home.chmod(OPEN)
    monkeypatch.setattr(target, replacement)
    with pytest.raises(SetupError) as refused, Home(home).locked():
        pass
    assert message.format(home=home, owner=home.stat().st_uid) in str(refused.value)
