"""Tests of commands on a home: reset, status, export, and the schema of the seed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest
import yaml

from datapipe_local.seed.schema import schema
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.controlled import seed
from tests.contract.datapipe_local.seeds import connection, transform
from tests.contract.datapipe_local.test_cli import KEY, failure, run, serving
from tests.support.documents import blocks
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the test expects a refusal of this address
SECRETS = ["hush-token", "hush-password", "hush-in-the-address", "hush-behind-the-question-mark"]


def rich(data: Path) -> dict[str, Any]:
    """Return a seed with a resource of every kind."""
    wanted = seed(data, minimum_duration=0)
    wanted["runs"] = {"first_load_slice_rows": 1000}
    wanted["limits"] = {"syncs_per_connection": 3}
    tables = [{"name": "events"}]
    token = {"method": "token", "header": "X-Token", "token": SECRETS[0]}
    basic = {"method": "basic", "username": "ann", "password": SECRETS[1]}
    wanted["connections"] += [
        connection("hook", "webhook", authentication=token, tables=tables),
        connection("hook~2", "webhook", authentication=basic, tables=tables),
        connection("api", "http", url=f"http://ann:{SECRETS[2]}@localhost/x"),
        connection("api2", "http", url=f"http://h/x?k={SECRETS[3]}") | {"label": "${HOME} $${X}"},
        connection("plain", "http", url="http://localhost:1/x"),
    ]
    wanted["elt_syncs"][0] |= {
        "start_date": "2026-01-31",
        "elt_settings": {"note": "ünï"},
        "sync_interval": "5 4 * * *",
    }
    wanted["elt_syncs"][0]["source_streams"][1] |= {"excluded_columns": ["age"], "options": {"nullstr": "NA"}}
    export = wanted["reverse_etl_syncs"][0]
    wanted["reverse_etl_syncs"].append(export | {"id": "of_deleted", "source_id": "table", "object_type_id": "others"})
    wanted["custom_reports"] = [{"id": "report", "elt_sync_id": "shop", "name": "Sums", "query": "SELECT 1 AS x"}]
    wanted["transforms"] += [
        transform("of_stream", "SELECT * FROM {{raw.shop.orders}}", name="o", folder_path="a/b"),
        transform("built", "SELECT 2 AS x", documentation="Two.\nAnd more.", publish=True)
        | {"materialization": "table", "cron_expression": "0 3 * * *"},
    ]
    return wanted


@pytest.fixture
def used(data: Path) -> Any:
    """Return a stopped service with resources of every kind, runs, and changes by requests."""
    # A mapping is a seed without variables. In a file, `${...}` would be one, so escape it.
    wanted = json.loads(json.dumps(rich(data)).replace("${HOME} $${X}", "$${HOME} $$${X}"))
    with served(wanted) as (service, api):
        assert api.run_stream("orders").rows_synced == 2
        api.run_stream("people")
        api.post("/transforms/of_stream/publish", {"name": "o", "folder_path": "a/b", "materialization": "table"})
        changed = api.client.patch("/transforms/of_stream", json={"cron_expression": "0 4 * * *"})
        assert changed.status_code == 200, changed.text
        api.post("/elt_streams/people/set_sync_interval", {"sync_interval": "1 2 3 4 *"})
        # The stream of this report is sums_2.
        report = {"elt_sync_id": "shop", "name": "Sums", "query": "SELECT 2 AS x"}
        api.post("/custom_reports", {"reports": [report], "add_as_source_stream": True}, status=201)
        stream = {"name": "sums_2", "hashed_columns": ["x"], "protected_from_full_sync": True}
        api.post("/elt_syncs/shop/source_streams", {"source_streams": [stream]}, status=201)
        api.delete("/transforms/table")
        assert service.stop() == 0
        yield service


def definitions(service: LocalService) -> dict[str, Any]:
    """Return all visible definitions without times, runs and versions."""
    api = Api(service)
    lists = ("/connections", "/orchestrations", "/elt_syncs", "/transforms", "/reverse_etl_syncs")
    found = {path: api.all_pages(path) for path in lists}
    found["/elt_streams"] = [api.get(f"/elt_streams/{one['id']}") for one in api.all_pages("/elt_streams")]
    volatile = ("latest_sync", "status", "published_version_id", "latest_version_id", "version_id")

    def stable(value: dict[str, Any]) -> dict[str, Any]:
        omitted = {name for name in value if name.endswith("_at")} | {*volatile, "materialization_status"}
        return {name: entry for name, entry in value.items() if name not in omitted}

    return {path: json.loads(json.dumps(entries), object_hook=stable) for path, entries in found.items()}


def test_an_exported_seed_restores_the_definitions(used: LocalService, tmp_path: Path) -> None:
    file = tmp_path / "exported.yaml"
    done = run("export", "--home", used.home, "--seed", file)
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    assert not [secret for secret in (*SECRETS, used.api_key) if secret in text + done.stdout]
    variables = {
        "CONNECTION_HOOK_AUTHENTICATION_TOKEN": SECRETS[0],
        "CONNECTION_HOOK_2_AUTHENTICATION_PASSWORD": SECRETS[1],
        "CONNECTION_API_URL": f"http://ann:{SECRETS[2]}@localhost/x",
        "CONNECTION_API2_URL": f"http://h/x?k={SECRETS[3]}",
    }
    assert done.stdout.splitlines() == [
        f"Seed: {file}",
        f"Set these variables for init, in place of secrets: {', '.join(sorted(variables))}",
        "Exported as drafts, because their references must be loaded first: 1 published transforms",
        "Left out, because their sources were deleted: 1 reverse ETL syncs",
    ]
    assert failure("export", "--home", used.home, "--seed", file) == f"Cannot write {file}: File exists."
    assert "the environment variable CONNECTION_" in failure("init", "--home", tmp_path / "other", "--seed", file)

    used.start()
    Api(used).delete("/reverse_etl_syncs/of_deleted")
    expected = definitions(used)
    [of_report] = [one for one in expected["/elt_streams"] if one["name"] == "sums_2"]
    assert of_report["protected_from_full_sync"]
    with LocalService(file, environment=variables) as copy:
        assert definitions(copy) == expected
        assert {one["label"] for one in Api(copy).all_pages("/connections")} >= {"${HOME} $${X}", "Plain"}
        assert Api(copy).run_stream("people").rows_synced == 3
        assert Api(copy).run_stream(of_report["id"]).rows_synced == 1
        copy.stop()
        second = tmp_path / "second.yaml"
        assert run("export", "--home", copy.home, "--seed", second).returncode == 0
        assert second.read_text() == text
        with duckdb.connect(str(copy.home / "warehouse.duckdb"), read_only=True) as warehouse:
            assert warehouse.execute("SELECT x FROM shop.sums_2").fetchall() == [(hashlib.sha256(b"2").hexdigest(),)]
        with closing(sqlite3.connect(copy.home / "state.sqlite")) as state:
            settings = dict(state.execute("SELECT id, settings FROM connections").fetchall())
        assert json.loads(settings["hook"])["authentication"]["token"] == SECRETS[0]
        assert json.loads(settings["api"])["url"] == variables["CONNECTION_API_URL"]


def test_init_counts_the_custom_reports(data: Path, tmp_path: Path) -> None:
    wanted, file = seed(data), tmp_path / "seed.json"
    report = {"id": "report", "elt_sync_id": "shop", "name": "Sums", "query": "SELECT 1 AS x"}
    for reports, counted in (
        ([], "orchestration"),
        ([report], "(created or changed: 1 custom reports)"),
        ([report], "(nothing"),
    ):
        file.write_text(json.dumps(wanted | {"custom_reports": reports}))
        done = run("init", "--home", tmp_path / "home", "--seed", file)
        assert counted in done.stdout.splitlines()[-1], done.stderr


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables_are_exported(used: LocalService, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "it's" / "tables"
    done = run("export", "--home", used.home, "--tables", folder, "--table-format", form)
    assert done.returncode == 0, done.stderr
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.*") if file.is_file())
    assert {f"shop/orders.{form}", f"shop/people.{form}"} < set(files)
    assert done.stdout == f"Tables: {len(files)} files in {folder}\n"
    read = duckdb.read_parquet if form == "parquet" else duckdb.read_csv
    rows = read(str(folder / "shop" / f"people.{form}")).project("id, name").order("id")
    assert rows.fetchall() == [(1, "Ada"), (2, "Bob"), (3, "Cyd")]
    message = failure("export", "--home", used.home, "--tables", folder)
    assert message == f"{folder} is not empty: give another folder."


def test_large_integers_keep_all_digits_in_parquet(tmp_path: Path) -> None:
    sql = "SELECT sum(n)::HUGEINT AS total, max(m)::HUGEINT AS most, [sum(n)::HUGEINT] AS list, NULL::HUGEINT AS none"
    sql += f" FROM (VALUES ({2**53}, {2**127 - 1}), (1, 0)) AS numbers(n, m)"
    with LocalService({"transforms": [transform("sums", sql, folder_path="marts", publish=True)]}) as service:
        service.stop()
        folder = tmp_path / "tables"
        assert run("export", "--home", service.home, "--tables", folder).returncode == 0
    exported = duckdb.read_parquet(str(folder / "marts/sums.parquet"))
    assert exported.fetchall() == [(2**53 + 1, str(2**127 - 1), [2**53 + 1], None)]
    assert exported.types == ["DECIMAL(38,0)", "VARCHAR", "DECIMAL(38,0)[]", "DECIMAL(38,0)"]


def test_reset_empties_the_home_or_keeps_the_seed(used: LocalService) -> None:
    assert run("reset", "--home", used.home, "--keep-seed").stdout.splitlines()[1] == "Applied again: 1 seeds"
    used.start()
    api = Api(used)
    assert api.get("/elt_stream_runs?elt_stream_id=orders")["data"] == []
    assert {one["id"] for one in api.all_pages("/transforms")} >= {"table", "view"}
    assert f"in use by process {used.pid}: stop it" in failure("reset", "--home", used.home)
    used.stop()
    assert run("reset", "--home", used.home).stdout == f"Reset: {used.home}\n"
    kept = b"".join(file.read_bytes() for file in used.home.rglob("*") if file.is_file())
    assert not any(secret.encode() in kept for secret in SECRETS)
    # The key stays.
    used.start()
    assert Api(used).all_pages("/connections") == []


def test_status_of_a_stopped_and_a_running_service(used: LocalService) -> None:
    stopped = run("status", "--home", used.home, "--format", "json")
    assert stopped.returncode == 3
    reported = json.loads(stopped.stdout)
    assert (reported["running"], reported["healthy"]) == (False, False)
    assert (reported["pid"], reported["address"]) == (None, None)
    assert reported["counts"] == {
        "connections": 7,
        "orchestrations": 1,
        "elt_syncs": 1,
        "elt_streams": 4,
        "custom_reports": 2,
        "transforms": 3,
        "reverse_etl_syncs": 2,
    }
    runs = [(one["resource_id"], one["status"]) for one in reported["last_runs"]]
    assert runs == [("people", "COMPLETED"), ("orders", "COMPLETED")]
    assert min(reported["bytes"].values()) > 0
    used.start()
    going = run("status", "--home", used.home)
    assert going.returncode == 0
    assert going.stdout.splitlines()[1] == f"Service: running at {used.base_url} (process {used.pid})"
    reported = json.loads(run("status", "--home", used.home, "--format", "json").stdout)
    assert (reported["running"], reported["healthy"]) == (True, True)
    assert (reported["pid"], reported["address"]) == (used.pid, used.base_url)
    used.kill()
    assert run("status", "--home", used.home).returncode == 3


def test_nothing_to_export(tmp_path: Path) -> None:
    message = failure("export", "--home", tmp_path)
    assert message == "Nothing to export: give --seed FILE, --tables DIR, or both."


def test_serve_can_create_its_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home, "--port", "0", "--init") as (process, line):
        assert line.startswith("datapipe-local is ready at ")
        assert (home / "api_key").read_text().strip()
        assert (home / "api_key").read_text().strip() != KEY
        process.terminate()
        assert process.wait(10) == 0


def test_serve_without_a_key_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("init", "--home", home)
    (home / "api_key").write_text("\n")
    assert "api_key is empty" in failure("serve", "--home", home, "--host", EVERYWHERE, "--port", "0")
    (home / "api_key").unlink()
    assert failure("serve", "--home", home, "--host", EVERYWHERE, "--port", "0")


def test_the_log_can_be_json(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("init", "--home", home)
    with serving(home, "--port", "0", "--log-format", "json") as (process, _):
        process.terminate()
        _, log = process.communicate(timeout=10)
    events = [json.loads(line) for line in log.splitlines()]
    assert {"at", "level", "logger", "message", "thread"} == set(events[0])
    assert any(event["message"].startswith("Ready on 127.0.0.1") and event["level"] == "info" for event in events)


def test_the_schema_accepts_the_seeds_of_init(data: Path) -> None:
    done = run("schema")
    assert json.loads(done.stdout) == schema()
    check = jsonschema.Draft7Validator(schema())
    check.check_schema(schema())
    documented = [yaml.safe_load(one.text) for one in blocks() if one.language == "yaml" and "connections:" in one.text]
    assert len(documented) >= 2
    for good in (rich(data), *documented):
        assert [error.message for error in check.iter_errors(good)] == []


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("connections", 0, "settings"), {"pth": "x"}),
        (("connections", 2, "settings", "authentication"), {"method": "magic"}),
        (("connections", 0, "integration_id"), "files2"),
        (("elt_syncs", 0, "source_streams", 0, "fil"), "x.csv"),
        (("elt_syncs", 0, "source_streams", 0, "excluded_columns"), "x"),
        (("reverse_etl_syncs", 0, "operation", "mode"), "upsrt"),
        (("reverse_etl_syncs", 0, "operation", "mappings"), []),
        (("surprise",), 1),
    ],
)
def test_the_schema_and_init_refuse_the_same_seeds(
    data: Path, tmp_path: Path, place: tuple[Any, ...], wrong: Any
) -> None:
    bad = rich(data)
    node: Any = bad
    for part in place[:-1]:
        node = node[part]
    node[place[-1]] = wrong
    assert not jsonschema.Draft7Validator(schema()).is_valid(bad)
    file = tmp_path / "seed.yaml"
    file.write_text(json.dumps(bad))
    assert failure("init", "--home", tmp_path / "home", "--seed", file)
