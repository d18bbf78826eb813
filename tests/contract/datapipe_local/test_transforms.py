"""Tests of the builds of transforms and of query previews: references, failures, concurrency and kills."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import duckdb
import pytest

from tests.contract.datapipe_local.api import Api, Json
from tests.contract.datapipe_local.controlled import journalled
from tests.contract.datapipe_local.transform_calls import (
    PREVIEWS,
    SLOW,
    attach,
    built,
    check,
    create,
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
from tests.contract.datapipe_local.warehouses import tables_of
from tests.support.local_service import LocalService

ENDLESS = SLOW.replace("range(300)", "range(300000000)")


def test_references_to_loaded_streams_and_published_transforms(api: Api) -> None:
    sql = "SELECT * FROM {{raw.shop.people}} WHERE id = 1"
    view = create(api, "ada", sql, folder_path="shop/views")["id"]
    assert get(api, view)["materialization_status"] is None
    # A stream has a table after its first run.
    api.refused("POST", f"/transforms/{view}/publish", 400, message="{{raw.shop.people}}")
    api.run_stream("people")
    parameters = [{"weld_tag": "raw.shop.people", "type": "raw_view", "dw_item_id": "shop.people"}]
    assert get(api, view)["parameters"] == parameters
    schema = api.get(f"/transforms/{view}/schema")["data"]
    assert [column["name"] for column in schema] == ["id", "name", "age"]

    reader = create(api, "reader", "FROM {{model.shop.views.ada}}")["id"]
    message = "Unknown reference {{model.shop.views.ada}}"
    refusal = api.refused("POST", f"/transforms/{reader}/publish", 400, message=message)
    assert "did you mean" not in refusal["message"]
    assert publish(api, view)["status"] == "published"
    assert references(api)["model.shop.views.ada"] == ("model_view", "shop_views.ada")
    assert publish(api, reader)["status"] == "published"


def test_failed_builds(api: Api) -> None:
    api.run_stream("people")
    broken = create(api, "broken", "SELECT nope FROM {{raw.shop.people}}", materialization="table")["id"]
    # The status of a table has its error.
    assert publish(api, broken)["status"] == "published"
    seen = built(api, broken)
    assert seen["materialization_status"] == "failed"
    error = seen["materialization_error"]
    assert error.startswith("The transform broken cannot be built: Binder Error: ")
    assert "nope" in error
    assert "\n" not in error
    assert "model.broken" not in references(api)
    # The request that publishes a view has its error.
    view = {"materialization": "view"}
    api.refused("POST", f"/transforms/{broken}/publish", 400, code="invalid_sql", message="nope", json=view)
    # An error that depends on rows fails only the build of a table, which leaves the view.
    cast = create(api, "bad_cast", "SELECT CAST(name AS INTEGER) AS x FROM {{raw.shop.people}}", publish=True)
    assert cast["status"] == "published"
    table = publish(api, cast["id"], materialization="table", wait_for_completion=True)
    assert table["materialization_status"] == "failed"
    assert references(api)["model.bad_cast"] == ("model_view", "models.bad_cast")


def test_rematerialize_builds_the_published_definition(api: Api, service: LocalService) -> None:
    source = create(api, "source", "SELECT 1 AS x", publish=True)["id"]
    copy = create(api, "copy", "SELECT x FROM {{model.source}}", materialization="table")["id"]
    path = f"/transforms/{copy}/rematerialize"
    api.refused("POST", path, 400, code="transform_not_published")

    publish(api, copy, wait_for_completion=True)
    patch(api, source, sql_template="SELECT 2 AS x", publish=True)
    patch(api, copy, sql_template="SELECT 9 AS x", name="other", materialization="view")
    assert rows(api, "FROM {{model.copy}}") == [{"x": 1}]
    check(api.post(path, {"wait_for_completion": True}), status="published", materialization_status="completed")
    assert rows(api, "FROM {{model.copy}}") == [{"x": 2}]
    assert references(api)["model.copy"] == ("materialized_table", "models.copy")
    assert [run["status"] for run in journalled(service, copy, 2)] == ["completed", "completed"]
    # The changes wait for the next publication.
    check(get(api, copy), name="other", materialization="view")
    for override in ("name", "folder_path", "materialization", "version_id", "sql_template"):
        api.refused("POST", path, 400, message=override, json={override: "view"})


def test_newest_publication_wins(api: Api) -> None:
    slow = create(api, "slow", SLOW, materialization="table")["id"]
    assert publish(api, slow)["materialization_status"] == "running"
    assert "model.slow" not in references(api)
    assert get(api, slow)["materialization_status"] == "running"
    publish(api, slow, materialization="view")
    assert references(api)["model.slow"] == ("model_view", "models.slow")
    check(get(api, slow), materialization="view", materialization_status=None)


def test_concurrent_publications_of_a_transform(api: Api, service: LocalService) -> None:
    raced = create(api, "raced", "SELECT 0 AS x")["id"]
    ids = []
    for number in range(1, 9):
        patch(api, raced, sql_template=f"SELECT {number} AS x")
        ids.append(versions(api, raced)[0].id)

    def publishing(number: int) -> Json:
        kind = "table" if number % 2 else "view"
        return publish(Api(service), raced, version_id=ids[number], materialization=kind)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(publishing, range(8)))
    assert all(answer["status"] == "published" for answer in answers)
    seen = built(api, raced)
    # One of them was the last. Version, materialization and rows are all from this one.
    (number,) = [8 - index for index, version in enumerate(versions(api, raced)) if version.is_published]
    assert seen["materialization"] == ("view" if number % 2 else "table")
    assert rows(api, "FROM {{model.raced}}") == [{"x": number}]
    assert references(api)["model.raced"][0] == ("model_view" if number % 2 else "materialized_table")


def test_concurrent_publications_with_one_name(api: Api, service: LocalService) -> None:
    ids = [create(api, "place", f"SELECT {number} AS x")["id"] for number in range(6)]

    def publishing(transform_id: str) -> int:
        return Api(service).client.post(f"/transforms/{transform_id}/publish").status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(publishing, ids))
    assert sorted(statuses) == [200, 400, 400, 400, 400, 400]
    assert rows(api, "FROM {{model.place}}") == [{"x": statuses.index(200)}]


def test_delete_during_a_build(api: Api, service: LocalService) -> None:
    slow = create(api, "slow", SLOW, materialization="table", publish=True)["id"]
    attach(api, slow, "nightly")
    assert get(api, slow)["materialization_status"] == "running"
    api.delete(f"/transforms/{slow}")
    api.refused("GET", f"/transforms/{slow}", 404)
    # The name is free at once, and the canceled build does not take it.
    create(api, "slow", "SELECT 7 AS n", publish=True)
    assert rows(api, "FROM {{model.slow}}") == [{"n": 7}]
    (run,) = journalled(service, slow, 1)
    assert run["status"] == "failed"
    assert api.run_orchestration("nightly").status == "COMPLETED"
    service.restart()
    assert rows(api, "FROM {{model.slow}}") == [{"n": 7}]
    assert list(references(api)) == ["model.slow", "model.v", "raw.shop.orders", "raw.shop.people"]


def test_delete_frees_the_slots_of_endless_builds(api: Api) -> None:
    # As many builds as the service runs at a time.
    ids = [create(api, f"slow{n}", ENDLESS, materialization="table", publish=True)["id"] for n in range(8)]
    waiting = create(api, "waiting", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    assert get(api, waiting)["materialization_status"] == "running"
    for transform_id in ids:
        api.delete(f"/transforms/{transform_id}")
    assert built(api, waiting)["materialization_status"] == "completed"


def test_delete_during_an_orchestration_run_cancels_it(api: Api) -> None:
    slow = create(api, "slow", SLOW, materialization="table", publish=True)["id"]
    attach(api, slow, "nightly")
    run = api.post("/orchestrations/nightly/request_run")
    api.until(f"/orchestration_runs/{run['id']}", lambda seen: seen["status"] == "RUNNING")
    api.delete(f"/transforms/{slow}")
    assert api.ended(f"/orchestration_runs/{run['id']}")["status"] == "CANCELED"


def test_interrupted_deletion_is_finished_at_the_next_start(api: Api, service: LocalService) -> None:
    table = create(api, "gone", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    built(api, table)
    api.delete(f"/transforms/{table}")
    # The state that a kill between the two steps of a deletion leaves.
    service.stop()
    with closing(duckdb.connect(str(service.warehouse))) as warehouse:
        warehouse.execute("CREATE TABLE models.gone AS SELECT 1 AS x")
    with closing(sqlite3.connect(service.home / "state.sqlite", isolation_level=None)) as state:
        state.execute("UPDATE transforms SET object_schema = 'models', object_name = 'gone' WHERE id = ?", (table,))
        assert state.execute("SELECT deleted_at IS NOT NULL FROM transforms WHERE id = ?", (table,)).fetchone() == (1,)
    service.start()
    assert failure(api, "FROM models.gone") == "There is no table models.gone."


#: A process that publishes a transform, and is killed before or after the commit of the view.
KILLED = """
import json, os, signal, sys
from pathlib import Path
from datapipe_local.services import transform_drafts, transform_publication
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import Clock
from datapipe_local.storage.home import Home
from datapipe_local.storage.store import Store
from datapipe_local.warehouse.warehouse import Warehouse

home, when, action = Home(Path(sys.argv[1])), sys.argv[2], json.loads(sys.argv[3])
home.make_scratch()
context = Context(Store(home.state), Warehouse(home.warehouse, home.scratch), Clock())
create_view = context.warehouse.create_view

def create_and_end(*arguments, **options):
    if when == "after":
        create_view(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

context.warehouse.create_view = create_and_end
if "of" in action:
    (transform,) = context.store.transforms.all("WHERE name = ?", action.pop("of"))
    transform_publication.publish(context, transform.id, **action)
else:
    transform_drafts.create(context, **action, publish=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "action"),
    [
        ("before", {"of": "newer", "name": "w"}),
        ("after", {"of": "newer", "name": "w"}),
        ("after", {"of": "newer"}),
        ("after", {"of": "t", "materialization": "view"}),
        ("after", {"name": "w", "sql_template": "SELECT 1 AS x"}),
    ],
    ids=["before a new name", "new name", "new version", "view of a table", "new transform"],
)
def test_a_publication_killed_midway_is_undone(api: Api, service: LocalService, when: str, action: Json) -> None:
    publish(api, "table", wait_for_completion=True)
    newer = create(api, "newer", "FROM {{model.v}}", publish=True)["id"]
    patch(api, newer, sql_template="SELECT 2 AS y")
    service.stop()
    killed = subprocess.run([sys.executable, "-c", KILLED, service.home, when, json.dumps(action)], check=False)  # noqa: S603 - fixed code of the test
    assert killed.returncode == -signal.SIGKILL
    service.start()
    built(api, "table")
    found = rows(api, "SELECT n.x AS n, t.x AS t FROM models.newer n, models.t t")
    assert found == [{"n": 1, "t": 1}]
    assert failure(api, "FROM models.w") == "There is no table models.w."
    assert [one["name"] for one in api.all_pages("/transforms")] == ["v", "t", "newer"]
    assert tables_of(service) == {"models.t": 1}


def test_transforms_cannot_read_or_write_files(api: Api, service: LocalService) -> None:
    secret = service.home / "api_key"
    for sql in (
        f"FROM read_text('{secret}')",
        f"FROM '{service.home}/state.sqlite'",
        f"WITH c AS (COPY (FROM range(1)) TO '{service.home}/written.csv') FROM c",
        f"VALUES ((FROM read_text('{secret}') SELECT content))",
    ):
        for kind in ("view", "table"):
            body = {"name": "spy", "sql_template": sql, "materialization": kind, "publish": True}
            api.refused("POST", "/transforms", 400, code="invalid_sql", json=body)
        draft = create(api, "spy", sql)["id"]
        api.refused("GET", f"/transforms/{draft}/schema", 400)
        assert service.api_key not in failure(api, sql)
    assert not (service.home / "written.csv").exists()


def test_answered_changes_survive_a_kill(api: Api, service: LocalService) -> None:
    view = create(api, "a", "SELECT 1 AS x", publish=True)
    table = create(api, "b", "FROM {{model.a}}", materialization="table", publish=True, cron_expression="0 * * * *")
    changed = patch(api, view["id"], sql_template="SELECT 2 AS x", name="c", documentation="d")
    api.delete("/transforms/view")
    (many,) = api.post("/transforms/bulk", {"transforms": [{"name": "m", "sql_template": "SELECT 1 AS x"}]})["results"]
    running = preview(api, ENDLESS)
    assert api.get(f"{PREVIEWS}/{running}/status")["status"] == "RUNNING"
    service.kill()
    service.start()
    assert get(api, view["id"]) == changed
    assert built(api, table["id"])["cron_expression"] == "0 * * * *"
    assert rows(api, "FROM {{model.b}}, {{model.a}} a") == [{"x": 1, "x_1": 1}]
    api.refused("GET", "/transforms/view", 404)
    assert failure(api, "FROM models.v") == "There is no table models.v."
    assert [entry["id"] for entry in api.all_pages("/transforms")] == ["table", view["id"], table["id"], many["id"]]
    # A preview that a kill interrupted fails, and is not run again.
    status = api.get(f"{PREVIEWS}/{running}/status")
    error = "The service ended while the query was running: create the preview again."
    assert (status["status"], status["error"]) == ("FAILED", error)


def test_query_previews(api: Api) -> None:
    create(api, "ones", "SELECT 1 AS id, 'Ada' AS name", publish=True)
    sql = "SELECT * FROM {{model.ones}} -- {{model.not_one}}"
    created = api.post(PREVIEWS, {"sql_template": sql}, status=201)
    assert created.keys() == {"query_execution_id", "dw_sql"}
    assert created["dw_sql"] == 'SELECT * FROM "models"."ones"'
    path = f"{PREVIEWS}/{created['query_execution_id']}"
    assert ended(api, created["query_execution_id"]).status == "DONE"
    assert api.get(f"{path}/status") == {"query_execution_id": created["query_execution_id"], "status": "DONE"}
    assert api.get(f"{path}/result") == {"rows": [{"id": 1, "name": "Ada"}], "num_rows_total": 1}

    slow = preview(api, SLOW)
    assert api.get(f"{PREVIEWS}/{slow}/status")["status"] == "RUNNING"
    api.refused("GET", f"{PREVIEWS}/{slow}/result", 400, code="query_preview_not_done")
    failed = preview(api, "SELECT nope FROM {{model.ones}}")
    status = ended(api, failed)
    assert status.status == "FAILED"
    assert 'column "nope" not found' in str(status.error)
    api.refused("GET", f"{PREVIEWS}/{failed}/result", 400, code="query_preview_failed")
    unknown = {"sql_template": "FROM {{model.oness}}"}
    api.refused("POST", PREVIEWS, 400, code="unknown_reference", message="did you mean model.ones", json=unknown)


def test_endless_previews_delay_no_run(api: Api) -> None:
    previews = [preview(api, ENDLESS) for _ in range(12)]
    table = create(api, "t", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    assert built(api, table)["materialization_status"] == "completed"
    assert api.run_orchestration("nightly").status == "COMPLETED"
    assert {api.get(f"{PREVIEWS}/{preview_id}/status")["status"] for preview_id in previews} == {"RUNNING"}
