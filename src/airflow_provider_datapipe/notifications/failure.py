"""Notifier for failures. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseNotifier

from airflow_provider_datapipe.arguments import Duration, check_range, checked, seconds
from airflow_provider_datapipe.notifications.describe import Failure, report_of

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

#: Name of the failure in the context of templates.
_NAME = "failure"
_SLACK: dict[str, Any] = {"text": "{{ failure.slack_text }}"}


class DatapipeFailureNotifier(BaseNotifier):
    """
    Notifier for failures: the failed task, the service's error, numbers of rows, rejected records, and links.

    Use it as ``on_failure_callback`` and ``on_retry_callback`` of tasks and DAGs. It sends no requests to the service,
    but uses the facts from the task. It raises no errors, but logs if it cannot send the message.

    :param http_conn_id: ID of an HTTP connection to which the message is posted. Its host may be a whole URL, such as
        that of a Slack webhook. None to call only ``notifier``.
    :param endpoint: path that is appended to the connection's address.
    :param body: JSON body of the request. Strings in it are templates, in which ``failure`` is a
        :class:`~airflow_provider_datapipe.notifications.describe.Failure`. The default is a Slack message.
    :param notifier: another notifier or any callback, which gets the context with ``failure`` added. ``timeout`` does
        not apply to it.
    :param show_records: number of rejected records to show; 0 for none.
    :param timeout: time limit of the request, as a duration.
    :param context: Airflow's context, if the notifier is awaited.
    """

    # Not rendered by Airflow, which would render them only once, although several tasks can share a notifier.
    template_fields = ()

    @checked
    def __init__(
        self,
        *,
        http_conn_id: str | None = None,
        endpoint: str = "",
        body: Any = None,
        notifier: Callable[[Any], Any] | None = None,
        show_records: int = 3,
        timeout: Duration = 10.0,
        context: Context | None = None,
    ) -> None:
        super().__init__(context=context)
        if http_conn_id is None and notifier is None:
            raise ValueError("set http_conn_id, notifier or both: otherwise no message is sent")
        check_range("timeout", timeout)
        if show_records < 0:
            raise ValueError(f"show_records must be 0 or more, not {show_records}")
        self.http_conn_id = http_conn_id
        self.endpoint = endpoint
        self.body = _SLACK if body is None else body
        self.notifier = notifier
        self.show_records = show_records
        self.timeout = seconds(timeout)

    def __call__(self, *args: Any) -> None:
        """
        Send the notification. Errors are logged.

        :param args: Airflow's context.
        """
        try:
            super().__call__(*args)
        except Exception as error:  # noqa: BLE001 - an error of the notifier must not cause another failure
            self._log_error(error)

    def __await__(self) -> Generator[Any, None, None]:
        """Send the notification on an event loop."""
        return self.async_notify(self.context).__await__()

    def notify(self, context: Context) -> None:
        """
        Send the notification.

        :param context: Airflow's context.
        """
        from airflow.sdk import BaseHook

        enriched = self._with_failure(context)
        if self.http_conn_id is not None:
            try:
                self._post(BaseHook.get_connection(self.http_conn_id), enriched)
            except Exception as error:  # noqa: BLE001 - still call the other notifier
                self._log_error(error)
        try:
            if self.notifier is not None:
                self.notifier(enriched)
        except Exception as error:  # noqa: BLE001 - as in __call__
            self._log_error(error)

    async def async_notify(self, context: Context) -> None:
        """
        Send the notification on an event loop.

        :param context: Airflow's context.
        """
        from airflow.sdk import BaseHook

        enriched = await asyncio.to_thread(self._with_failure, context)
        if self.http_conn_id is not None:
            try:
                connection = await BaseHook.aget_connection(self.http_conn_id)
                await asyncio.to_thread(self._post, connection, enriched)
            except Exception as error:  # noqa: BLE001 - as above
                self._log_error(error)
        try:
            await self._call_notifier(enriched)
        except Exception as error:  # noqa: BLE001 - as in __call__
            self._log_error(error)

    async def _call_notifier(self, enriched: dict[str, Any]) -> None:
        other = self.notifier
        if isinstance(other, BaseNotifier) and type(other).async_notify is not BaseNotifier.async_notify:
            other.context = cast("Context", enriched)
            await other
        elif other is not None:
            await asyncio.to_thread(other, enriched)

    def _with_failure(self, context: Any) -> dict[str, Any]:
        """Return the context with the facts about the failure."""
        return {**context, _NAME: report_of(context, show_records=self.show_records)}

    def _post(self, connection: Connection, enriched: dict[str, Any]) -> None:
        from airflow_provider_datapipe.notifications.post import post

        environment = self.get_template_env(dag=enriched.get("dag"))
        post(
            connection, self.endpoint, self.render_template(self.body, cast("Any", enriched), environment), self.timeout
        )

    def _log_error(self, error: Exception) -> None:
        # The messages of other errors may contain secrets.
        from airflow_provider_datapipe.notifications.post import NotPostedError

        why = str(error) if isinstance(error, NotPostedError) else type(error).__name__
        where = "" if self.http_conn_id is None else f" to connection {self.http_conn_id}"
        self.log.error("The notification%s was not sent: %s. The failure itself is not affected.", where, why)


__all__ = ["DatapipeFailureNotifier", "Failure"]
