"""Deployments of transforms with lost, late and unusual responses of a model service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import AuthenticationError, TransportError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.transforms import (
    AvailableReferences,
    Transform,
    TransformBulkResults,
    TransformVersion,
)
from airflow_provider_datapipe.api.request import Repeat
from airflow_provider_datapipe.resources import transform_bulk, transforms
from airflow_provider_datapipe.resources.transform_folder import DesiredTransform
from airflow_provider_datapipe.resources.transform_orphans import in_order_of_deletion
from airflow_provider_datapipe.resources.transforms import Due
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.task_state import NoTaskState
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason
from tests.unit.changes.fake_service import BROKEN, LOST, UNSENT
from tests.unit.runs.model_service import ModelService, page, transform

NEW = DesiredTransform("daily", "sales", "SELECT 1", "table")


def existing(**more: Any) -> Transform:
    return transform(materialization_status="completed", **more)


def version(*, published: bool, sql: str = "SELECT 1") -> Page[Any]:
    fields = {"id": "v", "sql_template": sql, "parameters": [], "created_at": "2026-01-01T00:00:00Z"}
    return page(TransformVersion.model_validate(fields | {"is_published": published}))


def deploy(service: ModelService, wanted: DesiredTransform = NEW) -> Batch:
    return service.run(transforms.deploy(wanted, publish=True, records=NoTaskState()))


@pytest.mark.parametrize("error", [LOST, BROKEN])
@pytest.mark.parametrize("shown_after", [1, 2])
def test_transform_created_without_a_response_is_found(error: Exception, shown_after: int) -> None:
    lists: list[Any] = [page()] * shown_after + [page(existing(status="draft"))]
    service = ModelService(transforms__list=lists, transforms__create=[error])
    batch = deploy(service)
    assert service.asked.count("transforms.create") == 1
    assert (batch.note["action"], [target.resource_id for target in batch.queued]) == ("created", ["t"])


def test_failed_creation_is_not_repeated() -> None:
    service = ModelService(transforms__list=[page()], transforms__create=[LOST])
    with pytest.raises(TransportError):
        deploy(service)
    assert service.asked.count("transforms.create") == 1


def test_updates_are_retryable_but_creations_are_not() -> None:
    service = ModelService(transforms__list=[page(existing())], transforms__update=[existing(sql_template="SELECT 2")])
    deploy(service, DesiredTransform("daily", "sales", "SELECT 2"))
    repeats = {request.endpoint.name: request.endpoint.repeat for request in service.requests}
    assert repeats["transforms.update"] is Repeat.IDEMPOTENT
    service = ModelService(transforms__list=[page()], transforms__create=[existing(status="draft")])
    deploy(service)
    assert service.requests[-1].endpoint.repeat is Repeat.CREATES


def test_transform_must_match_name_and_folder_exactly() -> None:
    # The service filters by a part of the name and ignores case.
    names, folders = ("daily_2", "Daily"), ("sales/eu", "")
    others = [existing(name=name) for name in names] + [existing(folder_path=folder) for folder in folders]
    service = ModelService(transforms__list=[page(*others)], transforms__create=[existing(status="draft")])
    assert deploy(service).note["action"] == "created"


@pytest.mark.parametrize(
    ("shown", "published", "expected"),
    [
        ({"status": "draft"}, True, Due.PUBLICATION),
        ({}, True, Due.NOTHING),
        ({}, False, Due.PUBLICATION),
        ({"materialization_status": "running"}, True, Due.WAIT),
        ({"materialization_status": "running"}, False, Due.PUBLICATION),
        ({"materialization_status": "odd"}, True, Due.WAIT),
        ({"materialization_status": "failed"}, True, Due.PUBLICATION),
        # The transform is published as a view and should be a table, or vice versa.
        ({"materialization_status": None}, True, Due.PUBLICATION),
        ({"materialization": "view"}, True, Due.PUBLICATION),
        ({"materialization": "view", "materialization_status": None}, True, Due.NOTHING),
        ({"materialization": "view", "materialization_status": None}, False, Due.PUBLICATION),
    ],
)
def test_required_action_for_each_state_of_a_transform(
    shown: dict[str, Any], *, published: bool, expected: Due
) -> None:
    found = existing() if not shown else transform(**({"materialization_status": "completed"} | shown))
    service = ModelService(transforms__versions=[version(published=published)])
    assert service.run(transforms.due_of(found, is_changed=False)) is expected
    assert service.run(transforms.due_of(found, is_changed=True)) is Due.PUBLICATION


def test_whitespace_around_sql_is_no_difference() -> None:
    wanted = DesiredTransform("daily", "sales", "\n SELECT 1 \n", "table", "")
    assert transforms.differences(wanted, existing()) == {}
    wanted = DesiredTransform("daily", "sales", "SELECT  1", "view", "new")
    assert transforms.differences(wanted, existing()) == {
        "sql_template": "SELECT  1",
        "materialization": "view",
        "documentation": "new",
    }


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [(None, "0 1 * * *", True), ("none", None, True), ("none", "0 1 * * *", False), ("0 1 * * *", None, False)],
)
def test_schedule_is_changed_only_if_given(wanted: str | None, found: str | None, *, same: bool) -> None:
    desired = DesiredTransform("daily", "sales", "SELECT 1", cron_expression=wanted)
    change = transforms.schedule_change(desired, existing(cron_expression=found), sends_unknown=False)
    assert change == (None if same else wanted)


def bulk_service(*listed: Page[Any], **answers: list[Any]) -> ModelService:
    references: list[Any] = [AvailableReferences(data=())]
    return ModelService(transforms__available_references=references, transforms__list=list(listed), **answers)


def bulk(service: ModelService, *names: str, **sql: str) -> Batch:
    desired = [DesiredTransform(name, "", "SELECT 1") for name in names]
    desired += [DesiredTransform(name, "", text) for name, text in sql.items()]
    return service.run(transform_bulk.begin(desired, publish=True, records=NoTaskState()))


def drafts(*names: str) -> Page[Any]:
    return page(*(transform(id=f"id-{name}", name=name, folder_path="", status="draft") for name in names))


def created(*names: str) -> TransformBulkResults:
    results = [{"name": name, "success": True, "id": f"id-{name}"} for name in names]
    return TransformBulkResults.model_validate({"results": results})


@pytest.mark.parametrize("error", [LOST, BROKEN])
def test_transforms_created_in_bulk_without_a_response_are_found(error: Exception) -> None:
    service = bulk_service(page(), drafts("a"), drafts("a", "b"), transforms__create_bulk=[error])
    batch = bulk(service, "a", "b")
    assert service.asked.count("transforms.create_bulk") == 1
    assert {path: item["result"] for path, item in batch.note["items"].items()} == {"a": "created", "b": "created"}


@pytest.mark.parametrize("error", [LOST, UNSENT, AuthenticationError("no", status=401)])
def test_incomplete_bulk_creation_is_left_to_the_retry(error: Exception) -> None:
    service = bulk_service(page(), drafts("a"), transforms__create_bulk=[error])
    with pytest.raises(type(error)):
        bulk(service, "a", "b")
    assert service.asked.count("transforms.create_bulk") == 1


@pytest.mark.parametrize("reason", [WaitOutcomeReason.TIMEOUT, WaitOutcomeReason.LOST_CONTACT])
def test_no_further_transform_starts_after_a_failed_wait(reason: WaitOutcomeReason) -> None:
    service = bulk_service(page(), transforms__create_bulk=[created("a", "b", "c")])
    batch = bulk(service, a="SELECT 1", b="SELECT 1", c="FROM {{model.b}}")
    assert [target.name for target in batch.queued] == ["a", "b"]
    # The batch passes through the trigger.
    batch = Batch.from_dict(batch.as_dict())
    batch.queued = []
    batch.ended = [
        WaitOutcome(WaitOutcomeReason.RUN_OVER, RunRef("transform", "id-b", "b"), Outcome.SUCCEEDED),
        WaitOutcome(reason, RunRef("transform", "id-a", "a"), Outcome.RUNNING),
    ]
    service.run(transform_bulk.go_on(batch))
    assert batch.is_over
    result, error = transform_bulk.result_of_bulk(batch)
    assert {path: item["result"] for path, item in result["transforms"].items()} == {
        "a": "failed",
        "b": "created",
        "c": "skipped",
    }
    assert result["outcome"] == "partial"
    assert "2 of 3 transforms were not deployed" in str(error)


def test_error_lists_some_transforms_and_counts_the_rest() -> None:
    batch = Batch("transform")
    item = {"id": None, "result": "failed", "published": False, "error": "why"}
    batch.note = {"items": {f"t{number}": dict(item) for number in range(7)}}
    result, error = transform_bulk.result_of_bulk(batch)
    assert (result["outcome"], result["counts"]["failed"]) == ("failed", 7)
    assert str(error).count("why") == 5
    assert str(error).endswith("and 2 more")


def test_orphans_are_deleted_after_the_transforms_that_read_them() -> None:
    sql = {
        "a": "SELECT 1",
        "b": "FROM {{model.a}}",
        "c": "FROM {{model.b}}",
        # Circular drafts.
        "x": "FROM {{model.y}}",
        "y": "FROM {{model.x}}",
        "elsewhere": "FROM {{model.c}}",
        "rewritten": "SELECT 1",
    }
    published = sql | {"rewritten": "FROM {{model.c}}", "twin1": "SELECT 1", "twin2": "SELECT 1"}
    existing = {name: [transform(id=name, name=name, folder_path="", sql_template=text)] for name, text in sql.items()}
    existing["twin"] = [transform(id=f"twin{n}", name="twin", folder_path="", sql_template="SELECT 1") for n in (1, 2)]
    sending = SimpleNamespace(id="s1", transform_id="twin2", source_id="twin2")
    service = ModelService(
        reverse_etl_syncs__list=[page(sending)],
        transforms__versions=[lambda request: version(published=True, sql=published[request.path.split("/")[2]])],
    )

    def ordered(*names: str) -> list[tuple[str, list[str]]]:
        orphans = [each for name in names for each in existing[name]]
        desired = [DesiredTransform("kept", "", "FROM {{model.a}}")]
        found = service.run(in_order_of_deletion(orphans, desired, existing, (), publish=True))
        return [(each["key"], each["read_by"]) for each in found]

    users = ["elsewhere", "the published version of rewritten"]
    assert ordered("a", "b", "c") == [("c", users), ("b", ["c"]), ("a", ["b", "kept"])]
    assert ordered("c", "rewritten") == [("rewritten", []), ("c", ["elsewhere"])]
    assert ordered("b", "c", "elsewhere", "rewritten") == [("elsewhere", []), ("rewritten", []), ("c", []), ("b", [])]
    assert ordered("x", "y") == [("x", []), ("y", [])]
    assert ordered("twin") == [("twin (twin1)", []), ("twin (twin2)", ["the reverse ETL sync s1"])]
