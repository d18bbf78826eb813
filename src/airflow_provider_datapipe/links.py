"""The link from a task to what it works on, on the pages of the service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

#: What the interface calls the collection of each kind of thing.
COLLECTIONS = {
    "connection": "connections",
    "elt_stream": "elt_streams",
    "elt_sync": "elt_syncs",
    "orchestration": "orchestrations",
    "reverse_etl": "reverse_etl_syncs",
    "reverse_etl_sync": "reverse_etl_syncs",
    "transform": "transforms",
}
#: Where a task keeps the address: Airflow asks for it in the process in which the task ran.
ADDRESS = "_datapipe_link"


class DatapipeLink(BaseOperatorLink):
    """Leads to what a task works on; there once the task knows what that is, and stays."""

    name = "Data pipeline service"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """
        Give the address; empty where there is none.

        :param operator: the task, as it was run.
        :param ti_key: the task instance.
        """
        address: str | None = getattr(operator, ADDRESS, None)
        # Airflow gives the task instance here, and stores what is returned in place of what was there.
        pull = getattr(ti_key, "xcom_pull", None)
        if address is None and pull is not None:
            # This pass of the task ended before it knew: what an earlier one has shown stays.
            address = pull(task_ids=ti_key.task_id, map_indexes=ti_key.map_index, key=self.xcom_key)
        return address or ""


def address_of(template: str | None, kind: str, resource_id: str | None, run_id: str | None = None) -> str:
    """
    Fill the connection's template.

    :param template: an address with ``{resource}``, ``{id}`` and, perhaps, ``{run_id}``.
    :param kind: what kind of thing it is.
    :param resource_id: its id.
    :param run_id: the run; None while it is not known.
    :returns: the address; empty without a template, or for what has no page.
    """
    if not template or not resource_id or kind not in COLLECTIONS:
        return ""
    # Each once: an id may look like a placeholder.
    known = {"resource": COLLECTIONS[kind], "id": quote(resource_id, safe=""), "run_id": quote(run_id or "", safe="")}
    return re.sub(r"\{(resource|id|run_id)\}", lambda found: known[found[1]], template)


def show_link(task: Any, context: Context, address: str) -> None:
    """
    Have a task show an address, at once: the task may wait for hours.

    :param task: the task, as it is run.
    :param context: Airflow's context.
    :param address: from :func:`address_of`.
    """
    is_shown = getattr(task, ADDRESS, None) == address
    setattr(task, ADDRESS, address)
    if address and not is_shown and "ti" in context:
        context["ti"].xcom_push(key=DatapipeLink().xcom_key, value=address)
