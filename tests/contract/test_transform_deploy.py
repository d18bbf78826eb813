"""Tests of transform deployments on the local service: requests, unchanged transforms, and kills at any step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import AuthenticationError, DatapipeError, InvalidRequestError, TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.operators.base import DatapipeRunOperator
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator
from airflow_provider_datapipe.operators.transforms import TransformDeployOperator, TransformRematerializeOperator
from airflow_provider_datapipe.resources.transform_bulk import BulkDeployError
from airflow_provider_datapipe.resources.transform_folder import CyclicTransformsError
from airflow_provider_datapipe.runs.conflicts import IfRunning
from airflow_provider_datapipe.runs.errors import RunFailedError
from airflow_provider_datapipe.runs.names import AmbiguousNameError
from airflow_provider_datapipe.runs.start import StartPolicy
from tests.contract.seeds import MODES, changes, connect, send, transform
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.tasks import Memory, run

KINDS = ("view", "table")
SEED: dict[str, Any] = {
    "runs": {"minimum_duration": 0.15},
    "transforms": [transform(f"marts.{kind}", name=kind, folder_path="marts", materialization=kind) for kind in KINDS]
    + [transform(f"twin.{n}", name="twin", folder_path="marts", publish=False) for n in (1, 2)],
}


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often, and shorten waits."""
    connect(monkeypatch, service, poll_interval=0.05)
    policy = StartPolicy(if_running=IfRunning.ATTACH, lost_response_timeout=0.5, search_interval=0.1)
    monkeypatch.setattr(DatapipeRunOperator, "_start_policy", lambda _: policy)
    for module in ("base", "transform_bulk"):
        monkeypatch.setattr(f"airflow_provider_datapipe.resources.{module}._SECOND_POLL", 0.1)


def deployment(**more: Any) -> TransformDeployOperator:
    arguments: dict[str, Any] = {"name": "table", "folder_path": "marts", "sql_template": "SELECT 1 AS id"}
    return TransformDeployOperator(task_id="t", **(arguments | more))


def shown(service: LocalService, transform_id: str) -> Any:
    return send(service, "GET", f"/transforms/{transform_id}")


def named(service: LocalService, name: str) -> Any:
    """Return the only transform with a name."""
    (found,) = send(service, "GET", "/transforms", params={"name": name})["data"]
    return found


def publications(service: LocalService, transform_id: str) -> int:
    return sum(each["trigger"] == "request" for each in service.journal_runs(transform_id))


@MODES
@pytest.mark.parametrize("kind", ["view", "table"])
def test_unchanged_transform_sends_no_changes(kind: str, *, deferrable: bool, service: LocalService) -> None:
    result = run(deployment(name=kind, materialization=kind, sql_template="SELECT 1 AS id\n", deferrable=deferrable))
    assert (result["outcome"], result["action"], result["published"]) == ("succeeded", "none", False)
    assert (result["resource_id"], result["name"]) == (f"marts.{kind}", f"marts/{kind}")
    assert changes(service) == []


@MODES
def test_only_differing_fields_are_sent(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    result = run(deployment(documentation="One row per order.", deferrable=deferrable), memory)
    assert (result["action"], result["changed"], result["published"]) == ("updated", True, False)
    # A changed description requires no build.
    assert changes(service) == ["PATCH /transforms/marts.table"]
    result = run(deployment(sql_template="SELECT 2 AS id", cron_expression="0 4 * * *", deferrable=deferrable), memory)
    assert (result["action"], result["published"], result["status"]) == ("updated", True, "completed")
    patch = "PATCH /transforms/marts.table"
    assert changes(service)[1:] == [patch, "POST /transforms/marts.table/publish", patch]
    after = shown(service, "marts.table")
    assert (after["documentation"], after["cron_expression"]) == ("One row per order.", "0 4 * * *")
    result = run(deployment(sql_template="SELECT 2 AS id", cron_expression="none", deferrable=deferrable), memory)
    assert (result["action"], result["published"]) == ("updated", False)
    assert shown(service, "marts.table")["cron_expression"] is None
    assert len(changes(service)) == 5


@MODES
@pytest.mark.parametrize(("name", "kind"), [("view", "table"), ("table", "view")])
def test_materialization_can_be_changed(name: str, kind: str, *, deferrable: bool, service: LocalService) -> None:
    result = run(deployment(name=name, materialization=kind, deferrable=deferrable))
    assert (result["action"], result["published"], result["outcome"]) == ("updated", True, "succeeded")
    assert shown(service, f"marts.{name}")["materialization"] == kind
    assert publications(service, f"marts.{name}") == 1


@pytest.mark.parametrize(("name", "kind"), [("view", "table"), ("table", "view")])
def test_unpublished_change_is_published(name: str, kind: str, service: LocalService) -> None:
    for body in ({"materialization": kind}, {"sql_template": "SELECT 2 AS id"}):
        send(service, "PATCH", f"/transforms/marts.{name}", json=body)
        result = run(deployment(name=name, sql_template=shown(service, f"marts.{name}")["sql_template"]))
        assert (result["action"], result["published"], result["outcome"]) == ("none", True, "succeeded")


def test_active_build_is_awaited(service: LocalService) -> None:
    # A request while the seed's own build is active joins that build.
    wait_for(
        "the seed is built", lambda: shown(service, "marts.table")["materialization_status"] == "completed", limit=30
    )
    service.runs({"minimum_duration": 3})
    send(service, "POST", "/transforms/marts.table/publish")
    result = run(deployment())
    service.runs({"minimum_duration": SEED["runs"]["minimum_duration"]})
    assert (result["attached"], result["published"], result["status"]) == (True, False, "completed")
    assert publications(service, "marts.table") == 1


@MODES
def test_failed_build_is_reported_and_retried(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    task = deployment(
        sql_template="SELECT CAST('x' AS INTEGER) AS id", cron_expression="0 4 * * *", deferrable=deferrable
    )
    for tries in (1, 2):
        with pytest.raises(RunFailedError, match="Could not convert string 'x'"):
            run(task, memory)
        assert memory.pushed["return_value"]["action"] == ("updated" if tries == 1 else "none")
        assert publications(service, "marts.table") == tries
    assert shown(service, "marts.table")["cron_expression"] is None


def test_rejected_sql_leaves_the_transform_unchanged(service: LocalService) -> None:
    with pytest.raises(InvalidRequestError, match=r"Unknown reference \{\{model\.nowhere\}\}"):
        run(deployment(name="view", sql_template="SELECT 1 AS id FROM {{model.nowhere}}"))
    result = run(deployment(name="view", sql_template="SELECT 3 AS id"))
    assert (result["action"], result["published"]) == ("updated", True)


def test_deploy_without_publish_creates_a_draft(service: LocalService) -> None:
    result = run(deployment(name="new", publish="False", sql_template="SELECT * FROM {{raw.not.yet}}"))
    assert (result["action"], result["outcome"], result["status"]) == ("created", "skipped", "draft")
    assert changes(service) == ["POST /transforms"]


def test_ambiguous_name_is_an_error(service: LocalService) -> None:
    with pytest.raises(AmbiguousNameError, match=r"'marts/twin': twin\.1, twin\.2"):
        run(deployment(name="twin"))
    assert changes(service) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": "None"}, "name is empty"),
        ({"sql_template": ""}, "sql_template is empty"),
        ({"materialization": "heap"}, "materialization must be 'view' or 'table', not 'heap'"),
        ({"cron_expression": ""}, "cron_expression is empty"),
        ({"publish": "perhaps"}, "publish must be True or False"),
    ],
)
def test_invalid_arguments_fail_before_any_request(
    arguments: dict[str, Any], problem: str, service: LocalService
) -> None:
    with pytest.raises(ValueError, match=problem):
        run(deployment(**arguments))
    assert service.journal_requests() == []


class Killed(BaseException):
    """Kill of the process, which the code under test cannot catch."""


class Interruption:
    """
    Interruption of one request.

    A read that was executed leaves nothing behind: only ``killed before`` interrupts reads.

    :param at: the number of requests before it.
    :param how: ``killed before``, ``killed after``, or ``lost``: executed, without a response.
    """

    def __init__(self, at: int, how: str) -> None:
        self.at, self.how, self.sent = at, how, 0

    def of(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def interrupted(hook: DatapipeHook, request: Any) -> Any:
            is_skipped = self.how != "killed before" and request.endpoint.method == "GET"
            self.sent += not is_skipped
            if is_skipped or self.sent != self.at + 1:
                return send(hook, request)
            if self.how == "killed before":
                raise Killed
            send(hook, request)
            if self.how == "killed after":
                raise Killed
            raise TransportError("no answer", sent=True)

        return interrupted


def interrupted_everywhere(
    service: LocalService, monkeypatch: pytest.MonkeyPatch, how: str, work: Callable[[Memory], Any]
) -> Iterator[Any]:
    """Interrupt each request of some work in turn, repeat the work after it, and yield the results."""
    # This interval causes several polls of each build.
    connect(monkeypatch, service, poll_interval=0.15)
    at = 0
    while True:
        service.reset()
        memory, interruption = Memory(), Interruption(at, how)
        with monkeypatch.context() as patch:
            patch.setattr(DatapipeHook, "send", interruption.of(DatapipeHook.send))
            try:
                result = work(memory)
            except (Killed, DatapipeError):
                result = None
        yield result or work(memory)
        if interruption.sent <= at:
            assert at > 0
            return
        at += 1


HOW = pytest.mark.parametrize("how", ["killed before", "killed after", "lost"])


@pytest.mark.slow
@HOW
@pytest.mark.parametrize("name", ["table", "new"])
def test_interrupted_transform_deploy_reaches_same_state(
    how: str, name: str, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(memory: Memory) -> Any:
        sql = {"sql_template": "SELECT 7 AS id", "cron_expression": "0 4 * * *"}
        return run(deployment(name=name, materialization="table", **sql), memory)

    interruptions = 0
    for result in interrupted_everywhere(service, monkeypatch, how, work):
        interruptions += 1
        found = named(service, name)
        assert (found["sql_template"], found["cron_expression"]) == ("SELECT 7 AS id", "0 4 * * *")
        assert (found["status"], found["materialization_status"]) == ("published", "completed")
        assert result["outcome"] == "succeeded"
        assert publications(service, found["id"]) == 1
    assert interruptions > (6 if how == "killed before" else 3)


def test_cleared_task_deploys_the_new_sql(service: LocalService) -> None:
    memory = Memory()
    run(deployment(sql_template="SELECT 2 AS id"), memory)
    assert {each["closed_in"] for each in memory.kept.values()} == {memory.max_tries}
    memory.max_tries += 2
    run(deployment(sql_template="SELECT 3 AS id"), memory)
    assert publications(service, "marts.table") == 2


def test_publication_of_an_earlier_try_is_not_reused(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    with monkeypatch.context() as patch:
        patch.setattr(DatapipeHook, "send", Interruption(1, "killed after").of(DatapipeHook.send))
        with pytest.raises(Killed):
            run(deployment(sql_template="SELECT 2 AS id"), memory)
    assert publications(service, "marts.table") == 1
    assert memory.kept
    # The retry renders other SQL.
    run(deployment(sql_template="SELECT 3 AS id"), memory)
    assert publications(service, "marts.table") == 2


@pytest.mark.slow
def test_version_control_error_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    draft = {"id": "draft", "name": "draft", "folder_path": "marts", "sql_template": "SELECT 1 AS id"}
    (tmp_path / "new.sql").write_text("SELECT 1")
    seed = {"transforms_managed_by_version_control": True, "transforms": [*SEED["transforms"], draft]}
    with LocalService(seed, control=True) as managed:
        connect(monkeypatch, managed)
        tasks = (
            deployment(name="new"),
            deployment(sql_template="SELECT 2"),
            TransformBulkDeployOperator(task_id="t", folder=str(tmp_path)),
        )
        for task in tasks:
            with pytest.raises(InvalidRequestError, match="managed by version control"):
                run(task)
        # Unchanged definitions can be published.
        assert run(deployment(name="draft"))["published"]
        assert run(deployment())["action"] == "none"


@MODES
def test_rematerialize_starts_another_build(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    result = run(TransformRematerializeOperator(task_id="t", transform_id="marts.table", deferrable=deferrable), memory)
    assert (result["status"], result["outcome"], result["attached"]) == ("completed", "succeeded", False)
    assert changes(service) == ["POST /transforms/marts.table/rematerialize"]
    with pytest.raises(InvalidRequestError, match="not published"):
        run(TransformRematerializeOperator(task_id="t", transform_id="twin.1", deferrable=deferrable))


@pytest.mark.slow
@HOW
def test_interrupted_rematerialize_starts_one_build(
    how: str, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(memory: Memory) -> Any:
        return run(TransformRematerializeOperator(task_id="t", transform_name="table"), memory)

    for result in interrupted_everywhere(service, monkeypatch, how, work):
        assert result["outcome"] == "succeeded"
        assert publications(service, "marts.table") == 1


def files(folder: Path, **sql: str) -> str:
    for name, text in sql.items():
        path = folder / f"{name.replace('__', '/')}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


COUNTS = dict.fromkeys(("created", "updated", "unchanged", "failed", "skipped"), 0)


def bulk(folder: str, **more: Any) -> TransformBulkDeployOperator:
    return TransformBulkDeployOperator(task_id="t", folder=folder, **more)


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("materialization", ["view", "table"])
def test_folder_is_built_in_reference_order(
    materialization: str, *, deferrable: bool, service: LocalService, tmp_path: Path
) -> None:
    read = "SELECT id + 1 AS id FROM {{model.s.NEXT}}"
    chain = {f"s__m{n}": read.replace("NEXT", f"m{n + 1}") for n in range(4)}
    folder = files(tmp_path, **chain, s__m4="SELECT id FROM {{model.marts.view}}", alone="SELECT 1")
    result = run(bulk(folder, materialization=materialization, deferrable=deferrable))
    assert result["counts"] == COUNTS | {"created": 6}
    assert all(item["published"] for item in result["transforms"].values())
    assert changes(service)[0] == "POST /transforms/bulk"
    assert json.loads(json.dumps(result)) == result
    preview = run(QueryPreviewOperator(task_id="q", sql_template="SELECT * FROM {{model.s.m0}}"))
    assert preview["rows"] == [{"id": 5}]


def test_folder_without_jinja_is_deployed_as_written(service: LocalService, tmp_path: Path) -> None:
    written = {"a": "SELECT 'x\r\ny' AS name\r\n", "b": "SELECT name -- old\rmac\n FROM {{model.a}}\r\n\n"}
    for name, sql in written.items():
        (tmp_path / f"{name}.sql").write_bytes(sql.encode())
    (tmp_path / "c.sql").write_bytes(b"SELECT '{{ 1 }}'\r\n AS name\r\n")
    assert run(bulk(str(tmp_path), publish=False))["counts"]["created"] == 3
    sent = {each["name"]: each["sql_template"] for each in send(service, "GET", "/transforms")["data"]}
    assert sent | written | {"c": "SELECT '1'\n AS name"} == sent


def test_transforms_are_created_once_in_batches_of_fifty(service: LocalService, tmp_path: Path) -> None:
    folder = files(tmp_path, **{f"many__m{n}": f"SELECT {n} AS id" for n in range(101)})
    result = run(bulk(folder, publish=False))
    assert result["counts"]["created"] == 101
    assert changes(service) == ["POST /transforms/bulk"] * 3
    files(tmp_path, many__m7="SELECT 'seven' AS id")
    result = run(bulk(folder, publish=False))
    assert (result["counts"]["updated"], result["counts"]["unchanged"]) == (1, 100)
    assert len(changes(service)) == 4


def test_versions_are_requested_concurrently(
    service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files(tmp_path, **{f"many__m{n}": f"SELECT {n} AS id" for n in range(12)})
    assert run(bulk(folder))["counts"]["created"] == 12
    one_by_one, original = [], DatapipeHook.send

    def noted(self: DatapipeHook, request: Request[Any]) -> Any:
        one_by_one.append(request.endpoint.name)
        return original(self, request)

    monkeypatch.setattr(DatapipeHook, "send", noted)
    before = len(service.journal_requests())
    assert run(bulk(folder))["counts"]["unchanged"] == 12
    paths = [each["path"] for each in service.journal_requests()[before:]]
    assert sum(path.endswith("/versions") for path in paths) == 12
    assert "transforms.versions" not in one_by_one


def test_failed_deployment_pushes_partial_result(service: LocalService, tmp_path: Path) -> None:
    folder = files(tmp_path, a="SELECT 1 AS id", b="SELECT 1 AS id")
    run(bulk(folder))
    files(tmp_path, a="SELECT 2 AS id", b="SELECT 2 AS id")
    service.faults([{"method": "PATCH", "path": "/transforms/*", "skip": 1, "status": 401}])
    memory = Memory()
    with pytest.raises(AuthenticationError):
        run(bulk(folder), memory)
    left = memory.pushed["return_value"]
    assert left["outcome"] == "failed"
    aborted = "the deployment was aborted"
    errors = {path: each["error"] for path, each in left["transforms"].items()}
    assert errors == {"a": f"updated, but not published: {aborted}", "b": aborted}
    assert run(bulk(folder), memory)["counts"] == COUNTS | {"updated": 1, "unchanged": 1}


@pytest.mark.slow
@MODES
def test_failed_transform_skips_only_its_readers(*, deferrable: bool, service: LocalService, tmp_path: Path) -> None:
    folder = files(
        tmp_path,
        b__bad="SELECT CAST('x' AS INTEGER) AS id",
        b__refused="SELECT * FROM {{raw.no.where}}",
        b__reader="SELECT * FROM {{model.b.bad}}",
        b__far="SELECT * FROM {{model.b.reader}}",
        b__good="SELECT 1 AS id",
        b__better="SELECT * FROM {{model.b.good}}",
        marts__table="SELECT 9 AS id",
        marts__twin="SELECT 9 AS id",
    )
    (tmp_path / "b" / "no name.sql").write_text("SELECT 1")
    memory = Memory()
    with pytest.raises(BulkDeployError, match="6 of 9 transforms were not deployed"):
        run(bulk(folder, materialization="table", deferrable=deferrable), memory)
    result = memory.pushed["return_value"]
    items = result["transforms"]
    assert {path: item["result"] for path, item in items.items()} == {
        **dict.fromkeys(("b/bad", "b/refused", "b/no name", "marts/twin"), "failed"),
        **dict.fromkeys(("b/reader", "b/far"), "skipped"),
        **dict.fromkeys(("b/good", "b/better"), "created"),
        "marts/table": "updated",
    }
    assert result["outcome"] == "partial"
    assert "Could not convert string 'x'" in items["b/bad"]["error"]
    assert "Unknown reference {{raw.no.where}}" in items["b/refused"]["error"]
    for reader, failed in (("b/reader", "b/bad"), ("b/far", "b/reader")):
        assert items[reader]["error"] == f"created, but not published: it reads {failed}, which was not built"
    assert "name" in items["b/no name"]["error"]
    assert "twin.1, twin.2" in items["marts/twin"]["error"]
    assert (items["b/better"]["published"], items["b/reader"]["published"]) == (True, False)
    # After the correction, the next try deploys only the remaining transforms.
    files(tmp_path, b__bad="SELECT 1 AS id", b__refused="SELECT 1 AS id")
    (tmp_path / "b" / "no name.sql").unlink()
    (tmp_path / "marts" / "twin.sql").unlink()
    result = run(bulk(folder, materialization="table", deferrable=deferrable), memory)
    assert result["counts"] == COUNTS | {"updated": 2, "unchanged": 5}
    published = {path for path, item in result["transforms"].items() if item["published"]}
    assert published == {"b/bad", "b/refused", "b/reader", "b/far"}
    assert publications(service, items["b/good"]["id"]) == 1


@pytest.mark.parametrize(("policy", "bad", "fails"), [("succeed", 1, False), ("succeed", 2, True), ("fail", 1, True)])
def test_partial_failure_follows_the_policy(policy: str, bad: int, *, fails: bool, tmp_path: Path) -> None:
    sql = {f"m{n}": "SELECT 1" if n >= bad else "SELECT no_such_column" for n in range(2)}
    task = bulk(files(tmp_path, **sql), on_partial_failure=policy)
    if fails:
        with pytest.raises(BulkDeployError):
            run(task)
    else:
        assert run(task)["outcome"] == "partial"


def test_cycle_fails_before_any_change(service: LocalService, tmp_path: Path) -> None:
    folder = files(tmp_path, c__a="SELECT * FROM {{model.c.b}}", c__b="SELECT * FROM {{model.c.a}}")
    with pytest.raises(CyclicTransformsError, match="c/a -> c/b -> c/a"):
        run(bulk(folder))
    assert changes(service) == []


@pytest.mark.slow
@HOW
def test_interrupted_folder_deploy_reaches_same_state(
    how: str, service: LocalService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = files(tmp_path, k__base="SELECT 5 AS id", k__top="SELECT * FROM {{model.k.base}}", marts__table="SELECT 8")

    def work(memory: Memory) -> Any:
        return run(bulk(folder, materialization="table"), memory)

    for result in interrupted_everywhere(service, monkeypatch, how, work):
        assert result["outcome"] == "succeeded"
        for name, sql in (("base", "SELECT 5 AS id"), ("table", "SELECT 8")):
            found = named(service, name)
            assert (found["sql_template"], found["materialization_status"]) == (sql, "completed")
            assert publications(service, found["id"]) == 1
        top = named(service, "top")
        assert (top["status"], top["materialization_status"]) == ("published", "completed")
