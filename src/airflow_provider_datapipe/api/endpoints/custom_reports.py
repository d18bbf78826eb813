"""Custom reports: queries that become streams of an ELT sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Unset
from airflow_provider_datapipe.api.models.custom_reports import CustomReport, CustomReportResults, CustomReportsRequest
from airflow_provider_datapipe.api.request import Repeat


@endpoint("POST", "/custom_reports", answer=CustomReportResults, repeat=Repeat.CREATES, body=CustomReportsRequest)
def create(*, reports: Sequence[CustomReport | Mapping[str, Any]], add_as_source_stream: bool | Unset = UNSET) -> None:
    """
    Create reports, each independently: the response has one result, or error, for each, in order.

    :param reports: ``elt_sync_id``, ``name`` and ``query`` of each; the query is in the language of the sync's source.
    :param add_as_source_stream: True to add each report as an active stream, too (service default: true).
    """
