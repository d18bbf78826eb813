"""Operators for records that a reverse ETL destination rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    from airflow_provider_datapipe.resources.base import Change


class ReverseEtlRetryFailedRecordsOperator(DatapipeChangeOperator):
    """
    Mark refused records of a reverse ETL sync, so that its next run sends them again. Starts no run.

    Set one of ``record_ids``, ``reason`` and ``reason_pattern``. The service lists at most 100 failures, without a
    cursor. To select records by reason, the operator reads the list and marks matching records until the list contains
    none.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`, whose ``details`` are ``failed_records``
    (number of failures before), ``seen`` (number of failures that were compared with the reason; None without a
    reason) and ``requested``.

    :param reverse_etl_sync_id: ID of the reverse ETL sync. (templated)
    :param record_ids: ``"all"``, or the IDs of the records. An empty list succeeds. (templated)
    :param reason: a part of the error, such as ``"address"``, case-sensitive. (templated)
    :param reason_pattern: a Python regular expression to search in the error. (templated)

    .. seealso:: :ref:`POST /reverse_etl_failed_records/retry <interface-reverse-etl-failed-records-retry>` and
        :ref:`POST /reverse_etl_failed_records/retry_all <interface-reverse-etl-failed-records-retry-all>`.
    """

    flow = "reverse_etl_syncs.retry_failed"
    endpoints = ("reverse_etl_failed_records.retry", "reverse_etl_failed_records.retry_all")

    def __init__(
        self,
        *,
        reverse_etl_sync_id: str,
        record_ids: list[str] | str | None = None,
        reason: str | None = None,
        reason_pattern: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(record_ids=record_ids, reason=reason, reason_pattern=reason_pattern)

    def _log_result(self, result: Change) -> None:
        details = result["details"]
        self.log.info(
            "%s of %s failed records of reverse ETL sync %s will be sent again by its next run.",
            details["requested"],
            details["failed_records"],
            result["id"],
        )
        if details["seen"] is not None and details["seen"] < details["failed_records"]:
            self.log.warning(
                "The service showed %s of the %s failures: the reasons of the others are not known.",
                details["seen"],
                details["failed_records"],
            )
