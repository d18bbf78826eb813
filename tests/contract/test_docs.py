"""Tests of the README and the docs: examples run, and tables match the code."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import get_args

import duckdb
import httpx
import pytest
from airflow.sdk import Connection
from fastapi.routing import APIRoute
from pydantic import BaseModel

from airflow_provider_datapipe.api.endpoints import ENDPOINTS
from airflow_provider_datapipe.hooks.connection import ConnectionExtra, base_url, read_extra
from datapipe_local.common import errors
from datapipe_local.connectors.sources.files import FileOrigin
from datapipe_local.connectors.sources.formats import CsvOptions, JsonLinesOptions, ParquetOptions
from datapipe_local.seed.models import Seed
from datapipe_local.server import app
from tests.contract.seeds import page_blocks
from tests.support.documents import ROOT, Block, blocks, pages
from tests.support.local_service import LocalService
from tests.support.processes import ReservedPort, Workspace, wait_for
from tests.support.shell import bash

HERE = "contract/test_docs.py"
PAGES = "contract/test_docs_pages.py"
PACKAGING = "contract/test_packaging.py"
GROUP = "system/test_generated_group.py"
ASSETS = "unit/airflow/test_assets_docs.py"
TRANSFORMS = "contract/test_transforms_as_code.py"
INSTALL_LOCAL = "pip install 'airflow-provider-datapipe[local]'"
IMPORT = "from airflow_provider_datapipe.operators."
#: Page, language of a block or start of its first line, and its test, relative to the folder of tests.
RUN_BY = (
    ("README.md", "make demo", "system/test_demo.py::test_two_concurrent_demos_one_of_them_interrupted"),
    ("README.md", "make up", "system/test_demo.py::test_two_concurrent_demos_one_of_them_interrupted"),
    ("README.md", "datapipe-local serve", f"{HERE}::test_service_of_the_readme_starts_empty"),
    ("README.md", "pip install airflow-provider-datapipe", f"{PACKAGING}::test_provider_without_extras"),
    ("README.md", INSTALL_LOCAL, f"{PACKAGING}::test_provider_with_the_local_service"),
    ("README.md", "python", "system/test_examples.py::test_dag_of_the_readme_runs"),
    ("running", "python", f"{PAGES}::test_runs_of_every_kind"),
    ("runs", "python", "unit/airflow/test_retries.py::test_dag_of_the_runs_page_has_the_retry_policy"),
    ("changes", f"{IMPORT}elt_syncs", f"{PAGES}::test_changes_of_syncs_and_orchestrations"),
    ("changes", f"{IMPORT}orchestrations", f"{PAGES}::test_changes_of_syncs_and_orchestrations"),
    ("changes", f"{IMPORT}datapipe", f"{PAGES}::test_changes_of_syncs_and_orchestrations"),
    ("changes", f"{IMPORT}transform_folders", f"{PAGES}::test_changes_of_transforms_and_queries"),
    ("changes", f"{IMPORT}query_previews", f"{PAGES}::test_changes_of_transforms_and_queries"),
    ("changes", f"{IMPORT}reverse_etl_failed_records", f"{PAGES}::test_changes_of_reverse_etl_and_custom_reports"),
    ("changes", f"{IMPORT}custom_reports", f"{PAGES}::test_changes_of_reverse_etl_and_custom_reports"),
    ("changes", "from datetime", "system/test_bridges.py::test_dag_asks_a_user_to_authorize_a_connection"),
    ("interface_introduction", "python", f"{PAGES}::test_introduction_of_the_interface"),
    ("hook", "from airflow.sdk import DAG, task", f"{PAGES}::test_tasks_with_the_hook"),
    ("hook", "from airflow_provider_datapipe.api.endpoints", f"{PAGES}::test_coroutines_with_the_hook"),
    ("sensors", "python", "unit/airflow/test_start_from_trigger.py::test_dag_of_the_sensors_page_is_serializable"),
    ("schedules", "python", "contract/test_schedules.py::test_dag_of_the_page_pauses_runs_and_restores"),
    ("decorators", "python", "system/test_decorators.py::test_dag_of_the_decorators_page"),
    ("assets", "python", f"{ASSETS}::test_producer_and_consumer_of_the_page_share_the_asset"),
    ("notifications", "python", f"{ASSETS}::test_dag_of_the_notifications_page_notifies_the_chat"),
    ("webhook", "python", "contract/test_webhook.py::test_examples_of_the_webhook_page"),
    ("task_groups", "sh", f"{GROUP}::test_diagram_of_the_page_is_up_to_date"),
    ("task_groups", "python", f"{GROUP}::test_published_transforms_are_rebuilt_in_reference_order"),
    ("workspace", "sh", f"{PAGES}::test_commands_of_the_workspace_page"),
    ("workspace", "python", f"{PAGES}::test_tasks_of_the_workspace_page_plan_and_apply"),
    ("transforms_as_code", "sh", f"{TRANSFORMS}::test_commands_and_tasks_of_the_page"),
    ("transforms_as_code", "python", f"{TRANSFORMS}::test_commands_and_tasks_of_the_page"),
    ("examples", "sh", "unit/airflow/test_examples_docs.py::test_commands_of_the_page_run_the_shop"),
    ("local", INSTALL_LOCAL, f"{PACKAGING}::test_provider_with_the_local_service"),
    ("local", "sh", f"{HERE}::test_getting_started_page_leads_to_the_rows"),
    (
        "local",
        "import hashlib, hmac, json",
        "contract/datapipe_local/test_ingestion.py::test_the_example_of_the_documentation_is_accepted",
    ),
    ("getting_started", INSTALL_LOCAL, f"{PACKAGING}::test_provider_with_the_local_service"),
    (
        "getting_started",
        "airflow standalone",
        "system/test_getting_started.py::test_getting_started_with_the_wheel_and_one_file",
    ),
    ("getting_started", "sh", f"{HERE}::test_getting_started_page_leads_to_the_rows"),
    ("getting_started", "python", f"{HERE}::test_getting_started_page_leads_to_the_rows"),
    ("testing", "sh", f"{PAGES}::test_project_of_the_testing_page_passes_its_tests"),
    ("testing", "python", f"{PAGES}::test_project_of_the_testing_page_passes_its_tests"),
    ("local_control", "python", "contract/datapipe_local/test_control_docs.py::test_the_examples_succeed"),
)
EXPORT = "export AIRFLOW_CONN_"
TO_BE_RUN = [block for block in blocks() if block.language in ("sh", "python")]


def matches(block: Block, page: str, begin: str) -> bool:
    return block.page in (page, f"docs/{page}.md") and (
        begin == block.language or f"{block.first_line} ".startswith(f"{begin} ")
    )


def find_test(block: Block) -> str | None:
    if block.first_line.startswith(EXPORT):
        return f"{HERE}::test_shown_connections_are_valid"
    found = {begin: test for page, begin, test in RUN_BY if matches(block, page, begin)}
    return next((test for begin, test in found.items() if begin != block.language), found.get(block.language))


@pytest.mark.parametrize("block", TO_BE_RUN, ids=lambda block: f"{block.page}: {block.first_line}"[:60])
def test_each_block_has_a_test(block: Block) -> None:
    test = find_test(block)
    assert test, "no test runs this block: add one to RUN_BY"
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / path).read_text()


def test_no_test_is_listed_for_a_missing_block() -> None:
    there = {(page, begin) for page, begin, _ in RUN_BY for block in TO_BE_RUN if matches(block, page, begin)}
    assert there == {(page, begin) for page, begin, _ in RUN_BY}


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("demo", "-m tests.system.demo\n"),
        ("up", "-m tests.system.demo --keep\n"),
        ("test-fast", "-m pytest tests/unit -m fast -n 3 --dist loadfile --no-loadscope-reorder\n"),
        ("test", '-m pytest tests/contract tests/unit -m "fast or medium" -n 3 --dist loadfile'),
        ("test", '-m pytest tests/system -m "fast or medium"\n'),
        ("test-slow", '-m pytest tests/contract tests/unit -m "slow or property" --hypothesis-profile=large -n 3'),
        ("test-slow", "-m pytest tests/system -m slow -n 2 --dist loadfile --no-loadscope-reorder\n"),
        ("latency", ".venv-celery/bin/python -m tests.system.latency"),
        ("distributed", ".venv-celery/bin/python -m tests.system.distributed"),
        ("soak", ".venv-celery/bin/python -m tests.system.distributed.soak --hours 2"),
        ("dist", ".venv/bin/uv build --quiet --out-dir dist\n.venv/bin/python -m twine check --strict dist/*\n"),
    ],
)
def test_commands_of_make_targets(target: str, command: str) -> None:
    # If make runs these tests, the inner make must not inherit its options.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    output = bash(f"make --no-print-directory --dry-run {target}", ROOT, env)
    assert f"{output}\n".count(command) == 1


@pytest.mark.parametrize("block", [block for block in TO_BE_RUN if block.first_line.startswith(EXPORT)])
def test_shown_connections_are_valid(block: Block, tmp_path: Path) -> None:
    (tmp_path / "shop" / "home").mkdir(parents=True)
    (tmp_path / "shop" / "home" / "api_key").write_text("KEY\n")
    show = f"{sys.executable} -c 'import os; print(os.environ[\"AIRFLOW_CONN_DATAPIPE_DEFAULT\"])'"
    output = bash(f"{block.text}\n{show}", tmp_path, os.environ)
    connection = Connection.from_json(output)
    assert connection.conn_type == "datapipe"
    assert base_url(connection) in ("https://api.example.com", "http://127.0.0.1:8484")
    assert connection.password == "KEY"
    assert json.loads(output).get("extra", {}).items() <= read_extra(connection, ConnectionExtra).model_dump().items()


def test_service_of_the_readme_starts_empty() -> None:
    (serve,) = (each for each in TO_BE_RUN if matches(each, "README.md", "datapipe-local serve"))
    with Workspace("datapipe-readme-") as workspace:
        env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        # The default port may be in use.
        service = workspace.start("serve", ["bash", "-c", f"exec {serve.text.strip()} --port 0"], env=env)
        wait_for("it is ready", lambda: "is ready at" in service.tail(), limit=60, watch=[service])
        assert (workspace.path / "shop/home/api_key").read_text().strip()


@pytest.mark.slow
def test_getting_started_page_leads_to_the_rows() -> None:
    page = page_blocks("getting_started.md")
    install, folder, init, serve, export, run, poll, _ = (
        block.text.strip() for block in page if block.language == "sh"
    )
    assert install.startswith("pip install")
    assert "8484" in export
    port = ReservedPort()
    with Workspace("datapipe-docs-") as workspace:
        here = workspace.path
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATAPIPE"))}
        # Only the environment that the page describes. The default Airflow home would be in this folder.
        env["HOME"] = str(here)
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        # Many processes start faster with compiled files.
        env.pop("PYTHONDONTWRITEBYTECODE", None)

        bash(folder, here, env)
        for block in page:
            if block.file:
                (here / block.file).write_text(block.text)
        bash(init, here, env)
        # The port of the page may be in use.
        command = f"exec {serve} --port {port.number}"
        service = workspace.start("serve", ["bash", "-c", command], env=env)
        ready = f"datapipe-local is ready at http://127.0.0.1:{port.number}"
        assert f"`{ready}`".replace(str(port.number), "8484") in pages()["docs/getting_started.md"]
        wait_for("it says so", lambda: ready in service.tail(), limit=60, watch=[service])
        output = bash(f"{export.replace('8484', str(port.number))}\n{run} 2>&1", here, env)
        assert "state=success" in output, output[-3000:]
        assert (here / "shop/airflow/airflow.db").exists()
        assert not (here / "airflow").exists()
        (shown,) = [block.text for block in page if block.language == "text"]
        assert bash(poll, here, env) == shown
        check_queries_of_the_local_service(here, env)
        service.stop()
        assert service.exit_status == 0
        assert bash(poll, here, env) == shown
        check_queries_of_the_local_service(here, env)
        assert "shop/home/warehouse.duckdb" in pages()["docs/local.md"]
        file = here / "shop/home/warehouse.duckdb"
        rows = duckdb.connect(str(file), read_only=True).execute("SELECT name FROM shop.people ORDER BY id").fetchall()
        assert rows == [("Ada",), ("Bob",), ("Cyd",)]
    port.release()


def check_queries_of_the_local_service(folder: Path, env: Mapping[str, str]) -> None:
    """Run the queries of docs/local.md over the home of docs/getting_started.md."""
    (queries,) = [
        block.text for block in page_blocks("local.md") if block.first_line.startswith("datapipe-local query")
    ]
    (table,) = re.findall(r"```text\n(.*?)```", pages()["docs/local.md"], re.DOTALL)
    assert bash(queries, folder, env) == f"{table}name\nAda\n"


def test_extras_of_the_readme_are_complete() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    install = pages()["README.md"].partition("## Install")[2].partition("\n## ")[0]
    # The other two extras are for contributors.
    assert set(re.findall(r"^\| `(\w+)` \|", install, re.MULTILINE)) == extras.keys() - {"dev", "docs"}


def test_default_port_is_that_of_the_page(tmp_path: Path) -> None:
    with socket.socket() as probe:
        # The port is in use, either by this socket or by another process.
        with suppress(OSError):
            probe.bind(("127.0.0.1", 8484))
            probe.listen()
        command = [sys.executable, "-m", "datapipe_local"]
        home = ["--home", str(tmp_path / "home")]
        subprocess.run([*command, "init", *home], check=True, capture_output=True)  # noqa: S603 - command of this project
        refused = subprocess.run([*command, "serve", *home], check=False, capture_output=True, text=True, timeout=30)  # noqa: S603 - command of this project
    assert "Port 8484 of 127.0.0.1 is in use" in refused.stderr


def seed_fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        models = [kind for kind in inner if issubclass(kind, BaseModel)]
        is_list = str(field.annotation).startswith("list[")
        yield f"{prefix}{name}"
        for kind in models:
            yield from seed_fields(kind, f"{prefix}{name}{'[]' if is_list else ''}.")
    if model.model_config.get("extra") == "allow":
        yield f"{prefix}*"


def test_table_of_seed_fields_is_complete() -> None:
    table = pages()["docs/local.md"].partition("## The seed")[2].partition("### Sources")[0]
    reported = re.findall(r"^\| `(\S+)` \|", table, re.MULTILINE)
    assert sorted(reported) == sorted(seed_fields(Seed))


@pytest.mark.parametrize("model", [CsvOptions, JsonLinesOptions, ParquetOptions, FileOrigin])
def test_options_of_source_files_are_documented(model: type[BaseModel]) -> None:
    sources = pages()["docs/local.md"].partition("### Sources")[2].partition("### Destinations")[0]
    assert {name for name in model.model_fields if f"`{name}`" not in sources} == set()


def test_missing_endpoints_are_listed() -> None:
    def shape(method: str, path: str) -> tuple[str, str]:
        return method, re.sub(r"\{\w+\}", "{}", path)

    routes = [route for route in app.interface_routes() if isinstance(route, APIRoute)]
    there = {shape(method, route.path) for route in routes for method in route.methods}
    section = pages()["docs/differences.md"].partition("## Not implemented")[2].partition("| Not implemented")[0]
    missing = {name for name, one in ENDPOINTS.items() if shape(one.method, one.path) not in there}
    assert set(re.findall(r"`(\w+\.\w+)`", section)) == missing
    with LocalService() as service, httpx.Client(base_url=service.base_url, headers=service.headers) as client:
        for name in missing:
            endpoint = ENDPOINTS[name]
            path = re.sub(r"\{\w+\}", "x", endpoint.path)
            is_list_below = endpoint.method == "GET" and path.startswith("/reverse_etl_syncs/")
            answer = client.request(endpoint.method, path, params={"connection_id": "x"} if is_list_below else None)
            assert answer.status_code in ((400,) if is_list_below else (404, 405)), name
            assert answer.json().keys() == {"error_code", "message"}


def test_error_codes_are_listed() -> None:
    source = Path(errors.__file__).parents[1]
    code = re.compile(r'(?:error_code|default_code) ?= ?"(\w+)"')
    # The control plane is not part of the interface.
    files = [file for file in source.rglob("*.py") if file.parent.name != "control"]
    used = {found for file in files for found in code.findall(file.read_text())}
    (row,) = re.findall(r"^\| The values of `error_code`: (.*?)\. \|", pages()["docs/differences.md"], re.MULTILINE)
    # The framework responds to a wrong method with this code.
    assert set(re.findall(r"`(\w+)`", row)) == used | {"method_not_allowed"}


def test_each_difference_has_a_source() -> None:
    rows = re.findall(r"^\| (.*) \|$", pages()["docs/differences.md"].partition("## The seed")[0], re.MULTILINE)
    reported = [row.rsplit(" | ", 1)[-1] for row in rows if not row.startswith(("Behavior", "Not implemented"))]
    assert len(reported) > 60
    assert [source for source in reported if not re.search("documented|observed|guessed", source)] == []
