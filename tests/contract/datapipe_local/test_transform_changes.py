"""Tests of requests that create, change, publish, attach and delete transforms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.datapipe_local.api import Api, Json
from tests.contract.datapipe_local.controlled import journalled
from tests.contract.datapipe_local.seeds import NIGHTLY, transform
from tests.contract.datapipe_local.transform_calls import (
    attach,
    built,
    check,
    create,
    detach,
    failure,
    get,
    patch,
    publish,
    references,
    rows,
    versions,
)
from tests.support.local_service import LocalService

HOURLY = "0 * * * *"
ONE = "SELECT 1 AS x"


def refused(api: Api, path: str, code: str | None = None, message: str = "", **body: Any) -> None:
    api.refused("POST", f"/transforms{path}", 400, code=code, message=message, json=body)


def test_create_with_publish(api: Api) -> None:
    view = create(api, "ones", "SELECT 1 AS one", folder_path="a/b", documentation="Größe ❤ 📏", publish=True)
    check(view, status="published", materialization="view", materialization_status=None)
    check(view, rebuild_trigger="none", documentation="Größe ❤ 📏")
    assert rows(api, "SELECT * FROM {{model.a.b.ones}}") == [{"one": 1}]

    sql = "SELECT one + 1 AS two FROM {{ model.a.b.ones }};"
    table = create(
        api, "twos", sql, materialization="table", cron_expression=HOURLY, publish=True, wait_for_completion=True
    )
    check(table, status="published", materialization_status="completed")
    check(table, cron_expression=HOURLY, rebuild_trigger="schedule")
    assert [entry["weld_tag"] for entry in table["parameters"]] == ["model.a.b.ones"]
    assert rows(api, "FROM {{model.twos}}") == [{"two": 2}]
    assert references(api)["model.twos"] == ("materialized_table", "models.twos")

    check(create(api, "threes", "SELECT 3 AS three"), status="draft", folder_path="", rebuild_trigger="none")
    assert "model.threes" not in references(api)


def test_transform_that_cannot_be_published_is_not_created(api: Api) -> None:
    create(api, "ones", ONE, folder_path="a/b", publish=True)
    cases: list[tuple[str, Json]] = [
        ("unknown_reference", {"sql_template": "FROM {{model.nope}}"}),
        ("cyclic_reference", {"sql_template": "FROM {{model.bad}}"}),
        ("invalid_sql", {"sql_template": "SELECT nope"}),
        ("name_taken", {"name": "ones", "folder_path": "a_b"}),
        ("not_a_published_table", {"cron_expression": HOURLY}),
        ("not_a_published_table", {"cron_expression": HOURLY, "materialization": "table", "publish": False}),
        ("invalid_cron_expression", {"cron_expression": "0 0 * *", "materialization": "table"}),
    ]
    for code, wrong in cases:
        refused(api, "", code, **{"name": "bad", "sql_template": ONE, "publish": True, **wrong})
    assert len(api.all_pages("/transforms")) == 3
    assert "bad" in failure(api, "FROM models.bad")


INVALID: list[tuple[str, Any]] = [
    *(("name", name) for name in ("1st", "", "a b", "a\0", "ä", "a" * 64, "a" * 10_000, None, 1, "\ud800")),
    *(("folder_path", path) for path in ("/", "a//b", "../x", "/".join("a" * 200), "information/schema", "Temp")),
    ("folder_path", "warehouse"),
    ("folder_path", None),
    *(("sql_template", sql) for sql in ("", " \n", "SELECT '\0'", "SELECT " + "1" * 100_000, "SELECT '\udc00'")),
    ("materialization", "cube"),
    ("materialization", None),
    ("documentation", None),
    ("documentation", "\ud83d"),
    ("documentation", "a\0b"),
    ("publish", "true"),
    ("publish", 1),
    ("wait_for_completion", None),
    ("cron_expression", 5),
    ("id", "mine"),
    ("status", "published"),
]


def test_invalid_fields_are_refused(api: Api) -> None:
    known = create(api, "known", ONE)
    for field, value in INVALID:
        for method, path, body in (
            ("POST", "/transforms", {"name": "x", "sql_template": ONE, field: value}),
            ("PATCH", f"/transforms/{known['id']}", {field: value}),
        ):
            message = api.refused(method, path, 400, json=body)["message"]
            assert method == "PATCH" or message.startswith(field), (field, value)
    assert get(api, known["id"]) == known
    assert len(api.all_pages("/transforms")) == 3


@pytest.mark.slow
def test_names_that_are_words_of_sql(api: Api) -> None:
    for name in ("select", "ORDER", "table", "group", "null", "all", "user", "_x", "main", "x__y"):
        create(api, name, f'SELECT 1 AS "{name}"', folder_path="from/where", publish=True)
        assert rows(api, f"FROM {{{{model.from.where.{name}}}}}") == [{name: 1}]
        table = create(api, f"{name}_t", f"FROM {{{{model.from.where.{name}}}}}", materialization="table", publish=True)
        assert built(api, table["id"])["materialization_status"] == "completed"
        assert rows(api, f"FROM {{{{model.{name}_t}}}} AS t") == [{name: 1}]


def test_any_text_is_kept_as_it_is(api: Api) -> None:
    text = "Grüße\n\n# 标题 \u202e ❤️ \t\x1b[31m {{model.nope}} '\"; DROP TABLE x; -- " + "é" * 10_000
    sql = f"SELECT '{text.replace(chr(39), chr(39) * 2)}' AS text -- ❤ {{{{model.nope}}}}"
    texts = create(api, "texts", sql, documentation=text, publish=True)
    assert get(api, texts["id"]) == check(texts, documentation=text, sql_template=sql, parameters=[])
    assert rows(api, "FROM {{model.texts}}") == [{"text": text}]
    assert "documentation" not in create(api, "none", ONE)


def test_publish_with_overrides_and_an_older_version(api: Api) -> None:
    one = create(api, "first", ONE)["id"]
    patch(api, one, sql_template="SELECT 2 AS x")
    assert publish(api, one)["status"] == "published"
    assert rows(api, "FROM {{model.first}}") == [{"x": 2}]

    moved = publish(api, one, name="second", folder_path="out", materialization="table", wait_for_completion=True)
    check(moved, name="second", folder_path="out", materialization="table", materialization_status="completed")
    assert "model.first" not in references(api)
    assert references(api)["model.out.second"] == ("materialized_table", "out.second")
    assert "models.first" in failure(api, "FROM models.first")
    assert rows(api, "FROM {{model.out.second}}") == [{"x": 2}]

    newest, oldest = versions(api, one)
    assert (newest.is_published, oldest.is_published) == (True, False)
    publish(api, one, version_id=oldest.id, wait_for_completion=True)
    assert rows(api, "FROM {{model.out.second}}") == [{"x": 1}]
    assert [version.is_published for version in versions(api, one)] == [False, True]

    other = create(api, "other", ONE)["id"]
    for version in ("nope", newest.id):
        api.refused("POST", f"/transforms/{other}/publish", 404, json={"version_id": version})
    refused(api, f"/{one}/publish", sql_template=ONE)


def test_publish_refuses_invalid_and_taken_names(api: Api) -> None:
    api.run_stream("people")
    first, second = (create(api, name, ONE, publish=True)["id"] for name in ("first", "second"))
    for transform_id, message, override in (
        (first, "'1st' is not a valid name", {"name": "1st"}),
        (first, "'a b' is not a valid name", {"folder_path": "ok/a b"}),
        (first, f"place of the transform {second!r}", {"name": "SECOND"}),
        (second, "table of the ELT stream 'people'", {"name": "People", "folder_path": "shop"}),
        (first, "is not a valid name", {"folder_path": "information_schema"}),
        (first, "materialization", {"materialization": "cube"}),
    ):
        refused(api, f"/{transform_id}/publish", message=message, **override)
    assert [column["name"] for column in api.get(f"/transforms/{second}/schema")["data"]] == ["x"]


def test_update_with_publish(api: Api) -> None:
    one = create(api, "changing", ONE)["id"]
    assert patch(api, one, sql_template="SELECT 2 AS x", publish=True)["status"] == "draft"
    publish(api, one)

    # The published SQL and name change only together with a change of SQL or materialization.
    patch(api, one, sql_template="SELECT 3 AS x")
    assert rows(api, "FROM {{model.changing}}") == [{"x": 2}]
    patch(api, one, sql_template="SELECT 2 AS x")
    check(patch(api, one, name="changed", documentation="why", publish=True), name="changed", documentation="why")
    assert list(references(api)) == ["model.changing", "model.v"]
    patch(api, one, sql_template="SELECT 4 AS x", publish=True)
    assert rows(api, "FROM {{model.changed}}") == [{"x": 4}]
    assert "model.changing" not in references(api)
    api.refused("PATCH", f"/transforms/{one}", 400, json={"cron_expression": HOURLY})

    table = patch(api, one, materialization="table", cron_expression=HOURLY, publish=True, wait_for_completion=True)
    check(table, materialization="table", materialization_status="completed")
    check(table, cron_expression=HOURLY, rebuild_trigger="schedule")
    assert references(api)["model.changed"][0] == "materialized_table"
    api.refused("PATCH", f"/transforms/{one}", 400, code="invalid_cron_expression", json={"cron_expression": "nightly"})
    check(patch(api, one, cron_expression=None), cron_expression=None, rebuild_trigger="none")

    before = get(api, one)
    wrong = {"sql_template": "FROM {{model.changed}}", "documentation": "other", "publish": True}
    api.refused("PATCH", f"/transforms/{one}", 400, message="{{model.changed}}", json=wrong)
    assert get(api, one) == before


def test_update_changes_only_the_given_fields(api: Api) -> None:
    draft = create(api, "a", ONE, folder_path="f", documentation="d", materialization="table")
    assert patch(api, draft["id"]) == {**draft, "updated_at": get(api, draft["id"])["updated_at"]}
    changes: Json = {"name": "b", "folder_path": "", "sql_template": "FROM {{model.v}}", "materialization": "view"}
    for field, value in changes.items():
        before = get(api, draft["id"])
        after = patch(api, draft["id"], **{field: value})
        assert {name for name in after if after[name] != before[name]} - {"updated_at", "parameters"} == {field}
        assert after["updated_at"] >= before["updated_at"]
    assert [entry.sql_template for entry in versions(api, draft["id"])] == ["FROM {{model.v}}", ONE]
    assert [entry["id"] for entry in api.get("/transforms", name="B", folder_path="")["data"]] == [draft["id"]]
    # The list finds a published transform by its new name. Its view keeps the old name until it is published again.
    publish(api, draft["id"])
    patch(api, draft["id"], name="c", folder_path="g/h")
    assert [entry["id"] for entry in api.get("/transforms", name="c", folder_path="g/h")["data"]] == [draft["id"]]
    assert list(references(api)) == ["model.b", "model.v"]
    assert publish(api, draft["id"])["folder_path"] == "g/h"
    assert list(references(api)) == ["model.g.h.c", "model.v"]


def test_each_change_of_sql_is_a_version(api: Api) -> None:
    one = create(api, "many", "SELECT 0 AS x")["id"]
    for number in range(1, 4):
        patch(api, one, sql_template=f"FROM {{{{model.v}}}} SELECT {number} AS x")
    patch(api, one, sql_template="FROM {{model.v}} SELECT 3 AS x", documentation="the same")
    found = versions(api, one)
    assert [version.sql_template[-6:] for version in found] == [f"{number} AS x" for number in (3, 2, 1, 0)]
    assert not any(version.is_published for version in found)
    assert {version.user_id for version in found} == {"local"}
    assert [entry.tag for entry in found[0].parameters] == ["model.v"]
    assert found[-1].parameters == ()
    publish(api, one, version_id=found[2].id)
    assert [version.is_published for version in versions(api, one)] == [False, False, True, False]


def test_lists_and_filters(api: Api) -> None:
    names = {"adults": "shop/views", "names": "", "first": "", "never_published": ""}
    ids = {name: create(api, name, ONE, folder_path=folder)["id"] for name, folder in names.items()}
    publish(api, ids["first"])
    assert [entry["id"] for entry in api.all_pages("/transforms", limit=3)] == ["view", "table", *ids.values()]
    for query, expected in (
        ({"name": "NEVER"}, ["never_published"]),
        ({"name": "%"}, []),
        ({"folder_path": "shop/views"}, ["adults"]),
        ({"folder_path": "shop"}, []),
        ({"name": "n", "status": "draft"}, ["names", "never_published"]),
        ({"status": "published"}, ["v", "first"]),
    ):
        assert [entry["name"] for entry in api.get("/transforms", **query)["data"]] == expected, query


def test_bulk_items_are_independent_and_in_order(api: Api) -> None:
    view = {"name": "one", "sql_template": ONE, "publish": True}
    items: list[Json] = [
        view,
        {"name": "two", "sql_template": "SELECT x + 1 AS x FROM {{model.one}}", "publish": True},
        {"name": "bad name", "sql_template": ONE},
        {"name": "one", "sql_template": ONE, "publish": True},
        {"name": "early", "sql_template": "FROM {{model.late}}", "publish": True},
        {"name": "late", "sql_template": ONE, "publish": True},
        {"name": "cron", "sql_template": ONE, "cron_expression": "x"},
        {**view, "name": "table", "materialization": "table", "wait_for_completion": True},
        {"name": "of_table", "sql_template": "FROM {{model.table}}", "publish": True, "cron_expression": HOURLY},
        {"name": "of_table", "sql_template": "FROM {{model.table}}", "publish": True},
    ]
    errors = {
        2: "is not a valid name",
        3: "is the place",
        4: "{{model.late}}",
        6: "cron expression",
        8: "only a published table",
    }
    results = api.post("/transforms/bulk", {"transforms": items})["results"]
    assert [entry["name"] for entry in results] == [item["name"] for item in items]
    for number, entry in enumerate(results):
        assert entry["success"] == (number not in errors)
        assert entry.keys() == {"name", "success", "error" if number in errors else "id"}
        assert errors.get(number, "") in entry.get("error", "")
    ids = [entry["id"] for entry in results if entry["success"]]
    assert [entry["id"] for entry in api.all_pages("/transforms")[2:]] == ids
    assert rows(api, "SELECT two.x + of_table.x AS x FROM {{model.two}} two, {{model.of_table}} of_table") == [{"x": 3}]

    # A malformed item: nothing is created.
    for wrong in ({"name": "x"}, {**view, "name": None}, {**view, "extra": 1}, {**view, "publish": "yes"}, 1, None):
        refused(api, "/bulk", message="transforms.1", transforms=[view, wrong])
    refused(api, "/bulk", transforms=None)
    refused(api, "/bulk")
    assert len(api.all_pages("/transforms")) == 2 + len(ids)


def test_bulk_creation_takes_up_to_50_transforms(api: Api) -> None:
    items = [{"name": f"t{index}", "sql_template": f"SELECT {index} AS x"} for index in range(200)]
    for number in (0, 51, 200):
        refused(api, "/bulk", message="transforms: ", transforms=items[:number])
    assert len(api.all_pages("/transforms")) == 2
    results = api.post("/transforms/bulk", {"transforms": items[:50]})["results"]
    assert [(entry["name"], entry["success"]) for entry in results] == [(f"t{index}", True) for index in range(50)]
    assert [entry["id"] for entry in api.all_pages("/transforms", limit=100)[2:]] == [entry["id"] for entry in results]


def test_attach_to_an_orchestration(api: Api, service: LocalService) -> None:
    table = create(api, "nightly_table", ONE, materialization="table")["id"]
    refused(api, f"/{table}/orchestration", "transform_not_published", orchestration_workflow_id="nightly")
    assert "orchestration_workflow_id" not in check(get(api, table), rebuild_trigger="none")
    publish(api, table, wait_for_completion=True)
    patch(api, table, cron_expression=HOURLY)
    attached = attach(api, table, "nightly")
    check(attached, orchestration_workflow_id="nightly", rebuild_trigger="orchestration")
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    (_, by_run) = journalled(service, table, 2)
    assert (by_run["trigger"], by_run["orchestration_run_id"]) == ("orchestration", run.id)
    assert attach(api, "view", "nightly")["rebuild_trigger"] == "orchestration"
    for wrong in ({}, {"orchestration_workflow_id": None}, {"orchestration_workflow_id": "nightly", "cron": HOURLY}):
        refused(api, f"/{table}/orchestration", **wrong)


def test_detach_from_an_orchestration(api: Api, service: LocalService) -> None:
    table = create(api, "t", ONE, materialization="table", publish=True, wait_for_completion=True)["id"]
    attach(api, table, "nightly")
    assert "orchestration_workflow_id" not in check(detach(api, table), rebuild_trigger="none")
    api.run_orchestration("nightly")
    assert len(service.journal_runs(table)) == 1

    attach(api, table, "nightly")
    detached = detach(api, table, cron_expression=HOURLY)
    assert "orchestration_workflow_id" not in check(detached, cron_expression=HOURLY, rebuild_trigger="schedule")
    # The previous schedule returns.
    attach(api, table, "nightly")
    check(detach(api, table), cron_expression=HOURLY, rebuild_trigger="schedule")
    assert detach(api, table)["rebuild_trigger"] == "schedule"


def test_detach_with_a_schedule_requires_a_published_table(api: Api) -> None:
    draft = create(api, "draft", ONE, materialization="table")["id"]
    attach(api, "view", "nightly")
    for transform_id, message in ((draft, "a draft"), ("view", "a view")):
        path = f"/transforms/{transform_id}/orchestration?cron_expression={HOURLY}"
        api.refused("DELETE", path, 400, code="not_a_published_table", message=message)
    assert get(api, "view")["rebuild_trigger"] == "orchestration"
    assert detach(api, "view")["rebuild_trigger"] == "none"
    publish(api, draft, wait_for_completion=True)
    assert detach(api, draft, cron_expression=HOURLY)["rebuild_trigger"] == "schedule"


def test_orchestration_suspends_the_own_schedule(api: Api) -> None:
    one = create(api, "t", ONE, materialization="table", publish=True, cron_expression=HOURLY)["id"]
    other = api.post("/orchestrations", {"name": "Other", "cron_schedule": "0 9 * * *"}, status=201)["id"]
    built(api, one)
    assert attach(api, one, "nightly")["cron_expression"] == HOURLY
    given = patch(api, one, cron_expression="30 * * * *")
    check(given, cron_expression="30 * * * *", rebuild_trigger="orchestration")
    assert attach(api, one, other)["orchestration_workflow_id"] == other
    # A view has no schedule, and stays attached.
    check(publish(api, one, materialization="view"), cron_expression=None, rebuild_trigger="orchestration")
    assert detach(api, one)["rebuild_trigger"] == "none"
    # Nor has a transform that is not published as a table, or will be a view.
    patch(api, one, materialization="table")
    body: Json = {"cron_expression": HOURLY}
    api.refused("PATCH", f"/transforms/{one}", 400, code="not_a_published_table", json=body)
    patch(api, one, publish=True, **body)
    to_view = {"materialization": "view", "publish": True, **body}
    api.refused("PATCH", f"/transforms/{one}", 400, code="not_a_published_table", json=to_view)
    check(built(api, one), materialization="table", cron_expression=HOURLY)
    assert references(api)["model.t"][0] == "materialized_table"
    assert patch(api, "view", cron_expression=None)["rebuild_trigger"] == "none"


def test_deleted_transform_leaves_the_warehouse(api: Api, service: LocalService) -> None:
    table = create(api, "gone", ONE, materialization="table", publish=True)["id"]
    built(api, table)
    attach(api, table, "nightly")
    reader = create(api, "reader", "SELECT x FROM {{model.gone}}", publish=True)["id"]
    draft = create(api, "draft", ONE)["id"]
    for transform_id in (table, "view", draft):
        api.delete(f"/transforms/{transform_id}")
        for method, path in (
            *(("GET", path) for path in ("", "/schema", "/versions")),
            *(("DELETE", path) for path in ("", "/orchestration")),
            *(("POST", path) for path in ("/publish", "/rematerialize")),
        ):
            api.refused(method, f"/transforms/{transform_id}{path}", 404)
        api.refused("PATCH", f"/transforms/{transform_id}", 404, json={})
    assert [entry["id"] for entry in api.all_pages("/transforms")] == ["table", reader]
    assert list(references(api)) == ["model.reader"]
    for name in ("gone", "v"):
        assert f"models.{name}" in failure(api, f"FROM models.{name}")
    # A transform that reads it fails, and names it.
    assert "name gone does not exist" in failure(api, "FROM {{model.reader}}")
    refused(api, f"/{reader}/rematerialize", message="{{model.gone}}")
    api.run_orchestration("nightly")
    assert len(service.journal_runs(table)) == 1
    # The reverse ETL sync reads the view.
    api.refused("POST", "/reverse_etl_syncs/export/request_run", 400, code="not_eligible")
    # The name can be used again.
    create(api, "gone", "SELECT 5 AS x", publish=True)
    assert rows(api, "FROM {{model.reader}}") == [{"x": 5}]


def test_cycles_are_refused(api: Api) -> None:
    a = create(api, "a", ONE, publish=True)["id"]
    b = create(api, "b", "FROM {{model.a}}", publish=True)["id"]
    old = versions(api, a)[0].id
    # By a change of a published transform.
    change = {"sql_template": "FROM {{model.b}}", "publish": True}
    message = "{{model.b}}, which is computed from this"
    api.refused("PATCH", f"/transforms/{a}", 400, code="cyclic_reference", message=message, json=change)
    # By publishing its latest or an older version.
    patch(api, a, sql_template="FROM {{model.b}}")
    refused(api, f"/{a}/publish", "cyclic_reference")
    cyclic = versions(api, a)[0].id
    patch(api, a, sql_template="SELECT 2 AS x")
    refused(api, f"/{a}/publish", "cyclic_reference", version_id=cyclic)
    publish(api, a, version_id=old)
    # By creating a deleted transform again.
    api.delete(f"/transforms/{a}")
    for sql in ("FROM {{model.b}}", "FROM {{model.a}}"):
        refused(api, "", "cyclic_reference", name="a", sql_template=sql, publish=True)
    # By giving its name to another transform.
    c = create(api, "c", "FROM {{model.b}}")["id"]
    refused(api, f"/{c}/publish", "cyclic_reference", "{{model.b}}", name="a")
    # References in strings and comments are none.
    assert create(api, "a", "SELECT '{{model.b}}' AS x -- {{model.b}}", publish=True)["parameters"] == []
    assert rows(api, "FROM {{model.b}}") == [{"x": "{{model.b}}"}]
    assert get(api, b)["parameters"] == [{"weld_tag": "model.a", "type": "model_view", "dw_item_id": "models.a"}]


def test_renaming_a_transform_that_others_read(api: Api) -> None:
    needed = create(api, "needed", ONE, publish=True)["id"]
    create(api, "needs", "FROM {{model.needed}}", publish=True)
    # A new name takes effect with the publication, which is refused.
    patch(api, needed, name="other")
    assert rows(api, "FROM {{model.needs}}") == [{"x": 1}]
    refused(api, f"/{needed}/publish", "transform_in_use", "'needs' would lose {{model.needed}}")
    change = {"sql_template": "SELECT 2 AS x", "publish": True}
    api.refused("PATCH", f"/transforms/{needed}", 400, code="transform_in_use", json=change)
    api.post(f"/transforms/{needed}/rematerialize")
    assert rows(api, "FROM {{model.needs}}") == [{"x": 1}]
    patch(api, needed, name="needed", sql_template="SELECT 3 AS x", publish=True)
    assert rows(api, "FROM {{model.needs}}") == [{"x": 3}]
    # As a table it has the same name, and the view over it stays.
    publish(api, needed, materialization="table", wait_for_completion=True)
    assert rows(api, "FROM {{model.needs}}") == [{"x": 3}]


def test_transforms_managed_by_version_control(service: LocalService) -> None:
    table = transform("t", ONE, publish=True, materialization="table", cron_expression=HOURLY)
    seed = {"transforms_managed_by_version_control": True, "orchestrations": [NIGHTLY], "transforms": [table]}
    # Only this setting of the seed prevents changes.
    assert create(Api(service), "x", ONE)["status"] == "draft"
    with LocalService(seed) as managed:
        api = Api(managed)
        before = check(built(api, "t"), cron_expression=HOURLY, rebuild_trigger="schedule")
        new = {"name": "x", "sql_template": ONE}
        changes: list[tuple[str, str, Json | None]] = [
            ("POST", "/transforms", new),
            ("POST", "/transforms/bulk", {"transforms": [new]}),
            ("PATCH", "/transforms/t", {"documentation": "x"}),
            ("PATCH", "/transforms/t", {}),
            ("POST", "/transforms/t/publish", {"name": "y"}),
            ("POST", "/transforms/t/publish", {"folder_path": ""}),
            ("POST", "/transforms/t/publish", {"materialization": "table"}),
            ("DELETE", "/transforms/t", None),
        ]
        for method, path, body in changes:
            api.refused(method, path, 400, code="version_control_managed", json=body)
        assert get(api, "t") == before
        (version,) = versions(api, "t")
        assert publish(api, "t", version_id=version.id, wait_for_completion=True)["status"] == "published"
        assert publish(api, "t")["status"] == "published"
        built(api, "t")
        again = api.post("/transforms/t/rematerialize", {"wait_for_completion": True})
        assert again["materialization_status"] == "completed"
        assert attach(api, "t", "nightly")["rebuild_trigger"] == "orchestration"
        assert rows(api, "FROM {{model.t}}") == [{"x": 1}]
