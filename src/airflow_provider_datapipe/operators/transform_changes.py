"""Operators that deploy, delete, attach and detach transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.base import keep_result, place_of, records_of
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator, is_retry
from airflow_provider_datapipe.operators.query import DatapipeSqlOperator

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_provider_datapipe.changes.change import Change
    from airflow_provider_datapipe.changes.transform_bulk import BulkResult, ItemResult
    from airflow_provider_datapipe.changes.transform_folder import DesiredTransform
    from airflow_provider_datapipe.changes.transforms import DeployResult
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.records import Records
    from airflow_provider_datapipe.runs.steps import Steps


class TransformDeployOperator(DatapipeSqlOperator):
    """
    Deploy a transform: create it, or update the fields that differ. Without differences, nothing is changed.

    Then it is published if its publication differs, and the task waits until its view or table exists. The folder and
    the name identify the transform.

    Returns a :class:`~airflow_provider_datapipe.changes.transforms.DeployResult`: the result of the build, and the
    changes of this try.

    :param name: name of the transform. (templated)
    :param sql_template: one SELECT, or the path of a ``.sql`` file. Airflow renders names of its context, such as
        ``{{ ds }}``; the service resolves other references, such as ``{{raw.stripe.payments}}``. (templated)
    :param folder_path: the folder of the transform, such as ``analytics/marketing``; empty for none. (templated)
    :param materialization: ``view`` or ``table``; None to keep it, or for the default. (templated)
    :param documentation: description of the transform; None to keep the current one. (templated)
    :param cron_expression: schedule of a published table, cron expression of five fields, UTC; ``none`` for no
        schedule; None to keep the current one. It is set after the table was built. (templated)
    :param publish: publish the transform as well; with False, a draft stays a draft, and the warehouse keeps an earlier
        publication. (templated)

    .. seealso:: interface.md, "POST /transforms", "PATCH /transforms/{id}" and "POST /transforms/{id}/publish".
    """

    template_fields: Sequence[str] = (
        *DatapipeSqlOperator.template_fields,
        "name",
        "sql_template",
        "folder_path",
        "materialization",
        "documentation",
        "cron_expression",
        "publish",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql_template": "sql"}
    kind = "transform"
    asset_kind = "transform"
    endpoints = ("transforms.create", "transforms.update", "transforms.publish")

    def __init__(
        self,
        *,
        name: str,
        sql_template: str,
        folder_path: str = "",
        materialization: Literal["view", "table"] | None = None,
        documentation: str | None = None,
        cron_expression: str | None = None,
        publish: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.sql_template = sql_template
        self.folder_path = folder_path
        self.materialization = materialization
        self.documentation = documentation
        self.cron_expression = cron_expression
        self.publish = publish
        self._declare_assets()

    def execute(self, context: Context) -> DeployResult:
        """
        Deploy the transform.

        :raises DatapipeError: the service refused, could not be reached, or the build failed.
        :raises ValueError: if a rendered argument is invalid.
        """
        self._records, self._is_retry = records_of(context), is_retry(context)
        result: DeployResult = super().execute(context)
        return result

    def _begin(self) -> Steps[Batch]:
        from airflow_provider_datapipe.changes.transforms import deploy, desired
        from airflow_provider_datapipe.changes.values import flag

        wanted = desired(
            name=self.name,
            folder_path=self.folder_path,
            sql_template=self.sql_template,
            materialization=self.materialization,
            documentation=self.documentation,
            cron_expression=self.cron_expression,
        )
        publish = flag("publish", self.publish)
        return deploy(wanted, publish=publish, records=self._records, resend=self._is_retry)

    def _works_on(self, batch: Batch) -> tuple[str, str | None]:
        return self.kind, batch.note["transform_id"]

    def _lineage_queries(self) -> dict[str, str]:
        return {"sql_template": self.sql_template}

    def _go_on(self, batch: Batch) -> Steps[None]:
        from airflow_provider_datapipe.changes.transforms import conclude

        return conclude(batch)

    def _finish(self, batch: Batch) -> tuple[DeployResult, Exception | None]:
        from airflow_provider_datapipe.changes.transforms import result_of_deployment

        result, error = result_of_deployment(batch)
        self.log.info("transform %s %s: %s.", result["name"], result["resource_id"], result["action"])
        for warning in batch.note.get("warnings", ()):
            self.log.warning("%s", warning)
        return result, error


def _records_before(context: Context) -> Records:
    """Return the task state of earlier tries. A first try has none, and reading it for many transforms takes long."""
    from airflow_provider_datapipe.runs.records import NoRecords

    return NoRecords() if getattr(context["ti"], "try_number", None) == 1 else records_of(context)


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

        from airflow_provider_datapipe.changes.transform_folder import read_folder
        from airflow_provider_datapipe.changes.values import choice
        from airflow_provider_datapipe.pipelines.transforms.files import parse_files, wanted
        from airflow_provider_datapipe.runs.targets import folder_of

        if self.materialization is not None:
            choice("materialization", self.materialization, ("view", "table"))
        environment = self._sql_environment(context, self.get_template_env())

        def rendered(text: str, path: str) -> str:
            try:
                return str(self._render(environment.from_string(text), context))
            except TemplateError as error:
                raise ValueError(f"{path}: {error}") from error

        return wanted(
            parse_files(read_folder(self._place())),
            folder_path=folder_of(self.folder_path) or "",
            materialization=self.materialization,
            render=rendered,
        )

    def _place(self) -> Path:
        from airflow_provider_datapipe.runs.targets import required

        return place_of(self, required("folder", self.folder), is_folder=True)


class TransformBulkDeployOperator(DatapipeTransformFolderOperator):
    """
    Deploy a folder of SQL files as transforms, and publish them in the order of their references.

    ``sales/orders.sql`` is the transform ``orders`` in the folder ``sales``. New transforms are created, different ones
    are updated, and both are published if required, each after the transforms that it reads. Other transforms of the
    service stay. The :ref:`front matter <front-matter>` of a file can contain further fields, and checks that must pass
    before the publication. Airflow renders Jinja in the SQL, as for :class:`TransformDeployOperator`, and in checks.

    Returns a :class:`~airflow_provider_datapipe.changes.transform_bulk.BulkResult` with a result for each transform,
    also if the task fails. After a failed transform, only the transforms that read it are skipped.

    :param publish: publish the transforms as well, unless a file states otherwise. (templated)
    :param on_partial_failure: policy if some but not all transforms failed: ``fail`` the task, or ``succeed``
        with a warning. If all failed, the task fails. (templated)

    .. seealso:: interface.md, "POST /transforms/bulk", "PATCH /transforms/{id}" and "POST /transforms/{id}/publish".
    """

    template_fields: Sequence[str] = (
        *DatapipeTransformFolderOperator.template_fields,
        "publish",
        "on_partial_failure",
    )
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
        self,
        *,
        publish: bool | str = True,
        on_partial_failure: Literal["fail", "succeed"] = "fail",
        **kwargs: Any,
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
        from airflow_provider_datapipe.changes.values import choice

        choice("on_partial_failure", self.on_partial_failure, ("fail", "succeed"))
        self._records, self._is_retry = _records_before(context), is_retry(context)
        self._desired = self._read(context)
        self._items: dict[str, ItemResult] = {}
        try:
            result: BulkResult = super().execute(context)
        except DatapipeError:
            if self._under_way is None:
                self._keep_what_was_done(context)
            raise
        return result

    def _keep_what_was_done(self, context: Context) -> None:
        """Keep the results so far as the task's, where an error ended it between changes."""
        from airflow_provider_datapipe.changes.transform_bulk import cut_short, is_anything_changed, result_of_bulk
        from airflow_provider_datapipe.changes.values import flag
        from airflow_provider_datapipe.runs.batch import Batch

        if is_anything_changed(self._items):
            cut_short(self._items, self._desired, None, publish=flag("publish", self.publish))
            keep_result(self, context, result_of_bulk(Batch(self.kind, note={"items": self._items}))[0])

    @property
    def _alone(self) -> bool:
        return False

    def _begin(self) -> Steps[Batch]:
        from airflow_provider_datapipe.changes.transform_bulk import begin
        from airflow_provider_datapipe.changes.values import flag
        from airflow_provider_datapipe.runs.targets import folder_of

        return begin(
            self._desired,
            publish=flag("publish", self.publish),
            records=self._records,
            folder_path=folder_of(self.folder_path) or "",
            delete_orphans=flag("delete_orphans", self.delete_orphans),
            so_far=self._items,
            resend=self._is_retry,
        )

    def _go_on(self, batch: Batch) -> Steps[None]:
        from airflow_provider_datapipe.changes.transform_bulk import go_on

        return go_on(batch)

    def _finish(self, batch: Batch) -> tuple[BulkResult, Exception | None]:
        from airflow_provider_datapipe.changes.transform_bulk import result_of_bulk

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
        from airflow_provider_datapipe.changes.values import flag
        from airflow_provider_datapipe.pipelines.plan import PlanNotEmptyError, plan_text
        from airflow_provider_datapipe.pipelines.transforms.planning import plan_transforms
        from airflow_provider_datapipe.runs.targets import folder_of

        is_to_be_empty = flag("fail_on_changes", self.fail_on_changes)
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
        told = plan_text(plan)
        self.log.info("The plan:\n%s", told)
        result = plan.as_json()
        if is_to_be_empty and plan.changes:
            keep_result(self, context, result)
            raise PlanNotEmptyError(f"The service does not hold what the files say: {told.splitlines()[-1]}")
        return result


class DatapipeTransformOperator(DatapipeChangeOperator):
    """
    Base of operators that change one transform.

    :param transform_id: ID of the transform; or set ``transform_name``. (templated)
    :param transform_name: name of the transform. (templated)
    :param folder_path: the folder of the name; None to search all folders. (templated)
    """

    template_fields: Sequence[str] = (
        *DatapipeChangeOperator.template_fields,
        "transform_id",
        "transform_name",
        "folder_path",
    )

    def __init__(
        self,
        *,
        transform_id: str | None = None,
        transform_name: str | None = None,
        folder_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(transform_id=transform_id, transform_name=transform_name)
        self.transform_id = transform_id
        self.transform_name = transform_name
        self.folder_path = folder_path


class TransformDeleteOperator(DatapipeTransformOperator):
    """
    Delete a transform, and its view or table. Resources that read it fail from then on.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param if_missing: policy if the transform does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: interface.md, "DELETE /transforms/{id}".
    """

    template_fields: Sequence[str] = (*DatapipeTransformOperator.template_fields, "if_missing")
    endpoints = ("transforms.delete",)

    def __init__(self, *, if_missing: Literal["succeed", "fail"] = "succeed", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.if_missing = if_missing

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import transforms

        return transforms.delete(self.transform_id, self.transform_name, self.folder_path, self.if_missing)


class TransformAttachOperator(DatapipeTransformOperator):
    """
    Attach a published transform to an orchestration, which then builds it instead of its own schedule.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: interface.md, "POST /transforms/{id}/orchestration".
    """

    template_fields: Sequence[str] = (
        *DatapipeTransformOperator.template_fields,
        "orchestration_id",
        "orchestration_name",
    )
    endpoints = ("transforms.attach_orchestration",)

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        self.orchestration_id = orchestration_id
        self.orchestration_name = orchestration_name

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import transforms

        return transforms.attach(
            self.transform_id,
            self.transform_name,
            self.folder_path,
            orchestration_id=self.orchestration_id,
            orchestration_name=self.orchestration_name,
        )


class TransformDetachOperator(DatapipeTransformOperator):
    """
    Detach a transform from its orchestration. It is built on its own schedule again.

    Without a schedule and ``cron_expression``, it is no longer built automatically.
    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param cron_expression: new schedule of a published table, cron expression of five fields, UTC; None to keep the
        current one. (templated)

    .. seealso:: interface.md, "DELETE /transforms/{id}/orchestration".
    """

    template_fields: Sequence[str] = (*DatapipeTransformOperator.template_fields, "cron_expression")
    endpoints = ("transforms.detach_orchestration",)

    def __init__(self, *, cron_expression: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cron_expression = cron_expression

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import transforms

        return transforms.detach(self.transform_id, self.transform_name, self.folder_path, self.cron_expression)
