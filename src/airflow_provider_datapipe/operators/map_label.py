"""Labels of mapped tasks in Airflow's interface: each shows the name of its resource instead of its index."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator as _Base
else:
    _Base = object

#: Rendered by Airflow before and after the task is executed.
TEMPLATE = "{{ task.map_label or ti.map_index }}"
#: Length of Airflow's column for labels.
_LONGEST = 250
#: Arguments that identify a resource, in order of precedence.
_IDENTIFYING: tuple[tuple[str, ...], ...] = (
    ("stream_id",),
    ("sync_id", "stream_name"),
    ("destination_schema_name", "stream_name"),
    ("reverse_etl_sync_id",),
    ("sync_id",),
    ("elt_sync_id",),
    ("destination_schema_name",),
    ("transform_id",),
    ("folder_path", "transform_name"),
    ("transform_name",),
    ("folder_path", "name"),
    ("folder",),
    ("orchestration_id",),
    ("orchestration_name",),
    ("name",),
    ("connection_label",),
    ("connection_id",),
    ("new_label",),
    ("workspace",),
    ("endpoint",),
)


class MapLabel(_Base):
    """Mixin for operators and sensors that sets a default for ``map_index_template`` of mapped tasks."""

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Map the task, with the name of its resource as the label unless ``map_index_template`` is given."""
        mapped = super().partial(**kwargs)
        if mapped.kwargs.get("map_index_template") is None and _candidates(cls.template_fields):
            mapped.kwargs["map_index_template"] = TEMPLATE
        return mapped

    @property
    def map_label(self) -> str | None:
        """Name or ID of the resource, as the task got it; None if no argument identifies a resource."""
        for names in _candidates(self.template_fields):
            values = [getattr(self, name) for name in names]
            if all(values):
                return "/".join(str(value).strip("/") for value in values)[:_LONGEST]
        return None


def _candidates(fields: Collection[str]) -> list[tuple[str, ...]]:
    return [each for each in _IDENTIFYING if set(each) <= set(fields)]
