"""Decorators ``@task.datapipe_query`` and its checks. The function returns SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_datapipe.decorators.computed import ComputedOperator, decorator, template_fields
from airflow_provider_datapipe.operators.query_previews import (
    DatapipeCheckOperator,
    DatapipeQueryOperator,
    DatapipeThresholdCheckOperator,
    DatapipeValueCheckOperator,
    QueryPreviewOperator,
)

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskDecorator
    from airflow.sdk import Context

    from airflow_provider_datapipe.runs.batch import Batch

_RENDERERS = {"op_args": "py", "op_kwargs": "py", "sql_template": "sql"}


class ComputedSqlOperator(ComputedOperator, DatapipeQueryOperator):
    """Operator with SQL that a function computes. The SQL is rendered like SQL in a DAG file."""

    computed: ClassVar[tuple[str, ...]] = ("sql_template",)
    #: Computed arguments, which are kept for the time after a deferral.
    _known: Mapping[str, Any] = {}

    def _read(self, returned: Any) -> dict[str, Any]:
        is_one = not isinstance(returned, Mapping) or len(self.computed) == 1
        computed = self._several({"sql_template": returned} if is_one else returned)
        sql = computed.get("sql_template")
        if not isinstance(sql, str) or not sql.strip():
            kind = "nothing" if not sql else type(sql).__name__
            raise TypeError(f"{self.python_callable.__name__} must return SQL as text, not {kind}")
        return computed

    def _render_computed(self, context: Context, computed: Mapping[str, Any]) -> None:
        fields = [name for name in computed if name in self.template_fields]
        # Only the computed fields: the others are already rendered, and their values may contain braces.
        self._do_render_template_fields(self, fields, context, self.get_template_env(), set())
        self._known = {name: getattr(self, name) for name in computed}

    async def _create_batch(self) -> Batch:
        batch = await super()._create_batch()
        # Trigger arguments are JSON, without infinite numbers. Other values become text, as in the comparison.
        batch.note["computed"] = {
            name: value if isinstance(value, str | int | None) else str(value) for name, value in self._known.items()
        }
        return batch

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """
        Continue with the event of the trigger.

        :param event: the event of :class:`~airflow_provider_datapipe.triggers.run.DatapipeRunTrigger`.
        :raises DatapipeError: if the query did not succeed, or the trigger could not wait for it.
        """
        # Restore the computed arguments, because this is another operator object. Do not call the function again.
        for name, value in event.get("batch", {}).get("note", {}).get("computed", {}).items():
            setattr(self, name, value)
        return super().execute_complete(context, event)


class QueryDecoratedOperator(ComputedSqlOperator, QueryPreviewOperator):
    """Operator that runs the query that a function returns."""

    template_fields: Sequence[str] = template_fields(QueryPreviewOperator)
    template_fields_renderers: ClassVar[dict[str, str]] = _RENDERERS
    custom_operator_name = "@task.datapipe_query"


class CheckDecoratedOperator(ComputedSqlOperator, DatapipeCheckOperator):
    """Operator that checks the values of the query that a function returns."""

    template_fields: Sequence[str] = template_fields(DatapipeCheckOperator)
    template_fields_renderers: ClassVar[dict[str, str]] = _RENDERERS
    custom_operator_name = "@task.datapipe_query_check"


class ValueCheckDecoratedOperator(ComputedSqlOperator, DatapipeValueCheckOperator):
    """Operator that compares the values of the query that a function returns with an expected value."""

    template_fields: Sequence[str] = template_fields(DatapipeValueCheckOperator)
    template_fields_renderers: ClassVar[dict[str, str]] = _RENDERERS
    custom_operator_name = "@task.datapipe_query_value_check"
    computed = ("sql_template", "pass_value")


class ThresholdCheckDecoratedOperator(ComputedSqlOperator, DatapipeThresholdCheckOperator):
    """Operator that checks that the value of the query that a function returns is between two thresholds."""

    template_fields: Sequence[str] = template_fields(DatapipeThresholdCheckOperator)
    template_fields_renderers: ClassVar[dict[str, str]] = _RENDERERS
    custom_operator_name = "@task.datapipe_query_threshold_check"
    computed = ("sql_template", "min_threshold", "max_threshold")


def query_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Run the query that the function returns, and return its first rows.

    :param python_callable: the function.
    :param kwargs: arguments of :class:`~airflow_provider_datapipe.operators.query_previews.QueryPreviewOperator`.
    """
    return decorator(QueryDecoratedOperator, python_callable, kwargs)


def query_check_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Run the query that the function returns, and check that every value of its first row is true.

    :param python_callable: the function.
    :param kwargs: arguments of :class:`~airflow_provider_datapipe.operators.query_previews.DatapipeCheckOperator`.
    """
    return decorator(CheckDecoratedOperator, python_callable, kwargs)


def query_value_check_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Run the query that the function returns, and check that every value of its first row is the expected one.

    The function returns SQL, or a mapping with ``sql_template`` and ``pass_value`` if the decorator does not set
    ``pass_value``.

    :param python_callable: the function.
    :param kwargs: arguments of :class:`~airflow_provider_datapipe.operators.query_previews.DatapipeValueCheckOperator`.
    """
    return decorator(ValueCheckDecoratedOperator, python_callable, kwargs)


def query_threshold_check_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Run the query that the function returns, and check that its first value is between two thresholds.

    The function returns SQL, or a mapping with ``sql_template`` and those of ``min_threshold`` and ``max_threshold``
    that the decorator does not set.

    :param python_callable: the function.
    :param kwargs: arguments of the operator ``DatapipeThresholdCheckOperator``.
    """
    return decorator(ThresholdCheckDecoratedOperator, python_callable, kwargs)
