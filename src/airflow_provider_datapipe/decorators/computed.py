"""Base of the decorators: call the function, and use its return value as arguments of an operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import DecoratedOperator, determine_kwargs, task_decorator_factory
from airflow.sdk.definitions._internal.types import SET_DURING_EXECUTION
from airflow.sdk.definitions.context import context_merge

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskDecorator
    from airflow.sdk import Context


class ComputedOperator(DecoratedOperator):
    """
    Operator with arguments that a function computes when the task runs.

    :param python_callable: the function.
    :param op_args: its positional arguments. (templated)
    :param op_kwargs: its arguments by name. (templated)
    """

    #: What Airflow calls it.
    custom_operator_name: str
    #: Airflow's pages show what was computed.
    overwrite_rtif_after_execution: bool = True
    #: The arguments that the function may compute; those that are not said in the decorator it has to.
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

        :raises TypeError: it returned something that makes no sense.
        """
        computed = self._read(self._call(context))
        for name, value in computed.items():
            setattr(self, name, value)
        self._render_computed(context, computed)
        return super().execute(context)

    def _call(self, context: Context) -> Any:
        context_merge(context, self.op_kwargs)
        kwargs = determine_kwargs(self.python_callable, self.op_args, context)
        return self.python_callable(*self.op_args, **kwargs)

    def _read(self, returned: Any) -> dict[str, Any]:
        """Return the arguments that the function computed, by name."""
        raise NotImplementedError

    def _render_computed(self, context: Context, computed: Mapping[str, Any]) -> None:
        """Render what was computed, where that is what it is for. Data is not: it may have braces of its own."""

    def _several(self, returned: Mapping[str, Any]) -> dict[str, Any]:
        """Take a mapping for several arguments."""
        name = self.python_callable.__name__
        unknown = [repr(each) for each in returned if each not in self.computed]
        if unknown:
            known = ", ".join(self.computed)
            raise TypeError(f"{name} has returned {', '.join(unknown)}, and may compute {known}")
        missing = [each for each in self._needed if each not in returned]
        if missing:
            raise TypeError(f"{name} must return {', '.join(missing)}, too, or the decorator say it")
        return dict(returned)


def decorator(
    operator: type[ComputedOperator], python_callable: Callable[..., Any] | None, kwargs: dict[str, Any]
) -> TaskDecorator:
    """
    Make a decorator of an operator.

    :param operator: the operator.
    :param python_callable: the function, where the decorator has no arguments.
    :param kwargs: the arguments of the decorator.
    """
    # What the function returns is not what the task returns: nothing follows from its annotation.
    kwargs = {"multiple_outputs": False} | kwargs
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=operator, **kwargs)


def template_fields(operator: type[Any]) -> Sequence[str]:
    """
    Return the template fields of a decorated operator.

    :param operator: the operator that is decorated.
    """
    return (*DecoratedOperator.template_fields, *operator.template_fields)
