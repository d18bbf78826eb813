"""Base of the operators that deactivate a reverse ETL sync for a change. Imports no large packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.operators.change import DatapipeChangeOperator
from airflow_provider_datapipe.operators.task_state import task_state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs


class ReactivatingOperator(DatapipeChangeOperator):
    """Base of operators that deactivate a reverse ETL sync for a change, and activate it again however they end."""

    _under_change: DeactivatedSyncs | None = None

    def execute(self, context: Context) -> Any:
        """
        Make the change.

        :raises DatapipeError: if the service rejects the change, or does not respond.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs, restore

        self._under_change = DeactivatedSyncs(task_state_of(context))
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
    def _earlier(self) -> DeactivatedSyncs:
        """Syncs that this task and its earlier tries deactivated."""
        from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs
        from airflow_provider_datapipe.runs.task_state import NoTaskState

        return self._under_change or DeactivatedSyncs(NoTaskState())

    def _activate(self, flow: Callable[[DeactivatedSyncs], Flow[None]]) -> None:
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        earlier = self._under_change
        if earlier is None or not earlier.pending:
            return
        names = ", ".join(earlier.pending)
        hook = DatapipeHook(self.datapipe_conn_id)
        try:
            hook.run(flow(earlier))
            self.log.warning("Reverse ETL sync %s is active again, as before this task.", names)
        except DatapipeError:
            self.log.exception(
                "Reverse ETL sync %s was active, and could not be activated again: run this task again, or do it.",
                names,
            )
        finally:
            hook.close()
