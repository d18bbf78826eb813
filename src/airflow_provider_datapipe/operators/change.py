"""Base of the operators that change a resource. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_datapipe.arguments import CheckedArguments
from airflow_provider_datapipe.links import DatapipeLink, address_of, show_link
from airflow_provider_datapipe.operators.base import keep_result
from airflow_provider_datapipe.operators.map_label import MapLabel

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.resources.base import Change


class DatapipeChangeOperator(CheckedArguments, MapLabel, BaseOperator):
    """
    Base of operators that change a resource of the service, and return the change.

    Idempotent: succeeds without changes if the resource already has the requested state.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    """

    template_fields: Sequence[str] = ("datapipe_conn_id",)
    operator_extra_links = (DatapipeLink(),)
    ui_color = "#e6e2f3"

    #: Names of the changing endpoints that the operator may call.
    endpoints: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, datapipe_conn_id: str = "datapipe_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.datapipe_conn_id = datapipe_conn_id

    def execute(self, context: Context) -> Any:
        """
        Make the change, and return it.

        :raises DatapipeError: if the service rejects the change, or does not respond.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        hook = DatapipeHook(self.datapipe_conn_id)
        try:
            result = hook.run(self._change())
            if isinstance(result, dict) and "resource" in result:
                show_link(self, context, address_of(hook.page_template, result["resource"], result["id"]))
        finally:
            hook.close()
        self._log_result(result)
        error = self._error(result)
        if error is not None:
            keep_result(self, context, result)
            raise error
        return result

    def _change(self) -> Flow[Any]:
        """Return the flow of the change; most return a :class:`~airflow_provider_datapipe.resources.base.Change`."""
        raise NotImplementedError

    def _error(self, result: Any) -> Exception | None:
        """Return the error of the task, if any, after all requests succeeded."""
        return None

    def _log_result(self, result: Change) -> None:
        what = " ".join(filter(None, (result["resource"].replace("_", " "), result["name"], result["id"])))
        if result["changed"]:
            self.log.info("%s: %s.", what, result["action"])
        else:
            self.log.info("%s: nothing had to be done.", what)
        for warning in result.get("warnings", ()):
            self.log.warning("%s", warning)


def is_retry(context: Context) -> bool:
    """Return True if the task instance ran before: it is retried, or was cleared."""
    return (getattr(context["ti"], "try_number", None) or 1) > 1
