"""Tests of the command ``datapipe`` with the local service: snapshots and graphs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_datapipe.cli.program import main
from airflow_provider_datapipe.pipelines.snapshot import Node, Snapshot, node_id, parse
from tests.contract.seeds import FILES, NIGHTLY, Json, elt_sync, reverse_etl_sync, send, transform
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

SECRET = "a-secret-of-the-settings"
COMMAND = [sys.executable, "-m", "airflow_provider_datapipe.cli"]

#: Expected dependencies. Comments and streams of other schemas add none.
EDGES = {
    "transform:staged": ["stream:shop.orders", "stream:shop.people"],
    "transform:parts": ["stream:shop.orders"],
    "transform:paid": ["transform:staged"],
    "transform:top": ["transform:paid", "transform:parts"],
    "transform:planned": ["stream:shop.people", "transform:top"],
    "reverse_etl:from_model": ["transform:paid"],
    "reverse_etl:from_raw": ["stream:shop.people"],
}
ORDER = '{"person": 1, "sum": 10, "items": [{"id": 1, "price": 3}]}\n'
SOURCES = {"people.csv": "id,name\n1,Ada\n2,Bob\n", "orders.jsonl": ORDER}
PEOPLE = {"id": "shop.people", "name": "people", "file": "people.csv"}
ORDERS = {"id": "shop.orders", "name": "orders", "file": "orders.jsonl", "format": "jsonl"}
STAGED = """
SELECT people.id, sum FROM {{raw.shop.people}} AS people JOIN {{raw.shop.orders}} ON person = id -- {{raw.other.people}}
"""
TOP = "SELECT paid.id FROM {{model.marts.paid}} AS paid, {{model.parts}}"
DATABASE = {"url": f"postgresql://shop:{SECRET}@127.0.0.1:9/shop"}
SEED: Json = {
    "connections": [
        FILES,
        {"id": "out", "integration_id": "http", "label": "Partner", "settings": {"url": "http://127.0.0.1:9"}},
        {"id": "database", "integration_id": "sql", "label": "Database", "settings": DATABASE},
    ],
    "orchestrations": [NIGHTLY],
    "elt_syncs": [
        elt_sync("shop", sync_interval=None, orchestration_workflow_id="nightly", source_streams=[PEOPLE, ORDERS]),
        # Another sync has a stream with the same name in another schema.
        elt_sync("off", destination_schema_name="other", enabled=False, source_streams=[PEOPLE | {"id": "off.people"}]),
    ],
    "transforms": [
        transform("staged", STAGED, folder_path="staging/eu", publish=False),
        transform("parts", "SELECT * FROM {{raw.shop.orders__items}}", publish=False),
        transform("paid", "SELECT id FROM {{model.staging.eu.staged}}", folder_path="marts", publish=False),
        transform("top", TOP, documentation="Who has paid — the most", publish=False),
        transform("planned", "FROM {{model.top}}, {{raw.shop.people}}, {{raw.gone.table}}", publish=False),
    ],
}
#: Added after the runs, because they require the tables.
LATER = [reverse_etl_sync("from_model", "paid"), reverse_etl_sync("from_raw", "raw.shop.people")]


@pytest.fixture(scope="module")
def service(running: LocalService) -> LocalService:
    """Run the streams, and publish all transforms but one."""
    for stream in ("shop.people", "shop.orders"):
        url = send(running, "POST", f"/elt_streams/{stream}/request_run")["status_url"]

        def is_finished(url: str = url) -> bool:
            return any(run.get("finished_at") for run in send(running, "GET", url)["data"])

        wait_for(f"the run of {stream}", is_finished, limit=60, interval=0.02)
    for name in ("staged", "parts", "paid", "top"):
        send(running, "POST", f"/transforms/{name}/publish")
    send(running, "POST", "/_local/seed", json={"reverse_etl_syncs": LATER})
    return running


def environment(service: LocalService, **more: str) -> dict[str, str]:
    """Return the environment of a user with the key and a connection of the service."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATAPIPE"))}
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    return {**clean, "DATAPIPE_API_KEY": service.api_key, "AIRFLOW_CONN_SHOP": json.dumps(connection), **more}


def process(
    service: LocalService,
    *arguments: str | Path,
    command: list[str] = COMMAND,
    stdout: Any = subprocess.PIPE,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, for tests of its output and its imports."""
    line, env = [*command, *map(str, arguments)], environment(service, **more)
    return subprocess.run(line, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=180, check=False)  # noqa: S603 - our own program


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(service: LocalService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command in this process."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        for name, value in environment(service, **variables).items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        try:
            status = main([*map(str, arguments)])
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        output = capsys.readouterr()
        return subprocess.CompletedProcess([*map(str, arguments)], status, output.out, output.err)

    return run


@pytest.fixture
def take(run: Run, service: LocalService) -> Run:
    """Return a function that takes a snapshot of the service."""
    return lambda *options: run("snapshot", "--base-url", service.base_url, *options)


@pytest.fixture(scope="module")
def file(service: LocalService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("taken") / "pipelines.json"
    done = process(service, "snapshot", "--base-url", service.base_url, "--output", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return file


@pytest.fixture
def faults(service: LocalService) -> Iterator[Callable[..., None]]:
    """Return a function that injects faults until the end of the test."""
    yield service.faults
    service.faults([])


def test_snapshot_contains_dependencies(file: Path) -> None:
    nodes = parse(file.read_text(encoding="utf-8")).nodes
    assert {key: list(node.depends_on) for key, node in nodes.items() if node.depends_on} == EDGES
    unresolved = {key: node.unresolved for key, node in nodes.items() if node.unresolved}
    assert unresolved == {"transform:planned": ("raw.gone.table",)}
    assert {key for key, node in nodes.items() if node.draft_depends_on is not None} == set()


def test_snapshot_contains_node_properties(file: Path) -> None:
    nodes = parse(file.read_text(encoding="utf-8")).nodes
    other_nodes = [key for key, node in nodes.items() if node.kind in ("sync", "orchestration")]
    assert other_nodes == ["orchestration:nightly", "sync:off", "sync:shop"]
    assert nodes["orchestration:nightly"].name == "Nightly"
    assert nodes["sync:shop"].orchestration == "orchestration:nightly"
    inactive = {key: node.status for key, node in nodes.items() if node.status in ("disabled", "draft")}
    assert inactive == {"sync:off": "disabled", "stream:off.people": "disabled", "transform:planned": "draft"}
    assert {node.title for node in nodes.values() if node.kind in ("stream", "transform", "reverse_etl")} == {
        *("shop.people", "shop.orders", "other.people"),
        *("staging/eu/staged", "marts/paid", "parts", "top", "planned"),
        *("paid_to_http", "people_to_http"),
    }
    assert nodes["transform:top"].documentation == "Who has paid — the most"
    assert (nodes["transform:top"].materialization, nodes["stream:off.people"].sync) == ("view", "sync:off")


def test_snapshot_matches_its_schema_and_has_no_secrets(service: LocalService, file: Path) -> None:
    schema = files("airflow_provider_datapipe.pipelines").joinpath("snapshot.schema.json").read_text()
    text = file.read_text(encoding="utf-8")
    jsonschema.validate(json.loads(text), json.loads(schema))
    for secret in (service.api_key, SECRET, "SELECT"):
        assert secret not in text


def test_snapshot_is_the_same_by_connection_and_by_url(run: Run, take: Run, service: LocalService, file: Path) -> None:
    by_connection = run("snapshot", "--connection", "shop", "--quiet")
    assert by_connection.stdout == file.read_text(encoding="utf-8")
    again = take("--output", "-")
    assert again.stdout == by_connection.stdout
    for done in (again, by_connection):
        assert done.returncode == 0
        assert service.api_key not in done.stderr
    # With --quiet, only warnings are printed.
    (warning,) = by_connection.stderr.splitlines()
    assert "transform:planned (planned) refers to unknown streams or transforms" in warning
    assert "raw.gone.table" in warning


def test_progress_has_one_line_per_endpoint(take: Run) -> None:
    reported = take("--output", "-").stderr
    assert "orchestrations.list: 1 request\nelt_syncs.list: 1 request\n" in reported
    assert "transforms.versions: 4 requests\n" in reported
    assert reported.endswith("1 orchestration, 2 reverse_etl, 3 stream, 2 sync, 5 transform -> standard output\n")


def test_progress_on_a_terminal_updates_one_line(service: LocalService) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "snapshot", "--base-url", service.base_url]
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": theirs}
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen(command, env=environment(service), **streams) as process,  # noqa: S603 - our own program
    ):
        os.close(theirs)
        seen = b""
        # A closed pseudo-terminal raises this error.
        with suppress(OSError):
            while piece := screen.read(4096):
                seen += piece
        assert process.wait(60) == 0
    first = seen.decode().split("\n")[0]
    assert first.count("\r\x1b[K") > 5
    assert "\r\x1b[Ktransforms.versions: 3 requests\r\x1b[Ktransforms.versions: 4 requests\r\x1b[K" in first


def test_published_sql_is_used_despite_many_later_drafts(take: Run, file: Path, service: LocalService) -> None:
    before = "SELECT id FROM {{model.staging.eu.staged}}"
    try:
        for number in range(12):
            sql = f"FROM {{{{raw.shop.people}}}} WHERE id > {number}"
            send(service, "PATCH", "/transforms/paid", json={"sql_template": sql})
        nodes = parse(take("--sql").stdout).nodes
        paid = nodes["transform:paid"]
        assert paid.depends_on == ("transform:staged",)
        assert paid.draft_depends_on == ("stream:shop.people",)
        assert (paid.sql, nodes["stream:shop.people"].sql) == (before, "")

        checked = take("--output", file, "--check")
        assert checked.returncode == 3
        assert '+      "draft_depends_on": [' in checked.stdout
        assert "+++ the service" in checked.stdout
    finally:
        send(service, "PATCH", "/transforms/paid", json={"sql_template": before, "publish": True})
    checked = take("--output", file, "--check")
    assert (checked.returncode, checked.stdout) == (0, "")


def test_snapshot_omits_versions_and_streams_it_cannot_read(faults: Callable[..., None], take: Run) -> None:
    gone = {"error_code": "not_found", "message": "It was deleted."}
    faults(
        [
            {"path": "/transforms/*/versions", "resource_id": "paid", "status": 404, "body": gone},
            # The source is unavailable.
            {"path": "/elt_syncs/*/available_source_streams", "status": 400, "body": gone, "times": "always"},
        ]
    )
    nodes = parse(take("--quiet").stdout).nodes
    assert nodes["transform:paid"].depends_on == ("transform:staged",)
    assert nodes["transform:parts"].unresolved == ("raw.shop.orders__items",)


def test_failed_snapshot_leaves_the_file_unchanged(faults: Callable[..., None], take: Run, tmp_path: Path) -> None:
    path = tmp_path / "pipelines.json"
    path.write_text("old")
    refusal = {"error_code": "forbidden", "message": "Not for you."}
    faults([{"path": "/transforms/*/versions", "skip": 2, "status": 403, "body": refusal}])
    done = take("--output", path)
    assert done.returncode == 1
    assert "403" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_replaced_atomically_and_keeps_its_mode(take: Run, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "pipelines.json"
    path.write_text("old")
    path.chmod(0o640)
    with path.open() as reader:
        assert take("--output", path).returncode == 0
        # An open file still has the old content.
        assert reader.read() == "old"
    assert path.read_text() == file.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["--base-url", "URL"], {"DATAPIPE_API_KEY": ""}, "DATAPIPE_API_KEY does not contain an API key"),
        (["--base-url", "URL", "--api-key-env", "NOPE"], {}, "NOPE does not contain an API key"),
        (["--base-url", "URL"], {"DATAPIPE_API_KEY": "wrong"}, "Check the API key."),
        (["--base-url", "http://example.com"], {}, "Plain http to example.com"),
        (["--connection", "nope"], {}, "Airflow has no connection nope"),
        (["--base-url", "URL", "--output", "no/such/folder/p.json"], {}, "no/such/folder/p.json can't be written"),
        (["--base-url", "URL", "--check", "--output", "no.json"], {}, "no.json can't be read"),
    ],
)
def test_errors_are_reported_in_one_line(
    service: LocalService, run: Run, arguments: list[str], variables: dict[str, str], message: str
) -> None:
    given = [service.base_url if each == "URL" else each for each in arguments]
    done = run("snapshot", "--quiet", *given, **variables)
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert service.api_key not in done.stderr
    assert done.stdout == ""


def test_invalid_command_line_exits_with_status_2(service: LocalService, run: Run) -> None:
    deploy = ["deploy", "--base-url", service.base_url, "--transforms", "models"]
    invalid = (["--timeout", "nan"], ["--timeout", "-1"], ["--poll-interval", "0"], ["--poll-interval", "inf"])
    apply = ["apply", "--base-url", service.base_url, "--workspace", "w.yaml"]
    more = [*([*deploy, *each] for each in invalid), *([*apply, "--wait-for-run", each] for each in ("-4", "1.5"))]
    for arguments in (["snapshots"], ["graph", "--selected", "x"], [], *more):
        assert run(*arguments).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["snapshot"], "set either --connection or --base-url"),
        (["snapshot", "--connection", "shop", "--base-url", "URL"], "set either --connection or --base-url"),
        (["snapshot", "--base-url", "URL", "--check"], "--check requires --output"),
        (["apply", "--workspace", "w.yaml"], "set either --connection or --base-url"),
        (["deploy", "--transforms", "models"], "set either --connection or --base-url"),
        (["plan", "--base-url", "URL"], "no files are set: use --workspace, --transforms, or both"),
        (["pull", "--base-url", "URL"], "no files are set: use --workspace, --transforms, or both"),
    ],
)
def test_missing_and_contradictory_options_have_status_2(
    service: LocalService, run: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/a.sql").write_text("SELECT 1")
    (tmp_path / "w.yaml").write_text("orchestrations: []")
    paths = {"URL": service.base_url, "models": str(tmp_path / "models"), "w.yaml": str(tmp_path / "w.yaml")}
    done = run(*(paths.get(each, each) for each in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"datapipe {arguments[0]}: {message}")
    assert service.api_key not in done.stderr


def test_graph_lists_nodes_and_dependencies(run: Run, file: Path) -> None:
    whole = run("graph", "--snapshot", file)
    assert whole.returncode == 0
    assert "transform    staging/eu/staged  <- shop.orders, shop.people\n" in whole.stdout
    assert whole.stdout.splitlines()[0] == "stream       other.people"
    part = run("graph", "--snapshot", file, "--select", "+paid", "--select", "top", "--exclude", "staged")
    assert part.stdout.splitlines() == [
        "stream     shop.orders",
        "stream     shop.people",
        "transform  marts/paid  <- shop.orders, shop.people",
        # Includes dependencies through omitted nodes.
        "transform  top  <- marts/paid, shop.orders",
    ]


def test_graph_as_mermaid_diagram(run: Run, file: Path) -> None:
    drawn = run("graph", "--snapshot", file, "--mermaid", "--select", "+paid+").stdout
    assert drawn.startswith("flowchart LR\n")
    assert 'subgraph g1["shop"]\n    n0[("orders")]:::stream\n    n1[("people")]:::stream\n  end\n' in drawn
    assert drawn.count(" --> ") == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "padi"], "there is no node 'padi' in"),
        (["--snapshot", "gone.json"], "There is no snapshot gone.json: create it with"),
    ],
)
def test_graph_errors_are_reported(run: Run, file: Path, arguments: list[str], message: str) -> None:
    done = run("graph", "--snapshot", file, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("datapipe graph: ")
    assert message in done.stderr


def test_closed_pipe_ends_the_command_without_error(service: LocalService, file: Path) -> None:
    command = [*COMMAND, "graph", "--snapshot", str(file)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(service), **pipes) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


def odd_snapshot(folder: Path) -> Path:
    """Write a snapshot with names that some terminals cannot show."""
    names = ("é", "😀", "\ud800", "\x1b[2J")
    nodes = [Node(node_id("stream", name), "stream", name, name, sync="sync:s") for name in names]
    file = folder / "odd.json"
    text = Snapshot([*nodes, Node("sync:s", "sync", "s", "s")]).as_text()
    file.write_bytes(text.replace("\ud800", "\\ud800").encode())
    return file


def test_unsupported_characters_are_escaped(service: LocalService, run: Run, tmp_path: Path) -> None:
    file = odd_snapshot(tmp_path)
    shown = process(service, "graph", "--snapshot", file, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    names = [line.split()[1] for line in shown.stdout.splitlines()]
    assert names == [r"\x1b[2J", r"\u00e9", r"\ud800", r"\ud83d\ude00"]
    assert process(service, "graph", "--snapshot", file).stdout.splitlines()[3] == "stream  😀"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_output_is_valid_in_every_encoding(service: LocalService, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.sql").write_text("SELECT 'é😀' AS x")
    options = ["--base-url", service.base_url, "--quiet", "--transforms", str(tmp_path), "--format", "json"]
    out = tmp_path / "out"
    with out.open("wb") as stdout:
        done = process(service, "plan", *options, stdout=stdout, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (3, "")
    (item,) = (each for each in json.loads(out.read_text(encoding))["items"] if each["name"] == "a")
    assert item["diff"][-1] == "+SELECT 'é😀' AS x"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_full_output_device_is_reported(service: LocalService) -> None:
    with Path("/dev/full").open("w") as full:
        done = process(service, "schema", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "datapipe schema: the output can't be written: No space left on device.\n"


@pytest.mark.parametrize(("closed", "other"), [(1, "stderr"), (2, "stdout")])
def test_closed_output_stream_is_ignored(service: LocalService, tmp_path: Path, closed: int, other: str) -> None:
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", *COMMAND, "graph", "--snapshot"]
    for snapshot, status in ((odd_snapshot(tmp_path), 0), ("gone.json", 1)):
        done = process(service, snapshot, command=shell)
        assert done.returncode == status
        assert "Traceback" not in getattr(done, other)
        assert ("There is no snapshot" in done.stderr) == (closed == 1 and status == 1)
        assert "There is no snapshot" not in done.stdout


def test_commands_do_not_import_airflow(service: LocalService, file: Path) -> None:
    program = (
        "import sys\nfrom airflow_provider_datapipe.cli.program import main\n"
        f"assert main(['snapshot', '--base-url', {service.base_url!r}, '--quiet']) == 0\n"
        f"assert main(['graph', '--snapshot', {str(file)!r}]) == 0\n"
        "assert 'airflow' not in sys.modules\n"
    )
    done = process(service, command=[sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@since("3.2", "commands of providers")
def test_airflow_command_with_a_stored_connection(service: LocalService, file: Path, tmp_path: Path) -> None:
    home = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    home |= {"AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}

    def airflow(*arguments: str) -> subprocess.CompletedProcess[str]:
        return process(service, *arguments, command=[str(Path(sys.executable).with_name("airflow"))], **home)

    connection = environment(service)["AIRFLOW_CONN_SHOP"]
    assert airflow("db", "migrate").returncode == 0
    assert airflow("connections", "add", "stored", "--conn-json", connection).returncode == 0
    path = tmp_path / "pipelines.json"
    done = airflow("datapipe", "snapshot", "--connection", "stored", "--output", str(path))
    assert done.returncode == 0, done.stderr
    assert path.read_text() == file.read_text()
    refused = airflow("datapipe", "graph", "--snapshot", str(path), "--select", "padi")
    assert refused.returncode == 1
    assert "there is no node 'padi'" in refused.stderr
