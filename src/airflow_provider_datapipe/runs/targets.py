"""Resource of a task, found by the rendered ID or name, and conversion of rendered templates."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from typing import Any

from airflow_provider_datapipe.api.endpoints import elt_streams
from airflow_provider_datapipe.api.errors import RateLimitError, ServerError, TransportError
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.names import (
    UnknownNameError,
    find_connection,
    find_elt_sync,
    find_orchestration,
    find_stream,
    find_transform,
)
from airflow_provider_datapipe.runs.task_state import TaskState

#: Key of the task state with the ID of a transform that is published under another name or in another folder.
_PUBLISHED = "datapipe.publication"


def parse_rendered(value: Any) -> Any:
    """Parse text that is JSON or a Python literal. Return all other values unchanged."""
    if not isinstance(value, str):
        return value
    for reading in (json.loads, ast.literal_eval):
        try:
            return reading(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def rendered_text(field: str, value: Any) -> str | None:
    """
    Return a rendered text. A DAG that renders native objects turns text of digits into a number; it becomes text again.

    :param field: name of the field, for the message.
    :param value: the rendered value; None if there is none.
    :raises ValueError: if the value has another type, from which the text cannot be restored.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(
        f"{field} must be a text, not {type(value).__name__}; in a DAG that renders native objects, put quotes within "
        "the quotes"
    )


def required(name: str, value: str | None) -> str:
    """
    Return a rendered ID or name.

    :raises ValueError: if it is empty, for example because its template found no value, or if it is not text.
    """
    read = rendered_text(name, value)
    if not read or read == "None":
        raise ValueError(f"{name} is empty: set a value, or check the result of its template")
    return read


def folder_of(folder_path: str | None) -> str | None:
    """
    Return a rendered folder: None for any folder, an empty text for no folder.

    :raises ValueError: if its template found no value.
    """
    return required("folder_path", folder_path) if folder_path else folder_path


async def by_id(field: str, value: str | None, options: dict[str, Any] | None = None) -> RunTarget:
    """Return the target of an ID, without a request."""
    resource_id = required(field, value)
    return RunTarget(resource_id, resource_id, options or {})


async def connection_target(connection_id: str | None, connection_label: str | None) -> RunTarget:
    """Find a connection to an external system: by its ID, or by its label."""
    if connection_label is None:
        return await by_id("connection_id", connection_id)
    found = await find_connection(required("connection_label", connection_label))
    return RunTarget(found.id, str(found.label))


async def elt_sync_target(sync_id: str | None, destination_schema_name: str | None) -> RunTarget:
    """Find an ELT sync: by its ID, or by its destination schema."""
    if destination_schema_name is None:
        return await by_id("sync_id", sync_id)
    found = await find_elt_sync(required("destination_schema_name", destination_schema_name))
    return RunTarget(found.id, str(found.destination_schema_name))


async def stream_target(
    stream_id: str | None, sync_id: str | None, stream_name: str | None, options: dict[str, Any] | None = None
) -> RunTarget:
    """Find a stream: by its ID, or by its sync and name."""
    if stream_name is None:
        given = required("stream_id", stream_id)
        try:
            # The ID of the sync allows bulk status requests. This is worth a request, but not a failure.
            found = await send(replace(elt_streams.get(given), once=True))
        except (TransportError, ServerError, RateLimitError):
            return RunTarget(given, given, options or {})
    else:
        found = await find_stream(required("sync_id", sync_id), required("stream_name", stream_name))
    return RunTarget(found.id, found.name, options or {}, found.elt_sync_id)


async def orchestration_target(orchestration_id: str | None, orchestration_name: str | None) -> RunTarget:
    """Find an orchestration: by its ID, or by its name."""
    if orchestration_name is None:
        return await by_id("orchestration_id", orchestration_id)
    found = await find_orchestration(required("orchestration_name", orchestration_name))
    return RunTarget(found.id, found.name)


async def publication_target(
    transform_name: str, folder_path: str | None, options: dict[str, Any], task_state: TaskState
) -> RunTarget:
    """
    Find a transform to publish by its name. If it gets another name or folder, later tries find it as well.

    Before the publication, the task stores the ID of the transform. The new name does not identify the transform,
    because another one can have had it before.

    :param transform_name: name of the transform before the publication.
    :param folder_path: folder of the name before the publication; None to search all folders.
    :param options: overrides of the publication.
    :param task_state: stored state of earlier tries of the task.
    :raises NameLookupError: if the name is unknown or ambiguous, and no earlier try has found the transform.
    """
    finding = transform_target(None, transform_name, folder_path, options)
    if not {"name", "folder_path"} & options.keys():
        return await finding
    given = [transform_name, folder_path]
    try:
        target = await finding
    except UnknownNameError:
        stored = task_state.get(_PUBLISHED)
        if stored is None or stored["given"] != given:
            raise
        return RunTarget(stored["transform_id"], transform_name, options)
    task_state.set(_PUBLISHED, {"given": given, "transform_id": target.resource_id})
    return target


async def transform_target(
    transform_id: str | None, transform_name: str | None, folder_path: str | None, options: dict[str, Any]
) -> RunTarget:
    """Find a transform: by its ID, or by its name and, if several have this name, its folder."""
    if transform_name is None:
        return await by_id("transform_id", transform_id, options)
    found = await find_transform(required("transform_name", transform_name), folder_of(folder_path))
    return RunTarget(found.id, found.name, options)
