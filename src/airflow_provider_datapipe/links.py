"""Display of tasks in Airflow's interface: links to pages of the service, and labels of mapped tasks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from airflow_provider_datapipe.arguments import is_literal

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow.sdk import BaseOperator, Context
    from airflow.sdk import BaseOperator as _Base
    from airflow.sdk.types import TaskInstanceKey
else:
    _Base = object

#: Name of each kind's collection in the interface.
COLLECTIONS = {
    "connection": "connections",
    "elt_stream": "elt_streams",
    "elt_sync": "elt_syncs",
    "orchestration": "orchestrations",
    "reverse_etl": "reverse_etl_syncs",
    "reverse_etl_sync": "reverse_etl_syncs",
    "transform": "transforms",
}
#: Names that stand for ``{resource}`` in addresses. Queries have pages, but are not assets.
_PAGES = COLLECTIONS | {"query_preview": "query_previews"}
#: Attribute of a task with the address of its link: Airflow reads links in the process of the task.
ADDRESS = "_datapipe_link"
#: The most streams of a task that have their own links. Airflow shows a button for each.
_MOST_STREAMS = 20


class DatapipeLink(BaseOperatorLink):
    """
    Link to the resource of a task. It has an address as soon as the task knows the resource, and keeps it.

    .. seealso:: Airflow's ``BaseOperatorLink``.
    """

    name = "Data pipeline service"
    #: Attribute of the task with the address.
    attribute = ADDRESS

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """
        Return the address, empty if there is none.

        :param operator: the task, in the process in which it ran.
        :param ti_key: the task instance.
        """
        address: str | None = getattr(operator, self.attribute, None)
        # Airflow passes the task instance, and replaces the stored address with the returned one.
        pull = getattr(ti_key, "xcom_pull", None)
        if address is None and pull is not None:
            # The process ended before it knew the address, for example after a deferral: keep the stored one.
            address = pull(task_ids=ti_key.task_id, map_indexes=ti_key.map_index, key=self.xcom_key)
        return address or ""


class StreamLink(DatapipeLink):
    """
    Link to one of several streams of a task.

    :param position: position of the stream in the task's list.
    :param stream: name or ID of the stream.
    """

    def __init__(self, position: int, stream: str) -> None:
        self.name = f"ELT stream {stream}"
        self.attribute = f"{ADDRESS}_{position}"
        self.stream = stream
        self._position = position

    @property
    def xcom_key(self) -> str:
        """Key of the XCom with the address."""
        return f"{super().xcom_key}_{self._position}"


def stream_links(streams: object) -> tuple[StreamLink, ...]:
    """
    Return the links to the streams of a task, as far as they are known when the DAG is parsed.

    :param streams: the argument ``streams``.
    """
    listed = streams if isinstance(streams, list | tuple) else (streams,)
    known = dict.fromkeys(each for each in listed if is_literal(each))
    return tuple(StreamLink(position, each) for position, each in enumerate(known) if len(known) <= _MOST_STREAMS)


def address_of(template: str | None, kind: str, resource_id: object, run_id: str | None = None) -> str:
    """
    Return the address of a resource's page, empty if it has none.

    :param template: an address with ``{resource}``, ``{id}`` and optionally ``{run_id}``, None if it is not known.
    :param kind: kind of the resource.
    :param resource_id: its ID. Other values than text have no page.
    :param run_id: ID of the run, None if it is not known yet.
    """
    if not template or not resource_id or not isinstance(resource_id, str) or kind not in _PAGES:
        return ""
    # In one pass: an ID can look like a placeholder.
    known = {"resource": _PAGES[kind], "id": quote(resource_id, safe=""), "run_id": quote(run_id or "", safe="")}
    return re.sub(r"\{(resource|id|run_id)\}", lambda found: known[found[1]], template)


def show_link(task: Any, context: Context, address: str, link: DatapipeLink | None = None) -> None:
    """
    Show the address of a link immediately, because the task can wait for hours.

    :param task: the task, in the process in which it runs.
    :param context: Airflow's context.
    :param address: return value of :func:`address_of`. If it is empty, an earlier address stays.
    :param link: the link, :class:`DatapipeLink` by default.
    """
    if not address:
        return
    link = link or DatapipeLink()
    is_shown = getattr(task, link.attribute, None) == address
    setattr(task, link.attribute, address)
    if not is_shown and "ti" in context:
        context["ti"].xcom_push(key=link.xcom_key, value=address)


#: Rendered by Airflow before and after the task is executed. Native rendering evaluates the text as a Python literal.
_LABEL_TEMPLATE = (
    "{% set label = task.map_label or ti.map_index | string %}"
    "{{ '%r' | format(label) if task.dag.render_template_as_native_obj else label }}"
)
#: Length of Airflow's column for labels.
_LONGEST_LABEL = 250
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
        if mapped.kwargs.get("map_index_template") is None and _identifying_arguments(cls.template_fields):
            mapped.kwargs["map_index_template"] = _LABEL_TEMPLATE
        return mapped

    @property
    def map_label(self) -> str | None:
        """Name or ID of the resource, as the task got it; None if no argument identifies a resource."""
        for names in _identifying_arguments(self.template_fields):
            values = [getattr(self, name) for name in names]
            if all(values):
                return "/".join(str(value).strip("/") for value in values)[:_LONGEST_LABEL]
        return None


def _identifying_arguments(fields: Collection[str]) -> list[tuple[str, ...]]:
    return [each for each in _IDENTIFYING if set(each) <= set(fields)]
