"""What became of a change, and the rules that all changes share."""

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
from airflow_provider_datapipe.changes.values import choice
from airflow_provider_datapipe.runs.names import UnknownNameError
from airflow_provider_datapipe.runs.reference import Target
from airflow_provider_datapipe.runs.steps import Pause, Steps, ask
from airflow_provider_datapipe.runs.targets import required

T = TypeVar("T")

#: Seconds after which a thing is looked for once more whose creation was not answered.
_SECOND_LOOK = 3

IfExists = Literal["update", "keep", "fail"]
IfMissing = Literal["succeed", "fail"]


class Change(TypedDict):
    """
    What became of a change, as JSON.

    :ivar resource: what it is of: ``elt_sync``, ``elt_stream``, ``orchestration``, ``transform``, ...
    :ivar id: its id; None where there is none.
    :ivar name: its name, where it has one.
    :ivar action: what was done, such as ``created`` or ``enabled``; ``none`` where nothing had to be.
    :ivar changed: whether the service holds something else than before, as far as can be told.
    :ivar details: the resource afterwards as the service shows it, without what may be secret; None where it does not.
    :ivar warnings: fields that the service does not show, with what to do; left out if there are none.
    """

    resource: str
    id: str | None
    name: str | None
    action: str
    changed: bool
    details: Any
    warnings: NotRequired[list[str]]


class ResourceExistsError(DatapipeError):
    """What was to be created is there already, and the task was told to fail then."""


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
    """Make a result; without a change the action is ``none``."""
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
    Give an answer of the service as JSON that may be kept and shown: only declared fields, none that may be secret.

    :param value: a model, or models within lists and mappings.
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


def if_named(finding: Steps[T]) -> Steps[T | None]:
    """Look for something by its name; None if there is none. That there are several stays an error."""
    try:
        return (yield from finding)
    except UnknownNameError:
        return None


def created_once(find: Callable[[], Steps[T | None]], create: Request[T]) -> Steps[tuple[T, bool]]:
    """
    Create what is not there yet: also where a try before, or an answer that was lost, created it already.

    The interface has no idempotency key, so what is to be created has to be known by something else than its id.

    :param find: looks for it.
    :param create: creates it.
    :returns: the resource, and whether it is new.
    :raises DatapipeError: it could not be created; where no answer came, a later try finds out what became of it.
    """
    if (there := (yield from find())) is not None:
        return there, False
    try:
        return (yield from ask(create)), True
    except (TransportError, ServerError) as error:
        if isinstance(error, TransportError) and not error.sent:
            raise
        # It may have been created all the same, and may be shown only after a while.
        for pause in (0, _SECOND_LOOK):
            if pause:
                yield Pause(pause)
            if (there := (yield from find())) is not None:
                return there, True
        raise
    except (ConflictError, InvalidRequestError):
        # Another task may have been faster: then it is there.
        if (there := (yield from find())) is not None:
            return there, False
        raise


def what_is_given(**fields: str | None) -> dict[str, Any]:
    """
    Give the fields that are to be changed: those that are not None.

    :raises ValueError: one of them is empty.
    """
    return {field: required(field, value) for field, value in fields.items() if value is not None}


def check_if_exists(if_exists: str) -> None:
    """
    Check what is to happen with what is there already, before anything is sent.

    :raises ValueError: it is none of the words for it.
    """
    choice("if_exists", if_exists, ("update", "keep", "fail"))


def existing(found: BaseModel, what: str, if_exists: IfExists) -> None:
    """
    Refuse what is there already, if that was said.

    :raises ResourceExistsError: ``if_exists`` is ``fail``.
    """
    if if_exists == "fail":
        raise ResourceExistsError(
            f"There is {what} already: {getattr(found, 'id', None)}. if_exists says to fail then."
        )


def deletion(
    kind: str,
    finding: Steps[Target],
    read: Callable[[str], Request[Any]],
    delete: Callable[[str], Request[Any]],
    if_missing: IfMissing,
) -> Steps[Change]:
    """
    Delete a resource. That it is not there is success, unless told otherwise.

    :param finding: finds it.
    :param read: reads it by its id; the interface declares no answer for deleting what is not there.
    :param delete: deletes it by its id.
    :raises UnknownNameError: there is none of the name, and ``if_missing`` is ``fail``.
    :raises NotFoundError: there is none of the id, and ``if_missing`` is ``fail``.
    """
    choice("if_missing", if_missing, ("succeed", "fail"))
    target: Target | None = None
    try:
        target = yield from finding
        yield from ask(read(target.resource_id))
    except (UnknownNameError, NotFoundError):
        if if_missing == "fail":
            raise
        return change(kind, target.resource_id if target else None, action="deleted", changed=False)
    # It was there a moment ago: the answer to the first time that it was asked for may have been lost.
    with suppress(NotFoundError):
        yield from ask(delete(target.resource_id))
    return change(kind, target.resource_id, action="deleted", name=_name(target))


def _name(target: Target) -> str | None:
    # A target that was given by its id is called by it.
    return None if target.name == target.resource_id else target.name
