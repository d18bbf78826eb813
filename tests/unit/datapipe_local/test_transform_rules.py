"""Tests of publications in states that requests reach only by races and kills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.common.errors import BadRequestError, NotFoundError, RunError
from datapipe_local.engine.materialization import Materializer
from datapipe_local.engine.stop import Stop
from datapipe_local.services import jobs, transform_drafts, transform_publication, transform_removal, transforms
from datapipe_local.services.context import Context
from datapipe_local.storage.records import Job, JobKind
from datapipe_local.warehouse.warehouse import Place

TABLE, VIEW = Materialization.TABLE, Materialization.VIEW


def put(context: Context, name: str, sql: str, *, transform_id: str | None = None, **more: Any) -> str:
    """Create or change a transform, and return the ID of its newest version."""
    fields = {"folder_path": "", "materialization": VIEW, "documentation": None, "orchestration_workflow_id": None}
    transform_drafts.put(context, transform_id or name, name=name, sql_template=sql, **{**fields, **more})
    return transforms.get(context, transform_id or name).latest_version_id


def put_published(context: Context, name: str, sql: str, **more: Any) -> None:
    put(context, name, sql, **more)
    transform_publication.publish(context, name)


def names(context: Context, transform_id: str) -> list[str]:
    return [column.name for column in transforms.columns(context, transform_id)]


def job_of(context: Context, transform_id: str) -> Job:
    (job,) = context.store.jobs.all("WHERE subject_id = ?", transform_id)
    return job


def materialize(context: Context, transform_id: str) -> None:
    materializer, job = Materializer(context), job_of(context, transform_id)
    materializer.finish(job, materializer.work(job, Stop()), None)


def test_a_transform_cannot_read_itself(context: Context) -> None:
    put_published(context, "a", "SELECT 1 AS x")
    put(context, "a", "SELECT * FROM {{model.a}}")
    message = r"'a' would depend on itself: .*\{\{model\.a\}\}, which is this transform"
    with pytest.raises(BadRequestError, match=message):
        transform_publication.publish(context, "a")


def test_all_unknown_references_are_named(context: Context) -> None:
    put_published(context, "customers", "SELECT 1 AS x")
    put(context, "b", "SELECT * FROM {{model.custmers}}, {{raw.far.away}}")
    with pytest.raises(BadRequestError, match=r"\(did you mean model\.customers\?\), \{\{raw\.far\.away\}\}:"):
        transform_publication.publish(context, "b")


def test_a_table_has_its_place_before_its_first_build(context: Context) -> None:
    put_published(context, "x", "SELECT 1 AS x", materialization=TABLE)
    put(context, "X", "SELECT 1 AS x", transform_id="other")
    with pytest.raises(BadRequestError, match="place of the transform 'x'"):
        transform_publication.publish(context, "other")


@pytest.mark.parametrize("older", ["SELECT 1 AS old", "SELECT nope AS old"])
def test_a_build_of_an_older_publication_is_discarded(context: Context, older: str) -> None:
    put_published(context, "a", older, materialization=TABLE)
    materializer, job = Materializer(context), job_of(context, "a")
    outdated = materializer.work(job, Stop())
    put_published(context, "a", "SELECT 2 AS new", materialization=TABLE)
    materializer.finish(job, outdated, None)
    seen = transforms.get(context, "a")
    assert (seen.materialization_status, seen.materialization_error, seen.object_tag) == ("running", None, None)
    materialize(context, "a")
    assert transforms.get(context, "a").materialization_status == "completed"
    assert names(context, "a") == ["new"]
    assert jobs.get(context, JobKind.MATERIALIZATION, "a") is None


def test_a_view_stays_until_the_table_that_replaces_it(context: Context) -> None:
    put_published(context, "a", "SELECT 1 AS x")
    transform_publication.publish(context, "a", name="b", folder_path="f", materialization=TABLE)
    assert transforms.get(context, "a").object_tag == "model.a"
    assert names(context, "a") == ["x"]
    materialize(context, "a")
    assert transforms.get(context, "a").object_tag == "model.f.b"
    assert [context.warehouse.has(place) for place in (Place("f", "b"), Place("models", "a"))] == [True, False]


def test_a_reference_that_is_deleted_before_the_build(context: Context) -> None:
    put_published(context, "a", "SELECT 1 AS x")
    put_published(context, "b", "SELECT * FROM {{model.a}}", materialization=TABLE)
    context.store.transforms.update("a", object_tag=None)
    materialize(context, "b")
    seen = transforms.get(context, "b")
    assert seen.materialization_status == "failed"
    assert "{{model.a}}" in str(seen.materialization_error)


def test_a_build_of_a_deleted_transform_is_discarded(context: Context) -> None:
    put_published(context, "a", "SELECT 1 AS old", materialization=TABLE)
    materializer, job = Materializer(context), job_of(context, "a")
    built = materializer.work(job, Stop())
    transform_removal.delete(context, "a")
    # The next job has another number, while the engine still works on this one.
    put_published(context, "b", "SELECT 2 AS x", materialization=TABLE)
    assert job_of(context, "b").seq != job.seq
    materializer.begin(job)
    materializer.finish(job, built, None)
    assert jobs.get(context, JobKind.MATERIALIZATION, "b") is not None
    with context.warehouse.cursor() as cursor:
        assert cursor.execute("FROM duckdb_tables()").fetchall() == []
    with pytest.raises(RunError, match="no transform with the id 'a'"):
        materializer.work(job, Stop())


def test_a_seed_restores_a_deleted_transform(context: Context) -> None:
    put_published(context, "a", "SELECT 1 AS x")
    transform_removal.delete(context, "a")
    with pytest.raises(NotFoundError):
        transforms.get(context, "a")
    put(context, "a", "SELECT 2 AS y")
    assert (transforms.get(context, "a").status, names(context, "a")) == ("draft", ["y"])
    transform_publication.publish(context, "a")
    assert transforms.get(context, "a").object_tag == "model.a"


class KilledError(BaseException):
    """Stands for the end of the process."""


def test_an_interrupted_deletion_is_finished(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        put_published(context, name, "SELECT 1 AS x")
        with monkeypatch.context() as patch:
            patch.setattr(context.warehouse, "drop", Mock(side_effect=KilledError))
            with pytest.raises(KilledError):
                transform_removal.delete(context, name)
    # Another transform took the place of the first one.
    put(context, "a", "SELECT 2 AS x", transform_id="other")
    transform_publication.publish(context, "other")
    transform_removal.finish(context)
    assert [context.warehouse.has(Place("models", name)) for name in ("a", "b")] == [True, False]


class _Overtaken:
    """The lock of publishing. Before its first holder, another publication takes place."""

    def __init__(self, context: Context, publish: Callable[[], Any]) -> None:
        self._lock = context.publishing
        self._publications = [publish]

    def __enter__(self) -> None:
        while self._publications:
            self._publications.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("becomes", [TABLE, VIEW])
def test_a_view_published_while_its_build_waits(context: Context, becomes: Materialization) -> None:
    older = put(context, "a", "SELECT 1 AS older")
    newer = put(context, "a", "SELECT 2 AS newer")
    publish = partial(transform_publication.publish, context, "a")
    publish(materialization=TABLE)
    publish(version_id=older, materialization=VIEW)
    overtaken = _Overtaken(context, partial(publish, version_id=newer, materialization=becomes))
    materialize(replace(context, publishing=overtaken), "a")  # type: ignore[arg-type]  # RLock is a class of its own
    # The build was for the older publication, so that the job remains.
    assert transforms.get(context, "a").materialization_status == ("running" if becomes == TABLE else None)
    materialize(context, "a")
    assert names(context, "a") == ["newer"]
    assert transforms.get(context, "a").materialization_status == ("completed" if becomes == TABLE else None)
    assert jobs.get(context, JobKind.MATERIALIZATION, "a") is None
