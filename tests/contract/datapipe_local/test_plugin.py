"""Tests of the pytest plugin: its fixture, and its import cost for other tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from datapipe_local.errors import SetupError
from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.client import RefusedError
from datapipe_local.testing.process import ServiceError, ServiceProcess
from tests.support.process_table import alive
from tests.support.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.slow


HERE = Path(__file__).parent
SHOP = """
connections:
  - {id: files, integration_id: files, label: Files, settings: {path: "."}}
elt_syncs:
  - id: shop
    connection_id: files
    destination_schema_name: shop
    source_streams:
      - {id: people, name: people, file: people.csv, options: {nullstr: NA}}
"""
DEEP = """reverse_etl_syncs:
- source_id: x
  destination_connection_id: y
  object_type_id: z
  operation:
    mode: upsert
    mappings:
    - source_property_id: a
      destination_property_id: [b]
"""
NIGHTLY = {"orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}]}
PEOPLE = "id,name,age\n1,Ada,36\n2,Bob,NA\n"
TWO_TESTS = """
import json, os
import pytest

SHOP = {shop!r}
pytestmark = pytest.mark.datapipe_local({{"orchestrations": [
    {{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}}]}})

def ids(service, path):
    return [one["id"] for one in service.api.get(path).json()["data"]]

@pytest.mark.datapipe_local(SHOP)
def test_one(datapipe_local):
    assert ids(datapipe_local, "/orchestrations") == ["nightly"]
    assert ids(datapipe_local, "/elt_streams") == ["people"]
    datapipe_local.faults({{"path": "/connections", "status": 503, "times": "always"}})
    datapipe_local.api.post("/elt_streams/people/request_run").raise_for_status()
    datapipe_local.journal.wait_for_runs("people")
    assert datapipe_local.rows("SELECT * FROM shop.people ORDER BY id")[1] == {{"id": 2, "name": "Bob", "age": None}}
    note()

def test_two(datapipe_local):
    assert json.loads(os.environ["AIRFLOW_CONN_DATAPIPE_DEFAULT"])["host"] == datapipe_local.base_url
    assert ids(datapipe_local, "/elt_streams") == []
    assert ids(datapipe_local, "/connections") == []
    assert ids(datapipe_local, "/orchestrations") == ["nightly"]
    assert datapipe_local.journal.runs() == []
    with pytest.raises(Exception, match="no table shop.people"):
        datapipe_local.rows("SELECT * FROM shop.people")
    note()

def test_three():
    assert "AIRFLOW_CONN_DATAPIPE_DEFAULT" not in os.environ

@pytest.fixture(autouse=True)
def _note(request):
    yield

def note():
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(os.environ["AIRFLOW_CONN_DATAPIPE_DEFAULT"] + "\\n")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "test_shop.py").write_text(TWO_TESTS.format(shop=SHOP))
    return tmp_path


def environment(project: Path) -> Mapping[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "AIRFLOW_CONN"))}
    return {**env, "NOTES": str(project / "notes")}


@pytest.mark.parametrize(("options", "services"), [([], 1), (["-n", "2", "--dist", "each"], 2)], ids=["alone", "xdist"])
def test_each_test_has_what_it_asks_for(project: Path, options: list[str], services: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(project), str(project), *options]
    done = subprocess.run(  # noqa: S603 - our own program
        command, env=environment(project), cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    connections = [json.loads(line) for line in (project / "notes").read_text().splitlines()]
    assert len(connections) == 2 * services
    assert len({one["host"] for one in connections}) == services
    assert all(one["conn_type"] == "datapipe" for one in connections)


def test_the_service_dies_with_the_tests(project: Path) -> None:
    pid_file = project / "pid"
    (project / "test_shop.py").write_text(
        "import pathlib, time\n"
        "def test_it(datapipe_local, _datapipe_local_process):\n"
        f"    part = pathlib.Path({str(pid_file)!r} + '.new')\n"
        "    part.write_text(str(_datapipe_local_process.pid))\n"
        f"    part.rename({str(pid_file)!r})\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "pytest", "--rootdir", str(project), str(project)]
    with subprocess.Popen(command, env=environment(project), cwd=project, stdout=subprocess.DEVNULL) as tests:  # noqa: S603 - our own
        try:
            wait_for("the service is there", pid_file.exists, limit=60)
            pid = int(pid_file.read_text())
            assert alive(pid)
        finally:
            tests.kill()
    wait_for("the service is gone", lambda: not alive(pid), limit=15)


def test_a_file_a_text_and_a_mapping(
    datapipe_local: DatapipeLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "seed.yaml").write_text(SHOP)
    assert datapipe_local.seed(tmp_path / "seed.yaml") == {"connection": 1, "elt_sync": 1, "elt_stream": 1}
    assert datapipe_local.seed(NIGHTLY) == {"orchestration": 1}
    monkeypatch.setenv("WHERE_TO", "http://127.0.0.1:9/secret")
    text = "connections: [{id: out, integration_id: http, label: Out, settings: {url: '${WHERE_TO}'}}]"
    assert datapipe_local.seed(text) == {"connection": 1}
    assert datapipe_local.seed(tmp_path / "seed.yaml") == {}
    # Relative to the test.
    assert datapipe_local.seed(
        {
            "connections": [
                {"id": "here", "integration_id": "files", "label": "Here", "settings": {"path": "."}},
            ],
            "elt_syncs": [{"id": "here", "connection_id": "here", "destination_schema_name": "here"}],
        }
    )
    offered = datapipe_local.api.get("/elt_syncs/here/available_source_streams")
    assert offered.status_code == 200, offered.text


@pytest.mark.parametrize(
    ("seed", "line", "reason"),
    [
        ("connections:\n  - id: x\n    integration_id: files\n    label: X\n    settings: {pth: .}", 5, "pth"),
        ("elt_syncs:\n  - id: x\n    connection_id: nobody\n    destination_schema_name: x", 3, "nobody"),
        (SHOP.replace("options: {nullstr", "\n       options: {nulstr"), 10, "nulstr"),
        (DEEP, 9, "string"),
        ("transforms:\n  - name: x\n    sql_template: >\n      SELECT 1\n    materialization: tabel", 5, "table"),
        ("orchestrations:\n  - name: x\n    cron_schedule: ${NOT_SET_HERE}", 3, "NOT_SET_HERE"),
        ("connections: [", 1, "no YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    datapipe_local: DatapipeLocal, tmp_path: Path, seed: str, line: int, reason: str
) -> None:
    with pytest.raises(SetupError, match=rf"seed of the test, line {line}: .*{reason}"):
        datapipe_local.seed(seed)
    (tmp_path / "seed.yaml").write_text(seed)
    # At the command line it is the same.
    command = [sys.executable, "-m", "datapipe_local", "init", "--home", str(tmp_path / "home")]
    done = subprocess.run(  # noqa: S603 - our own program
        [*command, "--seed", str(tmp_path / "seed.yaml")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"seed.yaml, line {line}: " in done.stderr
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_mapping_that_is_wrong_is_told_where(datapipe_local: DatapipeLocal) -> None:
    with pytest.raises(RefusedError, match=r"400: orchestrations\[0\]\.cron_schedule: "):
        datapipe_local.seed({"orchestrations": [{"name": "x", "cron_schedule": "now and then"}]})


def test_it_is_started_again_after_its_end(datapipe_local: DatapipeLocal, request: pytest.FixtureRequest) -> None:
    process: ServiceProcess = request.getfixturevalue("_datapipe_local_process")
    datapipe_local.seed(NIGHTLY)
    os.kill(process.pid, signal.SIGKILL)
    wait_for("it is gone", lambda: not process.is_alive, limit=10)
    with DatapipeLocal(process, folder=HERE, setenv=lambda name, value: None) as service:
        assert service.api.get("/orchestrations").json()["data"] == []


def test_a_service_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    with ServiceProcess(tmp_path) as process, pytest.raises(ServiceError, match="Cannot create the home"):
        _ = process.base_url
    assert not process.is_alive


def test_the_key_is_nowhere(datapipe_local: DatapipeLocal, request: pytest.FixtureRequest) -> None:
    process: ServiceProcess = request.getfixturevalue("_datapipe_local_process")
    assert datapipe_local.api_key not in datapipe_local.log
    command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert datapipe_local.api_key.encode() not in command


def test_the_plugin_imports_nothing() -> None:
    program = (
        "import json, sys, pytest\nbefore = set(sys.modules)\nimport datapipe_local.testing.plugin\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert set(json.loads(done.stdout)) == {
        "datapipe_local",
        "datapipe_local.testing",
        "datapipe_local.testing.plugin",
    }
