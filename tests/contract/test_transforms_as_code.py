"""Tests of the commands `plan`, `deploy` and `pull` for transforms, with the local service."""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.operators.transform_folders import TransformPlanOperator
from airflow_provider_datapipe.pipelines.plan import PlanNotEmptyError
from tests.contract.seeds import changes, page_blocks, page_tasks, send
from tests.contract.transform_commands import FILES, SEED, Say, put, transforms_by_path
from tests.support.local_service import LocalService
from tests.support.shell import bash
from tests.support.tasks import Memory, run

__all__ = ["SEED"]

pytestmark = pytest.mark.slow

PUBLISHED = "updated, but not published"


def test_plan_deploy_and_second_plan_of_a_folder(service: LocalService, say: Say, models: Path) -> None:
    planned = say("plan", "--format", "json")
    assert planned.status == 3, planned
    # In the order in which they are created.
    assert [each["name"] for each in planned.items] == ["staging/orders", "marts/paid", "top"]
    assert set(planned.each("action").values()) == {"create"}
    assert changes(service) == []
    deployed = say("deploy", "--format", "json")
    assert deployed.status == 0, deployed
    assert deployed.each("result") == {"marts/paid": "created", "staging/orders": "created", "top": "created"}
    paid = transforms_by_path(service)["marts/paid"]
    assert (paid["materialization"], paid["materialization_status"]) == ("table", "completed")
    assert (paid["cron_expression"], paid["orchestration_workflow_id"]) == ("0 4 * * *", "nightly")
    assert paid["documentation"] == "Who has paid.\n*/ -- all of it\n"
    assert paid["sql_template"].startswith("SELECT * FROM")
    planned = say("plan")
    assert (planned.status, planned.out) == (0, "Nothing to do.\n")
    before = changes(service)
    assert say("deploy").out == "3 unchanged.\n"
    assert changes(service) == before


PAID_SQL = "SELECT 2 AS id, 'paid' AS status"
#: Method and body of a request, and the fields of the plan with their values in the service.
CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "SQL": ("PATCH", {"sql_template": PAID_SQL}, {"diff": True}),
    "documentation": ("PATCH", {"documentation": "Another text."}, {"documentation": "Another text."}),
    "materialization": ("PATCH", {"materialization": "view"}, {"materialization": "view"}),
    "schedule": ("PATCH", {"cron_expression": "5 4 * * *"}, {"schedule": "5 4 * * *"}),
    "no schedule": ("PATCH", {"cron_expression": None}, {"schedule": "none"}),
    "no orchestration": ("DELETE", {}, {"orchestration": "none"}),
    "another orchestration": ("POST", {"orchestration_workflow_id": "twin.1"}, {"orchestration": "twin.1"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_plan_shows_a_change_in_the_service(change: str, service: LocalService, say: Say, deployed: Path) -> None:
    method, body, old = CHANGES[change]
    path = f"/transforms/{transforms_by_path(service)['marts/paid']['id']}"
    send(service, method, path if method == "PATCH" else f"{path}/orchestration", json=body or None)
    planned = say("plan", "--format", "json")
    assert planned.status == 3
    (item,) = (each for each in planned.items if each["action"] != "none")
    assert (item["name"], item["action"]) == ("marts/paid", "update")
    found = {each["field"]: each["old"] for each in item.get("changes", ())}
    assert found | ({"diff": True} if "diff" in item else {}) == old
    assert planned.json["warnings"] == []
    assert say("deploy").out == "updated transform marts/paid\n1 updated, 2 unchanged.\n"
    assert say("plan").status == 0
    after = transforms_by_path(service)["marts/paid"]
    assert (after["cron_expression"], after["orchestration_workflow_id"]) == ("0 4 * * *", "nightly")
    assert (after["materialization"], after["materialization_status"]) == ("table", "completed")


def test_plan_publishes_an_unpublished_definition(service: LocalService, say: Say, deployed: Path) -> None:
    orders = transforms_by_path(service)["staging/orders"]
    send(service, "PATCH", f"/transforms/{orders['id']}", json={"sql_template": "SELECT 5 AS id, 'paid' AS status"})
    # The file now has the same SQL as the draft, but an earlier version is published.
    (deployed / "staging/orders.sql").write_text("SELECT 5 AS id, 'paid' AS status")
    planned = say("plan")
    assert planned.status == 3
    assert "^ publish transform staging/orders (an earlier version is published)" in planned.out
    assert say("plan", "--exit-zero").status == 0
    assert say("deploy").out == "published transform staging/orders\n1 published, 2 unchanged.\n"
    assert say("plan").status == 0


def test_failed_check_keeps_the_published_version(service: LocalService, say: Say, deployed: Path) -> None:
    paid = deployed / "marts/paid.sql"
    good = paid.read_text()
    paid.write_text(good.replace("SELECT * FROM {{model.staging.orders}}", "SELECT NULL AS id, 'paid' AS status"))
    top = deployed / "marts/odd name.sql"
    top.write_text(top.read_text().replace("SELECT id", "SELECT id AS number"))
    (deployed / "other.sql").write_text("SELECT 3 AS id")
    result = say("deploy", "--format", "json")
    assert result.status == 1
    unread = {"staging/orders": "unchanged", "other": "created"}
    assert result.each("result") == unread | {"marts/paid": "failed", "top": "skipped"}
    errors = result.each("error")
    assert errors["marts/paid"].startswith(f"{PUBLISHED}: the check 'not_null: id' failed: ")
    assert errors["top"] == f"{PUBLISHED}: it reads marts/paid, which was not built"
    versions = send(service, "GET", f"/transforms/{transforms_by_path(service)['marts/paid']['id']}/versions")["data"]
    assert [each["is_published"] for each in versions] == [False, True]
    # The next deployment only runs the check again, which fails.
    assert say("plan", "--format", "json").each("action")["marts/paid"] == "publish"
    before = changes(service)
    assert say("deploy").status == 1
    assert {each.split(" ", 1)[1] for each in changes(service)[len(before) :]} == {"/transforms/query_previews"}
    paid.write_text(good)
    assert say("deploy").status == 0
    assert say("plan").status == 0


#: Checks, and their expected result.
RULES = {
    "not_null: [id, status]": True,
    "not_null: other": False,
    "unique: [id, status]": True,
    "unique: status": False,
    "accepted_values: {column: status, values: [a, 'it''s']}": True,
    "accepted_values: {column: status, values: [a]}": False,
    "accepted_values: {column: id, values: [1, 2, 3]}": True,
    "sql: SELECT max(id) = 2 FROM {{ this }}": True,
    "sql: SELECT '{{this}}' = 'x' FROM {{this}}": False,
    "sql: SELECT 1 WHERE false": False,
    "sql: SELECT": False,
    "not_null: 'odd \"name'": True,
}


def test_column_checks(say: Say, tmp_path: Path) -> None:
    names = {}
    for number, check in enumerate(RULES):
        rows = "(1, 'a', NULL, 0), (2, 'it''s', 1, 0), (NULL, 'a', 2, 0)"
        if "not_null: [id" in check:
            rows = rows.replace("NULL, 'a'", "3, 'a'")
        if "unique: [" in check:
            rows = rows.replace("'it''s'", "'a'")
        sql = f'FROM (VALUES {rows}) AS rows(id, status, other, "odd ""name") /* ; */ ; -- the end;'
        names[f"m{number}"] = check
        put(tmp_path / "models", {f"m{number}.sql": f"-- ---\n-- checks:\n-- - {check}\n-- ---\n{sql}"})
    result = say("deploy", "--format", "json")
    assert {names[name]: result == "created" for name, result in result.each("result").items()} == RULES


def test_failed_transform_skips_only_its_readers(service: LocalService, say: Say, models: Path) -> None:
    put(models, {"staging/orders.sql": "SELECT broken", "other.sql": "SELECT 3", "bad-name.sql": "SELECT 3"})
    result = say("deploy", "--format", "json")
    assert result.status == 1
    failed = {"bad-name": "failed", "staging/orders": "failed"}
    assert result.each("result") == failed | {"marts/paid": "skipped", "top": "skipped", "other": "created"}
    (models / "bad-name.sql").unlink()
    put(models, FILES)
    assert say("deploy").status == 0
    assert say("plan").status == 0


@pytest.mark.parametrize("status", [403, 409])
def test_rejected_transform_does_not_stop_the_others(
    service: LocalService, say: Say, deployed: Path, status: int
) -> None:
    put(deployed, dict.fromkeys(("staging/orders.sql", "other.sql"), PAID_SQL))
    orders = transforms_by_path(service)["staging/orders"]["id"]
    refused = {"path": "/transforms/*", "resource_id": orders, "method": "PATCH"}
    service.faults([{**refused, "status": status, "times": "always"}])
    result = say("deploy", "--format", "json")
    assert (result.status, result.err) == (1, "")
    unchanged = dict.fromkeys(("marts/paid", "top"), "unchanged")
    assert result.each("result") == unchanged | {"staging/orders": "failed", "other": "created"}
    service.faults([])
    assert say("deploy").status == 0
    assert say("plan").status == 0


ENDED = "the deployment was aborted"
NOT_SET = f"updated, but its schedule or orchestration was not set: {ENDED}"


@pytest.mark.parametrize(
    ("succeeded", "first", "others"),
    [
        # Error at the second update: the other transforms are skipped.
        (1, f"{PUBLISHED}: {ENDED}", ("skipped", ENDED)),
        # Error when schedules are set after the builds.
        (3, NOT_SET, ("updated", None)),
    ],
)
def test_aborted_deployment_reports_a_result_for_each_transform(
    service: LocalService, say: Say, tmp_path: Path, *, succeeded: int, first: str, others: tuple[str, str | None]
) -> None:
    def files(number: int) -> dict[str, str]:
        front = f"-- ---\n-- materialization: table\n-- schedule: 0 {number} * * *\n-- ---\n"
        return {f"{name}.sql": f"{front if name == 'a' else ''}SELECT {number} AS id" for name in "abc"}

    put(tmp_path / "models", files(1))
    assert say("deploy").status == 0
    put(tmp_path / "models", files(2))
    service.faults([{"method": "PATCH", "path": "/transforms/*", "skip": succeeded, "status": 401}])
    result = say("deploy", "--format", "json")
    assert result.status == 1
    reported = {each["name"]: (each["result"], each["error"]) for each in result.items}
    assert reported == {"a": ("skipped", first), "b": others, "c": others}
    (warning,) = result.json["warnings"]
    assert warning.startswith("The deployment was aborted: The service does not accept the API key: ")
    assert say("deploy").status == 0
    assert say("plan").status == 0


def test_deployment_without_changes_reports_only_the_error(service: LocalService, say: Say, models: Path) -> None:
    service.faults([{"method": "POST", "path": "/transforms/bulk", "status": 401}])
    result = say("deploy", "--format", "json")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("datapipe deploy: The service does not accept the API key: ")
    assert "POST /transforms/bulk" in result.err


USED = "not deleted, because it is used by: the published version of marts/paid"


@pytest.mark.parametrize(("front", "options"), [("-- publish: false\n", ()), ("", ("--no-publish",))])
def test_orphan_read_by_a_published_version_is_kept(
    front: str, options: tuple[str, ...], service: LocalService, say: Say, deployed: Path
) -> None:
    text = FILES["marts/paid.sql"].replace("* FROM {{model.staging.orders}}", "1 AS id, 'paid' AS status")
    (deployed / "marts/paid.sql").write_text(text.replace("-- schedule", f"{front}-- schedule"))
    (deployed / "staging/orders.sql").unlink()
    result = say("deploy", "--delete-orphans", "--format", "json", *options)
    assert (result.status, result.each("error")["staging/orders"]) == (1, USED)
    # The publication of the new SQL replaces the version that reads the orphan.
    (deployed / "marts/paid.sql").write_text(text)
    assert say("deploy", "--delete-orphans").status == 0
    assert "staging/orders" not in transforms_by_path(service)


def test_orphan_read_by_a_version_of_another_folder_is_kept(service: LocalService, say: Say, deployed: Path) -> None:
    paid = transforms_by_path(service)["marts/paid"]["id"]
    send(service, "PATCH", f"/transforms/{paid}", json={"sql_template": "SELECT 1 AS id, 'paid' AS status"})
    for name in FILES:
        (deployed / name).unlink()
    put(deployed, {"other.sql": "SELECT 1"})
    options = ("--folder-path", "staging", "--delete-orphans")
    warning = "the published version of marts/paid reads staging/orders, so staging/orders will not be deleted."
    assert warning in say("plan", *options).out
    result = say("deploy", *options, "--format", "json")
    assert (result.status, result.each("error")["staging/orders"]) == (1, USED)


def test_unread_orphan_users_stop_a_deployment_before_changes(service: LocalService, say: Say, deployed: Path) -> None:
    (deployed / "marts/odd name.sql").unlink()
    (deployed / "staging/orders.sql").write_text(PAID_SQL)
    service.faults([{"method": "GET", "path": "/reverse_etl_syncs", "status": 403}])
    before = changes(service)
    result = say("deploy", "--no-publish", "--delete-orphans")
    assert (result.status, result.out, changes(service)) == (1, "", before)
    assert "GET /reverse_etl_syncs" in result.err


def test_aborted_deployment_reports_settings_and_orphans(service: LocalService, say: Say, deployed: Path) -> None:
    (deployed / "marts/odd name.sql").unlink()
    paid = deployed / "marts/paid.sql"
    paid.write_text(paid.read_text().replace("-- schedule: 0 4", "-- publish: false\n-- schedule: 0 5") + "-- new")
    orders = transforms_by_path(service)["staging/orders"]["id"]
    service.faults([{"path": "/transforms/*/versions", "resource_id": orders, "status": 401}])
    result = say("deploy", "--delete-orphans", "--format", "json")
    assert result.status == 1
    assert {each["name"]: (each["result"], each["error"]) for each in result.items} == {
        "staging/orders": ("skipped", ENDED),
        "marts/paid": ("skipped", NOT_SET),
        "top": ("skipped", f"not deleted: {ENDED}"),
    }


def test_orphans_are_deleted_only_with_the_option(service: LocalService, say: Say, deployed: Path) -> None:
    for name in ("odd name", "paid"):
        (deployed / f"marts/{name}.sql").unlink()
    planned = say("plan")
    assert planned.status == 0
    assert planned.out == (
        "Orphans (in the service, but not in the files): 2. Not deleted, because --delete-orphans is not set.\n"
        "    ? transform marts/paid\n    ? transform top\nNothing to do.\n"
    )
    assert say("deploy").status == 0
    assert len(transforms_by_path(service)) == 3
    planned = say("plan", "--delete-orphans", "--format", "json")
    assert planned.status == 3
    assert planned.each("action") == {"staging/orders": "none", "marts/paid": "delete", "top": "delete"}
    ids = {name: each["id"] for name, each in transforms_by_path(service).items()}
    before = changes(service)
    assert say("deploy", "--delete-orphans", "--format", "json").json["counts"]["deleted"] == 2
    # Readers are deleted first.
    assert changes(service)[len(before) :] == [f"DELETE /transforms/{ids[name]}" for name in ("top", "marts/paid")]
    assert list(transforms_by_path(service)) == ["staging/orders"]
    assert say("plan", "--delete-orphans").status == 0


def test_orphans_with_readers_are_not_deleted(service: LocalService, say: Say, deployed: Path) -> None:
    text = (deployed / "staging/orders.sql").read_text()
    (deployed / "staging/orders.sql").unlink()
    planned = say("plan", "--delete-orphans")
    assert "Warning: marts/paid reads staging/orders, so staging/orders will not be deleted." in planned.out
    result = say("deploy", "--delete-orphans", "--format", "json")
    assert (result.status, result.each("result")["staging/orders"]) == (1, "failed")
    assert result.each("error")["staging/orders"] == "not deleted, because it is used by: marts/paid"
    # If another transform failed, no orphan is deleted.
    put(deployed, {"staging/orders.sql": text, "bad.sql": "SELECT broken"})
    (deployed / "marts/odd name.sql").unlink()
    result = say("deploy", "--delete-orphans", "--format", "json")
    assert (result.status, result.each("result")["top"]) == (1, "skipped")
    assert len(transforms_by_path(service)) == 4


def test_folder_path_limits_plan_deploy_and_pull(service: LocalService, say: Say, tmp_path: Path) -> None:
    for name in ("dev", "development"):
        body = {"name": "old", "folder_path": name, "sql_template": "SELECT 1"}
        send(service, "POST", "/transforms", json=body)
    put(tmp_path / "models", {"a.sql": "SELECT 1", "b/c.sql": "-- ---\n-- folder: d\n-- ---\nSELECT 1"})
    planned = say("plan", "--folder-path", "/dev/", "--delete-orphans", "--format", "json")
    assert planned.each("action") == {"dev/a": "create", "dev/d/c": "create", "dev/old": "delete"}
    assert say("deploy", "--folder-path", "dev").status == 0
    assert say("pull", "--folder-path", "dev").status == 0
    assert sorted(each.name for each in (tmp_path / "models").iterdir()) == ["a.sql", "b", "old.sql"]
    assert say("plan", "--folder-path", "dev", "--delete-orphans").status == 0


def test_all_invalid_files_are_reported_before_any_request(service: LocalService, say: Say, tmp_path: Path) -> None:
    files = {
        "a.sql": "-- ---\n-- name: a\n-- materialisation: table\n-- ---\nSELECT 1",
        "b/c.sql": "-- ---\n-- checks:\n-- - unique: a\n-- - unqiue: a\n-- schedule: '* * *'\n-- ---\nSELECT 1",
        "d.sql": "-- ---\n-- name: a\nSELECT 1",
    }
    put(tmp_path / "models", files)
    for command in ("plan", "deploy", "pull"):
        result = say(command)
        assert result.status == 1
        reported = result.err.splitlines()
        prefix = f"datapipe {command}: a.sql, line 3: "
        assert reported[0].startswith(f"{prefix}materialisation is not a known key: use name")
        assert reported[1].startswith("b/c.sql, line 4: checks[1].unqiue is not a known key")
        assert reported[2].startswith("b/c.sql, line 5: schedule '* * *' is not a cron expression")
        assert reported[3].startswith("d.sql, line 3: the front matter that begins in line 1 is not closed")
    put(tmp_path / "models", {"a.sql": "SELECT 1", "b/c.sql": "-- ---\n-- name: a\n-- folder: ''\n-- ---\nSELECT 1"})
    (tmp_path / "models/d.sql").unlink()
    assert "b/c.sql and a.sql both define the transform 'a'" in say("plan").err
    assert service.journal_requests() == []


def test_plan_warns_about_unknown_references(say: Say, tmp_path: Path) -> None:
    files = {
        "a.sql": "SELECT * FROM {{model.gone}}, {{model.draft}}, {{raw.no.stream}}",
        "view.sql": "-- ---\n-- schedule: 0 4 * * *\n-- ---\nSELECT 1",
        "draft.sql": "-- ---\n-- publish: false\n-- schedule: 0 4 * * *\n-- materialization: table\n-- ---\nSELECT 1",
    }
    put(tmp_path / "models", files)
    assert say("plan", "--format", "json").json["warnings"] == [
        "draft: drafts can't have a schedule or an orchestration, and the file sets publish: false.",
        "view: only tables can have a schedule, and this is a view: the service will reject it.",
        "a refers to {{model.gone}}, which neither the service nor the files define.",
        "a reads draft, whose file sets publish: false.",
        "a refers to {{raw.no.stream}}, which neither the service nor the files define.",
    ]
    put(tmp_path / "models", {"a.sql": "-- ---\n-- orchestration: Nihgtly\n-- ---\nSELECT 1"})
    assert "There is no orchestration named 'Nihgtly'. Did you mean Nightly?" in say("plan").err
    put(tmp_path / "models", {"a.sql": "-- ---\n-- orchestration: Twins\n-- ---\nSELECT 1"})
    assert "more than one orchestration: twin.1, twin.2. Set orchestration_id." in say("deploy").err


def test_plan_warns_about_tables_without_references(say: Say, deployed: Path) -> None:
    sql = "WITH paid AS (SELECT 1) SELECT 'staging.orders' FROM paid, Marts.Paid, {{model.staging.orders}}"
    put(deployed, {"other.sql": sql})
    assert say("plan", "--format", "json").json["warnings"] == [
        "other reads marts.paid without a reference, so deployments do not wait for it: write {{model.marts.paid}}."
    ]
    put(deployed, {"other.sql": "SELECT FROM FROM marts.paid ("})
    assert say("plan", "--format", "json").json["warnings"] == []


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_plan_is_colored_on_a_terminal(
    no_color: str, colored: bool, service: LocalService, say: Say, deployed: Path
) -> None:
    (deployed / "staging/orders.sql").write_text("SELECT 1 AS id,\x1b[2J 'paid' AS status")
    arguments = ["plan", "--base-url", service.base_url, "--quiet", "--transforms", str(deployed)]
    main_end, other_end = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}
    program = [sys.executable, "-m", "airflow_provider_datapipe.cli", *arguments]
    done = subprocess.run(program, stdout=other_end, env=environment, check=False, timeout=60)  # noqa: S603 - our own program
    os.close(other_end)
    output = os.read(main_end, 100_000).decode()
    os.close(main_end)
    assert done.returncode == 3
    assert ("\x1b[33m~ update transform staging/orders\x1b[0m" in output) is colored
    assert ("\x1b[31m    -SELECT 1 AS id, 'paid' AS status\x1b[0m" in output) is colored
    # Control characters of the service and of files are escaped.
    assert "+SELECT 1 AS id,\\x1b[2J 'paid' AS status" in output
    assert ("\x1b" in output) is colored


def state(service: LocalService) -> dict[str, Any]:
    """Return the transforms of the service without IDs and times."""
    built = ("materialization", "materialization_status")
    reported = ("sql_template", *built, "status", "documentation", "cron_expression")
    current = {}
    for name, each in transforms_by_path(service).items():
        versions = send(service, "GET", f"/transforms/{each['id']}/versions?limit=100")["data"]
        published = [(version["sql_template"], version["is_published"]) for version in versions]
        attached = each.get("orchestration_workflow_id")
        current[name] = {key: each.get(key) for key in reported} | {"versions": published, "orchestration": attached}
    return current


def begun(service: LocalService) -> int:
    return len(service.journal_requests())


@pytest.fixture
def before_and_after(service: LocalService, say: Say, models: Path, tmp_path: Path) -> Callable[[], None]:
    """Return a function that resets the service and deploys transforms that differ from the folder."""
    (tmp_path / "before").mkdir()
    put(tmp_path / "before", {"old.sql": "SELECT 1", "staging/orders.sql": "SELECT 9 AS id, 'paid' AS status"})
    put(models, {f"many/m{n}.sql": "SELECT id FROM {{model.staging.orders}}" for n in range(20)})

    def begin() -> None:
        service.reset()
        assert say("deploy", "--transforms", str(tmp_path / "before")).status == 0

    return begin


def test_killed_deployment_can_be_continued(
    service: LocalService, say: Say, models: Path, before_and_after: Callable[[], None]
) -> None:
    before_and_after()
    first = begun(service)
    assert say("deploy", "--delete-orphans").status == 0
    undisturbed, sent = state(service), begun(service) - first
    assert "old" not in undisturbed
    assert len(undisturbed) == 23
    arguments = ["--base-url", service.base_url, "--quiet", "--transforms", str(models), "--delete-orphans"]
    command = [sys.executable, "-m", "airflow_provider_datapipe.cli", "deploy", *arguments, "--poll-interval", "0.05"]
    chance = random.Random(7)  # noqa: S311 - no secret
    killed = 0
    for part in range(3):
        before_and_after()
        first = begun(service)
        # Each kill is at a random time in another third of the requests.
        until = first + chance.randint(part * sent // 3, (part + 1) * sent // 3)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own program
            while process.poll() is None and begun(service) < until:
                time.sleep(0.02)
            process.kill()
        killed += process.returncode == -signal.SIGKILL
        assert say("deploy", "--delete-orphans").status == 0
        assert state(service) == undisturbed
        assert say("plan", "--delete-orphans").status == 0
    assert killed >= 2


def test_commands_and_tasks_of_the_page(service: LocalService, tmp_path: Path) -> None:
    page = page_blocks("transforms_as_code.md")
    put(tmp_path, {block.file: block.text for block in page if block.file})
    environment = os.environ | {"DATAPIPE_URL": service.base_url, "DATAPIPE_API_KEY": service.api_key}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    all_three, in_ci = (block.text for block in page if block.language == "sh")
    pull, plan, deploy = all_three.splitlines()
    # Exit status 3 before the deployment: the plan contains differences.
    for commands in (pull, f"set +e\n{plan}\ntest $? = 3", in_ci, deploy, plan):
        bash(commands, tmp_path, environment)
    assert transforms_by_path(service)["sales/orders"]["cron_expression"] == "0 4 * * *"
    tasks = page_tasks(page_blocks("transforms_as_code.md", "python"), template_searchpath=[str(tmp_path)])
    for task in tasks.values():
        task.render_template_fields({}, task.dag.get_template_env())
    planned, result = run(tasks["plan"]), run(tasks["deploy"])
    assert planned["counts"]["create"] == 1
    assert result["transforms"]["dev/sales/orders"]["result"] == "created"
    strict: dict[str, Any] = {"task_id": "t", "folder": str(tmp_path / "models"), "fail_on_changes": True}
    assert run(TransformPlanOperator(**strict))["changed"] is False
    memory = Memory()
    with pytest.raises(PlanNotEmptyError, match="1 to create"):
        run(TransformPlanOperator(**strict, folder_path="new"), memory)
    assert memory.pushed["return_value"]["changed"] is True
