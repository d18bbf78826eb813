"""Base class of the decorated operators: the return value of the function becomes arguments of the operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import DecoratedOperator, determine_kwargs, task_decorator_factory
from airflow.sdk.definitions._internal.types import SET_DURING_EXECUTION

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskDecorator
    from airflow.sdk import Context


class ComputedOperator(DecoratedOperator):
    """
    Operator with arguments that a function computes when the task runs.

    :param python_callable: the function, which must not be asynchronous.
    :param op_args: its positional arguments. (templated)
    :param op_kwargs: its keyword arguments. (templated)
    """

    #: Name in the Airflow UI.
    custom_operator_name: str
    #: True to show the computed arguments as rendered templates in the Airflow UI.
    overwrite_rtif_after_execution: bool = True
    #: Arguments that the function may compute. It must compute those that the decorator does not set.
    computed: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if inspect.iscoroutinefunction(python_callable):
            raise TypeError(
                f"{python_callable.__name__} must be a plain function: {self.custom_operator_name} calls it"
            )
        self._needed = tuple(name for name in self.computed if name not in kwargs)
        for name in self._needed:
            kwargs[name] = SET_DURING_EXECUTION
        super().__init__(python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, **kwargs)

    def execute(self, context: Context) -> Any:
        """
        Call the function, and execute the operator with the returned arguments.

        :raises TypeError: if the return value of the function is invalid.
        """
        computed = self._read(self._call(context))
        for name, value in computed.items():
            setattr(self, name, value)
        self._render_computed(context, computed)
        return super().execute(context)

    def _call(self, context: Context) -> Any:
        # Not merged into the context: arguments of the function are no variables of the templates that it returns.
        kwargs = determine_kwargs(self.python_callable, self.op_args, {**context, **self.op_kwargs})
        return self.python_callable(*self.op_args, **kwargs)

    def _read(self, returned: Any) -> dict[str, Any]:
        """Return the computed arguments by name, from the return value of the function."""
        raise NotImplementedError

    def _render_computed(self, context: Context, computed: Mapping[str, Any]) -> None:
        """Render computed templates. By default nothing is rendered, because data may contain braces."""

    def _several(self, returned: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments from a mapping, or raise if arguments are unknown or missing."""
        name = self.python_callable.__name__
        unknown = [repr(each) for each in returned if each not in self.computed]
        if unknown:
            known = ", ".join(self.computed)
            raise TypeError(f"{name} must not return {', '.join(unknown)}; allowed are {known}")
        missing = [each for each in self._needed if each not in returned]
        if missing:
            raise TypeError(f"{name} must also return {', '.join(missing)}, or the decorator must set it")
        return dict(returned)


def decorator(
    operator: type[ComputedOperator], python_callable: Callable[..., Any] | None, kwargs: dict[str, Any]
) -> TaskDecorator:
    """
    Return a decorator for an operator.

    :param operator: class of the operator.
    :param python_callable: the function, if the decorator is used without arguments; else None.
    :param kwargs: arguments of the decorator.
    """
    # Airflow would derive this from the return annotation, but the task does not return the value of the function.
    kwargs = {"multiple_outputs": False} | kwargs
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=operator, **kwargs)


def template_fields(operator: type[Any]) -> Sequence[str]:
    """
    Return the template fields of a decorated operator.

    :param operator: class of the undecorated operator.
    """
    return (*DecoratedOperator.template_fields, *operator.template_fields)
