"""Results of changes, and helpers that all changes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

from pydantic import BaseModel

from airflow_provider_datapipe.api.errors import (
    ConflictError,
    DatapipeError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import Flow, send, sleep
from airflow_provider_datapipe.resources.template_values import choice
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.names import UnknownNameError
from airflow_provider_datapipe.runs.targets import required

T = TypeVar("T")

#: Seconds until the second search for a resource whose creation request got no response.
_SECOND_POLL = 3

IfExists = Literal["update", "keep", "fail"]
IfMissing = Literal["succeed", "fail"]


class Change(TypedDict):
    """
    Result of a change, as JSON.

    :ivar resource: kind of the resource: ``elt_sync``, ``elt_stream``, ``orchestration``, ``transform``, ...
    :ivar id: ID of the resource; None if there is none.
    :ivar name: name of the resource; None if it has none.
    :ivar action: the action, such as ``created`` or ``enabled``; ``none`` if no change was necessary.
    :ivar changed: True if the state in the service has changed, as far as the service shows it.
    :ivar details: the resource after the change, without fields that may be secret; None if the service does not return
        it.
    :ivar warnings: warnings about fields that the service does not show; omitted if there are none.
    """

    resource: str
    id: str | None
    name: str | None
    action: str
    changed: bool
    details: Any
    warnings: NotRequired[list[str]]


class ResourceExistsError(DatapipeError):
    """The resource to create exists, and ``if_exists`` is ``fail``."""


def change(
    resource: str,
    resource_id: str | None,
    *,
    action: str,
    changed: bool = True,
    name: str | None = None,
    after: BaseModel | None = None,
    warnings: Sequence[str] = (),
) -> Change:
    """Return a result. The action is ``none`` if ``changed`` is False."""
    result = Change(
        resource=resource,
        id=resource_id,
        name=name,
        action=action if changed else "none",
        changed=changed,
        details=None if after is None else shown(after),
    )
    if warnings:
        result["warnings"] = list(warnings)
    return result


def shown(value: Any) -> Any:
    """
    Return a response as JSON that can be stored and shown: only declared fields, without those that may be secret.

    :param value: a model, or lists or tuples of models.
    """
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        plain = value.model_dump(mode="json", include={name for name, field in fields.items() if field.repr})
        return {
            name: shown(getattr(value, name)) if _holds_models(getattr(value, name)) else plain[name] for name in plain
        }
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    return value


def _holds_models(value: Any) -> bool:
    return isinstance(value, BaseModel) or (
        isinstance(value, list | tuple) and any(isinstance(each, BaseModel) for each in value)
    )


async def or_none(finding: Flow[T]) -> T | None:
    """Return the resource with a name, or None if there is none. An ambiguous name is still an error."""
    try:
        return await finding
    except UnknownNameError:
        return None


async def get_or_create(find: Callable[[], Flow[T | None]], create: Request[T]) -> tuple[T, bool]:
    """
    Create a resource unless it exists. An earlier try or a request whose response was lost may have created it.

    The interface has no idempotency key, so the resource is identified by something other than its ID.

    :param find: flow that searches for the resource.
    :param create: request that creates it.
    :returns: the resource, and True if it is new.
    :raises DatapipeError: if the resource cannot be created. If the response was lost, a retry finds the resource.
    """
    if (found := await find()) is not None:
        return found, False
    try:
        return await send(create), True
    except (TransportError, ServerError) as error:
        if isinstance(error, TransportError) and not error.sent:
            raise
        # The service may have created it, and may show it only after a while.
        for pause in (0, _SECOND_POLL):
            if pause:
                await sleep(pause)
            if (found := await find()) is not None:
                return found, True
        raise
    except (ConflictError, InvalidRequestError):
        # Another task may have created it in the meantime.
        if (found := await find()) is not None:
            return found, False
        raise


def drop_none(**fields: str | None) -> dict[str, Any]:
    """
    Return the fields to change: those that are not None.

    :raises ValueError: if a field is empty.
    """
    return {field: required(field, value) for field, value in fields.items() if value is not None}


def check_if_exists(if_exists: str) -> None:
    """
    Check ``if_exists`` before any request is sent.

    :raises ValueError: if it is not an allowed value.
    """
    choice("if_exists", if_exists, ("update", "keep", "fail"))


def existing(found: BaseModel, description: str, if_exists: IfExists) -> None:
    """
    Raise if an existing resource is an error.

    :raises ResourceExistsError: if ``if_exists`` is ``fail``.
    """
    if if_exists == "fail":
        raise ResourceExistsError(
            f"There is {description} already: {getattr(found, 'id', None)}, and if_exists is 'fail'."
        )


async def deletion(
    kind: str,
    finding: Flow[RunTarget],
    read: Callable[[str], Request[Any]],
    delete: Callable[[str], Request[Any]],
    if_missing: IfMissing,
) -> Change:
    """
    Delete a resource. A missing resource is success, unless ``if_missing`` is ``fail``.

    :param finding: flow that finds the resource.
    :param read: request that reads the resource with an ID. The interface does not specify the response to the deletion
        of a missing resource.
    :param delete: request that deletes the resource with an ID.
    :raises UnknownNameError: if no resource has the name, and ``if_missing`` is ``fail``.
    :raises NotFoundError: if no resource has the ID, and ``if_missing`` is ``fail``.
    """
    choice("if_missing", if_missing, ("succeed", "fail"))
    target: RunTarget | None = None
    try:
        target = await finding
        await send(read(target.resource_id))
    except (UnknownNameError, NotFoundError):
        if if_missing == "fail":
            raise
        return change(kind, target.resource_id if target else None, action="deleted", changed=False)
    # It existed a moment ago: the response to the first deletion request may have been lost.
    with suppress(NotFoundError):
        await send(delete(target.resource_id))
    return change(kind, target.resource_id, action="deleted", name=_name(target))


def _name(target: RunTarget) -> str | None:
    # A target that is given by its ID has the ID as its name.
    return None if target.name == target.resource_id else target.name
