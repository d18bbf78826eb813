"""
Schedule fields of responses, and the rule for fields that a response omits.

A field that the response does not contain is unknown, which does not mean unset. A declarative change (``apply``,
``deploy``, a create operator with ``if_exists="update"``) sends an unknown field only together with another change of
the same resource. An operator that sets one field sends it in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.orchestrations import Orchestration
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.api.models.transforms import Transform


class Unknown(Enum):
    """Type of :data:`UNKNOWN`."""

    UNKNOWN = "unknown"


#: Value of a field that the response omits.
UNKNOWN: Final = Unknown.UNKNOWN
#: A cron expression; None if the resource has none; unknown if the response omits it.
Schedule: TypeAlias = "str | Unknown | None"
#: Text that stands for the old value of an unknown field in plans.
NOT_SHOWN = "(not shown)"
_LISTED = 3


def schedule_of_sync(sync: EltSync | ReverseEtlSync) -> Schedule:
    """Return ``sync_interval`` of a sync. The service omits it while the sync is attached to an orchestration."""
    if sync.sync_interval is None and sync.orchestration_workflow_id is not None:
        return UNKNOWN
    return sync.sync_interval


def schedule_of_stream(stream: EltStream) -> Schedule:
    """Return ``sync_interval`` of a stream. Older services do not declare it."""
    return stream.sync_interval if "sync_interval" in stream.model_fields_set else UNKNOWN


def schedule_of_transform(transform: Transform) -> Schedule:
    """Return ``cron_expression`` of a transform. Older services do not declare it."""
    if "cron_expression" in transform.model_fields_set or transform.rebuild_trigger == "none":
        return transform.cron_expression
    return UNKNOWN


def schedule_of_orchestration(orchestration: Orchestration) -> Schedule:
    """Return ``cron_schedule`` of an orchestration, which always has one. Older services do not declare it."""
    shown = (orchestration.model_extra or {}).get("cron_schedule")
    return shown if isinstance(shown, str) else UNKNOWN


def not_compared(field: str, names: Sequence[str], what_to_do: str) -> str:
    """
    Return the warning about a field that can't be compared and is therefore not sent.

    :param field: the field, and the kind of resource.
    :param names: names of the resources.
    :param what_to_do: next step for the user.
    """
    return f"The service does not show {field}, so it can't be compared and is not sent: {listed(names)}. {what_to_do}"


def listed(names: Sequence[str]) -> str:
    """Return the first names for a message."""
    return ", ".join([*names[:_LISTED], *["..."] * (len(names) > _LISTED)])


def not_verified(field: str, name: str) -> str:
    """Return the warning about a field that was sent, and that the service does not show."""
    return f"The service does not show {field}, so it is not known whether {name} had this value before, or has it now."
