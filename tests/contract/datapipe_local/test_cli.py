"""Tests of the command line."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.forked import run_forked

COMMAND = [sys.executable, "-m", "datapipe_local"]
KEY = "a-key-of-the-tests"


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "DATAPIPE_LOCAL_API_KEY"}
    return run_forked([str(argument) for argument in arguments], env={**clean, **environment})


def failure(*arguments: str | Path, **environment: str) -> str:
    """Run a command that fails with one line on stderr, and return the error message."""
    done = run(*arguments, **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"datapipe-local: .*\n", done.stderr), done.stderr
    return done.stderr.removeprefix("datapipe-local: ").rstrip("\n")


@contextmanager
def serving(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*COMMAND, "serve", "--home", str(home), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - the program of this project
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 120)[0], "not ready in time"
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    assert run("init", "--home", home, "--api-key", KEY).returncode == 0
    return home


@pytest.mark.slow
def test_init_creates_a_private_home_and_hides_the_key(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    done = run("init", "--home", home)
    key = (home / "api_key").read_text().strip()
    assert done.returncode == 0
    assert done.stdout == f"Home: {home} (created)\nAPI key: in {home / 'api_key'} (written)\n"
    assert len(key) >= 32
    assert key not in done.stdout + done.stderr
    assert stat.S_IMODE((home / "api_key").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    again = run("init", "--home", home)
    assert "(already exists)" in again.stdout
    assert "(unchanged)" in again.stdout
    assert (home / "api_key").read_text().strip() == key


@pytest.mark.slow
def test_the_key_comes_from_the_option_or_the_environment(home: Path) -> None:
    def key() -> str:
        return (home / "api_key").read_text().strip()

    assert key() == KEY
    run("init", "--home", home, DATAPIPE_LOCAL_API_KEY="from-the-environment")
    assert key() == "from-the-environment"
    run("init", "--home", home, "--api-key", "from-the-option", DATAPIPE_LOCAL_API_KEY="from-the-environment")
    assert key() == "from-the-option"
    assert "two words" not in failure("init", "--home", home, "--api-key", "two words")
    assert key() == "from-the-option"


def test_an_invalid_seed_is_one_line_and_creates_no_home(tmp_path: Path) -> None:
    seed = tmp_path / "seed.yaml"
    seed.write_text("connections:\n  - {id: x, integration_id: files\n")
    message = failure("init", "--home", tmp_path / "home", "--seed", seed)
    assert message.startswith(f"{seed}, line 3: this is not valid YAML: ")
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_serve_reports_that_it_is_ready_and_stops_on_signals(home: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(home, "--port", "0") as (process, line):
            found = re.fullmatch(r"datapipe-local is ready at (http://127\.0\.0\.1:\d+)\n", line)
            assert found
            client = httpx.Client(base_url=found[1], headers={"x-api-key": KEY})
            assert client.get("/connections").status_code == 200
            process.send_signal(number)
            output, log = process.communicate(timeout=60)
            assert process.returncode == 0
            assert output == ""
            assert "Traceback" not in log
            assert "leaked" not in log
            assert KEY not in log


@pytest.mark.slow
def test_a_home_in_use_is_refused(home: Path) -> None:
    with serving(home, "--port", "0") as (process, _):
        for command in (["serve", "--port", "0"], ["init"]):
            assert failure(*command, "--home", home) == (
                f"The home {home} is in use by process {process.pid}: stop it, or choose another --home."
            )


def test_a_port_in_use(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = failure("serve", "--home", home, "--port", str(port))
    assert message == f"Port {port} of 127.0.0.1 is in use: choose another --port, or 0 for a free one."


@pytest.mark.parametrize(
    "command", [["serve"], ["reset"], ["status"], ["export", "--seed", "x.yaml"], ["query", "SELECT 1"]]
)
def test_a_folder_without_a_home(tmp_path: Path, command: list[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        message = failure(*command, "--home", folder)
        assert message == f"{folder} is not initialised: run `datapipe-local init --home {folder}` first."
    assert not (tmp_path / "nowhere").exists()


def test_invalid_options(tmp_path: Path) -> None:
    for option in (
        *(["--port", port] for port in ("-1", "65536", "http", "\N{ARABIC-INDIC DIGIT THREE}")),
        ["--what"],
        ["--memory-limit", "100KB"],
        # An unset variable of a script gives an empty value, which must not mean every address.
        *(["--host", ""], ["--home", ""], ["--allow-host", " "]),
    ):
        assert run("serve", "--home", tmp_path, *option).returncode == 2, option
    assert run("init", "--home", tmp_path / "home", "--api-key", "").returncode == 2
    assert not (tmp_path / "home").exists()


def test_an_invalid_variable_of_the_control_plane(home: Path) -> None:
    message = failure("serve", "--home", home, DATAPIPE_LOCAL_CONTROL="maybe")
    assert message == "DATAPIPE_LOCAL_CONTROL is 'maybe': set it to 1 or 0."


def test_a_home_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    assert failure("init", "--home", home).startswith(f"Cannot create the home {home}: ")


@pytest.mark.parametrize("host", ["a.invalid", "a" * 300, "a..b"])
def test_an_unknown_host(home: Path, host: str) -> None:
    assert failure("serve", "--home", home, "--port", "0", "--host", host).startswith("Cannot listen on a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("serve --port 0", name) for name in ("lock", "scratch", "warehouse.duckdb")),
        *(("init --api-key another", name) for name in ("lock", "scratch", "api_key", "api_key.new", "state.sqlite")),
        *(("export --seed x.yaml", name) for name in ("scratch", "state.sqlite")),
        ("status", "lock"),
    ],
)
def test_conflicting_files_are_reported_in_one_line(home: Path, name: str, command: str) -> None:
    place = home / name
    if place.is_dir():
        place.rmdir()
        place.write_text("in the way")
    else:
        place.unlink(missing_ok=True)
        place.mkdir()
        (place / "in the way").touch()
    assert failure(*command.split(), "--home", home)


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"two words\nand lines", "schl\u00fcssel".encode(), b"\xff\xfe"])
def test_an_unusable_key_is_refused_until_it_is_replaced(home: Path, content: bytes) -> None:
    (home / "api_key").write_bytes(content)
    for command in (["serve", "--port", "0"], ["init"]):
        message = failure(*command, "--home", home)
        assert message.endswith(": run init with --api-key, or delete it and run init.")
    assert run("init", "--home", home, "--api-key", KEY).returncode == 0
    assert (home / "api_key").read_text() == f"{KEY}\n"


def test_a_closed_pipe_causes_no_error_message() -> None:
    with subprocess.Popen([*COMMAND, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603 - the program of this project
        assert process.stdout is not None
        assert process.stderr is not None
        # The pipe is closed before the command writes.
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 1


def test_an_interrupted_command_prints_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "seed.yaml"
    os.mkfifo(pipe)
    command = [*COMMAND, "init", "--home", str(tmp_path / "home"), "--seed", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - the program of this project
        try:
            # The command runs once it reads the seed.
            with pipe.open("w"):
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, output, errors) == (130, "", "")
