"""Bases of the operators that change a resource. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_datapipe.arguments import CheckedArguments
from airflow_provider_datapipe.links import DatapipeLink, MapLabel, address_of, show_link
from airflow_provider_datapipe.operators.base import push_result

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.resources.base import Change
    from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs

_RESOURCES = "airflow_provider_datapipe.resources"


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
    declared_arguments: ClassVar[tuple[str, ...]] = ()
    #: Flow of the change, as ``module.function`` of the package ``resources``. It takes the declared arguments by name.
    flow: ClassVar[str]
    #: Declared arguments that the flow does not take.
    not_in_flow: ClassVar[tuple[str, ...]] = ()

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
            push_result(self, context, result)
            raise error
        return result

    def _change(self) -> Flow[Any]:
        """Return the flow of the change; most return a :class:`~airflow_provider_datapipe.resources.base.Change`."""
        module, _, name = self.flow.partition(".")
        flow: Callable[..., Flow[Any]] = getattr(import_module(f"{_RESOURCES}.{module}"), name)
        return flow(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the flow."""
        return {name: getattr(self, name) for name in self.declared_arguments if name not in self.not_in_flow}

    def _error(self, result: Any) -> Exception | None:
        """Return the error of the task, if any, after all requests succeeded."""
        return None

    def _log_result(self, result: Change) -> None:
        label = " ".join(filter(None, (result["resource"].replace("_", " "), result["name"], result["id"])))
        if result["changed"]:
            self.log.info("%s: %s.", label, result["action"])
        else:
            self.log.info("%s: no change was necessary.", label)
        for warning in result.get("warnings", ()):
            self.log.warning("%s", warning)


class ReactivatingOperator(DatapipeChangeOperator):
    """Base of operators that deactivate a reverse ETL sync for a change, and activate it again in any case."""

    _deactivated: DeactivatedSyncs | None = None

    def execute(self, context: Context) -> Any:
        """
        Make the change.

        :raises DatapipeError: if the service rejects the change, or does not respond.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs, restore
        from airflow_provider_datapipe.runs.task_state import task_state_of

        self._deactivated = DeactivatedSyncs(task_state_of(context))
        try:
            return super().execute(context)
        except DatapipeError:
            # The flow of the change has already tried to activate the sync again.
            raise
        except BaseException:
            # Such as a task timeout, which interrupts the flow of the change.
            self._activate(restore)
            raise

    def on_kill(self) -> None:
        """Activate the deactivated syncs again before the process ends."""
        from airflow_provider_datapipe.resources.reverse_etl_syncs import reactivate

        self._activate(reactivate)

    @property
    def _deactivated_syncs(self) -> DeactivatedSyncs:
        """Syncs that this task and its earlier tries deactivated."""
        from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs
        from airflow_provider_datapipe.runs.task_state import NoTaskState

        return self._deactivated or DeactivatedSyncs(NoTaskState())

    def _activate(self, flow: Callable[[DeactivatedSyncs], Flow[None]]) -> None:
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        deactivated = self._deactivated
        if deactivated is None or not deactivated.pending:
            return
        names = ", ".join(deactivated.pending)
        hook = DatapipeHook(self.datapipe_conn_id)
        try:
            hook.run(flow(deactivated))
            self.log.warning("Reverse ETL sync %s is active again, as before this task.", names)
        except DatapipeError:
            self.log.exception(
                "Reverse ETL sync %s was active, and could not be activated again: run this task again, or activate it "
                "in the service.",
                names,
            )
        finally:
            hook.close()


def is_retry(context: Context) -> bool:
    """Return True if the task instance ran before: it is retried, or was cleared."""
    return (getattr(context["ti"], "try_number", None) or 1) > 1
