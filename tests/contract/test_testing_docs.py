"""Test of the page about tests of DAGs: its project passes its own tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.clock import ServiceClock
from datapipe_local.testing.journal import Journal
from tests.support.documents import blocks, pages

PAGE = "docs/testing.md"


@pytest.mark.slow
def test_the_project_of_the_page_passes_its_tests(tmp_path: Path) -> None:
    page = [block for block in blocks() if block.page == PAGE]
    install, make, run = (block.text.strip() for block in page if block.language == "sh")
    assert install == "pip install 'airflow-provider-datapipe[local]' pytest"
    unwanted = ("AIRFLOW", "DATAPIPE", "PYTEST", "PYTHONDONTWRITEBYTECODE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    subprocess.run(["bash", "-euc", make], cwd=tmp_path, check=True)  # noqa: S603, S607 - our own docs
    for block in page:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    done = subprocess.run(  # noqa: S603 - as above
        ["bash", "-euc", f"{run} -v"],  # noqa: S607
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    passed = re.findall(r"^tests/test_\w+\.py::(\w+) PASSED", done.stdout, re.MULTILINE)
    assert len(passed) == 4


def test_it_is_as_short_as_it_is_called() -> None:
    (test,) = (block for block in blocks() if block.page == PAGE and block.file == "tests/test_shop.py")
    assert len(test.text.splitlines()) <= 10


def test_the_table_of_the_fixture_is_complete() -> None:
    table = pages()[PAGE].partition("## Fixture")[2].partition("## Test failures")[0]
    told = set(re.findall(r"`(?:datapipe_local\.)?([a-z_.]+)[(`]", table))
    there = {name for name in vars(DatapipeLocal) if not name.startswith("_")}
    assert there <= told, there - told
    for kind, name in ((Journal, "journal"), (ServiceClock, "clock")):
        for found in re.findall(rf"`{name}\.(\w+)\(", table):
            assert hasattr(kind, found), found
