"""Transforms: SQL models, which are published as views or tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import endpoint
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
) -> None:
    """
    List transforms, sorted by creation date.

    :param status: return only ``draft`` or only ``published`` transforms.
    :param name: return only transforms whose name contains this text, case-insensitively.
    :param folder_path: return only transforms in this folder.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint("POST", "/transforms", answer=Transform, repeat=Repeat.CREATES, body=TransformCreateRequest)
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
) -> None:
    """
    Create a transform, as a draft or published.

    :param name: name of the transform.
    :param sql_template: SQL; references are in double braces, such as ``{{raw.stripe.payments}}``.
    :param folder_path: folder of the transform.
    :param materialization: ``view`` or ``table``.
    :param documentation: description of the transform.
    :param cron_expression: schedule of a published table, cron expression with five fields.
    :param publish: True to publish the transform, too (service default: false).
    :param wait_for_completion: True if the call waits until the table is built, for about 45 s at most.
    """


@endpoint("GET", "/transforms/available_references", answer=AvailableReferences, repeat=Repeat.READ)
def available_references() -> None:
    """List the references that SQL templates can use: raw views and published transforms."""


@endpoint("GET", "/transforms/{id}", answer=Transform, repeat=Repeat.READ)
def get(transform_id: str) -> None:
    """
    Read one transform.

    :param transform_id: ID of the transform.
    :raises NotFoundError: the transform does not exist.
    """


@endpoint("PATCH", "/transforms/{id}", answer=Transform, repeat=Repeat.STARTS_A_RUN, body=TransformUpdateRequest)
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
) -> None:
    """
    Update a transform. Omitted fields are unchanged.

    :param transform_id: ID of the transform.
    :param name: new name.
    :param folder_path: new folder.
    :param sql_template: new SQL; references are in double braces.
    :param materialization: ``view`` or ``table``.
    :param documentation: description of the transform.
    :param cron_expression: schedule of a published table, cron expression with five fields; None removes it.
    :param publish: True to publish again if SQL or materialization changed (service default: false).
    :param wait_for_completion: True if the call waits until the table is built, for about 45 s at most.
    :raises NotFoundError: the transform does not exist.
    """


@endpoint("DELETE", "/transforms/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(transform_id: str) -> None:
    """
    Delete a transform and its view or table.

    :param transform_id: ID of the transform.
    """


@endpoint("GET", "/transforms/{id}/schema", answer=TransformSchema, repeat=Repeat.READ)
def schema(transform_id: str) -> None:
    """
    Read the columns of a transform.

    :param transform_id: ID of the transform.
    :raises NotFoundError: the transform does not exist.
    """


@endpoint("POST", "/transforms/{id}/orchestration", answer=Transform, repeat=Repeat.IDEMPOTENT, body=AttachRequest)
def attach_orchestration(transform_id: str, *, orchestration_workflow_id: str) -> None:
    """
    Attach a published transform to an orchestration, which then builds it.

    :param transform_id: ID of the transform.
    :param orchestration_workflow_id: ID of the orchestration.
    :raises InvalidRequestError: the transform is not published.
    :raises NotFoundError: the transform or the orchestration does not exist.
    """


@endpoint("DELETE", "/transforms/{id}/orchestration", answer=Transform, repeat=Repeat.IDEMPOTENT)
def detach_orchestration(transform_id: str, *, cron_expression: str | None = None) -> None:
    """
    Detach a transform from its orchestration.

    A transform without its own schedule and without ``cron_expression`` is no longer rebuilt automatically.

    :param transform_id: ID of the transform.
    :param cron_expression: new schedule of a published table in UTC, cron expression with five fields.
    :raises InvalidRequestError: a schedule is given, but the transform is not a published table.
    :raises NotFoundError: the transform does not exist.
    """


@endpoint("POST", "/transforms/bulk", answer=TransformBulkResults, repeat=Repeat.CREATES, body=TransformBulkRequest)
def create_bulk(*, transforms: Sequence[TransformCreateRequest | Mapping[str, Any]]) -> None:
    """
    Create transforms, each independently: the response has one result, or error, for each.

    :param transforms: 1 to 50 transforms, each with the arguments of ``transforms.create``.
    """


@endpoint("GET", "/transforms/{id}/versions", answer=Page[TransformVersion], repeat=Repeat.READ)
def versions(transform_id: str, *, limit: int | None = None, starting_after: str | None = None) -> None:
    """
    List the versions of a transform's SQL, newest first.

    :param transform_id: ID of the transform.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    :raises NotFoundError: the transform does not exist.
    """


@endpoint("POST", "/transforms/{id}/publish", answer=Transform, repeat=Repeat.STARTS_A_RUN, body=PublishRequest)
def publish(
    transform_id: str,
    *,
    version_id: str | Unset = UNSET,
    materialization: str | Unset = UNSET,
    folder_path: str | Unset = UNSET,
    name: str | Unset = UNSET,
    wait_for_completion: bool | Unset = UNSET,
) -> None:
    """
    Materialize the latest SQL as a view or table.

    A view exists when the call returns. A table is built in the background.

    :param transform_id: ID of the transform.
    :param version_id: an older version of the SQL.
    :param materialization: ``view`` or ``table``.
    :param folder_path: new folder.
    :param name: new name.
    :param wait_for_completion: True if the call waits until the table is built, for about 45 s at most.
    :raises NotFoundError: the transform does not exist.
    """


@endpoint(
    "POST", "/transforms/{id}/rematerialize", answer=Transform, repeat=Repeat.STARTS_A_RUN, body=RematerializeRequest
)
def rematerialize(transform_id: str, *, wait_for_completion: bool | Unset = UNSET) -> None:
    """
    Rebuild a published transform without changes.

    :param transform_id: ID of the transform.
    :param wait_for_completion: True if the call waits until the table is built. Undocumented for this endpoint.
    :raises NotFoundError: the transform does not exist.
    """
