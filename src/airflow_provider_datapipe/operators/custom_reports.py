"""Operators for custom reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.resources.custom_reports import ReportsResult
    from airflow_provider_datapipe.runs.task_state import TaskState


class CustomReportsCreateOperator(DatapipeChangeOperator):
    """
    Create custom reports. Each one becomes a stream of its ELT sync, or fails independently of the others.

    The interface does not list reports. With Airflow 3.3 or later, a retry reads the reports of earlier tries from the
    task state. Otherwise, a report counts as existing if its sync has a stream of its name (without
    ``add_as_source_stream``: a stream or an available stream). The comparison ignores all characters except letters and
    digits.

    Returns a :class:`~airflow_provider_datapipe.resources.custom_reports.ReportsResult`, also if the task fails.

    :param reports: ``elt_sync_id``, ``name`` and ``query`` of each report, or their JSON. The query is in the language
        of the sync's source. (templated)
    :param add_as_source_stream: add each report as a stream, so that the next run loads it. (templated)
    :param if_exists: policy if a stream of the name exists: ``keep`` it, regardless of its query, or ``create`` another
        report. (templated)
    :param on_partial_failure: policy if some but not all reports failed: ``fail`` the task, or ``succeed`` with a
        warning. If all failed, the task fails. (templated)
    :param tolerated_errors: codes of errors that do not fail the task: of ``connection_error``,
        ``connection_lost_access``, ``invalid_query``, ``not_found``, ``unknown``, ``unsupported_integration``.
        (templated)

    .. seealso:: :ref:`POST /custom_reports <interface-custom-reports-create>`.
    """

    on_partial_failure: Literal["fail", "succeed"]
    tolerated_errors: Sequence[str] | str
    flow = "custom_reports.create"
    not_in_flow = ("on_partial_failure", "tolerated_errors")
    endpoints = ("custom_reports.create",)

    def __init__(
        self,
        *,
        reports: list[dict[str, Any]] | str,
        add_as_source_stream: bool | str = True,
        if_exists: Literal["keep", "create"] = "keep",
        on_partial_failure: Literal["fail", "succeed"] = "fail",
        tolerated_errors: Sequence[str] | str = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._records: TaskState | None = None

    def execute(self, context: Context) -> Any:
        """
        Create the reports.

        :raises CustomReportError: if reports failed, and this fails the task.
        :raises DatapipeError: if the service refuses a request, or cannot be reached.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.resources.custom_reports import check_policy
        from airflow_provider_datapipe.runs.task_state import task_state_of

        check_policy(self.on_partial_failure, self.tolerated_errors)
        self._records = task_state_of(context)
        return super().execute(context)

    def _arguments(self) -> dict[str, Any]:
        from airflow_provider_datapipe.runs.task_state import NoTaskState

        return {**super()._arguments(), "records": self._records or NoTaskState()}

    def _error(self, result: ReportsResult) -> Exception | None:
        from airflow_provider_datapipe.resources.custom_reports import error_of, settle

        error = error_of(result, on_partial_failure=self.on_partial_failure, tolerated_errors=self.tolerated_errors)
        if self._records is not None:
            settle(self._records, succeeded=error is None)
        return error

    def _log_result(self, result: Any) -> None:
        for one in result["reports"]:
            which = f"Custom report {one['name']!r} of ELT sync {one['elt_sync_id']}"
            if one["error"]:
                self.log.warning("%s: %s: %s", which, one["error"]["error_code"], one["error"]["message"])
            elif one["action"] == "none":
                self.log.info("%s: stream %s exists already.", which, one["source_stream_name"])
            else:
                self.log.info("%s: %s as stream %s.", which, one["action"], one["source_stream_name"])
