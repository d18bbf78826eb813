"""Requests for transforms and query previews that several tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.query_previews import QueryPreviewResult, QueryPreviewStatus
from airflow_provider_datapipe.api.models.transforms import Reference, Transform, TransformVersion
from tests.contract.datapipe_local.api import check_times

if TYPE_CHECKING:
    from tests.contract.datapipe_local.api import Api, Json

PREVIEWS = "/transforms/query_previews"
#: Runs for some seconds, so that tests can poll it and stop it.
SLOW = "SELECT count(*) AS n FROM range(3000000) a, range(300) b WHERE (a.range * b.range) % 7 = 3"


def create(api: Api, name: str, sql: str, **more: Any) -> Json:
    return read(api.post("/transforms", {"name": name, "sql_template": sql, **more}, status=201))


def patch(api: Api, transform_id: str, **changes: Any) -> Json:
    answer = api.client.patch(f"/transforms/{transform_id}", json=changes)
    assert answer.status_code == 200, answer.text
    return read(answer.json())


def publish(api: Api, transform_id: str, **overrides: Any) -> Json:
    return read(api.post(f"/transforms/{transform_id}/publish", overrides or None))


def get(api: Api, transform_id: str) -> Json:
    return read(api.get(f"/transforms/{transform_id}"))


def attach(api: Api, transform_id: str, orchestration_id: str) -> Json:
    body = {"orchestration_workflow_id": orchestration_id}
    return read(api.post(f"/transforms/{transform_id}/orchestration", body))


def detach(api: Api, transform_id: str, **query: str) -> Json:
    answer = api.client.delete(f"/transforms/{transform_id}/orchestration", params=query)
    assert answer.status_code == 200, answer.text
    return read(answer.json())


def read(answer: Json) -> Json:
    """Check that a response is a transform with all fields that the interface requires."""
    transform = Transform.model_validate(answer)
    check_times(answer)
    assert transform.model_extra == {}
    assert transform.status in ("draft", "published")
    assert transform.rebuild_trigger in ("none", "schedule", "orchestration")
    return answer


def check(transform: Json, **expected: Any) -> Json:
    """Check fields of a transform, and return the transform."""
    assert {name: transform[name] for name in expected} == expected
    return transform


def versions(api: Api, transform_id: str) -> list[TransformVersion]:
    return [
        TransformVersion.model_validate(entry)
        for entry in api.all_pages(f"/transforms/{transform_id}/versions", limit=2)
    ]


def built(api: Api, transform_id: str) -> Json:
    """Wait until no build of the transform is running."""
    return read(api.until(f"/transforms/{transform_id}", lambda seen: seen["materialization_status"] != "running"))


def references(api: Api) -> dict[str, tuple[str, str]]:
    found = [Reference.model_validate(entry) for entry in api.get("/transforms/available_references")["data"]]
    return {reference.tag: (str(reference.type), reference.dw_item_id) for reference in found}


def preview(api: Api, sql: str) -> str:
    return str(api.post(PREVIEWS, {"sql_template": sql}, status=201)["query_execution_id"])


def ended(api: Api, preview_id: str) -> QueryPreviewStatus:
    """Wait until a preview is done or has failed."""
    status = api.until(f"{PREVIEWS}/{preview_id}/status", lambda seen: seen["status"] != "RUNNING")
    assert status["query_execution_id"] == preview_id
    return QueryPreviewStatus.model_validate(status)


def rows(api: Api, sql: str) -> list[Json]:
    """Return the rows of a query preview."""
    preview_id = preview(api, sql)
    status = ended(api, preview_id)
    assert status.status == "DONE", status
    return list(QueryPreviewResult.model_validate(api.get(f"{PREVIEWS}/{preview_id}/result")).rows)


def failure(api: Api, sql: str) -> str:
    status = ended(api, preview(api, sql))
    assert status.status == "FAILED", status
    return str(status.error)
