"""Lineage of records that are pushed to a webhook. It needs no requests: the interface has no webhook endpoints."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import httpx
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.lineage.facets import operator_lineage
from airflow_provider_datapipe.lineage.model import Dataset, Lineage
from airflow_provider_datapipe.lineage.names import SCHEME, name_of_file, name_of_webhook

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_datapipe.webhook.delivery import IngestResult

log = logging.getLogger(__name__)


def lineage_of_delivery(
    conn_id: str, endpoint: str | None, source: str | None, accepted: IngestResult | None
) -> OperatorLineage[Any, Any] | None:
    """
    Return the lineage of a webhook delivery.

    :param conn_id: ID of the webhook connection.
    :param endpoint: path of the table's URL, if the connection contains only the beginning of the URL.
    :param source: file that contains the records; None for records from the task's arguments.
    :param accepted: result of the delivery; None before it.
    :returns: the lineage; None if the connection is not usable.
    """
    try:
        # The namespace has no path, because the URL may be the only credential.
        netloc = httpx.URL(WebhookIngestHook(conn_id).settings.origin).netloc.decode("ascii")
    except (DatapipeError, AirflowNotFoundException) as error:
        log.warning("Cannot report the inputs and outputs of this task to OpenLineage: %s", error)
        return None
    service = f"{SCHEME}://{netloc}"
    rows = None if accepted is None else accepted["records"] if accepted["rows"] is None else accepted["rows"]
    lineage = Lineage(
        [Dataset(name_of_file(source))] if source else [],
        [Dataset(name_of_webhook(service, conn_id, endpoint), rows=rows)],
    )
    return operator_lineage(lineage, service)
