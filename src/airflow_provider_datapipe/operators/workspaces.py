"""Operators for workspace files: the commands ``plan`` and ``apply`` as tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_datapipe.arguments import CheckedArguments, Duration, resolve_path, whole_seconds
from airflow_provider_datapipe.links import MapLabel
from airflow_provider_datapipe.operators.base import push_result
from airflow_provider_datapipe.operators.change import is_retry

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_provider_datapipe.pipelines.collect import Runner
    from airflow_provider_datapipe.pipelines.workspace.document import Document


#: Maximum number of failures in an error message.
_LISTED = 3


class _WorkspaceOperator(CheckedArguments, MapLabel, BaseOperator):
    """
    Base of operators with a workspace file.

    :param workspace: path of the file. A relative path is searched in the folder of the DAG file, then in the DAG's
        ``template_searchpath``. (templated)
    :param delete_orphans: delete resources that the file does not contain. (templated)
    :param environment: values for ``${NAME}`` in settings. They override the worker's environment. (templated)
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    """

    template_fields: Sequence[str] = ("datapipe_conn_id", "workspace", "delete_orphans", "environment")
    ui_color = "#e6e2f3"

    #: Names of the endpoints with which the operator can change resources.
    endpoints: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        workspace: str,
        delete_orphans: bool | str = False,
        environment: dict[str, str] | None = None,
        datapipe_conn_id: str = "datapipe_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.workspace = workspace
        self.delete_orphans = delete_orphans
        self.environment = environment
        self.datapipe_conn_id = datapipe_conn_id

    def execute(self, context: Context) -> Any:
        """
        Plan or apply the file.

        :raises WorkspaceError: if the file is invalid. Nothing was changed.
        :raises DatapipeError: the service refused, or could not be reached.
        """
        import os

        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
        from airflow_provider_datapipe.pipelines.workspace.document import read
        from airflow_provider_datapipe.resources.template_values import flag

        delete_orphans = flag("delete_orphans", self.delete_orphans)
        document = read(self._place(), {**os.environ, **self._environment()})
        hook = DatapipeHook(self.datapipe_conn_id)
        try:
            return self._result(hook, document, context, delete_orphans=delete_orphans)
        finally:
            hook.close()

    def _place(self) -> Path:
        from airflow_provider_datapipe.runs.targets import required

        return resolve_path(self, required("workspace", self.workspace), is_folder=False)

    def _environment(self) -> dict[str, str]:
        """Return the given values as text: a DAG that renders native objects converts some to numbers."""
        from airflow_provider_datapipe.resources.template_values import mapping
        from airflow_provider_datapipe.runs.targets import rendered_text

        given = {} if self.environment is None else mapping("environment", self.environment)
        values = {name: rendered_text(f"environment[{name!r}]", value) for name, value in given.items()}
        # A missing value raises an error where the workspace refers to it.
        return {name: value for name, value in values.items() if value is not None}

    def _result(self, service: Runner, document: Document, context: Context, *, delete_orphans: bool) -> Any:
        raise NotImplementedError

    def _finish(self, context: Context, result: Any, error: Exception | None) -> Any:
        if error is None:
            return result
        push_result(self, context, result)
        raise error


class WorkspacePlanOperator(_WorkspaceOperator):
    """
    Return the changes that a workspace file would make, without changing anything.

    Returns the plan like ``datapipe plan --format json``: ``changed``, ``counts``, ``items``, ``warnings``.

    :param workspace: path of the file. A relative path is searched in the folder of the DAG file, then in the DAG's
        ``template_searchpath``. (templated)
    :param delete_orphans: delete resources that the file does not contain. (templated)
    :param environment: values for ``${NAME}`` in settings. They override the worker's environment. (templated)
    :param fail_on_changes: fail the task if the plan contains changes. The plan is still pushed to XCom. (templated)
    """

    template_fields: Sequence[str] = (*_WorkspaceOperator.template_fields, "fail_on_changes")

    def __init__(self, *, fail_on_changes: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fail_on_changes = fail_on_changes

    def _result(self, service: Runner, document: Document, context: Context, *, delete_orphans: bool) -> Any:
        from airflow_provider_datapipe.pipelines.plan import PlanNotEmptyError, plan_text
        from airflow_provider_datapipe.pipelines.workspace.planning import make_plan
        from airflow_provider_datapipe.resources.template_values import flag

        plan = make_plan(service, document, delete_orphans=delete_orphans).plan
        level = logging.WARNING if plan.warnings else logging.INFO
        self.log.log(level, "%s", plan_text(plan, orphans_note="Not deleted, because delete_orphans is not set."))
        differ = "1 resource differs" if len(plan.changes) == 1 else f"{len(plan.changes)} resources differ"
        reported = f"The service does not match {document.name}: {differ}."
        is_failed = bool(plan.changes) and flag("fail_on_changes", self.fail_on_changes)
        return self._finish(context, plan.as_json(), PlanNotEmptyError(reported) if is_failed else None)


class WorkspaceApplyOperator(_WorkspaceOperator):
    """
    Apply a workspace file to the service.

    Idempotent: the task can be retried and cleared, also after it was killed. If the change of a resource fails, only
    the resources that depend on it are skipped.

    Returns the report like ``datapipe apply --format json``: ``failed``, ``counts``, ``items`` and ``warnings``. It is
    pushed to XCom also if the task fails.

    :param workspace: path of the file. A relative path is searched in the folder of the DAG file, then in the DAG's
        ``template_searchpath``. (templated)
    :param delete_orphans: delete resources that the file does not contain. Tables stay. (templated)
    :param environment: values for ``${NAME}`` in settings. They override the worker's environment. The rendered
        templates of the task show them, except values of connections and variables that Airflow masks. (templated)
    :param wait_for_run: duration of the wait for the end of a run that blocks the change of a reverse ETL sync.
        (templated)
    """

    template_fields: Sequence[str] = (*_WorkspaceOperator.template_fields, "wait_for_run")
    endpoints = (
        "orchestrations.create",
        "orchestrations.update",
        "orchestrations.delete",
        "elt_syncs.create",
        "elt_syncs.update",
        "elt_syncs.enable",
        "elt_syncs.disable",
        "elt_syncs.attach_orchestration",
        "elt_syncs.detach_orchestration",
        "elt_syncs.add_source_streams",
        "elt_syncs.delete",
        "elt_streams.set_sync_interval",
        "elt_streams.clear_sync_interval",
        "elt_streams.delete",
        "reverse_etl_syncs.create",
        "reverse_etl_syncs.update",
        "reverse_etl_syncs.activate",
        "reverse_etl_syncs.deactivate",
        "reverse_etl_syncs.delete",
    )

    def __init__(self, *, wait_for_run: Duration = 600, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_for_run = wait_for_run

    def _result(self, service: Runner, document: Document, context: Context, *, delete_orphans: bool) -> Any:
        from pathlib import Path

        from airflow_provider_datapipe.pipelines.plan import report_text
        from airflow_provider_datapipe.pipelines.workspace.applying import NotAppliedError, apply, exclusive_lock
        from airflow_provider_datapipe.runs.task_state import task_state_of

        wait_for_run = whole_seconds("wait_for_run", self.wait_for_run)
        with exclusive_lock(Path(document.name), self.log.info):
            report = apply(
                service,
                document,
                task_state_of(context),
                delete_orphans=delete_orphans,
                wait_for_run=wait_for_run,
                # A try that was killed may have sent a part of it.
                resend=is_retry(context),
            )
        self.log.log(logging.WARNING if report.warnings else logging.INFO, "%s", report_text(report))
        failed = [item for item in report.items if item.error]
        reported = "; ".join(f"{item.kind} {item.name}: {item.error}" for item in failed[:_LISTED])
        message = f"{len(failed)} resource{'s' * (len(failed) != 1)} failed. {reported}"
        return self._finish(context, report.as_json(), NotAppliedError(message) if report.failed else None)
