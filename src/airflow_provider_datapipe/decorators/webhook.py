"""Decorator ``@task.datapipe_webhook``. The function returns records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_datapipe.decorators.computed import ComputedOperator, decorator, template_fields
from airflow_provider_datapipe.operators.webhooks import WebhookIngestOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskDecorator


class WebhookDecoratedOperator(ComputedOperator, WebhookIngestOperator):
    """Operator that pushes the records that a function returns."""

    template_fields: Sequence[str] = template_fields(WebhookIngestOperator)
    template_fields_renderers: ClassVar[dict[str, str]] = {"op_args": "py", "op_kwargs": "py", "records": "json"}
    custom_operator_name = "@task.datapipe_webhook"
    # Not shown in the Airflow UI, because there can be many records.
    overwrite_rtif_after_execution = False
    computed = ("records",)

    def _read(self, returned: Any) -> dict[str, Any]:
        # Read a generator completely, because the delivery may read the records more than once.
        records = list(returned) if isinstance(returned, Iterator) else returned
        if isinstance(records, str | bytes) or not isinstance(records, Mapping | Sequence):
            name = self.python_callable.__name__
            raise TypeError(f"{name} must return an object or a list of objects, not {type(records).__name__}")
        return {"records": records}


def webhook_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Push the records that the function returns to a table of a webhook connection.

    :param python_callable: the function.
    :param kwargs: arguments of :class:`~airflow_provider_datapipe.operators.webhooks.WebhookIngestOperator`.
    """
    return decorator(WebhookDecoratedOperator, python_callable, kwargs)
