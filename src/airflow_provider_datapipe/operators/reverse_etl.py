"""Operators for reverse ETL syncs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.operators.base import (
    DatapipeRunOperator,
    DatapipeSingleRunOperator,
)

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.reference import Target
    from airflow_provider_datapipe.runs.steps import Steps
    from airflow_provider_datapipe.runs.wait import End

#: The most failed records that a request returns.
_MOST_RECORDS = 100


class ReverseEtlRunOperator(DatapipeSingleRunOperator):
    """
    Run a reverse ETL sync, and wait for the end of the run.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`.

    :param reverse_etl_sync_id: id of the reverse ETL sync. (templated)
    :param max_failed_rows: the most rows that the destination may reject without a failure of the task.
    :param retry_failed_records: records that failed in earlier runs and that this run sends again: True for all, or a
        list of IDs. A template may render to the text of either, such as ``['a', 'b']``. (templated)
    :param show_failed_records: number of rejected records to show with IDs and reasons in the log, in the error and in
        notifications, at most 100. Set it to 0 if the records are confidential.

    .. seealso:: interface.md, "POST /reverse_etl_syncs/{id}/request_run" and "POST /reverse_etl_failed_records/retry".
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "reverse_etl_sync_id",
        "retry_failed_records",
    )
    kind = "reverse_etl"
    asset_kind = "reverse_etl"
    asset_argument = "reverse_etl_sync_id"
    endpoints = (
        "reverse_etl_syncs.request_run",
        "reverse_etl_failed_records.retry",
        "reverse_etl_failed_records.retry_all",
    )

    def __init__(
        self,
        *,
        reverse_etl_sync_id: str,
        max_failed_rows: int = 0,
        retry_failed_records: bool | list[str] | str = False,
        show_failed_records: int = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_failed_rows < 0:
            raise ValueError(f"max_failed_rows must be 0 or more, not {max_failed_rows}")
        if not 0 <= show_failed_records <= _MOST_RECORDS:
            raise ValueError(f"show_failed_records must be 0 to {_MOST_RECORDS}, not {show_failed_records}")
        self.reverse_etl_sync_id = reverse_etl_sync_id
        self.max_failed_rows = max_failed_rows
        self.retry_failed_records = retry_failed_records
        self.show_failed_records = show_failed_records
        self._declare_assets()

    @property
    def _failed_rows_allowed(self) -> int:
        return self.max_failed_rows

    def _error_of(self, end: End) -> Exception | None:
        from airflow_provider_datapipe.runs.verdict import error_of

        retries = bool(_records(self.retry_failed_records))
        return error_of(end, max_failed_rows=self.max_failed_rows, retries_failed_records=retries)

    @property
    def _records_shown(self) -> int:
        return self.show_failed_records

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import by_id

        options = {"retry_failed_records": _records(self.retry_failed_records)}
        return by_id("reverse_etl_sync_id", self.reverse_etl_sync_id, options)


def _records(value: bool | list[str] | str) -> bool | list[str]:
    """
    Parse the rendered arguments.

    :raises ValueError: it is neither True or False nor a list of record ids.
    """
    try:
        read = ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError):
        read = value
    if isinstance(read, bool) or (isinstance(read, list) and all(isinstance(each, str) for each in read)):
        return read
    raise ValueError(f"retry_failed_records must be True, False or a list of record ids, not {value!r}")
