"""Operators that publish, deploy, change and delete transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator, is_retry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Context
    from jinja2 import Environment, Template

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.resources.transforms import DeployResult
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.models import RunTarget


class DatapipeSqlOperator(DatapipeRunOperator):
    """
    Base of operators with SQL arguments, which are text or the path of a ``.sql`` file.

    Jinja expressions and references of the service both have double braces. Airflow renders an expression that begins
    with a name of the context, such as ``{{ ds }}`` or ``{{ params.day }}``. Other expressions, such as
    ``{{raw.stripe.payments}}``, stay unchanged for the service. SQL is always rendered to text, also in DAGs that
    render native objects.
    """

    template_ext: Sequence[str] = (".sql",)
    #: Template fields that contain SQL.
    sql_fields: ClassVar[tuple[str, ...]] = ("sql_template",)

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Environment, seen_oids: set[int]
    ) -> None:
        # Airflow calls this for mapped tasks, too.
        fields = list(template_fields)
        sql = [field for field in fields if parent is self and field in self.sql_fields]
        others = [field for field in fields if field not in sql]
        super()._do_render_template_fields(parent, others, context, jinja_env, seen_oids)
        if sql:
            environment = self._sql_environment(context, jinja_env)
            super()._do_render_template_fields(parent, sql, context, environment, seen_oids)

    def _render(self, template: Template, context: Context, dag: Any = None) -> Any:
        from airflow.sdk.definitions.context import render_template_to_string

        from airflow_provider_datapipe.resources.sql_templates import keeps_references

        if keeps_references(template.environment):
            return render_template_to_string(template, context)
        return super()._render(template, context, dag)

    def _sql_environment(self, context: Context, jinja_env: Environment) -> Environment:
        from airflow.sdk.definitions.context import Context as AirflowContext
        from jinja2.nativetypes import NativeEnvironment

        from airflow_provider_datapipe.resources.sql_templates import keeping_references

        dag = self.get_dag()
        if isinstance(jinja_env, NativeEnvironment) and dag is not None:
            jinja_env = dag.get_template_env(force_sandboxed=True)
        # Include the names that this run lacks, such as ds without a logical date: rendering them must raise an error.
        return keeping_references(jinja_env, {*context, *AirflowContext.__annotations__})


class TransformPublishOperator(DatapipeSingleRunOperator):
    """
    Publish a transform, and wait until its view or table exists.

    Returns a :class:`~airflow_provider_datapipe.runs.models.RunResult`; a materialization has no run ID and no
    times.

    :param transform_id: ID of the transform; or set ``transform_name``. (templated)
    :param transform_name: name of the transform. (templated)
    :param folder_path: the folder of the name; None to search all folders. (templated)
    :param materialization: ``view`` or ``table``; None for the current value. (templated)
    :param version_id: an older version of its SQL; None for the latest. (templated)
    :param new_name: publish it under this name; None for its current name. (templated)
    :param new_folder_path: publish it in this folder; None for its current folder. (templated)

    .. seealso:: :ref:`POST /transforms/{id}/publish <interface-transforms-publish>`.
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "transform_id",
        "transform_name",
        "folder_path",
        "materialization",
        "version_id",
        "new_name",
        "new_folder_path",
    )
    kind = "transform"
    asset_kind = "transform"
    asset_argument = "transform_id"
    endpoints = ("transforms.publish",)

    def __init__(
        self,
        *,
        transform_id: str | None = None,
        transform_name: str | None = None,
        folder_path: str | None = None,
        materialization: Literal["view", "table"] | None = None,
        version_id: str | None = None,
        new_name: str | None = None,
        new_folder_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(transform_id=transform_id, transform_name=transform_name)
        if folder_path is not None and transform_name is None:
            raise ValueError("folder_path requires transform_name; to move the transform, set new_folder_path")
        self.transform_id = transform_id
        self.transform_name = transform_name
        self.folder_path = folder_path
        self.materialization = materialization
        self.version_id = version_id
        self.new_name = new_name
        self.new_folder_path = new_folder_path
        self._declare_assets()

    async def _create_batch(self) -> Batch:
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.targets import publication_target

        if self.transform_name is None:
            return await super()._create_batch()
        finding = publication_target(self.transform_name, self.folder_path, self._overrides(), self._task_state)
        return Batch(self.kind, queued=[await finding])

    def _target(self) -> Flow[RunTarget]:
        from airflow_provider_datapipe.runs.targets import transform_target

        return transform_target(self.transform_id, self.transform_name, self.folder_path, self._overrides())

    def _overrides(self) -> dict[str, str]:
        """Return the fields that the publication changes."""
        from airflow_provider_datapipe.runs.targets import required

        if self.materialization not in (None, "view", "table"):
            raise ValueError(f"materialization must be 'view' or 'table', not {self.materialization!r}")
        overrides = {
            "materialization": self.materialization,
            "version_id": self.version_id,
            "folder_path": self.new_folder_path,
            "name": self.new_name,
        }
        return {key: required(key, value) for key, value in overrides.items() if value is not None}

    def _lineage_version(self) -> str | None:
        return self.version_id


class TransformRematerializeOperator(DatapipeSingleRunOperator):
    """
    Build a published transform again, as it is, and wait until its view or table exists.

    Returns a :class:`~airflow_provider_datapipe.runs.models.RunResult`; a materialization has no run ID and no
    times.

    :param transform_id: ID of the transform; or set ``transform_name``. (templated)
    :param transform_name: name of the transform. (templated)
    :param folder_path: the folder of the name; None to search all folders. (templated)

    .. seealso:: :ref:`POST /transforms/{id}/rematerialize <interface-transforms-rematerialize>`.
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "transform_id",
        "transform_name",
        "folder_path",
    )
    kind = "transform"
    asset_kind = "transform"
    asset_argument = "transform_id"
    endpoints = ("transforms.rematerialize",)
    result_verb = "was rebuilt"

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
        self._declare_assets()

    def _target(self) -> Flow[RunTarget]:
        from airflow_provider_datapipe.runs.targets import transform_target

        return transform_target(self.transform_id, self.transform_name, self.folder_path, {"rematerialize": True})

    def _lineage_version(self) -> str | None:
        return "published"


class TransformDeployOperator(DatapipeSqlOperator):
    """
    Deploy a transform: create it, or update the fields that differ. Without differences, nothing is changed.

    Then it is published if its publication differs, and the task waits until its view or table exists. The folder and
    the name identify the transform.

    Returns a :class:`~airflow_provider_datapipe.resources.transforms.DeployResult`: the result of the build, and the
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

    .. seealso:: :ref:`POST /transforms <interface-transforms-create>`,
        :ref:`PATCH /transforms/{id} <interface-transforms-update>` and
        :ref:`POST /transforms/{id}/publish <interface-transforms-publish>`.
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

        :raises DatapipeError: if the service refuses a request or cannot be reached, or if the build fails.
        :raises ValueError: if a rendered argument is invalid.
        """
        self._is_retry = is_retry(context)
        result: DeployResult = super().execute(context)
        return result

    def _create_batch(self) -> Flow[Batch]:
        from airflow_provider_datapipe.resources.template_values import flag
        from airflow_provider_datapipe.resources.transforms import deploy, desired

        wanted = desired(
            name=self.name,
            folder_path=self.folder_path,
            sql_template=self.sql_template,
            materialization=self.materialization,
            documentation=self.documentation,
            cron_expression=self.cron_expression,
        )
        publish = flag("publish", self.publish)
        return deploy(wanted, publish=publish, records=self._task_state, resend=self._is_retry)

    def _page_of_batch(self, batch: Batch) -> tuple[str, str | None]:
        return self.kind, batch.note["transform_id"]

    def _lineage_queries(self) -> dict[str, str]:
        return {"sql_template": self.sql_template}

    def _after_runs(self, batch: Batch) -> Flow[None]:
        from airflow_provider_datapipe.resources.transforms import conclude

        return conclude(batch)

    def _finish(self, batch: Batch) -> tuple[DeployResult, Exception | None]:
        from airflow_provider_datapipe.resources.transforms import result_of_deployment

        result, error = result_of_deployment(batch)
        self.log.info("transform %s %s: %s.", result["name"], result["resource_id"], result["action"])
        for warning in batch.note.get("warnings", ()):
            self.log.warning("%s", warning)
        return result, error


class DatapipeTransformOperator(DatapipeChangeOperator):
    """
    Base of operators that change one transform.

    :param transform_id: ID of the transform; or set ``transform_name``. (templated)
    :param transform_name: name of the transform. (templated)
    :param folder_path: the folder of the name; None to search all folders. (templated)
    """

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


class TransformDeleteOperator(DatapipeTransformOperator):
    """
    Delete a transform, and its view or table. Resources that read it fail from then on.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param if_missing: policy if the transform does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: :ref:`DELETE /transforms/{id} <interface-transforms-delete>`.
    """

    flow = "transforms.delete"
    endpoints = ("transforms.delete",)

    def __init__(self, *, if_missing: Literal["succeed", "fail"] = "succeed", **kwargs: Any) -> None:
        super().__init__(**kwargs)


class TransformAttachOperator(DatapipeTransformOperator):
    """
    Attach a published transform to an orchestration, which then builds it instead of its own schedule.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: :ref:`POST /transforms/{id}/orchestration <interface-transforms-attach-orchestration>`.
    """

    flow = "transforms.attach"
    endpoints = ("transforms.attach_orchestration",)

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)


class TransformDetachOperator(DatapipeTransformOperator):
    """
    Detach a transform from its orchestration. It is built on its own schedule again.

    Without a schedule and ``cron_expression``, it is no longer built automatically.
    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param cron_expression: new schedule of a published table, cron expression of five fields, UTC; None to keep the
        current one. (templated)

    .. seealso:: :ref:`DELETE /transforms/{id}/orchestration <interface-transforms-detach-orchestration>`.
    """

    flow = "transforms.detach"
    endpoints = ("transforms.detach_orchestration",)

    def __init__(self, *, cron_expression: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
