"""Tests of the pytest plugin: its fixture, seeds, journal and assertion messages."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from datapipe_local.common.errors import SetupError
from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.client import RefusedError
from datapipe_local.testing.process import ServiceError, ServiceProcess
from tests.contract.datapipe_local.test_cli import failure
from tests.support.process_table import alive
from tests.support.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.contract.datapipe_local.partner import Partner

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
EXPORT = """
connections: [{id: out, integration_id: http, label: Out, settings: {url: "URL"}}]
transforms: [{id: ones, name: ones, publish: true, sql_template: SELECT 1 AS id}]
reverse_etl_syncs:
  - id: export
    source_id: ones
    destination_connection_id: out
    object_type_id: ones
    operation: {mode: insert, mappings: [{source_property_id: id, destination_property_id: id}]}
"""
#: An error deep in a nested value.
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


def run_tests(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(project), str(project), *options]
    return subprocess.run(  # noqa: S603 - the program of this project
        command, env=environment(project), cwd=project, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(("options", "services"), [([], 1), (["-n", "2", "--dist", "each"], 2)], ids=["alone", "xdist"])
def test_each_test_has_its_own_seed_and_rows(project: Path, options: list[str], services: int) -> None:
    done = run_tests(project, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    connections = [json.loads(line) for line in (project / "notes").read_text().splitlines()]
    assert len(connections) == 2 * services
    assert len({one["host"] for one in connections}) == services
    assert all(one["conn_type"] == "datapipe" for one in connections)


@pytest.mark.slow
def test_marker_has_no_named_arguments(project: Path) -> None:
    (project / "test_shop.py").write_text(
        "import pytest\n@pytest.mark.datapipe_local(seed={})\ndef test_it(datapipe_local): pass\n"
    )
    assert "the marker datapipe_local has no argument named seed" in run_tests(project).stdout


@pytest.mark.slow
def test_service_ends_with_a_killed_test_process(project: Path) -> None:
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
    with subprocess.Popen(command, env=environment(project), cwd=project, stdout=subprocess.DEVNULL) as tests:  # noqa: S603 - the program of this project
        try:
            wait_for("the service is there", pid_file.exists, limit=60)
            pid = int(pid_file.read_text())
            assert alive(pid)
        finally:
            tests.kill()
    wait_for("the service is gone", lambda: not alive(pid), limit=60)


@pytest.mark.slow
def test_seed_is_a_file_a_text_or_a_mapping(
    datapipe_local: DatapipeLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seed.yaml").write_text(SHOP)
    assert datapipe_local.seed(tmp_path / "seed.yaml") == {"connection": 1, "elt_sync": 1, "elt_stream": 1}
    assert datapipe_local.seed(NIGHTLY) == {"orchestration": 1}
    monkeypatch.setenv("WHERE_TO", "http://127.0.0.1:9/secret")
    text = "connections: [{id: out, integration_id: http, label: Out, settings: {url: '${WHERE_TO}'}}]"
    assert datapipe_local.seed(text) == {"connection": 1}
    assert datapipe_local.seed(tmp_path / "seed.yaml") == {}
    # The paths of a mapping are relative to the test.
    here = {"id": "here", "integration_id": "files", "label": "Here", "settings": {"path": "."}}
    sync = {"id": "here", "connection_id": "here", "destination_schema_name": "here"}
    assert datapipe_local.seed({"connections": [here], "elt_syncs": [sync]})
    offered = datapipe_local.api.get("/elt_syncs/here/available_source_streams")
    assert offered.status_code == 200, offered.text
    with pytest.raises(RefusedError, match=r"400: orchestrations\[0\]\.cron_schedule: "):
        datapipe_local.seed({"orchestrations": [{"name": "x", "cron_schedule": "now and then"}]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "line", "reason"),
    [
        ("connections:\n  - id: x\n    integration_id: files\n    label: X\n    settings: {pth: .}", 5, "pth"),
        ("elt_syncs:\n  - id: x\n    connection_id: nobody\n    destination_schema_name: x", 3, "nobody"),
        (SHOP.replace("options: {nullstr", "\n       options: {nulstr"), 10, "nulstr"),
        (DEEP, 9, "string"),
        ("transforms:\n  - name: x\n    sql_template: >\n      SELECT 1\n    materialization: tabel", 5, "table"),
        ("orchestrations:\n  - name: x\n    cron_schedule: ${NOT_SET_HERE}", 3, "NOT_SET_HERE"),
        ("connections: [", 1, "not valid YAML"),
    ],
)
def test_errors_of_a_seed_name_the_line(
    datapipe_local: DatapipeLocal, tmp_path: Path, seed: str, line: int, reason: str
) -> None:
    with pytest.raises(SetupError, match=rf"seed of the test, line {line}: .*{reason}"):
        datapipe_local.seed(seed)
    (tmp_path / "seed.yaml").write_text(seed)
    message = failure("init", "--home", tmp_path / "home", "--seed", tmp_path / "seed.yaml")
    assert f"seed.yaml, line {line}: " in message
    assert reason in message


@pytest.mark.slow
def test_reset_waits_for_a_slow_destination(
    datapipe_local: DatapipeLocal, partner: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def slow(_: Any) -> tuple[int, dict[str, Any]]:
        released.wait(60)
        return 200, {}

    reset = datapipe_local.control.reset

    def until_refused(**options: Any) -> None:
        try:
            reset(**options)
        except RefusedError:
            released.set()
            raise

    partner.reset()
    partner.rule = slow
    datapipe_local.seed(EXPORT.replace("URL", partner.url))
    request_run(datapipe_local, "reverse_etl_syncs/export")
    wait_for("a record was received", lambda: bool(partner.received), limit=60)
    monkeypatch.setattr(datapipe_local.control, "reset", until_refused)
    datapipe_local.reset()
    assert released.is_set()
    assert datapipe_local.api.get("/connections").json()["data"] == []
    partner.reset()


@pytest.mark.slow
def test_killed_service_starts_again(datapipe_local: DatapipeLocal, request: pytest.FixtureRequest) -> None:
    process: ServiceProcess = request.getfixturevalue("_datapipe_local_process")
    datapipe_local.seed(NIGHTLY)
    os.kill(process.pid, signal.SIGKILL)
    wait_for("the end of the service", lambda: not process.is_alive, limit=60)
    with DatapipeLocal(process, folder=HERE, setenv=lambda name, value: None) as service:
        assert service.api.get("/orchestrations").json()["data"] == []


@pytest.mark.slow
def test_error_of_a_failed_start_contains_the_log(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    with ServiceProcess(tmp_path) as process, pytest.raises(ServiceError, match="Cannot create the home"):
        _ = process.base_url
    assert not process.is_alive


@pytest.mark.slow
def test_key_is_neither_logged_nor_an_argument(datapipe_local: DatapipeLocal, request: pytest.FixtureRequest) -> None:
    process: ServiceProcess = request.getfixturevalue("_datapipe_local_process")
    assert datapipe_local.api_key not in datapipe_local.log
    command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert datapipe_local.api_key.encode() not in command


@pytest.mark.slow
def test_plugin_imports_nothing() -> None:
    program = (
        "import json, sys, pytest\nbefore = set(sys.modules)\nimport datapipe_local.testing.plugin\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - the program of this project
    own = ("datapipe_local", "datapipe_local.testing", "datapipe_local.testing.plugin")
    assert json.loads(done.stdout) == sorted(own)


def request_run(service: DatapipeLocal, path: str) -> None:
    service.api.post(f"/{path}/request_run").raise_for_status()


def test_assertions_about_requested_runs(shop: DatapipeLocal) -> None:
    request_run(shop, "elt_streams/orders")
    run = shop.journal.assert_one_run("orders")
    assert run["trigger"] == "request"
    shop.journal.wait_for_runs("orders")
    assert shop.journal.assert_one_run("orders", status="COMPLETED", trigger="request")["seq"] == run["seq"]
    assert shop.journal.assert_runs("people", 0) == []
    assert shop.journal.assert_runs("orders", 0, status="FAILED") == []
    (request,) = shop.journal.assert_requests("/elt_streams/*/request_run", method="POST")
    assert request["seq"] == run["request"]


def test_failed_assertions_list_runs_and_requests(shop: DatapipeLocal) -> None:
    shop.faults({"path": "/elt_streams/people/request_run", "status": 503})
    assert shop.api.post("/elt_streams/people/request_run").status_code == 503
    request_run(shop, "elt_streams/orders")
    shop.journal.wait_for_runs("orders")
    with pytest.raises(AssertionError) as caught:
        shop.journal.assert_one_run("people")
    time = r"[\d:.TZ-]+"
    assert re.fullmatch(
        rf"""Expected exactly 1 run of 'people', and there were none.
Runs:
  transform view: completed, by seed, requested {time}, ended {time}
  elt_stream orders: COMPLETED, by request (?P<seq>\d+), requested {time}, ended {time}
Requests:
  \d+: POST /elt_streams/people/request_run: 503 \(fault: status\)
  (?P=seq): POST /elt_streams/orders/request_run: 200""",
        str(caught.value),
    ), caught.value
    journal = shop.journal
    wrong = partial(pytest.raises, AssertionError)
    with wrong(match=r"Expected 2 runs of 'orders', trigger='request', and there was 1\.\n"):
        journal.assert_runs("orders", 2, trigger="request")
    with wrong(match=r"Expected 2 requests of '/elt_streams/\*\*', status=200, and there was 1"):
        journal.assert_requests("/elt_streams/**", 2, status=200)
    with wrong(match=r"Expected exactly 1 run of 'people' to end within 0\.1 s, and there were"):
        journal.wait_for_runs("people", timeout=0.1)
    with pytest.raises(TypeError, match="no entry of the journal has 'triggered': there are seq, kind, "):
        shop.journal.runs(triggered="request")


def test_unknown_ids_and_paths_are_errors_of_journal_assertions(shop: DatapipeLocal) -> None:
    assert shop.journal.assert_runs("people", 0) == []
    with pytest.raises(LookupError, match="No resource has the ID 'poeple'"):
        shop.journal.assert_runs("poeple", 0)
    with pytest.raises(RefusedError, match=r"'/elt_stream/\*/request_run' matches no path of the interface"):
        shop.journal.assert_requests("/elt_stream/*/request_run", 0)
    with pytest.raises(RefusedError, match="'/elt_streams/' matches no path of the interface"):
        shop.journal.assert_requests("/elt_streams/", 0)
    # Deleted resources are known.
    shop.api.delete("/transforms/view").raise_for_status()
    assert shop.journal.assert_requests("/transforms/*", method="DELETE")
    assert shop.journal.runs("view")


def test_cleared_journal_is_empty(shop: DatapipeLocal) -> None:
    request_run(shop, "elt_streams/orders")
    shop.journal.clear()
    assert shop.journal.runs() == []
    assert str(shop.journal) == "Runs: none.\nRequests: none."


def test_behavior_of_runs(shop: DatapipeLocal) -> None:
    shop.runs("orders", outcomes=[{"fail": "The source is away."}])
    shop.runs("people", minimum_duration=0.1)
    request_run(shop, "elt_streams/orders")
    (failed,) = shop.journal.wait_for_runs("orders")
    assert failed["status"] == "FAILED"
    overrides = shop.control.request("GET", "runs")
    assert overrides["resources"]["people"] == {"minimum_duration": 0.1}
    shop.runs(minimum_duration=0.2)
    overrides = shop.control.request("GET", "runs")
    assert (overrides["minimum_duration"], overrides["resources"]["people"]) == (0.2, {"minimum_duration": 0.1})
    shop.runs(scheduling_delay=0.1)
    assert "minimum_duration" not in shop.control.request("GET", "runs")


def test_behavior_of_a_resource_does_not_affect_others(shop: DatapipeLocal) -> None:
    def run_orders(count: int) -> str:
        request_run(shop, "elt_streams/orders")
        return str(shop.journal.wait_for_runs("orders", count)[-1]["status"])

    shop.runs("orders", outcomes=[{"fail": "The source is away."}], vanish=True)
    assert run_orders(1) == "FAILED"
    shop.runs("people", running_polls=2)
    request_run(shop, "elt_streams/people")
    shop.runs("nightly", minimum_duration=0.1)
    shop.runs(minimum_duration=0.1)
    assert run_orders(2) == "COMPLETED"
    assert len(shop.api.get("/elt_stream_runs?elt_stream_id=orders").json()["data"]) == 2
    # Its run still waits for polls.
    assert shop.journal.assert_one_run("people")["finished_at"] is None
