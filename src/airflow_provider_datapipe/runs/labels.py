"""Short names of resources and runs for messages."""

from __future__ import annotations

from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.reference import Reference

#: Number of characters up to which a run ID is shown in full, and that are shown of a longer one.
_LONGEST_RUN_ID = 16
_SHOWN = 8


def resource_label(reference: Reference, *, with_id: bool = False) -> str:
    """
    Return the noun and the name of a resource, such as ``ELT stream shop.orders``.

    :param reference: the run of the resource.
    :param with_id: whether the ID follows in parentheses if the name does not show it.
    """
    noun, name, resource_id = KINDS[reference.kind].noun, reference.name, reference.resource_id
    if resource_id.endswith(f".{name}"):
        # The ID names the sync, too.
        return f"{noun} {resource_id}"
    return f"{noun} {name} ({resource_id})" if with_id and name != resource_id else f"{noun} {name}"


def sentence_start(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def short_run_id(run_id: str) -> str:
    """Return a run ID that does not hide the rest of a line; the link and the XCom have all of it."""
    return run_id if len(run_id) <= _LONGEST_RUN_ID else f"{run_id[:_SHOWN]}..."
