"""Operators for connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier, Context

    from airflow_provider_datapipe.resources.base import Change
    from airflow_provider_datapipe.resources.connections import OpenedBridge


class ConnectionBridgeCreateOperator(DatapipeChangeOperator):
    """
    Open a connection bridge: a session of 86,400 seconds, in which a user authorizes a connection.

    Everyone who has the address of the bridge can authorize. The address is therefore in no log, and in the result only
    with ``show_authorize_url``; otherwise ``notifiers`` send it to the user. A
    :class:`~airflow_provider_datapipe.sensors.state.ConnectionBridgeSensor` waits for the connection. Each try opens
    another bridge; an unused bridge expires.

    Returns ``integration_id``, ``label``, ``connection_id`` (None for a new connection), ``expires_at`` and the fields
    that the sensor needs; with ``show_authorize_url`` also ``authorize_url`` and ``state``.

    :param redirect_uri: target of the browser after the authorization, with ``connection_id`` and ``state``: https,
        without port and query; on localhost also http and a port. (templated)
    :param integration_id: ID of the integration; default: that of the connection. (templated)
    :param new_label: label of the connection, at least 1 character, unique among connections; default: the current
        label. (templated)
    :param connection_id: ID of a connection to authorize again; or set ``connection_label``. (templated)
    :param connection_label: label of a connection to authorize again. (templated)
    :param state: up to 255 characters, which are returned to the ``redirect_uri``; None for a random value. A given
        value is shown in the rendered templates of the task. (templated)
    :param show_authorize_url: add the address to the result, where all users who can read XComs of the DAG see it.
        (templated)
    :param notifiers: Airflow notifiers that send the address: their templates can contain ``authorize_url``,
        ``bridge_expires_at``, ``bridge_label`` and ``bridge_state``.

    .. seealso:: :ref:`POST /connection_bridges <interface-connection-bridges-create>`.
    """

    show_authorize_url: bool | str
    not_templated = ("notifiers",)
    flow = "connections.open_bridge"
    not_in_flow = ("show_authorize_url", "notifiers")
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
        self.notifiers = list(notifiers) if isinstance(notifiers, Sequence) else [notifiers]
        if not self.notifiers and show_authorize_url is False:
            raise ValueError("the address has no recipient: give notifiers, or show_authorize_url=True")

    def execute(self, context: Context) -> Any:
        """
        Open the bridge, and send its address.

        :raises DatapipeError: if the service refuses a request, or cannot be reached.
        :raises ValueError: if a rendered argument is invalid.
        """
        from airflow_provider_datapipe.resources.connections import result_of
        from airflow_provider_datapipe.resources.template_values import flag

        show = flag("show_authorize_url", self.show_authorize_url)
        if not show and not self.notifiers:
            raise ValueError("the address has no recipient: give notifiers, or let show_authorize_url be True")
        opened: OpenedBridge = super().execute(context)
        template_variables: dict[str, Any] = {
            "authorize_url": opened.authorize_url,
            "bridge_expires_at": opened.bridge.expires_at,
            "bridge_label": opened.bridge.label,
            "bridge_state": opened.state,
        }
        for notifier in self.notifiers:
            notifier({**context, **template_variables})
        return result_of(opened, show=show)

    def _log_result(self, result: Any) -> None:
        from airflow.providers.common.compat.sdk import mask_secret

        # Mask them before any code can log them.
        mask_secret(result.authorize_url)
        mask_secret(result.state)
        self.log.info("A bridge for %r is open until %s.", result.bridge.label, result.bridge.expires_at)


class ConnectionDeleteOperator(DatapipeChangeOperator):
    """
    Delete a connection.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`, whose ``details`` are the IDs of the
    ``elt_syncs`` and ``reverse_etl_syncs`` that used it.

    :param connection_id: ID of the connection; or set ``connection_label``. (templated)
    :param connection_label: label of the connection. (templated)
    :param if_used: policy if syncs use the connection: ``fail`` without sending a request, or ``delete`` it. The
        interface does not define the behavior of the service in this case. (templated)
    :param if_missing: policy if the connection does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: :ref:`DELETE /connections/{id} <interface-connections-delete>`.
    """

    flow = "connections.delete"
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

    def _log_result(self, result: Change) -> None:
        super()._log_result(result)
        for kind, ids in (result["details"] or {}).items():
            if ids:
                self.log.warning("It was used by %s: %s.", kind, ", ".join(ids))
