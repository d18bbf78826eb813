"""Tests of transforms: references, publishing, views and tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.transforms import Reference, Transform
from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService

#: Takes some seconds: one can look at it while it is being built, and stop it.
SLOW = "SELECT count(*) AS n FROM range(3000000) a, range(300) b WHERE (a.range * b.range) % 7 = 3"


def transform(name: str, sql: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "sql_template": sql, **more}


@pytest.fixture(scope="module")
def api(data: Path) -> Iterator[Api]:
    seed = {
        "connections": [{"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(data)}}],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "data",
                "destination_schema_name": "shop",
                "source_streams": [
                    {"id": "people", "name": "people", "file": "people.csv", "options": {"nullstr": "NA"}}
                ],
            }
        ],
        "transforms": [
            transform("adults", "SELECT * FROM {{raw.shop.people}} WHERE age >= 18", folder_path="shop/views"),
            transform("names", "SELECT name FROM {{ model.shop.views.adults }};", materialization="table"),
            transform("first", "SELECT 1 AS x"),
            transform("second", "SELECT x FROM {{model.first}}"),
            transform("slow", SLOW, materialization="table"),
            transform("broken", "SELECT nope FROM {{raw.shop.people}}", materialization="table"),
            transform("bad_cast", "SELECT CAST(name AS INTEGER) AS x FROM {{raw.shop.people}}"),
            transform("never_published", "SELECT 1 AS x"),
        ],
    }
    with LocalService(seed) as service:
        api = Api(service)
        # Nothing can be named before it is loaded.
        assert "{{raw.shop.people}}" in refused(api, "adults")
        api.run_stream("people")
        yield api
        assert "Traceback" not in service.log


def publish(api: Api, transform_id: str, **body: Any) -> Transform:
    return Transform.model_validate(api.post(f"/transforms/{transform_id}/publish", body or None))


def refused(api: Api, transform_id: str, **body: Any) -> str:
    return str(api.refused("POST", f"/transforms/{transform_id}/publish", 400, json=body)["message"])


def tags(api: Api) -> dict[str, tuple[str, str]]:
    references = [Reference.model_validate(entry) for entry in api.get("/transforms/available_references")["data"]]
    return {reference.tag: (str(reference.type), reference.dw_item_id) for reference in references}


def built(api: Api, transform_id: str) -> Transform:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        seen = Transform.model_validate(api.get(f"/transforms/{transform_id}"))
        if seen.materialization_status != "running":
            return seen
        time.sleep(0.01)
    raise TimeoutError(transform_id)


def column_names(api: Api, transform_id: str) -> list[str]:
    return [column["name"] for column in api.get(f"/transforms/{transform_id}/schema")["data"]]


def test_the_life_of_transforms(api: Api) -> None:
    # A draft.
    draft = Transform.model_validate(api.get("/transforms/adults"))
    assert (draft.status, draft.folder_path, draft.materialization_status) == ("draft", "shop/views", None)
    assert [(entry.tag, entry.type) for entry in draft.parameters] == [("raw.shop.people", "raw_view")]
    assert column_names(api, "adults") == ["id", "name", "age"]
    api.refused("POST", "/transforms/adults/rematerialize", 400)

    # What is not published cannot be named, and what is alike is told.
    said = refused(api, "names")
    assert "{{model.shop.views.adults}}" in said
    assert refused(api, "second").startswith("Unknown reference {{model.first}}")

    # A view is there when the call returns.
    view = publish(api, "adults")
    assert (view.status, view.materialization_status) == ("published", None)
    assert tags(api)["model.shop.views.adults"] == ("model_view", "shop_views.adults")
    assert "did you mean" not in refused(api, "second")

    # A table is there when it is complete.
    table = publish(api, "names")
    assert table.materialization_status in {"running", "completed"}
    assert built(api, "names").materialization_status == "completed"
    assert tags(api)["model.names"] == ("materialized_table", "models.names")
    assert column_names(api, "names") == ["name"]
    assert publish(api, "names", wait_for_completion=True).materialization_status == "completed"
    assert Transform.model_validate(api.post("/transforms/names/rematerialize")).status == "published"
    assert built(api, "names").materialization_status == "completed"

    # Overrides become its own values; what stood elsewhere is gone.
    moved = publish(api, "names", name="people_names", folder_path="out", materialization="view")
    assert (moved.name, moved.folder_path, moved.materialization) == ("people_names", "out", "view")
    assert "model.names" not in tags(api)
    assert tags(api)["model.out.people_names"] == ("model_view", "out.people_names")

    # Others need it under its present name.
    said = refused(api, "adults", name="grown_ups")
    assert "'people_names' would lose {{model.shop.views.adults}}" in said
    # As a table it has the same name, and the view over it goes on.
    assert publish(api, "adults", materialization="table", wait_for_completion=True).materialization == "table"
    assert column_names(api, "names") == ["name"]


def test_what_cannot_be_published(api: Api) -> None:
    publish(api, "first")
    publish(api, "second")
    assert "'1st' is no name" in refused(api, "first", name="1st")
    assert "'a b' is no name" in refused(api, "first", folder_path="ok/a b")
    assert "place of the transform 'second'" in refused(api, "first", name="SECOND")
    assert "table of the ELT stream 'people'" in refused(api, "second", name="People", folder_path="shop")
    assert "is no name" in refused(api, "first", folder_path="information_schema")
    api.refused("POST", "/transforms/first/publish", 404, json={"version_id": "nope"})
    api.refused("POST", "/transforms/first/publish", 400, json={"materialization": "cube"})
    # What stood there still does.
    assert column_names(api, "second") == ["x"]


def test_sql_that_fails(api: Api) -> None:
    # A table's error is told by its status.
    assert publish(api, "broken").status == "published"
    broken = built(api, "broken")
    assert broken.materialization_status == "failed"
    assert str(broken.materialization_error).startswith("The transform broken cannot be built: Binder Error: ")
    assert "nope" in str(broken.materialization_error)
    assert "\n" not in str(broken.materialization_error)
    assert "model.broken" not in tags(api)
    # A view's, by the call.
    said = api.refused("POST", "/transforms/broken/publish", 400, json={"materialization": "view"})
    assert said["error_code"] == "invalid_sql"
    assert "nope" in said["message"]
    # One that only rows bring to light is nobody's until somebody reads.
    assert publish(api, "bad_cast").status == "published"
    # A table that fails leaves what stood there.
    assert (
        publish(api, "bad_cast", materialization="table", wait_for_completion=True).materialization_status == "failed"
    )
    assert tags(api)["model.bad_cast"] == ("model_view", "models.bad_cast")


def test_the_newest_publication_counts(api: Api) -> None:
    assert publish(api, "slow").materialization_status == "running"
    assert "model.slow" not in tags(api)
    # Seen running by a call that waits for another.
    assert Transform.model_validate(api.get("/transforms/slow")).materialization_status == "running"
    publish(api, "slow", materialization="view")
    assert tags(api)["model.slow"] == ("model_view", "models.slow")
    seen = Transform.model_validate(api.get("/transforms/slow"))
    assert (seen.materialization, seen.materialization_status) == ("view", None)


def test_lists_and_filters(api: Api) -> None:
    ids = ["adults", "names", "first", "second", "slow", "broken", "bad_cast", "never_published"]
    assert [entry["id"] for entry in api.all_pages("/transforms", limit=3)] == ids
    assert [entry["id"] for entry in api.get("/transforms", name="NEVER")["data"]] == ["never_published"]
    assert api.get("/transforms", name="%")["data"] == []
    assert [entry["id"] for entry in api.get("/transforms", folder_path="shop/views")["data"]] == ["adults"]
    assert api.get("/transforms", folder_path="shop")["data"] == []
    assert [entry["id"] for entry in api.get("/transforms", name="n", status="draft")["data"]] == ["never_published"]
    publish(api, "first")
    published = [entry["id"] for entry in api.get("/transforms", status="published")["data"]]
    assert "first" in published
    assert "never_published" not in published
