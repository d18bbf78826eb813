"""Decorator ``@task.datapipe``. The function returns the endpoint and the arguments of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_datapipe.decorators.computed import ComputedOperator, decorator, template_fields
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskDecorator


class RequestDecoratedOperator(ComputedOperator, DatapipeOperator):
    """Operator that calls an endpoint with the arguments that a function returns."""

    template_fields: Sequence[str] = template_fields(DatapipeOperator)
    template_fields_renderers: ClassVar[dict[str, str]] = {"op_args": "py", "op_kwargs": "py", "arguments": "json"}
    custom_operator_name = "@task.datapipe"
    computed = ("endpoint", "arguments")

    def _read(self, returned: Any) -> dict[str, Any]:
        name = self.python_callable.__name__
        # The arguments of the decorator apply if the function returns none.
        not_returned: dict[str, Any] = {"arguments": {}} if "arguments" in self._needed else {}
        if "endpoint" not in self._needed:
            if returned is None:
                return not_returned
            if not isinstance(returned, Mapping):
                raise TypeError(f"{name} must return the arguments of {self.endpoint}, not {type(returned).__name__}")
            return {"arguments": dict(returned)}
        if isinstance(returned, str):
            return {"endpoint": returned, **not_returned}
        if isinstance(returned, Sequence) and len(returned) == len(self.computed):
            return dict(zip(self.computed, returned, strict=True))
        if isinstance(returned, Mapping):
            return self._several(returned)
        raise TypeError(
            f"{name} must return the name of an endpoint and its arguments, not {type(returned).__name__}; or set "
            "the endpoint in the decorator, and return the arguments"
        )


def request_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Call an endpoint with the arguments that the function returns.

    The function returns a mapping of arguments. If the decorator does not set ``endpoint``, the function returns the
    endpoint name, or the endpoint name and the arguments. The ``arguments`` of the decorator apply if the function
    returns no arguments.

    :param python_callable: the function.
    :param kwargs: arguments of :class:`~airflow_provider_datapipe.operators.datapipe.DatapipeOperator`.
    """
    return decorator(RequestDecoratedOperator, python_callable, kwargs)
