"""Operators that plan and deploy the transforms of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import resolve_path
from airflow_provider_datapipe.operators.base import push_result
from airflow_provider_datapipe.operators.change import is_retry
from airflow_provider_datapipe.operators.transforms import DatapipeSqlOperator

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.resources.transform_bulk import BulkResult
    from airflow_provider_datapipe.resources.transform_folder import DesiredTransform
    from airflow_provider_datapipe.runs.batch import Batch


class DatapipeTransformFolderOperator(DatapipeSqlOperator):
    """
    Base of operators with a folder of SQL files.

    :param folder: path of the folder. A relative path is searched in the folder of the DAG file, then in the DAG's
        ``template_searchpath``. (templated)
    :param folder_path: the folder of the service for these transforms; empty for none. (templated)
    :param materialization: ``view`` or ``table`` for files without one; None to keep that of each transform, or for
        the default of the service. (templated)
    :param delete_orphans: after a deployment without failures, delete the other transforms in ``folder_path`` and
        below, or all other transforms without ``folder_path``. Transforms are deleted before those that they read.
        Deleting a transform that another one still reads fails. (templated)
    """

    template_fields: Sequence[str] = (
        *DatapipeSqlOperator.template_fields,
        "folder",
        "folder_path",
        "materialization",
        "delete_orphans",
    )
    template_ext: Sequence[str] = ()
    sql_fields = ()
    kind = "transform"

    def __init__(
        self,
        *,
        folder: str,
        folder_path: str = "",
        materialization: Literal["view", "table"] | None = None,
        delete_orphans: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.folder = folder
        self.folder_path = folder_path
        self.materialization = materialization
        self.delete_orphans = delete_orphans

    def _read(self, context: Context) -> list[DesiredTransform]:
        """Read the files, and render the Jinja expressions for Airflow in them."""
        from jinja2 import TemplateError

        from airflow_provider_datapipe.pipelines.transforms.files import desired_from_files, parse_files
        from airflow_provider_datapipe.resources.sql_templates import with_own_line_ends
        from airflow_provider_datapipe.resources.template_values import choice
        from airflow_provider_datapipe.resources.transform_folder import read_folder
        from airflow_provider_datapipe.runs.targets import folder_of

        if self.materialization is not None:
            choice("materialization", self.materialization, ("view", "table"))
        environment = self._sql_environment(context, self.get_template_env())

        def rendered(text: str, path: str) -> str:
            try:
                result = str(self._render(environment.from_string(text), context))
            except TemplateError as error:
                raise ValueError(f"{path}: {error}") from error
            return with_own_line_ends(text, result)

        return desired_from_files(
            parse_files(read_folder(self._place())),
            folder_path=folder_of(self.folder_path) or "",
            materialization=self.materialization,
            render=rendered,
        )

    def _place(self) -> Path:
        from airflow_provider_datapipe.runs.targets import required

        return resolve_path(self, required("folder", self.folder), is_folder=True)


class TransformBulkDeployOperator(DatapipeTransformFolderOperator):
    """
    Deploy a folder of SQL files as transforms, and publish them in the order of their references.

    ``sales/orders.sql`` is the transform ``orders`` in the folder ``sales``. New transforms are created, different ones
    are updated, and both are published if required, each after the transforms that it reads. Other transforms of the
    service stay. The :ref:`front matter <front-matter>` of a file can contain further fields, and checks that must pass
    before the publication. Airflow renders Jinja in the SQL, as for :class:`TransformDeployOperator`, and in checks.

    Returns a :class:`~airflow_provider_datapipe.resources.transform_bulk.BulkResult` with a result for each transform,
    also if the task fails. After a failed transform, only the transforms that read it are skipped.

    :param publish: publish the transforms as well, unless a file states otherwise. (templated)
    :param on_partial_failure: policy if some but not all transforms failed: ``fail`` the task, or ``succeed``
        with a warning. If all failed, the task fails. (templated)

    .. seealso:: :ref:`POST /transforms/bulk <interface-transforms-create-bulk>`,
        :ref:`PATCH /transforms/{id} <interface-transforms-update>` and
        :ref:`POST /transforms/{id}/publish <interface-transforms-publish>`.
    """

    template_fields: Sequence[str] = (*DatapipeTransformFolderOperator.template_fields, "publish", "on_partial_failure")
    asset_kind = "transform"
    endpoints = (
        "transforms.create_bulk",
        "transforms.update",
        "transforms.publish",
        "transforms.attach_orchestration",
        "transforms.detach_orchestration",
        "transforms.delete",
        "query_previews.create",
    )

    def __init__(
        self, *, publish: bool | str = True, on_partial_failure: Literal["fail", "succeed"] = "fail", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.publish = publish
        self.on_partial_failure = on_partial_failure
        self._declare_assets()

    def execute(self, context: Context) -> BulkResult:
        """
        Deploy the folder.

        :raises DatapipeError: the service refused, could not be reached, or some transforms could not be deployed.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.resources.template_values import choice
        from airflow_provider_datapipe.runs.task_state import earlier_task_state

        choice("on_partial_failure", self.on_partial_failure, ("fail", "succeed"))
        self._records, self._is_retry = earlier_task_state(context), is_retry(context)
        self._desired = self._read(context)
        self._note: dict[str, Any] = {}
        try:
            result: BulkResult = super().execute(context)
        except DatapipeError:
            if self._batch is None:
                self._push_partial_result(context)
            raise
        return result

    def _push_partial_result(self, context: Context) -> None:
        """Push the results of the transforms that were changed before an error."""
        from airflow_provider_datapipe.resources.template_values import flag
        from airflow_provider_datapipe.resources.transform_bulk import (
            complete_results,
            is_anything_changed,
            result_of_bulk,
        )
        from airflow_provider_datapipe.runs.batch import Batch

        if is_anything_changed(self._note):
            complete_results(self._note, self._desired, publish=flag("publish", self.publish))
            push_result(self, context, result_of_bulk(Batch(self.kind, note=self._note))[0])

    @property
    def _has_single_run(self) -> bool:
        return False

    def _create_batch(self) -> Flow[Batch]:
        from airflow_provider_datapipe.resources.template_values import flag
        from airflow_provider_datapipe.resources.transform_bulk import begin
        from airflow_provider_datapipe.runs.targets import folder_of

        return begin(
            self._desired,
            publish=flag("publish", self.publish),
            records=self._records,
            folder_path=folder_of(self.folder_path) or "",
            delete_orphans=flag("delete_orphans", self.delete_orphans),
            resend=self._is_retry,
            note=self._note,
        )

    def _after_runs(self, batch: Batch) -> Flow[None]:
        from airflow_provider_datapipe.resources.transform_bulk import go_on

        return go_on(batch)

    def _finish(self, batch: Batch) -> tuple[BulkResult, Exception | None]:
        from airflow_provider_datapipe.resources.transform_bulk import result_of_bulk

        result, error = result_of_bulk(batch)
        self.log.info("Transforms: %s.", ", ".join(f"{count} {what}" for what, count in result["counts"].items()))
        for warning in batch.note.get("warnings", ()):
            self.log.warning("%s", warning)
        if error is not None and result["outcome"] == "partial" and self.on_partial_failure == "succeed":
            self.log.warning("%s\nThe task succeeds because of on_partial_failure='succeed'.", error)
            return result, None
        return result, error


class TransformPlanOperator(DatapipeTransformFolderOperator):
    """
    Return the changes that :class:`TransformBulkDeployOperator` would make for a folder. Changes nothing.

    Returns the plan like ``datapipe plan --format json``: ``changed``, ``counts``, ``items`` and ``warnings``.
    ``if_running``, ``on_kill``, ``timeout`` and ``deferrable`` have no effect.

    :param fail_on_changes: fail the task if the plan contains changes. (templated)
    """

    template_fields: Sequence[str] = (*DatapipeTransformFolderOperator.template_fields, "fail_on_changes")

    def __init__(self, *, fail_on_changes: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fail_on_changes = fail_on_changes

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Make the plan.

        :raises PlanNotEmptyError: if the plan contains changes, and ``fail_on_changes`` is set.
        :raises DatapipeError: the service refused, or could not be reached.
        :raises ValueError: if a file or an argument is invalid.
        """
        from airflow_provider_datapipe.pipelines.plan import PlanNotEmptyError, plan_text
        from airflow_provider_datapipe.pipelines.transforms.planning import plan_transforms
        from airflow_provider_datapipe.resources.template_values import flag
        from airflow_provider_datapipe.runs.targets import folder_of

        fail_on_changes = flag("fail_on_changes", self.fail_on_changes)
        desired = self._read(context)
        hook = self._hook()
        try:
            plan = plan_transforms(
                hook,
                desired,
                folder_path=folder_of(self.folder_path) or "",
                delete_orphans=flag("delete_orphans", self.delete_orphans),
            )
        finally:
            hook.close()
        reported = plan_text(plan)
        self.log.info("The plan:\n%s", reported)
        result = plan.as_json()
        if fail_on_changes and plan.changes:
            push_result(self, context, result)
            raise PlanNotEmptyError(f"The service does not match the files: {reported.splitlines()[-1]}")
        return result
