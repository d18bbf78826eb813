"""Transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, Unset
from airflow_provider_datapipe.api.models.orchestrations import AttachRequest
from airflow_provider_datapipe.api.models.transforms import (
    AvailableReferences,
    PublishRequest,
    RematerializeRequest,
    Transform,
    TransformBulkRequest,
    TransformBulkResults,
    TransformCreateRequest,
    TransformSchema,
    TransformUpdateRequest,
    TransformVersion,
)
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/transforms", answer=Page[Transform], repeat=Repeat.READ)
def list_(
    *,
    status: str | None = None,
    name: str | None = None,
    folder_path: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> Parts:
    """
    List transforms by creation date.

    :param status: only ``draft`` or only ``published`` ones.
    :param name: only those whose name has this part, in any case.
    :param folder_path: only those of this folder.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /transforms".
    """
    return Parts(
        query={
            "status": status,
            "name": name,
            "folder_path": folder_path,
            "limit": limit,
            "starting_after": starting_after,
        }
    )


@endpoint("POST", "/transforms", answer=Transform, repeat=Repeat.CREATES)
def create(
    *,
    name: str,
    sql_template: str,
    folder_path: str | Unset = UNSET,
    materialization: str | Unset = UNSET,
    documentation: str | Unset = UNSET,
    cron_expression: str | Unset = UNSET,
    publish: bool | Unset = UNSET,
    wait_for_completion: bool | Unset = UNSET,
) -> Parts:
    """
    Create a transform, as a draft or published.

    :param name: name of the transform.
    :param sql_template: SQL; references stand in double braces, such as ``{{raw.stripe.payments}}``.
    :param folder_path: the folder that it is in.
    :param materialization: ``view`` or ``table``.
    :param documentation: what it is, for people.
    :param cron_expression: schedule of a published table, cron expression of five fields.
    :param publish: whether it is published as well (the service's default is false).
    :param wait_for_completion: whether the call waits for the table, for about 45 s at the most.

    Source: interface.md, "POST /transforms".
    """
    return Parts(
        body=TransformCreateRequest.of(
            name=name,
            folder_path=folder_path,
            sql_template=sql_template,
            materialization=materialization,
            documentation=documentation,
            cron_expression=cron_expression,
            publish=publish,
            wait_for_completion=wait_for_completion,
        )
    )


@endpoint("GET", "/transforms/available_references", answer=AvailableReferences, repeat=Repeat.READ)
def available_references() -> Parts:
    """
    Read what SQL templates can name: raw views and published transforms.

    Source: interface.md, "GET /transforms/available_references".
    """
    return Parts()


@endpoint("GET", "/transforms/{id}", answer=Transform, repeat=Repeat.READ)
def get(transform_id: str) -> Parts:
    """
    Read one transform.

    :param transform_id: id of the transform.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "GET /transforms/{id}".
    """
    return Parts(path={"id": transform_id})


@endpoint("PATCH", "/transforms/{id}", answer=Transform, repeat=Repeat.STARTS_A_RUN)
def update(
    transform_id: str,
    *,
    name: str | Unset = UNSET,
    folder_path: str | Unset = UNSET,
    sql_template: str | Unset = UNSET,
    materialization: str | Unset = UNSET,
    documentation: str | Unset = UNSET,
    cron_expression: str | Unset | None = UNSET,
    publish: bool | Unset = UNSET,
    wait_for_completion: bool | Unset = UNSET,
) -> Parts:
    """
    Change a transform. What is left out stays as it is.

    :param transform_id: id of the transform.
    :param name: a new name.
    :param folder_path: a new folder.
    :param sql_template: new SQL; references stand in double braces.
    :param materialization: ``view`` or ``table``.
    :param documentation: what it is, for people.
    :param cron_expression: schedule of a published table, cron expression of five fields; None takes it away.
    :param publish: whether it is published again, if its SQL or materialization changed (the service's default is
        false).
    :param wait_for_completion: whether the call waits for the table, for about 45 s at the most.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "PATCH /transforms/{id}".
    """
    return Parts(
        path={"id": transform_id},
        body=TransformUpdateRequest.of(
            name=name,
            folder_path=folder_path,
            sql_template=sql_template,
            materialization=materialization,
            documentation=documentation,
            cron_expression=cron_expression,
            publish=publish,
            wait_for_completion=wait_for_completion,
        ),
    )


@endpoint("DELETE", "/transforms/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(transform_id: str) -> Parts:
    """
    Delete a transform, and its view or table.

    :param transform_id: id of the transform.

    Source: interface.md, "DELETE /transforms/{id}".
    """
    return Parts(path={"id": transform_id})


@endpoint("GET", "/transforms/{id}/schema", answer=TransformSchema, repeat=Repeat.READ)
def schema(transform_id: str) -> Parts:
    """
    Read the columns of a transform.

    :param transform_id: id of the transform.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "GET /transforms/{id}/schema".
    """
    return Parts(path={"id": transform_id})


@endpoint("POST", "/transforms/{id}/orchestration", answer=Transform, repeat=Repeat.IDEMPOTENT)
def attach_orchestration(transform_id: str, *, orchestration_workflow_id: str) -> Parts:
    """
    Let a published transform be built as part of an orchestration.

    :param transform_id: id of the transform.
    :param orchestration_workflow_id: id of the orchestration.
    :raises InvalidRequestError: the transform is not published.
    :raises NotFoundError: there is no such transform, or no such orchestration.

    Source: interface.md, "POST /transforms/{id}/orchestration".
    """
    return Parts(path={"id": transform_id}, body=AttachRequest.of(orchestration_workflow_id=orchestration_workflow_id))


@endpoint("DELETE", "/transforms/{id}/orchestration", answer=Transform, repeat=Repeat.IDEMPOTENT)
def detach_orchestration(transform_id: str, *, cron_expression: str | None = None) -> Parts:
    """
    Take a transform out of its orchestration.

    Without a schedule of its own and without one given here, it is no longer built again by itself.

    :param transform_id: id of the transform.
    :param cron_expression: schedule of a published table from now on, in UTC, cron expression of five fields.
    :raises InvalidRequestError: a schedule is given, and the transform is no published table.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "DELETE /transforms/{id}/orchestration".
    """
    return Parts(path={"id": transform_id}, query={"cron_expression": cron_expression})


@endpoint("POST", "/transforms/bulk", answer=TransformBulkResults, repeat=Repeat.CREATES)
def create_bulk(*, transforms: Sequence[TransformCreateRequest | Mapping[str, Any]]) -> Parts:
    """
    Create transforms, each by itself: the answer has one result, or error, for each.

    :param transforms: 1 to 50 transforms, each with the arguments of ``transforms.create``.

    Source: interface.md, "POST /transforms/bulk".
    """
    return Parts(body=TransformBulkRequest.of(transforms=transforms))


@endpoint("GET", "/transforms/{id}/versions", answer=Page[TransformVersion], repeat=Repeat.READ)
def versions(transform_id: str, *, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List the versions of a transform's SQL, newest first.

    :param transform_id: id of the transform.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "GET /transforms/{id}/versions".
    """
    return Parts(path={"id": transform_id}, query={"limit": limit, "starting_after": starting_after})


@endpoint("POST", "/transforms/{id}/publish", answer=Transform, repeat=Repeat.STARTS_A_RUN)
def publish(
    transform_id: str,
    *,
    version_id: str | Unset = UNSET,
    materialization: str | Unset = UNSET,
    folder_path: str | Unset = UNSET,
    name: str | Unset = UNSET,
    wait_for_completion: bool | Unset = UNSET,
) -> Parts:
    """
    Materialize the latest SQL as a view or table.

    A view is there when the call returns; building a table goes on after it.

    :param transform_id: id of the transform.
    :param version_id: an older version of its SQL.
    :param materialization: ``view`` or ``table``.
    :param folder_path: a new folder.
    :param name: a new name.
    :param wait_for_completion: whether the call waits for the table, for about 45 s at the most.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "POST /transforms/{id}/publish".
    """
    return Parts(
        path={"id": transform_id},
        body=PublishRequest.of(
            version_id=version_id,
            materialization=materialization,
            folder_path=folder_path,
            name=name,
            wait_for_completion=wait_for_completion,
        ),
    )


@endpoint("POST", "/transforms/{id}/rematerialize", answer=Transform, repeat=Repeat.STARTS_A_RUN)
def rematerialize(transform_id: str, *, wait_for_completion: bool | Unset = UNSET) -> Parts:
    """
    Build a published transform again, as it is.

    :param transform_id: id of the transform.
    :param wait_for_completion: whether the call waits for the table; that a service knows this here, too, is a guess.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "POST /transforms/{id}/rematerialize".
    """
    return Parts(path={"id": transform_id}, body=RematerializeRequest.of(wait_for_completion=wait_for_completion))
