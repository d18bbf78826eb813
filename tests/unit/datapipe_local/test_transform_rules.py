"""Publishing, where it takes more than the interface to get there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.engine.materialization import Materializer
from datapipe_local.engine.stop import Stop
from datapipe_local.errors import BadRequestError, NotFoundError, RunError
from datapipe_local.service import jobs, publishing, transform_drafts, transform_removal, transforms
from datapipe_local.service.context import Context
from datapipe_local.store.records import Job, JobKind
from datapipe_local.warehouse import Place, WarehouseError

TABLE, VIEW = Materialization.TABLE, Materialization.VIEW


def put(context: Context, name: str, sql: str, **more: Any) -> str:
    fields: dict[str, Any] = {
        "name": name,
        "folder_path": "",
        "materialization": VIEW,
        "documentation": None,
        "orchestration_workflow_id": None,
    }
    transform_id = more.pop("transform_id", name)
    transform_drafts.put(context, transform_id, sql_template=sql, **{**fields, **more})
    return transforms.get(context, transform_id).latest_version_id


def names(context: Context, transform_id: str) -> list[str]:
    return [column.name for column in transforms.columns(context, transform_id)]


def owed(context: Context, transform_id: str) -> Job:
    job = jobs.get(context, JobKind.MATERIALIZATION, transform_id)
    assert job is not None
    return job


def materialize(context: Context, transform_id: str) -> None:
    materializer, job = Materializer(context), owed(context, transform_id)
    materializer.finish(job, materializer.work(job, Stop()), None)


def test_a_cycle_is_refused_by_name(context: Context) -> None:
    put(context, "a", "SELECT 1 AS x")
    publishing.publish(context, "a")
    put(context, "b", "SELECT * FROM {{model.a}}")
    publishing.publish(context, "b")
    put(context, "c", "SELECT * FROM {{model.b}}")
    publishing.publish(context, "c")
    put(context, "a", "SELECT * FROM {{model.c}}")
    with pytest.raises(
        BadRequestError, match=r"'a' would depend on itself: .*\{\{model\.c\}\}, which is computed from"
    ):
        publishing.publish(context, "a")
    put(context, "a", "SELECT * FROM {{model.a}}")
    with pytest.raises(BadRequestError, match=r"\{\{model\.a\}\}, which is this transform"):
        publishing.publish(context, "a")
    assert names(context, "c") == ["x"]


def test_near_references_are_told(context: Context) -> None:
    put(context, "customers", "SELECT 1 AS x")
    publishing.publish(context, "customers")
    put(context, "b", "SELECT * FROM {{model.custmers}}, {{raw.far.away}}")
    with pytest.raises(BadRequestError, match=r"\(did you mean model\.customers\?\), \{\{raw\.far\.away\}\}:"):
        publishing.publish(context, "b")


def test_an_older_version_can_be_published_and_built_again(context: Context) -> None:
    first = put(context, "a", "SELECT 1 AS one")
    second = put(context, "a", "SELECT 2 AS two")
    assert put(context, "a", "SELECT 2 AS two") == second
    publishing.publish(context, "a")
    assert names(context, "a") == ["two"]
    publishing.publish(context, "a", version_id=first)
    assert names(context, "a") == ["one"]
    # What is published is built again, not what is newest.
    publishing.rematerialize(context, "a")
    assert names(context, "a") == ["one"]


def test_folders_that_look_alike_do_not_share_a_place(context: Context) -> None:
    put(context, "x", "SELECT 1 AS x", folder_path="a/b")
    put(context, "x", "SELECT 1 AS x", folder_path="a_b", transform_id="other")
    publishing.publish(context, "x")
    with pytest.raises(BadRequestError, match=r"a_b\.x is the place of the transform 'x'"):
        publishing.publish(context, "other")


def test_a_table_that_is_not_built_yet_has_its_place_already(context: Context) -> None:
    put(context, "x", "SELECT 1 AS x", materialization=TABLE)
    publishing.publish(context, "x")
    put(context, "X", "SELECT 1 AS x", transform_id="other")
    with pytest.raises(BadRequestError, match="place of the transform 'x'"):
        publishing.publish(context, "other")


def test_a_published_transform_is_renamed_by_publishing_only(context: Context) -> None:
    put(context, "a", "SELECT 1 AS x")
    publishing.publish(context, "a")
    put(context, "b", "SELECT 2 AS y", transform_id="a", materialization=TABLE)
    kept = transforms.get(context, "a")
    assert (kept.name, kept.materialization) == ("a", VIEW)
    assert transforms.definition(kept) == ("b", "", TABLE)
    assert names(context, "a") == ["x"]
    # Built again it is as it was published; published again it is what it was given.
    publishing.rematerialize(context, "a")
    assert (transforms.get(context, "a").object_tag, names(context, "a")) == ("model.a", ["x"])
    publishing.publish(context, "a", materialization=VIEW)
    kept = transforms.get(context, "a")
    assert (kept.object_tag, kept.next_name, names(context, "a")) == ("model.b", None, ["y"])


@pytest.mark.parametrize("older", ["SELECT 1 AS old", "SELECT nope AS old"])
def test_a_build_for_an_older_publication_is_never_seen(context: Context, older: str) -> None:
    put(context, "a", older, materialization=TABLE)
    publishing.publish(context, "a")
    materializer, job = Materializer(context), owed(context, "a")
    outdated = materializer.work(job, Stop())
    put(context, "a", "SELECT 2 AS new", materialization=TABLE)
    publishing.publish(context, "a")
    materializer.finish(job, outdated, None)
    seen = transforms.get(context, "a")
    assert (seen.materialization_status, seen.materialization_error, seen.object_tag) == ("running", None, None)
    materialize(context, "a")
    assert transforms.get(context, "a").materialization_status == "completed"
    assert names(context, "a") == ["new"]
    assert jobs.get(context, JobKind.MATERIALIZATION, "a") is None


def test_what_stood_there_goes_when_the_table_comes(context: Context) -> None:
    put(context, "a", "SELECT 1 AS x")
    publishing.publish(context, "a")
    publishing.publish(context, "a", name="b", folder_path="f", materialization=TABLE)
    # Until it is complete, the view is what can be named.
    assert transforms.get(context, "a").object_tag == "model.a"
    assert names(context, "a") == ["x"]
    materialize(context, "a")
    assert transforms.get(context, "a").object_tag == "model.f.b"
    assert context.warehouse.count(Place("f", "b")) == 1
    with pytest.raises(WarehouseError, match="does not exist"):
        context.warehouse.count(Place("models", "a"))


def test_a_reference_that_is_gone_by_the_time_of_the_build(context: Context) -> None:
    put(context, "a", "SELECT 1 AS x")
    publishing.publish(context, "a")
    put(context, "b", "SELECT * FROM {{model.a}}", materialization=TABLE)
    publishing.publish(context, "b")
    context.store.transforms.update("a", object_tag=None)
    materialize(context, "b")
    seen = transforms.get(context, "b")
    assert seen.materialization_status == "failed"
    assert "{{model.a}}" in str(seen.materialization_error)


def test_what_is_built_for_a_deleted_transform_is_never_seen(context: Context) -> None:
    put(context, "a", "SELECT 1 AS old", materialization=TABLE)
    publishing.publish(context, "a")
    materializer, job = Materializer(context), owed(context, "a")
    built = materializer.work(job, Stop())
    transform_removal.delete(context, "a")
    # The next job is another one, also for the engine, which still is at work on this.
    put(context, "b", "SELECT 2 AS x", materialization=TABLE)
    publishing.publish(context, "b")
    assert owed(context, "b").seq != job.seq
    materializer.begin(job)
    materializer.finish(job, built, None)
    assert jobs.get(context, JobKind.MATERIALIZATION, "b") is not None
    with pytest.raises(WarehouseError, match="does not exist"):
        context.warehouse.count(Place("models", "a"))
    with context.warehouse.cursor() as cursor:
        assert cursor.execute("FROM duckdb_tables()").fetchall() == []
    # Begun too late, it is not built.
    with pytest.raises(RunError, match="no transform with the id 'a'"):
        materializer.work(job, Stop())


def test_a_seed_brings_back_what_was_deleted(context: Context) -> None:
    put(context, "a", "SELECT 1 AS x")
    publishing.publish(context, "a")
    transform_removal.delete(context, "a")
    with pytest.raises(NotFoundError):
        transforms.get(context, "a")
    put(context, "a", "SELECT 2 AS y")
    assert (transforms.get(context, "a").status, names(context, "a")) == ("draft", ["y"])
    publishing.publish(context, "a")
    assert transforms.get(context, "a").object_tag == "model.a"


def test_what_a_killed_process_has_left_of_a_deletion(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        put(context, name, "SELECT 1 AS x")
        publishing.publish(context, name)
    with monkeypatch.context() as patch:
        patch.setattr(context.warehouse, "drop", killed)
        for name in ("a", "b"):
            with pytest.raises(KilledError):
                transform_removal.delete(context, name)
    assert context.warehouse.count(Place("models", "a")) == 1
    # Somebody else's is not taken for it.
    put(context, "a", "SELECT 2 AS x", transform_id="other")
    publishing.publish(context, "other")
    transform_removal.finish(context)
    assert context.warehouse.count(Place("models", "a")) == 1
    with pytest.raises(WarehouseError, match="does not exist"):
        context.warehouse.count(Place("models", "b"))


def test_one_is_published_after_the_other(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    for transform_id in ("one", "other"):
        put(context, "place", f"SELECT '{transform_id}' AS x", transform_id=transform_id)
    refusals: list[BadRequestError] = []

    def publish_other() -> None:
        try:
            publishing.publish(context, "other")
        except BadRequestError as error:
            refusals.append(error)

    create_view = context.warehouse.create_view
    meanwhile = threading.Thread(target=publish_other)

    def slowly(*arguments: Any, **named: Any) -> None:
        if not meanwhile.ident:
            meanwhile.start()
            # It would be over by then, if it did not wait.
            meanwhile.join(0.3)
        create_view(*arguments, **named)

    monkeypatch.setattr(context.warehouse, "create_view", slowly)
    publishing.publish(context, "one")
    meanwhile.join()
    assert [error.error_code for error in refusals] == ["name_taken"]
    with context.warehouse.cursor() as cursor:
        assert cursor.execute("FROM models.place").fetchall() == [("one",)]


class KilledError(BaseException):
    """Stands for the end of the process."""


def killed(place: Place) -> None:
    raise KilledError


class _Overtaken:
    """The lock of publishing, before whose first holder somebody else has it."""

    def __init__(self, context: Context, publish: Callable[[], Any]) -> None:
        self._lock = context.publishing
        self._publishings = [publish]

    def __enter__(self) -> None:
        while self._publishings:
            self._publishings.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("becomes", [TABLE, VIEW])
def test_a_view_that_is_published_anew_while_its_build_waits(context: Context, becomes: Materialization) -> None:
    older = put(context, "a", "SELECT 1 AS older")
    newer = put(context, "a", "SELECT 2 AS newer")
    publishing.publish(context, "a", materialization=TABLE)
    publishing.publish(context, "a", version_id=older, materialization=VIEW)
    overtaken = _Overtaken(context, lambda: publishing.publish(context, "a", version_id=newer, materialization=becomes))
    materialize(replace(context, publishing=overtaken), "a")  # type: ignore[arg-type]  # RLock is a class of its own
    # That was for the one before, so it is still owed.
    assert transforms.get(context, "a").materialization_status == ("running" if becomes == TABLE else None)
    materialize(context, "a")
    assert names(context, "a") == ["newer"]
    assert transforms.get(context, "a").materialization_status == ("completed" if becomes == TABLE else None)
    assert jobs.get(context, JobKind.MATERIALIZATION, "a") is None
