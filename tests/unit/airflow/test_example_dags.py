"""Example DAGs of a shop: cost of parsing, content of the files, and their own tests."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.airflow_versions import older_than
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[3]
SHOP = ROOT / "example_dags" / "shop"
DAG_FILES = sorted(SHOP.glob("*.py"))
#: Data files that a DAG file may read at parsing.
READ = {"generated": ["pipelines.json"]}
HEAVY = {"httpx", "requests", "duckdb", "datapipe_local"} | {
    f"airflow_provider_datapipe.{room}" for room in ("api", "runs", "hooks", "changes", "webhook")
}
#: Parses each DAG file in a fork with Airflow loaded, like a DAG processor, and reports loaded modules and actions.
PROGRAM = """
import json, os, runpy, sys
from pathlib import Path
import airflow
from airflow.sdk import DAG, Asset, AssetWatcher, Param, task
from airflow.providers.standard.operators import hitl
from airflow.providers.standard.sensors import time_delta
from airflow.timetables import interval

for name in sys.argv[1:]:
    if not os.fork():
        break
    if os.wait()[1]:
        sys.exit(name)
else:
    sys.exit()
file = Path(name)
done = []
asks = {"socket.connect", "socket.getaddrinfo", "sqlite3.connect", "subprocess.Popen", "os.system", "os.remove"}

def record(event, arguments):
    if not parsing:
        return
    if event in asks:
        done.append([event, str(arguments[0])])
    if event == "open":
        path = Path(str(arguments[0]))
        written = set(str(arguments[1])) & set("wax+") and str(path) != "/dev/null"
        if path.is_relative_to(file.parent) or written:
            done.append([event, path.name])

parsing = True
before = set(sys.modules)
sys.addaudithook(record)
names = runpy.run_path(str(file))
parsing = False
report = [sorted(set(sys.modules) - before), done, names["dag"].dag_id, names["dag"].doc_md]
print(json.dumps([file.stem, *report]), flush=True)
"""


Parsed = dict[str, tuple[list[str], list[list[str]], str, str]]


@pytest.fixture(scope="module")
def parsed() -> Parsed:
    """Return the loaded modules and the actions of each file at parsing, and the ID and documentation of its DAG."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, *map(str, DAG_FILES)], env=env, capture_output=True, text=True, check=True
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
    return {name: (loaded, done, dag_id, text) for name, loaded, done, dag_id, text in map(json.loads, lines)}


def test_number_of_example_dags() -> None:
    assert len(DAG_FILES) == 9


@pytest.mark.parametrize("file", DAG_FILES, ids=lambda file: file.stem)
def test_parsing_makes_no_connection_and_loads_no_heavy_module(file: Path, parsed: Parsed) -> None:
    loaded, done, dag_id, documentation = parsed[file.stem]
    read = [name for event, name in done if event == "open" and name != file.name]
    assert [each for each in done if each[0] != "open"] == []
    assert read == READ.get(file.stem, [])
    assert HEAVY.isdisjoint(loaded)
    # At most two modules more than an operator loads. `tests/unit/test_imports.py` lists those modules.
    beyond_airflow = [name for name in loaded if not name.startswith(("airflow.", "pydantic."))]
    if older_than("3.2"):
        # Airflow 3.1 loads further libraries here, such as jsonschema. Only our modules count.
        beyond_airflow = [name for name in loaded if name.startswith("airflow_provider_datapipe")]
    assert len(beyond_airflow) <= 16, beyond_airflow
    assert dag_id.startswith("shop_")
    assert documentation.strip()


def test_files_contain_no_secret_and_no_absolute_path() -> None:
    files = [file for file in SHOP.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    path = r"""["'\s]/(?:home|work|tmp|opt|Users|data)/"""
    secret = r"""(?:password|api_key|secret)["']?\s*[:=]\s*["']?[^\s"'$}]"""
    unwanted = re.compile(f"{path}|{secret}", re.IGNORECASE)
    assert files
    assert [(file.name, found[0]) for file in files for found in unwanted.finditer(file.read_text())] == []


def test_snapshot_matches_the_seed(tmp_path: Path) -> None:
    crm = tmp_path / "crm.db"
    with closing(sqlite3.connect(crm)) as database:
        database.executescript((SHOP / "crm.sql").read_text())
    variables = {"SHOP_CRM": str(crm), "SHOP_WEBHOOK_SECRET": "made up"}
    with LocalService(SHOP / "seed.yaml", environment=variables) as service:
        command = ["snapshot", "--base-url", service.base_url, "--output", str(SHOP / "pipelines.json"), "--check"]
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "airflow_provider_datapipe.cli", *command],
            env={**os.environ, "DATAPIPE_API_KEY": service.api_key},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr


def test_tests_of_the_example_dags_pass() -> None:
    unwanted = ("AIRFLOW", "DATAPIPE", "PYTEST")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "example_dags/tests"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        # The tests take ten minutes on a busy machine with Airflow 3.1.
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    passed = re.findall(r"^example_dags/tests/test_shop\.py::(\w+) PASSED", done.stdout, re.MULTILINE)
    written = re.findall(r"^def (test_\w+)", (ROOT / "example_dags/tests/test_shop.py").read_text(), re.MULTILINE)
    assert passed == written
