"""The test matrix: versions, interpreters, and the report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging import environments, matrix
from tests.packaging.counts import Counts
from tests.packaging.environments import NoPythonError, NotThereError, interpreter
from tests.packaging.matrix import LOWEST, SUITES, Cell, Ran, report, suites_of
from tests.packaging.versions import ROOT, airflow_in, airflows, pins_of_this_environment, pythons, this_python
from tests.support.airflow_versions import older_than

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="5">
  <testcase classname="a" name="passes" />
  <testcase classname="a" name="fails"><failure message="no">trace</failure></testcase>
  <testcase classname="a" name="fails"><error message="and its teardown, too">trace</error></testcase>
  <testcase classname="a" name="skipped"><skipped message="task state: since Airflow 3.3" /></testcase>
  <testcase classname="" name="whole.module">
    <skipped message="collection skipped">('a.py', 16, 'Skipped: RetryPolicy: since Airflow 3.3')</skipped>
  </testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def counts(tmp_path: Path) -> Counts:
    file = tmp_path / "unit.xml"
    file.write_text(JUNIT)
    return Counts.read(file)


def test_counts_of_a_junit_file(counts: Counts) -> None:
    assert counts[:3] == (1, 1, 2)
    assert counts.names == ["a.fails"]
    assert counts.reasons == {"task state: since Airflow 3.3": 1, "RetryPolicy: since Airflow 3.3": 1}
    assert str(counts) == "1 passed, 1 failed, 2 skipped"


def test_report_lists_versions_counts_and_reasons(counts: Counts) -> None:
    oldest, newest = Cell(next(iter(airflows())), pythons()[0]), Cell(list(airflows())[-1], pythons()[-1])
    ran = [Ran(oldest, "provider", 1, counts, 3.0), Ran(oldest, "local", 4, None, 1.0)]
    reported = "".join(report([oldest, newest], ran, {newest: "no such Python"}))
    version = airflow_in(airflows()[oldest.airflow])
    assert "| Airflow | Python | provider | local |\n" in reported
    assert f"| {version} | {oldest.python} | 1 passed, 1 failed, 2 skipped | pytest ended with 4 |\n" in reported
    assert f"| {newest.python} | not there | not there |\n" in reported
    assert f"{newest.name}: no such Python\n" in reported
    assert f"Airflow {oldest.airflow}: skipped 1: task state: since Airflow 3.3\n" in reported
    assert f"{oldest.name}: provider: failed: a.fails\n" in reported


def test_broken_interpreter_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("shims", "echo no such version >&2; exit 127"), ("other", "echo 2.7"), ("right", None)):
        program = tmp_path / folder / f"python{this_python()}"
        program.parent.mkdir()
        if text is None:
            program.symlink_to(sys.executable)
        else:
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / folder) for folder in ("shims", "other", "right")))
    assert interpreter(this_python()) == tmp_path / "right" / f"python{this_python()}"
    with pytest.raises(NoPythonError, match=r"no Python 3\.4 on this machine"):
        interpreter("3.4")


def test_failed_installation_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    pins = tmp_path / "constraints.txt"
    pins.write_text("apache-airflow==3.1.8\n")
    with pytest.raises(NotThereError) as reported:
        environments.environment("3.1", pins, this_python())
    assert not isinstance(reported.value, NoPythonError)
    assert "network was disabled" in str(reported.value)
    # So it is made anew.
    assert not list(tmp_path.rglob(".made-from"))


def test_lowest_runs_only_the_oldest_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Cell, str]] = []

    def run(cell: Cell, suite: str, python: Path, workers: int) -> Ran:
        asked.append((cell, suite))
        return Ran(cell, suite, 0, None, 0.0)

    monkeypatch.setattr(matrix, "environment", lambda airflow, pins, python: Path(sys.executable))
    monkeypatch.setattr(matrix, "run", run)
    assert matrix.main(["--lowest"]) == 0
    # The suites run at the same time.
    assert sorted(asked) == sorted((Cell(next(iter(airflows())), pythons()[0]), suite) for suite in LOWEST)
    asked.clear()
    assert matrix.main([]) == 0
    assert {cell for cell, _ in asked} == {Cell(airflow, python) for airflow in airflows() for python in pythons()}
    assert all(suites_of(cell) == [suite for one, suite in asked if one == cell] for cell, _ in asked)


@pytest.mark.parametrize("suite", SUITES)
def test_paths_of_a_suite_exist(suite: str) -> None:
    paths = [path.removeprefix("--ignore=") for path in SUITES[suite]]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_each_test_is_run_on_each_python() -> None:
    for python in pythons():
        run = {suite for airflow in airflows() for suite in suites_of(Cell(airflow, python))}
        assert {"provider", "local"} <= run
    folders = {folder.name for folder in (ROOT / "tests").iterdir() if list(folder.rglob("test_*.py"))}
    assert folders == {path.split("/")[1] for suite in ("provider", "local", "system") for path in SUITES[suite][:2]}
    left_out = [path.removeprefix("--ignore=") for path in SUITES["provider"][2:]]
    assert left_out == SUITES["local"]


def test_the_pins_of_this_environment_are_those_of_its_airflow() -> None:
    assert older_than("3.3") == (pins_of_this_environment().name != "constraints.txt")


@pytest.mark.parametrize(
    ("target", "command"),
    [("test-lowest", "-m tests.packaging.matrix --lowest"), ("test-matrix", "-m tests.packaging.matrix ")],
)
def test_commands_of_make(target: str, command: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "--no-print-directory", "--dry-run", target],  # noqa: S607 - of the machine
        cwd=ROOT,
        # This may be run by make, which would have its options taken over.
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].endswith(command)


def test_page_lists_the_supported_versions() -> None:
    page = (ROOT / "docs/compatibility.md").read_text()
    pattern = r"^The provider supports Airflow (.*), each in its newest patch version, with Python (.*)\. `pyproject"
    (line,) = re.findall(pattern, page, re.MULTILINE)
    assert [re.findall(r"3\.\d+", each) for each in line] == [list(airflows()), pythons()]
    assert all(f"`{file.name}`" in page for file in airflows().values())
