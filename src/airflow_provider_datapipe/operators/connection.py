"""Operators for connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier, Context

    from airflow_provider_datapipe.changes.change import Change
    from airflow_provider_datapipe.changes.connections import Opened
    from airflow_provider_datapipe.runs.steps import Steps


class ConnectionBridgeCreateOperator(DatapipeChangeOperator):
    """
    Open a connection bridge: a session, of 86,400 seconds, in which a person authorizes a connection.

    Whoever has the bridge's address can authorize. So it is in no log, and in the result only with
    ``show_authorize_url``; otherwise ``notifiers`` send it to the person. A
    :class:`~airflow_provider_datapipe.sensors.state.ConnectionBridgeSensor` waits for the connection. Each try opens
    another bridge; one that nobody uses ends by itself.

    Returns ``integration_id``, ``label``, ``connection_id`` (None for a new connection), ``expires_at`` and what the
    sensor needs; with ``show_authorize_url`` also ``authorize_url`` and ``state``.

    :param redirect_uri: where the browser goes afterwards, with ``connection_id`` and ``state``: https, without port
        and query; on localhost also http and a port. (templated)
    :param integration_id: id of the integration; left out, that of the connection. (templated)
    :param new_label: name that the connection gets, for people, 1 character or more; left out, the one that it has. It
        should be one that no other connection has. (templated)
    :param connection_id: id of a connection that is authorized again; or give ``connection_label``. (templated)
    :param connection_label: label of a connection that is authorized again. (templated)
    :param state: up to 255 characters, handed back to the ``redirect_uri``; None for something that nobody can guess.
        What is given here is shown among the rendered templates of the task. (templated)
    :param show_authorize_url: whether the result has the address, where all can read it who may read XComs of the DAG.
        (templated)
    :param notifiers: Airflow's notifiers, which are given the address: in their templates ``authorize_url``,
        ``bridge_expires_at``, ``bridge_label`` and ``bridge_state`` are known.

    .. seealso:: interface.md, "POST /connection_bridges".
    """

    template_fields: Sequence[str] = (
        *DatapipeChangeOperator.template_fields,
        "redirect_uri",
        "integration_id",
        "new_label",
        "connection_id",
        "connection_label",
        "state",
        "show_authorize_url",
    )
    endpoints = ("connection_bridges.create",)

    def __init__(
        self,
        *,
        redirect_uri: str,
        integration_id: str | None = None,
        new_label: str | None = None,
        connection_id: str | None = None,
        connection_label: str | None = None,
        state: str | None = None,
        show_authorize_url: bool | str = False,
        notifiers: Sequence[BaseNotifier] | BaseNotifier = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if connection_id is not None and connection_label is not None:
            raise ValueError("give one of connection_id and connection_label, or neither for a new connection")
        if connection_id is None and connection_label is None and (integration_id is None or new_label is None):
            raise ValueError("give integration_id and new_label for a new connection")
        self.redirect_uri = redirect_uri
        self.integration_id = integration_id
        self.new_label = new_label
        self.connection_id = connection_id
        self.connection_label = connection_label
        self.state = state
        self.show_authorize_url = show_authorize_url
        self.notifiers = list(notifiers) if isinstance(notifiers, Sequence) else [notifiers]
        if not self.notifiers and show_authorize_url is False:
            raise ValueError("nobody would get the address: give notifiers, or show_authorize_url=True")

    def execute(self, context: Context) -> Any:
        """
        Open the bridge, and have the address sent.

        :raises DatapipeError: the service refused, or could not be reached.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.changes.connections import result_of
        from airflow_provider_datapipe.changes.values import flag

        show = flag("show_authorize_url", self.show_authorize_url)
        if not show and not self.notifiers:
            raise ValueError("nobody would get the address: give notifiers, or let show_authorize_url be True")
        opened: Opened = super().execute(context)
        told: dict[str, Any] = {
            "authorize_url": opened.authorize_url,
            "bridge_expires_at": opened.bridge.expires_at,
            "bridge_label": opened.bridge.label,
            "bridge_state": opened.state,
        }
        for notifier in self.notifiers:
            notifier({**context, **told})
        return result_of(opened, show=show)

    def _change(self) -> Steps[Opened]:
        from airflow_provider_datapipe.changes import connections

        return connections.open_bridge(
            redirect_uri=self.redirect_uri,
            integration_id=self.integration_id,
            new_label=self.new_label,
            connection_id=self.connection_id,
            connection_label=self.connection_label,
            state=self.state,
        )

    def _log_result(self, result: Any) -> None:
        from airflow.providers.common.compat.sdk import mask_secret

        # Before anything else can say it.
        mask_secret(result.authorize_url)
        mask_secret(result.state)
        self.log.info("A bridge for %r is open until %s.", result.bridge.label, result.bridge.expires_at)


class ConnectionDeleteOperator(DatapipeChangeOperator):
    """
    Delete a connection.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`, whose ``details`` are the ids of the
    ``elt_syncs`` and ``reverse_etl_syncs`` that used it.

    :param connection_id: id of the connection; or give ``connection_label``. (templated)
    :param connection_label: label of the connection. (templated)
    :param if_used: what happens when syncs use it: ``fail`` before anything is sent, or ask the service to ``delete``
        it all the same: the interface does not say what a service does then. (templated)
    :param if_missing: what happens when there is no such connection: ``succeed`` or ``fail``. (templated)

    .. seealso:: interface.md, "DELETE /connections/{id}".
    """

    template_fields: Sequence[str] = (
        *DatapipeChangeOperator.template_fields,
        "connection_id",
        "connection_label",
        "if_used",
        "if_missing",
    )
    endpoints = ("connections.delete",)

    def __init__(
        self,
        *,
        connection_id: str | None = None,
        connection_label: str | None = None,
        if_used: Literal["fail", "delete"] = "fail",
        if_missing: Literal["succeed", "fail"] = "succeed",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(connection_id=connection_id, connection_label=connection_label)
        self.connection_id = connection_id
        self.connection_label = connection_label
        self.if_used = if_used
        self.if_missing = if_missing

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import connections

        return connections.delete(
            self.connection_id, self.connection_label, if_used=self.if_used, if_missing=self.if_missing
        )

    def _log_result(self, result: Change) -> None:
        super()._log_result(result)
        for kind, ids in (result["details"] or {}).items():
            if ids:
                self.log.warning("It was used by %s: %s.", kind, ", ".join(ids))
