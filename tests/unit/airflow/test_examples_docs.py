"""Commands and table of the docs page on the examples."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.support.documents import ROOT, blocks, pages
from tests.support.processes import ReservedPort, Workspace, wait_for
from tests.support.shell import bash, user_environment

PAGE = "docs/examples.md"
SHOP = ROOT / "example_dags" / "shop"


def test_page_lists_and_includes_each_example() -> None:
    files = sorted(SHOP.glob("*.py"))
    page = pages()[PAGE]
    ids = {re.findall(r'dag_id="(\w+)"', file.read_text())[0] for file in files}
    assert set(re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE)) == ids
    assert {f"shop/{file.name}" for file in files} <= set(re.findall(r"literalinclude\} \.\./example_dags/(\S+)", page))


@pytest.mark.slow
def test_commands_of_the_page_run_the_shop() -> None:
    init, serve, run, poll = (block.text.strip() for block in blocks() if block.page == PAGE)
    port = ReservedPort()
    with Workspace("datapipe-examples-") as workspace:
        here = workspace.path
        shutil.copytree(ROOT / "example_dags", here / "example_dags")
        # Only the environment that the page describes. The default Airflow home would be in this folder.
        env = user_environment() | {"HOME": str(here)}
        # Many processes start faster with compiled files.
        env.pop("PYTHONDONTWRITEBYTECODE", None)

        bash(init, here, env)
        # The port of the page may be in use.
        assert "8484" in run
        command = f"exec {serve} --port {port.number} --no-schedules"
        service = workspace.start("serve", ["bash", "-c", command], env=env)
        wait_for("it is ready", lambda: "is ready at" in service.tail(), limit=60, watch=[service])
        bash(run.replace("8484", str(port.number)), here, env)
        assert (here / "shop-airflow/airflow.db").exists()
        assert not (here / "airflow").exists()
        shown = bash(poll, here, env)
        service.stop()
        assert service.exit_status == 0
    port.release()
    assert sorted(re.findall(r"'(\w+)', ([\d.]+)", shown)) == [("Ada", "105.0"), ("Bob", "45.49"), ("Dan", "15.25")]
