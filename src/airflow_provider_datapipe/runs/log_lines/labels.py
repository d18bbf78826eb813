"""Short names of resources, runs and durations for messages."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef

#: Number of characters up to which a run ID is shown in full, and that are shown of a longer one.
_LONGEST_RUN_ID = 16
_SHOWN = 8
_MINUTE, _HOUR = 60, 3600


def resource_label(reference: RunRef, *, with_id: bool = False) -> str:
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


def usual_duration(durations: Sequence[float]) -> str | None:
    """Return the text for the usual duration of earlier runs, None if there are none."""
    usual = median(durations)
    if usual is None:
        return None
    return f"earlier runs took about {span(usual)}" if usual >= 1 else "earlier runs took less than 1 s"


def span(seconds: float) -> str:
    """Return a rounded duration as text, such as ``90 s``, ``5 min`` or ``2 h 30 min``."""
    whole = round(max(seconds, 0))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{round(whole / _MINUTE)} min"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def median(durations: Sequence[float]) -> float | None:
    """Return the median of durations in seconds, None if there are none."""
    return sorted(durations)[len(durations) // 2] if durations else None
