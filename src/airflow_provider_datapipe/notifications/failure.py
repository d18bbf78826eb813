"""The notifier of failures. DAG files import this: nothing heavy at import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseNotifier

from airflow_provider_datapipe.arguments import Duration, check_range, checked, seconds
from airflow_provider_datapipe.notifications.describe import Failure, tell_of

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

#: Where templates find what is known of the failure.
_NAME = "failure"
_SLACK: dict[str, Any] = {"text": "{{ failure.slack_text }}"}


class DatapipeFailureNotifier(BaseNotifier):
    """
    Tells people that a task has failed: which, the service's error, counts, records that failed, and where to look.

    For ``on_failure_callback`` and ``on_retry_callback`` of tasks and DAGs. It never fails itself, and asks the service
    for nothing: what the task knew is told. What can't be sent is said in the log.

    :param http_conn_id: an HTTP connection that the message is posted to; its address may be a whole URL, such as that
        of a Slack webhook. None to only hand it on.
    :param endpoint: what follows the connection's address.
    :param body: what is posted, as JSON; texts in it are templates, in which ``failure`` is a
        :class:`~airflow_provider_datapipe.notifications.describe.Failure`. The default is what Slack takes.
    :param notifier: another notifier, or any callback, to be handed the same context: its templates find ``failure``
        there. How long it may take is up to it.
    :param show_records: number of refused records to show; 0 for none.
    :param timeout: time limit of the request, as a duration.
    :param context: Airflow's context, where the notifier is awaited.
    """

    # Airflow renders these once and for all, and one notifier may be that of many tasks: it renders by itself.
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
            raise ValueError("give http_conn_id, notifier or both: else nobody would be told")
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
        except Exception as error:  # noqa: BLE001 - a failure that can't be told of is no second failure
            self._give_up(error)

    def __await__(self) -> Generator[Any, None, None]:
        """Send the notification on an event loop."""
        return self.async_notify(self.context).__await__()

    def notify(self, context: Context) -> None:
        """
        Send the notification.

        :param context: Airflow's context.
        """
        from airflow.sdk import BaseHook

        known = self._known(context)
        if self.http_conn_id is not None:
            try:
                self._post(BaseHook.get_connection(self.http_conn_id), known)
            except Exception as error:  # noqa: BLE001 - the other notifier may work
                self._give_up(error)
        try:
            if self.notifier is not None:
                self.notifier(known)
        except Exception as error:  # noqa: BLE001 - as in __call__
            self._give_up(error)

    async def async_notify(self, context: Context) -> None:
        """
        Send the notification on an event loop.

        :param context: Airflow's context.
        """
        from airflow.sdk import BaseHook

        known = await asyncio.to_thread(self._known, context)
        if self.http_conn_id is not None:
            try:
                connection = await BaseHook.aget_connection(self.http_conn_id)
                await asyncio.to_thread(self._post, connection, known)
            except Exception as error:  # noqa: BLE001 - as above
                self._give_up(error)
        try:
            await self._hand_on(known)
        except Exception as error:  # noqa: BLE001 - as in __call__
            self._give_up(error)

    async def _hand_on(self, known: dict[str, Any]) -> None:
        other = self.notifier
        if isinstance(other, BaseNotifier) and type(other).async_notify is not BaseNotifier.async_notify:
            other.context = cast("Context", known)
            await other
        elif other is not None:
            await asyncio.to_thread(other, known)

    def _known(self, context: Any) -> dict[str, Any]:
        """Return the context with the facts about the failure."""
        return {**context, _NAME: tell_of(context, show_records=self.show_records)}

    def _post(self, connection: Connection, known: dict[str, Any]) -> None:
        from airflow_provider_datapipe.notifications.post import post

        environment = self.get_template_env(dag=known.get("dag"))
        post(connection, self.endpoint, self.render_template(self.body, cast("Any", known), environment), self.timeout)

    def _give_up(self, error: Exception) -> None:
        # Its message may be anybody's: only our own shows no secret for sure.
        from airflow_provider_datapipe.notifications.post import NotPostedError

        why = str(error) if isinstance(error, NotPostedError) else type(error).__name__
        where = "" if self.http_conn_id is None else f" to connection {self.http_conn_id}"
        self.log.error("The notification%s was not sent: %s. The failure itself is not affected.", where, why)


__all__ = ["DatapipeFailureNotifier", "Failure"]
