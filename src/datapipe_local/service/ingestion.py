"""Webhook ingestion: what is pushed is kept, and becomes rows when its stream runs next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from datapipe_local import canonical
from datapipe_local.errors import BadRequestError, NotFoundError, UnauthorizedError
from datapipe_local.service import webhook_credentials as credentials
from datapipe_local.sources.webhook import BasicAuthentication, WebhookSettings
from datapipe_local.store.records import WebhookRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.service.context import Context
    from datapipe_local.sources.webhook import Authentication, WebhookTable

WEBHOOK = "webhook"
#: The setting of the service that says how many bytes a request may have.
LIMIT_SETTING = "webhook_request_bytes"
DEFAULT_LIMIT = 1 << 20


class Endpoint(NamedTuple):
    """
    Where a table takes requests.

    :param connection_id: Its connection.
    :param table: The table.
    :param authentication: What requests have to show.
    :param limit: How many bytes a request may have.
    """

    connection_id: str
    table: WebhookTable
    authentication: Authentication
    limit: int

    @property
    def challenge(self) -> str | None:
        """What a refused sender is asked for, if HTTP has a name for it."""
        return (
            'Basic realm="webhook", charset="UTF-8"' if isinstance(self.authentication, BasicAuthentication) else None
        )


def endpoint(context: Context, connection_id: str, table_name: str) -> Endpoint:
    """
    Give the place of a table.

    :raises NotFoundError: there is no such table of such a connection.
    """
    connection = context.store.connections.get(connection_id)
    if connection is None or connection.integration_id != WEBHOOK:
        raise NotFoundError("webhook connection", connection_id)
    settings = WebhookSettings.model_validate(connection.settings)
    table = settings.table(table_name)
    if table is None:
        raise NotFoundError("table of this connection", table_name)
    limit = int(context.store.setting(LIMIT_SETTING, DEFAULT_LIMIT))
    return Endpoint(connection_id, table, settings.authentication, limit)


def check_headers(place: Endpoint, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """
    See to it that a request can be let in, as far as can be told without its body.

    :raises UnauthorizedError: it can't.
    """
    if not credentials.may_be(place.authentication, headers):
        raise UnauthorizedError(
            "The credentials are missing or wrong: send those that the webhook connection asks for."
        )


def accept(context: Context, place: Endpoint, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> int:
    """
    Keep what was pushed.

    :param context: The service.
    :param place: Where it was pushed to.
    :param headers: Those of the request, which :func:`check_headers` has let in.
    :param body: The body, as it arrived.
    :return: How many rows it will be.
    :raises UnauthorizedError: it is not signed, or is not in the form that can be signed.
    :raises BadRequestError: it is no JSON, or the table can't take it apart.
    :raises NotFoundError: the connection has gone in the meantime.
    """
    if not credentials.is_signed(place.authentication, headers, body):
        raise UnauthorizedError(
            "The signature is wrong: send the lowercase hexadecimal HMAC-SHA-256 of the body, keyed with the secret."
        )
    try:
        value, text = canonical.parse(body)
    except ValueError as error:
        raise BadRequestError(f"The body is no JSON that is taken: {error}.", error_code="invalid_payload") from error
    if not credentials.can_be_signed(place.authentication, text):
        raise UnauthorizedError(
            "The body is not canonical JSON: sort the keys and leave out white space that means nothing, then sign it."
        )
    number = 1
    if place.table.sync_mode == "unpacked":
        records = value if isinstance(value, list) else [value]
        if not all(isinstance(record, dict) for record in records):
            raise BadRequestError(
                "The body must be an object, or an array of objects: this table is Unpacked.",
                error_code="invalid_payload",
            )
        number = len(records)
    with context.store.transaction():
        if context.store.connections.get(place.connection_id) is None:
            raise NotFoundError("webhook connection", place.connection_id)
        context.store.webhook_records.insert(
            WebhookRecord(
                connection_id=place.connection_id,
                table_name=place.table.name,
                received_at=context.clock.now(),
                record=text,
            )
        )
    return number
