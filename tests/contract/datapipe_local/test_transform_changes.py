"""Tests of requests that create, change and delete transforms."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.contract.datapipe_local.api import Api, Json
from tests.contract.datapipe_local.controlled import journalled
from tests.contract.datapipe_local.transform_calls import (
    PREVIEWS,
    SLOW,
    attach,
    built,
    create,
    delete,
    detach,
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


@pytest.fixture
def api(service: LocalService) -> Api:
    return Api(service)


def refused(api: Api, path: str, body: Json, method: str = "POST") -> Json:
    return api.refused(method, path, 400, json=body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "1st"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a\0"}, "name"),
        ({"name": "ä"}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"name": "a" * 10_000}, "name"),
        ({"name": None}, "name"),
        ({"name": 1}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"folder_path": "/"}, "folder_path"),
        ({"folder_path": "a//b"}, "folder_path"),
        ({"folder_path": "../x"}, "folder_path"),
        ({"folder_path": "/".join("a" * 200)}, "folder_path"),
        ({"folder_path": "information/schema"}, "folder_path"),
        ({"folder_path": "Temp"}, "folder_path"),
        ({"folder_path": "warehouse"}, "folder_path"),
        ({"folder_path": None}, "folder_path"),
        ({"sql_template": ""}, "sql_template"),
        ({"sql_template": " \n"}, "sql_template"),
        ({"sql_template": "SELECT '\0'"}, "sql_template"),
        ({"sql_template": "SELECT " + "1" * 100_000}, "sql_template"),
        ({"sql_template": "SELECT '\udc00'"}, "sql_template"),
        ({"materialization": "cube"}, "materialization"),
        ({"materialization": None}, "materialization"),
        ({"documentation": None}, "documentation"),
        ({"documentation": "\ud83d"}, "documentation"),
        ({"publish": "true"}, "publish"),
        ({"publish": 1}, "publish"),
        ({"wait_for_completion": None}, "wait_for_completion"),
        ({"cron_expression": 5}, "cron_expression"),
        ({"id": "mine"}, "id"),
        ({"status": "published"}, "status"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
def test_what_a_transform_cannot_be(api: Api, body: Json, field: str) -> None:
    whole = {"name": "x", "sql_template": "SELECT 1 AS x", **body}
    known = create(api, "known", "SELECT 1 AS x")["id"]
    before = get(api, known)
    headers = {"content-type": "application/json"}
    # Half a character is spelt so.
    sent = json.dumps(whole).encode()
    said = api.refused("POST", "/transforms", 400, content=sent, headers=headers)["message"]
    assert said.startswith(f"{field}")
    # Changing it to that is refused as well.
    api.refused("PATCH", f"/transforms/{known}", 400, content=json.dumps(body).encode(), headers=headers)
    assert get(api, known) == before
    assert len(api.all_pages("/transforms")) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["select", "ORDER", "table", "group", "null", "all", "user", "_x", "main", "x__y"])
def test_names_that_are_words_of_sql(api: Api, name: str) -> None:
    create(api, name, f'SELECT 1 AS "{name}"', folder_path="from/where", publish=True)
    assert rows(api, f"FROM {{{{model.from.where.{name}}}}}") == [{name: 1}]
    table = create(api, f"{name}_t", f"FROM {{{{model.from.where.{name}}}}}", materialization="table", publish=True)
    assert built(api, table["id"])["materialization_status"] == "completed"
    assert rows(api, f"FROM {{{{model.{name}_t}}}} AS t") == [{name: 1}]


def test_any_text_is_kept_as_it_is(api: Api) -> None:
    text = "Grüße\n\n# 标题 \u202e ❤️ \t\x1b[31m {{model.nope}} '\"; DROP TABLE x; -- " + "é" * 10_000
    sql = f"SELECT '{text.replace(chr(39), chr(39) * 2)}' AS text -- ❤ {{{{model.nope}}}}"
    transform = create(api, "texts", sql, documentation=text, publish=True)
    assert (transform["documentation"], transform["sql_template"], transform["parameters"]) == (text, sql, [])
    assert get(api, transform["id"]) == transform
    assert rows(api, "FROM {{model.texts}}") == [{"text": text}]
    assert "documentation" not in create(api, "none", "SELECT 1 AS x")


def test_a_change_changes_what_it_says(api: Api) -> None:
    draft = create(api, "a", "SELECT 1 AS x", folder_path="f", documentation="d", materialization="table")
    assert patch(api, draft["id"]) == {**draft, "updated_at": get(api, draft["id"])["updated_at"]}
    changes: Json = {"name": "b", "folder_path": "", "sql_template": "FROM {{model.v}}", "materialization": "view"}
    for field, value in changes.items():
        before = get(api, draft["id"])
        after = patch(api, draft["id"], **{field: value})
        assert {name for name in after if after[name] != before[name]} - {"updated_at", "parameters"} == {field}
        assert after["updated_at"] >= before["updated_at"]
    assert [entry.sql_template for entry in versions(api, draft["id"])] == ["FROM {{model.v}}", "SELECT 1 AS x"]
    assert [entry["id"] for entry in api.get("/transforms", name="B", folder_path="")["data"]] == [draft["id"]]
    # A published one is found by what it is given, and stands where it stood.
    publish(api, draft["id"])
    patch(api, draft["id"], name="c", folder_path="g/h")
    assert [entry["id"] for entry in api.get("/transforms", name="c", folder_path="g/h")["data"]] == [draft["id"]]
    assert list(references(api)) == ["model.b", "model.v"]
    assert publish(api, draft["id"])["folder_path"] == "g/h"
    assert list(references(api)) == ["model.g.h.c", "model.v"]


def test_versions(api: Api) -> None:
    transform_id = create(api, "many", "SELECT 0 AS x")["id"]
    for number in range(1, 6):
        patch(api, transform_id, sql_template=f"FROM {{{{model.v}}}} SELECT {number} AS x")
    patch(api, transform_id, sql_template="FROM {{model.v}} SELECT 5 AS x", documentation="the same")
    found = versions(api, transform_id)
    assert [version.sql_template[-6:] for version in found] == [f"{number} AS x" for number in (5, 4, 3, 2, 1, 0)]
    assert not any(version.is_published for version in found)
    assert {version.user_id for version in found} == {"local"}
    assert [entry.tag for entry in found[0].parameters] == ["model.v"]
    assert found[-1].parameters == ()
    publish(api, transform_id, version_id=found[3].id)
    assert [version.is_published for version in versions(api, transform_id)] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    # Another one's are none of its.
    other = create(api, "other", "SELECT 1 AS x")["id"]
    api.refused("POST", f"/transforms/{other}/publish", 404, json={"version_id": found[0].id})
    api.refused("GET", "/transforms/nope/versions", 404)


def test_bulk_items_are_independent_and_in_order(api: Api) -> None:
    view = {"name": "one", "sql_template": "SELECT 1 AS x", "publish": True}
    items: list[Json] = [
        view,
        {"name": "two", "sql_template": "SELECT x + 1 AS x FROM {{model.one}}", "publish": True},
        {"name": "bad name", "sql_template": "SELECT 1 AS x"},
        {"name": "one", "sql_template": "SELECT 1 AS x", "publish": True},
        {"name": "early", "sql_template": "FROM {{model.late}}", "publish": True},
        {"name": "late", "sql_template": "SELECT 1 AS x", "publish": True},
        {"name": "cron", "sql_template": "SELECT 1 AS x", "cron_expression": "x"},
        {**view, "name": "table", "materialization": "table", "wait_for_completion": True},
        {"name": "of_table", "sql_template": "FROM {{model.table}}", "publish": True, "cron_expression": "0 * * * *"},
        {"name": "of_table", "sql_template": "FROM {{model.table}}", "publish": True},
    ]
    results = api.post("/transforms/bulk", {"transforms": items})["results"]
    assert [entry["name"] for entry in results] == [item["name"] for item in items]
    assert [entry["success"] for entry in results] == [True, True, False, False, False, True, False, True, False, True]
    for entry in results:
        assert entry.keys() == ({"name", "success", "id"} if entry["success"] else {"name", "success", "error"})
    said = [entry.get("error", "") for entry in results]
    assert ["{{model.late}}" in said[4], "is no name" in said[2], "is the place" in said[3]] == [True, True, True]
    assert "cron expression" in said[6]
    assert "only a published table" in said[8]
    assert [entry["id"] for entry in api.all_pages("/transforms")[2:]] == [
        entry["id"] for entry in results if entry["success"]
    ]
    assert rows(api, "SELECT two.x + of_table.x AS x FROM {{model.two}} two, {{model.of_table}} of_table") == [{"x": 3}]

    # What is no transform at all: nothing is created.
    count = len(api.all_pages("/transforms"))
    for wrong in ({"name": "x"}, {**view, "name": None}, {**view, "extra": 1}, {**view, "publish": "yes"}, 1, None):
        message = refused(api, "/transforms/bulk", {"transforms": [view, wrong]})["message"]
        assert message.startswith("transforms.1")
    refused(api, "/transforms/bulk", {"transforms": None})
    refused(api, "/transforms/bulk", {})
    assert len(api.all_pages("/transforms")) == count


def test_two_publish_at_once(api: Api, service: LocalService) -> None:
    transform_id = create(api, "raced", "SELECT 0 AS x")["id"]
    ids = []
    for number in range(1, 9):
        patch(api, transform_id, sql_template=f"SELECT {number} AS x")
        ids.append(versions(api, transform_id)[0].id)

    def publishing(number: int) -> Json:
        return publish(
            Api(service),
            transform_id,
            version_id=ids[number],
            materialization="table" if number % 2 else "view",
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(publishing, range(8)))
    assert all(answer["status"] == "published" for answer in answers)
    seen = built(api, transform_id)
    # One of them was the last, and all is of it.
    (number,) = [8 - index for index, version in enumerate(versions(api, transform_id)) if version.is_published]
    assert seen["materialization"] == ("view" if number % 2 else "table")
    assert rows(api, "FROM {{model.raced}}") == [{"x": number}]
    assert references(api)["model.raced"][0] == ("model_view" if number % 2 else "materialized_table")


def test_two_take_one_place_at_once(api: Api, service: LocalService) -> None:
    ids = [create(api, "place", f"SELECT {number} AS x")["id"] for number in range(6)]

    def publishing(transform_id: str) -> int:
        return Api(service).client.post(f"/transforms/{transform_id}/publish").status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(publishing, ids))
    assert sorted(statuses) == [200, 400, 400, 400, 400, 400]
    assert rows(api, "FROM {{model.place}}") == [{"x": statuses.index(200)}]


def test_deleting_while_it_is_being_built(api: Api, service: LocalService) -> None:
    transform_id = create(api, "slow", SLOW, materialization="table", publish=True)["id"]
    attach(api, transform_id, "nightly")
    assert get(api, transform_id)["materialization_status"] == "running"
    delete(api, transform_id)
    api.refused("GET", f"/transforms/{transform_id}", 404)
    # Its place is free at once, and stays with the new one.
    create(api, "slow", "SELECT 7 AS n", publish=True)
    assert rows(api, "FROM {{model.slow}}") == [{"n": 7}]
    (run,) = journalled(service, transform_id, 1)
    assert run["status"] == "failed"
    # Nobody waits for what was being built.
    assert api.run_orchestration("nightly").status == "COMPLETED"
    service.restart()
    assert rows(api, "FROM {{model.slow}}") == [{"n": 7}]
    assert list(references(api)) == ["model.slow", "model.v", "raw.shop.orders", "raw.shop.people"]


def test_a_build_that_never_ends_holds_nobody_up(api: Api) -> None:
    endless = SLOW.replace("range(300)", "range(300000000)")
    # As many as the service does at a time.
    ids = [create(api, f"slow{n}", endless, materialization="table", publish=True)["id"] for n in range(8)]
    waiting = create(api, "waiting", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    assert get(api, waiting)["materialization_status"] == "running"
    for transform_id in ids:
        delete(api, transform_id)
    assert built(api, waiting)["materialization_status"] == "completed"


def test_deleting_what_an_orchestration_is_building(api: Api) -> None:
    slow = create(api, "slow", SLOW, materialization="table")["id"]
    api.post(f"/transforms/{slow}/publish")
    attach(api, slow, "nightly")
    run = api.post("/orchestrations/nightly/request_run")
    api.until(f"/orchestration_runs/{run['id']}", lambda seen: seen["status"] == "RUNNING")
    delete(api, slow)
    assert api.ended(f"/orchestration_runs/{run['id']}")["status"] == "CANCELED"


def test_a_deletion_that_was_cut_off_is_finished(api: Api, service: LocalService) -> None:
    table = create(api, "gone", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    built(api, table)
    delete(api, table)
    # As a process leaves it that is killed in between.
    service.stop()
    with closing(sqlite3.connect(service.home / "state.sqlite", isolation_level=None)) as state:
        state.execute("UPDATE transforms SET object_schema = 'models', object_name = 'v' WHERE id = ?", (table,))
        assert state.execute("SELECT deleted_at IS NOT NULL FROM transforms WHERE id = ?", (table,)).fetchone() == (1,)
    service.start()
    assert failure(api, "FROM models.v") == "There is no table models.v."


def test_cycles_are_refused_by_name_on_every_way_to_one(api: Api) -> None:
    a = create(api, "a", "SELECT 1 AS x", publish=True)["id"]
    b = create(api, "b", "FROM {{model.a}}", publish=True)["id"]
    old = versions(api, a)[0].id
    # By a change of what is published.
    said = refused(api, f"/transforms/{a}", {"sql_template": "FROM {{model.b}}", "publish": True}, "PATCH")
    assert (said["error_code"], "{{model.b}}, which is computed from this" in said["message"]) == (
        "cyclic_reference",
        True,
    )
    # By publishing a version of it, and an older one.
    patch(api, a, sql_template="FROM {{model.b}}")
    assert refused(api, f"/transforms/{a}/publish", {})["error_code"] == "cyclic_reference"
    cyclic = versions(api, a)[0].id
    patch(api, a, sql_template="SELECT 2 AS x")
    assert refused(api, f"/transforms/{a}/publish", {"version_id": cyclic})["error_code"] == "cyclic_reference"
    publish(api, a, version_id=old)
    # By creating anew what was deleted under its readers.
    delete(api, a)
    for body in (
        {"name": "a", "sql_template": "FROM {{model.b}}", "publish": True},
        {"name": "a", "sql_template": "FROM {{model.a}}", "publish": True},
    ):
        assert refused(api, "/transforms", body)["error_code"] == "cyclic_reference"
    # By giving something else its name.
    c = create(api, "c", "FROM {{model.b}}")["id"]
    said = refused(api, f"/transforms/{c}/publish", {"name": "a"})
    assert (said["error_code"], "{{model.b}}" in said["message"]) == ("cyclic_reference", True)
    # What names in vain only itself, in words.
    assert create(api, "a", "SELECT '{{model.b}}' AS x -- {{model.b}}", publish=True)["parameters"] == []
    assert rows(api, "FROM {{model.b}}") == [{"x": "{{model.b}}"}]
    assert get(api, b)["parameters"] == [{"weld_tag": "model.a", "type": "model_view", "dw_item_id": "models.a"}]


def test_what_has_it_built_again(api: Api) -> None:
    transform = create(api, "t", "SELECT 1 AS x", materialization="table", publish=True, cron_expression="0 * * * *")
    other = api.post("/orchestrations", {"name": "Other", "cron_schedule": "0 9 * * *"}, status=201)["id"]
    built(api, transform["id"])
    assert attach(api, transform["id"], "nightly")["cron_expression"] == "0 * * * *"
    # A schedule of its own rests, also one that it is given now.
    given = patch(api, transform["id"], cron_expression="30 * * * *")
    assert (given["cron_expression"], given["rebuild_trigger"]) == ("30 * * * *", "orchestration")
    assert attach(api, transform["id"], other)["orchestration_workflow_id"] == other
    # A view has none, and stays attached.
    view = publish(api, transform["id"], materialization="view")
    assert (view["cron_expression"], view["rebuild_trigger"]) == (None, "orchestration")
    assert detach(api, transform["id"])["rebuild_trigger"] == "none"
    # Neither has what is going to be a view, or was not published as a table.
    patch(api, transform["id"], materialization="table")
    body = {"cron_expression": "0 * * * *"}
    assert refused(api, f"/transforms/{transform['id']}", body, "PATCH")["error_code"] == "not_a_published_table"
    patch(api, transform["id"], publish=True, **body)
    said = refused(api, f"/transforms/{transform['id']}", {"materialization": "view", "publish": True, **body}, "PATCH")
    assert said["error_code"] == "not_a_published_table"
    seen = built(api, transform["id"])
    assert (seen["materialization"], seen["cron_expression"]) == ("table", "0 * * * *")
    assert references(api)["model.t"][0] == "materialized_table"
    # Nothing is taken away from what has nothing.
    assert patch(api, "view", cron_expression=None)["rebuild_trigger"] == "none"


def test_a_name_that_others_need(api: Api) -> None:
    needed = create(api, "needed", "SELECT 1 AS x", publish=True)["id"]
    create(api, "needs", "FROM {{model.needed}}", publish=True)
    # Given, but not published, it hurts nobody.
    patch(api, needed, name="other")
    assert rows(api, "FROM {{model.needs}}") == [{"x": 1}]
    said = refused(api, f"/transforms/{needed}/publish", {})
    assert (said["error_code"], "'needs' would lose {{model.needed}}" in said["message"]) == ("transform_in_use", True)
    said = refused(api, f"/transforms/{needed}", {"sql_template": "SELECT 2 AS x", "publish": True}, "PATCH")
    assert said["error_code"] == "transform_in_use"
    api.post(f"/transforms/{needed}/rematerialize")
    assert rows(api, "FROM {{model.needs}}") == [{"x": 1}]
    patch(api, needed, name="needed", sql_template="SELECT 3 AS x", publish=True)
    assert rows(api, "FROM {{model.needs}}") == [{"x": 3}]


def test_a_transform_cannot_reach_beyond_the_warehouse(api: Api, service: LocalService) -> None:
    secret = service.home / "api_key"
    for sql in (
        f"FROM read_text('{secret}')",
        f"FROM '{service.home}/state.sqlite'",
        f"WITH c AS (COPY (FROM range(1)) TO '{service.home}/written.csv') FROM c",
        f"VALUES ((FROM read_text('{secret}') SELECT content))",
    ):
        for kind in ("view", "table"):
            body = {"name": "spy", "sql_template": sql, "materialization": kind, "publish": True}
            assert refused(api, "/transforms", body)["error_code"] == "invalid_sql"
        draft = create(api, "spy", sql)["id"]
        api.refused("GET", f"/transforms/{draft}/schema", 400)
        assert service.api_key not in failure(api, sql)
    assert not (service.home / "written.csv").exists()


def test_what_version_control_manages(service: LocalService) -> None:
    with LocalService(
        {
            "transforms_managed_by_version_control": True,
            "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
            "transforms": [
                {
                    "id": "t",
                    "name": "t",
                    "sql_template": "SELECT 1 AS x",
                    "materialization": "table",
                    "publish": True,
                    "cron_expression": "0 * * * *",
                }
            ],
        }
    ) as managed:
        api = Api(managed)
        before = built(api, "t")
        assert (before["cron_expression"], before["rebuild_trigger"]) == ("0 * * * *", "schedule")
        for method, path, body in [
            ("POST", "/transforms", {"name": "x", "sql_template": "SELECT 1 AS x"}),
            ("POST", "/transforms/bulk", {"transforms": [{"name": "x", "sql_template": "SELECT 1 AS x"}]}),
            ("PATCH", "/transforms/t", {"documentation": "x"}),
            ("PATCH", "/transforms/t", {}),
            ("POST", "/transforms/t/publish", {"name": "y"}),
            ("POST", "/transforms/t/publish", {"folder_path": ""}),
            ("POST", "/transforms/t/publish", {"materialization": "table"}),
            ("DELETE", "/transforms/t", None),
        ]:
            assert api.refused(method, path, 400, json=body)["error_code"] == "version_control_managed", (method, path)
        assert get(api, "t") == before
        (version,) = versions(api, "t")
        assert publish(api, "t", version_id=version.id, wait_for_completion=True)["status"] == "published"
        assert publish(api, "t")["status"] == "published"
        built(api, "t")
        assert api.post("/transforms/t/rematerialize", {"wait_for_completion": True})["materialization_status"] == (
            "completed"
        )
        assert attach(api, "t", "nightly")["rebuild_trigger"] == "orchestration"
        assert rows(api, "FROM {{model.t}}") == [{"x": 1}]
    # Elsewhere nobody does.
    assert create(Api(service), "x", "SELECT 1 AS x")["status"] == "draft"


def test_what_was_answered_survives_a_kill(api: Api, service: LocalService) -> None:
    view = create(api, "a", "SELECT 1 AS x", publish=True)
    table = create(api, "b", "FROM {{model.a}}", materialization="table", publish=True, cron_expression="0 * * * *")
    changed = patch(api, view["id"], sql_template="SELECT 2 AS x", name="c", documentation="d")
    delete(api, "view")
    (many,) = api.post("/transforms/bulk", {"transforms": [{"name": "m", "sql_template": "SELECT 1 AS x"}]})["results"]
    service.kill()
    service.start()
    assert get(api, view["id"]) == changed
    assert built(api, table["id"])["cron_expression"] == "0 * * * *"
    assert rows(api, "FROM {{model.b}}, {{model.a}} a") == [{"x": 1, "x_1": 1}]
    api.refused("GET", "/transforms/view", 404)
    assert failure(api, "FROM models.v") == "There is no table models.v."
    assert [entry["id"] for entry in api.all_pages("/transforms")] == ["table", view["id"], table["id"], many["id"]]


def test_preview_interrupted_by_a_kill_fails_without_rerun(service: LocalService, api: Api) -> None:
    preview_id = preview(api, SLOW.replace("range(300)", "range(300000000)"))
    assert api.get(f"{PREVIEWS}/{preview_id}/status")["status"] == "RUNNING"
    service.kill()
    service.start()
    status = api.get(f"{PREVIEWS}/{preview_id}/status")
    assert (status["status"], status["error"]) == (
        "FAILED",
        "The service ended while the query was running: ask again.",
    )
    assert rows(api, "SELECT 1 AS x") == [{"x": 1}]


def test_previews_keep_no_run_waiting(api: Api) -> None:
    endless = SLOW.replace("range(300)", "range(300000000)")
    previews = [preview(api, endless) for _ in range(12)]
    table = create(api, "t", "SELECT 1 AS x", materialization="table", publish=True)["id"]
    assert built(api, table)["materialization_status"] == "completed"
    assert api.run_orchestration("nightly").status == "COMPLETED"
    assert {api.get(f"{PREVIEWS}/{preview_id}/status")["status"] for preview_id in previews} == {"RUNNING"}
