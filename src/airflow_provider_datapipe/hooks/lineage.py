"""Hook lineage: reports runs and queries that Python functions start with the hook to Airflow's collector."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from airflow.sdk import BaseHook

    from airflow_provider_datapipe.api.request import Request

log = logging.getLogger(__name__)

_QUERY = "query_previews.create"
_RUNS = (
    "elt_streams.request_run",
    "elt_streams.request_full_refresh",
    "orchestrations.request_run",
    "reverse_etl_syncs.request_run",
    "transforms.publish",
    "transforms.rematerialize",
)
#: Names of the endpoints whose requests are reported.
REPORTED = frozenset({_QUERY, *_RUNS})
#: Key of Airflow's providers for SQL that a hook has run.
_SQL_JOB = "sql_job"


def report(hook: BaseHook, request: Request[Any], answer: Any) -> None:
    """
    Report the output asset or the SQL of a request. This has no effect if no plugin reads hook lineage.

    :param hook: the hook that sent the request.
    :param request: a request of an endpoint of :data:`REPORTED`.
    :param answer: the response of the service.
    """
    try:
        from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

        collector = get_hook_lineage_collector()
        if request.endpoint.name == _QUERY:
            sql = getattr(request.body, "sql_template", None)
            collector.add_extra(hook, _SQL_JOB, {"sql": sql, "job_id": answer.query_execution_id})
        else:
            # The URI format of :mod:`airflow_provider_datapipe.assets`. The ID is already quoted in the path.
            collection, resource_id = request.path.strip("/").split("/")[:2]
            conn_id = quote(getattr(hook, "datapipe_conn_id", ""), safe="")
            collector.add_output_asset(hook, uri=f"datapipe://{conn_id}/{collection}/{resource_id}")
    except Exception:
        # The service has processed the request, so an error in its lineage must not fail the task.
        log.warning("The lineage of %s was not reported.", request.label, exc_info=True)
