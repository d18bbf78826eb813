"""Webhook ingestion: stores pushed data until the next run of its stream loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.formats import strict_json
from datapipe_local.common.errors import BadRequestError, NotFoundError, UnauthorizedError
from datapipe_local.connectors.sources.webhook import BasicAuthentication, WebhookSettings
from datapipe_local.services import webhook_authentication as credentials
from datapipe_local.storage.group_commit import GroupCommit
from datapipe_local.storage.records import WebhookRecord
from datapipe_local.storage.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.connectors.sources.webhook import Authentication, WebhookTable
    from datapipe_local.services.context import Context

WEBHOOK = "webhook"
#: Setting and default of the maximum request size, in bytes.
LIMIT_SETTING = "webhook_request_bytes"
DEFAULT_LIMIT = 1 << 20


class Endpoint(NamedTuple):
    """
    Endpoint of a webhook table.

    :param connection_id: Webhook connection.
    :param table: Settings of the table.
    :param authentication: Authentication that requests need.
    :param limit: Maximum size of a request, in bytes.
    """

    connection_id: str
    table: WebhookTable
    authentication: Authentication
    limit: int

    @property
    def challenge(self) -> str | None:
        """Return the ``WWW-Authenticate`` challenge for rejected requests, or None if the authentication has none."""
        return (
            'Basic realm="webhook", charset="UTF-8"' if isinstance(self.authentication, BasicAuthentication) else None
        )


def check_headers(place: Endpoint, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """
    Validate the credentials of a request, as far as its headers allow.

    :raises UnauthorizedError: if the credentials are missing or wrong.
    """
    if not credentials.has_credentials(place.authentication, headers):
        raise UnauthorizedError("The credentials are missing or wrong: send the credentials of the webhook connection.")


class Pushed(NamedTuple):
    """
    Validated request of a webhook.

    :param connection_id: Webhook connection.
    :param table_name: Table of the connection.
    :param text: Body of the request.
    :param rows: Number of rows that the body contains.
    """

    connection_id: str
    table_name: str
    text: str
    rows: int


def read(place: Endpoint, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Pushed:
    """
    Validate the signature and the body of a request.

    :param place: Endpoint of the request.
    :param headers: Headers of the request, already validated by :func:`check_headers`.
    :param body: Body as received.
    :raises UnauthorizedError: if the signature is wrong, or the signed body is not canonical JSON.
    :raises BadRequestError: if the body is not valid JSON, or does not fit the table's mode.
    """
    if not credentials.is_signed(place.authentication, headers, body):
        raise UnauthorizedError(
            "The signature is wrong: send the lowercase hexadecimal HMAC-SHA-256 of the body, keyed with the secret."
        )
    try:
        value, text = strict_json.parse(body), body.decode()
    except strict_json.StrictJsonError as error:
        raise BadRequestError(f"The body is not valid JSON: {error}.", error_code="invalid_payload") from error
    if not credentials.can_be_signed(place.authentication, text):
        raise UnauthorizedError(
            "The body is not canonical JSON: sort the keys and remove insignificant white space, then sign it."
        )
    rows = 1
    if place.table.sync_mode == "unpacked":
        records = value if isinstance(value, list) else [value]
        if not all(isinstance(record, dict) for record in records):
            raise BadRequestError(
                "The body must be an object, or an array of objects: this table is Unpacked.",
                error_code="invalid_payload",
            )
        if any("" in record for record in records):
            raise BadRequestError(
                "A key of an object is empty: name it. Each key is a column of this table, which is Unpacked.",
                error_code="invalid_payload",
            )
        rows = len(records)
    return Pushed(place.connection_id, place.table.name, text, rows)


class Intake:
    """
    Endpoint lookup and storage of webhook requests.

    Optimized for thousands of requests per table: it caches endpoints until connections or settings change, and
    concurrent requests share a transaction.

    :param context: Service context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._watch = Watch(context.store.database, "connections", "settings")
        self._known: dict[tuple[str, str], tuple[int, Endpoint]] = {}
        self._commits = GroupCommit(self._keep_all)

    def known(self, connection_id: str, table_name: str) -> Endpoint | None:
        """Return the cached endpoint of a table, or None."""
        count, place = self._known.get((connection_id, table_name), (None, None))
        return place if count == self._watch.count else None

    def endpoint(self, connection_id: str, table_name: str) -> Endpoint:
        """
        Return the endpoint of a table from the store, and cache it.

        :raises NotFoundError: if the connection is not a webhook connection, or has no such table.
        """
        count, store = self._watch.count, self._context.store
        self._known.pop((connection_id, table_name), None)
        connection = store.connections.get(connection_id)
        if connection is None or connection.integration_id != WEBHOOK:
            raise NotFoundError("webhook connection", connection_id)
        settings = WebhookSettings.model_validate(connection.settings)
        table = settings.table(table_name)
        if table is None:
            raise NotFoundError("table of this connection", table_name)
        limit = int(store.setting(LIMIT_SETTING, DEFAULT_LIMIT))
        found = Endpoint(connection_id, table, settings.authentication, limit)
        # Cached with the change count from before the read: another thread may read a newer state but finish earlier.
        self._known[connection_id, table_name] = count, found
        return found

    async def keep(self, pushed: Pushed) -> None:
        """
        Store a request. It is committed when this method returns.

        :raises NotFoundError: if the connection was deleted in the meantime.
        """
        await self._commits.keep(pushed)

    def _keep_all(self, group: Sequence[Pushed]) -> list[Exception | None]:
        store, now = self._context.store, self._context.clock.now()
        with store.transaction():
            ids = {pushed.connection_id for pushed in group}
            there = {connection_id for connection_id in ids if store.connections.get(connection_id) is not None}
            store.webhook_records.insert_all(
                WebhookRecord(
                    connection_id=pushed.connection_id,
                    table_name=pushed.table_name,
                    received_at=now,
                    record=pushed.text,
                )
                for pushed in group
                if pushed.connection_id in there
            )
        return [
            None if pushed.connection_id in there else NotFoundError("webhook connection", pushed.connection_id)
            for pushed in group
        ]
