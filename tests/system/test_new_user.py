"""Getting started with the wheel and a CSV file only."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from tests.packaging.installed import build, fresh, install, requirement
from tests.support.documents import blocks
from tests.support.processes import ReservedPort, Workspace, wait_for
from tests.support.shell import bash

PAGE = "docs/getting_started.md"
ROWS = 5000


def own_file(path: Path) -> list[str]:
    """Write a CSV file, and return the names of the adults in it."""
    chance = random.Random(1)  # noqa: S311 - the same each time
    rows = [(number, f"Person {number}", chance.choice([*range(100), "NA"])) for number in range(ROWS)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "name", "age"), *rows])
    return [name for _, name, age in rows if isinstance(age, int) and age >= 18]


def test_getting_started_with_the_wheel_and_one_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    readme_asks_for = requirement("README.md", extra="[local]")
    page = [block for block in blocks() if block.page == PAGE]
    asked, folder, init, serve, connect, run, look, _ = (block.text.strip() for block in page if block.language == "sh")
    assert asked == f"pip install '{readme_asks_for}'"
    installed = install(readme_asks_for, build(tmp_path_factory.mktemp("dist")), fresh(tmp_path_factory.mktemp("env")))
    port = ReservedPort()
    with Workspace("datapipe-new-user-") as workspace:
        here = workspace.path
        foreign = ("AIRFLOW", "DATAPIPE")
        env = {name: value for name, value in installed.environment().items() if not name.startswith(foreign)}
        # What the page does not say is not there, and what it leaves to `~` can be told.
        env["HOME"] = str(here)

        bash(folder, here, env)
        adults = own_file(here / "shop" / "people.csv")
        for block in page:
            if block.file:
                (here / block.file).write_text(block.text)
        bash(init, here, env)
        # The page's port may be busy here.
        service = workspace.start("serve", ["bash", "-c", f"exec {serve} --port {port.number}"], env=env)
        ready = f"datapipe-local is ready at http://127.0.0.1:{port.number}"
        wait_for("it says so", lambda: ready in service.tail(), limit=60, watch=[service])
        assert "8484" in connect
        said = bash(f"{connect.replace('8484', str(port.number))}\n{run}", here, env)
        assert "state=success" in said.rpartition("DagRun Finished")[2]
        assert (here / "shop/airflow/airflow.db").exists()
        assert not (here / "airflow").exists()
        shown = bash(look, here, env).splitlines()
        assert shown[-1] == f"(100 of {len(adults):,} rows)"
        names = {line.partition(" | ")[2] for line in shown[2:-1]}
        assert len(names) == 100
        assert names <= set(adults)
        service.stop()
    port.release()
