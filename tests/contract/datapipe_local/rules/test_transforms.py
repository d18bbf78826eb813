"""Tests of the rows of transforms and query previews."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import journalled
from tests.contract.datapipe_local.transform_calls import (
    PREVIEWS,
    SLOW,
    attach,
    built,
    create,
    delete,
    detach,
    ended,
    failure,
    get,
    patch,
    preview,
    publish,
    references,
    rows,
    versions,
)
from tests.support.local_service import LocalService

HOURLY = "0 * * * *"


@pytest.fixture
def api(service: LocalService) -> Api:
    return Api(service)


def test_transform_create_with_publish(api: Api) -> None:
    """Materialize in the warehouse. For a table, cron_expression sets its own schedule."""
    view = create(api, "ones", "SELECT 1 AS one", folder_path="a/b", documentation="Größe ❤ 📏", publish=True)
    assert (view["status"], view["materialization"], view["rebuild_trigger"]) == ("published", "view", "none")
    assert (view["materialization_status"], view["documentation"]) == (None, "Größe ❤ 📏")
    assert rows(api, "SELECT * FROM {{model.a.b.ones}}") == [{"one": 1}]

    sql = "SELECT one + 1 AS two FROM {{model.a.b.ones}}"
    table = create(
        api, "twos", sql, materialization="table", cron_expression=HOURLY, publish=True, wait_for_completion=True
    )
    assert (table["status"], table["materialization_status"]) == ("published", "completed")
    assert (table["cron_expression"], table["rebuild_trigger"]) == (HOURLY, "schedule")
    assert [entry["weld_tag"] for entry in table["parameters"]] == ["model.a.b.ones"]
    assert rows(api, "FROM {{model.twos}}") == [{"two": 2}]
    assert references(api)["model.twos"] == ("materialized_table", "models.twos")

    # Without publish it is a draft, which stands nowhere.
    draft = create(api, "threes", "SELECT 3 AS three")
    assert (draft["status"], draft["folder_path"], draft["rebuild_trigger"]) == ("draft", "", "none")
    assert "model.threes" not in references(api)

    # What cannot be published is not created either, and leaves nothing in the warehouse.
    count = len(api.all_pages("/transforms"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"sql_template": "FROM {{model.nope}}"}, "unknown_reference"),
        ({"sql_template": "FROM {{model.bad}}"}, "cyclic_reference"),
        ({"sql_template": "SELECT nope"}, "invalid_sql"),
        ({"name": "ones", "folder_path": "a_b"}, "name_taken"),
        ({"cron_expression": HOURLY}, "not_a_published_table"),
        ({"cron_expression": HOURLY, "materialization": "table", "publish": False}, "not_a_published_table"),
        ({"cron_expression": "0 0 * *", "materialization": "table"}, "invalid_cron_expression"),
    ]
    for wrong, code in cases:
        body = {"name": "bad", "sql_template": "SELECT 1 AS x", "publish": True, **wrong}
        assert api.refused("POST", "/transforms", 400, json=body)["error_code"] == code, wrong
    assert len(api.all_pages("/transforms")) == count
    assert "bad" in failure(api, "FROM models.bad")


def test_transform_publish(api: Api) -> None:
    """Materialize the latest SQL. The request can override name, folder_path and materialization."""
    transform_id = create(api, "first", "SELECT 1 AS x")["id"]
    patch(api, transform_id, sql_template="SELECT 2 AS x")
    assert publish(api, transform_id)["status"] == "published"
    assert rows(api, "FROM {{model.first}}") == [{"x": 2}]

    moved = publish(
        api, transform_id, name="second", folder_path="out", materialization="table", wait_for_completion=True
    )
    assert (moved["name"], moved["folder_path"], moved["materialization"]) == ("second", "out", "table")
    assert moved["materialization_status"] == "completed"
    assert "model.first" not in references(api)
    assert references(api)["model.out.second"] == ("materialized_table", "out.second")
    assert "models.first" in failure(api, "FROM models.first")
    assert rows(api, "FROM {{model.out.second}}") == [{"x": 2}]

    # An older version; what is published is told.
    newest, oldest = versions(api, transform_id)
    assert (newest.is_published, oldest.is_published) == (True, False)
    publish(api, transform_id, version_id=oldest.id, wait_for_completion=True)
    assert rows(api, "FROM {{model.out.second}}") == [{"x": 1}]
    assert [version.is_published for version in versions(api, transform_id)] == [False, True]

    api.refused("POST", "/transforms/nope/publish", 404)
    api.refused("POST", f"/transforms/{transform_id}/publish", 404, json={"version_id": "nope"})
    api.refused("POST", f"/transforms/{transform_id}/publish", 400, json={"sql_template": "SELECT 1"})


def test_transform_update_with_publish(api: Api) -> None:
    """
    Publish again after a change of sql_template or materialization of a published transform.

    cron_expression (published tables only) sets the schedule, null clears it.
    """
    transform_id = create(api, "changing", "SELECT 1 AS x")["id"]
    # A draft stays one.
    assert patch(api, transform_id, sql_template="SELECT 2 AS x", publish=True)["status"] == "draft"
    publish(api, transform_id)

    # Without publish what stands there stays, and so it does if neither has changed.
    patch(api, transform_id, sql_template="SELECT 3 AS x")
    assert rows(api, "FROM {{model.changing}}") == [{"x": 2}]
    patch(api, transform_id, sql_template="SELECT 2 AS x")
    named = patch(api, transform_id, name="changed", documentation="why", publish=True)
    assert (named["name"], named["documentation"]) == ("changed", "why")
    assert list(references(api)) == ["model.changing", "model.v"]

    # The SQL has changed.
    patch(api, transform_id, sql_template="SELECT 4 AS x", publish=True)
    assert rows(api, "FROM {{model.changed}}") == [{"x": 4}]
    assert "model.changing" not in references(api)
    api.refused("PATCH", f"/transforms/{transform_id}", 400, json={"cron_expression": HOURLY})

    # The materialization has changed, with it the schedule.
    table = patch(
        api, transform_id, materialization="table", cron_expression=HOURLY, publish=True, wait_for_completion=True
    )
    assert (table["materialization"], table["materialization_status"]) == ("table", "completed")
    assert (table["cron_expression"], table["rebuild_trigger"]) == (HOURLY, "schedule")
    assert references(api)["model.changed"][0] == "materialized_table"
    refused = api.refused("PATCH", f"/transforms/{transform_id}", 400, json={"cron_expression": "nightly"})
    assert refused["error_code"] == "invalid_cron_expression"
    cleared = patch(api, transform_id, cron_expression=None)
    assert (cleared["cron_expression"], cleared["rebuild_trigger"]) == (None, "none")

    # What cannot be published changes nothing.
    before = get(api, transform_id)
    wrong = {"sql_template": "FROM {{model.changed}}", "documentation": "other", "publish": True}
    assert "{{model.changed}}" in api.refused("PATCH", f"/transforms/{transform_id}", 400, json=wrong)["message"]
    assert get(api, transform_id) == before
    api.refused("PATCH", "/transforms/nope", 404, json={})


def test_transform_rematerialize(api: Api, service: LocalService) -> None:
    """Rebuild the current definition of a published transform. Overrides are refused."""
    source = create(api, "source", "SELECT 1 AS x", publish=True)["id"]
    sql = "SELECT x FROM {{model.source}}"
    transform_id = create(api, "copy", sql, materialization="table")["id"]
    refused = api.refused("POST", f"/transforms/{transform_id}/rematerialize", 400)
    assert refused["error_code"] == "transform_not_published"

    publish(api, transform_id, wait_for_completion=True)
    patch(api, source, sql_template="SELECT 2 AS x", publish=True)
    # Not yet published, and so no part of what is built again.
    patch(api, transform_id, sql_template="SELECT 9 AS x", name="other", materialization="view")
    assert rows(api, "FROM {{model.copy}}") == [{"x": 1}]
    again = api.post(f"/transforms/{transform_id}/rematerialize", {"wait_for_completion": True})
    assert (again["status"], again["materialization_status"]) == ("published", "completed")
    assert rows(api, "FROM {{model.copy}}") == [{"x": 2}]
    assert references(api)["model.copy"] == ("materialized_table", "models.copy")
    assert [run["status"] for run in journalled(service, transform_id, 2)] == ["completed", "completed"]
    # What it was given stays, for the next publication.
    assert (get(api, transform_id)["name"], get(api, transform_id)["materialization"]) == ("other", "view")

    for override in ("name", "folder_path", "materialization", "version_id", "sql_template"):
        refused = api.refused("POST", f"/transforms/{transform_id}/rematerialize", 400, json={override: "view"})
        assert override in refused["message"]
    api.refused("POST", "/transforms/nope/rematerialize", 404)


def test_transform_attach_orchestration(api: Api, service: LocalService) -> None:
    """Materialize a published transform in the runs of the workflow. Return 400 for an unpublished one."""
    table = create(api, "nightly_table", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    built(api, table)
    patch(api, table, cron_expression=HOURLY)
    attached = attach(api, table, "nightly")
    assert (attached["orchestration_workflow_id"], attached["rebuild_trigger"]) == ("nightly", "orchestration")
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    (_, by_run) = journalled(service, table, 2)
    assert (by_run["trigger"], by_run["orchestration_run_id"]) == ("orchestration", run.id)
    # A view, too.
    assert attach(api, "view", "nightly")["rebuild_trigger"] == "orchestration"

    path = f"/transforms/{table}/orchestration"
    api.refused("POST", path, 404, json={"orchestration_workflow_id": "nope"})
    api.refused("POST", "/transforms/nope/orchestration", 404, json={"orchestration_workflow_id": "nightly"})
    for wrong in ({}, {"orchestration_workflow_id": None}, {"orchestration_workflow_id": "nightly", "cron": HOURLY}):
        api.refused("POST", path, 400, json=wrong)
    body = {"orchestration_workflow_id": "nightly"}
    assert api.refused("POST", "/transforms/table/orchestration", 400, json=body)["error_code"] == (
        "transform_not_published"
    )


def test_transform_detach_orchestration(api: Api, service: LocalService) -> None:
    """
    Return to its own schedule. Return 400 unless cron_expression is valid and the transform is a published table.

    Without cron_expression and without an own schedule, rebuild_trigger becomes none.
    """
    table = create(api, "nightly_table", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    built(api, table)
    attach(api, table, "nightly")
    for wrong in ("", "nightly", "0 5 * *", "0 5 * * * *", "61 5 * * *"):
        path = f"/transforms/{table}/orchestration"
        refused = api.refused("DELETE", path, 400, params={"cron_expression": wrong})
        assert refused["error_code"] == "invalid_cron_expression"
    assert get(api, table)["rebuild_trigger"] == "orchestration"

    detached = detach(api, table)
    assert ("orchestration_workflow_id" in detached, detached["rebuild_trigger"]) == (False, "none")
    api.run_orchestration("nightly")
    assert len(service.journal_runs(table)) == 1

    attach(api, table, "nightly")
    detached = detach(api, table, cron_expression=HOURLY)
    assert ("orchestration_workflow_id" in detached, detached["rebuild_trigger"]) == (False, "schedule")
    assert detached["cron_expression"] == HOURLY
    # The schedule that it had before comes back.
    attach(api, table, "nightly")
    detached = detach(api, table)
    assert (detached["cron_expression"], detached["rebuild_trigger"]) == (HOURLY, "schedule")
    # One that is attached to nothing stays so.
    assert detach(api, table)["rebuild_trigger"] == "schedule"
    api.refused("DELETE", "/transforms/nope/orchestration", 404)


def test_transform_delete(api: Api, service: LocalService) -> None:
    """Soft-delete the transform: it is gone for all callers, and its view or table leaves the warehouse."""
    table = create(api, "gone", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    built(api, table)
    attach(api, table, "nightly")
    reader = create(api, "reader", "SELECT x FROM {{model.gone}}", publish=True)["id"]
    draft = create(api, "draft", "SELECT 1 AS x")["id"]
    for transform_id in (table, "view", draft):
        delete(api, transform_id)
        for method, path in [
            ("GET", ""),
            ("GET", "/schema"),
            ("GET", "/versions"),
            ("DELETE", ""),
            ("DELETE", "/orchestration"),
            ("POST", "/publish"),
            ("POST", "/rematerialize"),
        ]:
            api.refused(method, f"/transforms/{transform_id}{path}", 404)
        api.refused("PATCH", f"/transforms/{transform_id}", 404, json={})
    assert [entry["id"] for entry in api.all_pages("/transforms")] == ["table", reader]
    assert list(references(api)) == ["model.reader"]
    for name in ("gone", "v"):
        assert f"models.{name}" in failure(api, f"FROM models.{name}")
    # Who reads it fails from now on, by its name.
    assert "name gone does not exist" in failure(api, "FROM {{model.reader}}")
    assert "{{model.gone}}" in api.refused("POST", f"/transforms/{reader}/rematerialize", 400)["message"]
    api.run_orchestration("nightly")
    assert len(service.journal_runs(table)) == 1
    # Its source was the view.
    assert api.refused("POST", "/reverse_etl_syncs/export/request_run", 400)["error_code"] == "not_eligible"
    # Its name is free again.
    create(api, "gone", "SELECT 5 AS x", publish=True)
    assert rows(api, "FROM {{model.reader}}") == [{"x": 5}]


def test_query_preview_create(api: Api) -> None:
    """Return an execution ID and run the query asynchronously. Callers poll for DONE, then read the result."""
    create(api, "ones", "SELECT 1 AS id, 'Ada' AS name", publish=True)
    sql = "SELECT * FROM {{model.ones}} -- {{model.not_one}}"
    created = api.post(PREVIEWS, {"sql_template": sql}, status=201)
    assert created.keys() == {"query_execution_id", "dw_sql"}
    assert created["dw_sql"] == 'SELECT * FROM "models"."ones"'
    path = f"{PREVIEWS}/{created['query_execution_id']}"
    assert ended(api, created["query_execution_id"]).status == "DONE"
    assert api.get(f"{path}/status") == {"query_execution_id": created["query_execution_id"], "status": "DONE"}
    assert api.get(f"{path}/result") == {"rows": [{"id": 1, "name": "Ada"}], "num_rows_total": 1}

    # Before it is done, and if it fails, there is no result.
    slow = preview(api, SLOW)
    assert api.get(f"{PREVIEWS}/{slow}/status")["status"] == "RUNNING"
    refused: Any = api.refused("GET", f"{PREVIEWS}/{slow}/result", 400)
    assert refused["error_code"] == "query_preview_not_done"
    failed = preview(api, "SELECT nope FROM {{model.ones}}")
    status = ended(api, failed)
    assert status.status == "FAILED"
    assert 'column "nope" not found' in str(status.error)
    assert api.refused("GET", f"{PREVIEWS}/{failed}/result", 400)["error_code"] == "query_preview_failed"

    unknown = api.refused("POST", PREVIEWS, 400, json={"sql_template": "FROM {{model.oness}}"})
    assert unknown["error_code"] == "unknown_reference"
    assert "did you mean model.ones" in unknown["message"]
    for what in ("status", "result"):
        api.refused("GET", f"{PREVIEWS}/nope/{what}", 404)


def test_error_attach_transform_not_published(api: Api) -> None:
    """Expect 400 for attaching an unpublished transform to an orchestration."""
    draft = create(api, "draft", "SELECT 1 AS x", materialization="table")["id"]
    path = f"/transforms/{draft}/orchestration"
    refused = api.refused("POST", path, 400, json={"orchestration_workflow_id": "nightly"})
    assert refused["error_code"] == "transform_not_published"
    assert (get(api, draft)["rebuild_trigger"], "orchestration_workflow_id" in get(api, draft)) == ("none", False)
    publish(api, draft, wait_for_completion=True)
    assert attach(api, draft, "nightly")["orchestration_workflow_id"] == "nightly"


def test_error_detach_transform_not_a_published_table(api: Api) -> None:
    """Expect 400 for a detach with cron_expression unless the transform is a published table."""
    draft = create(api, "draft", "SELECT 1 AS x", materialization="table")["id"]
    attach(api, "view", "nightly")
    for transform_id, what in ((draft, "a draft"), ("view", "a view")):
        path = f"/transforms/{transform_id}/orchestration"
        refused = api.refused("DELETE", path, 400, params={"cron_expression": HOURLY})
        assert refused["error_code"] == "not_a_published_table"
        assert what in refused["message"]
    assert get(api, "view")["rebuild_trigger"] == "orchestration"
    # Without a schedule it can be detached.
    assert detach(api, "view")["rebuild_trigger"] == "none"
    publish(api, draft, wait_for_completion=True)
    assert detach(api, draft, cron_expression=HOURLY)["rebuild_trigger"] == "schedule"


def test_limit_bulk_transform_creation(api: Api) -> None:
    """Expect a limit of 50 transforms per request. Items are independent."""

    def many(number: int) -> list[dict[str, Any]]:
        return [{"name": f"t{index}", "sql_template": f"SELECT {index} AS x"} for index in range(number)]

    for number in (0, 51, 200):
        refused = api.refused("POST", "/transforms/bulk", 400, json={"transforms": many(number)})
        assert refused["message"].startswith("transforms: ")
    assert len(api.all_pages("/transforms")) == 2
    results = api.post("/transforms/bulk", {"transforms": many(50)})["results"]
    assert [(entry["name"], entry["success"]) for entry in results] == [(f"t{index}", True) for index in range(50)]
    assert [entry["id"] for entry in api.all_pages("/transforms", limit=100)[2:]] == [entry["id"] for entry in results]
