"""Webhook ingestion: what is pushed is kept, and becomes rows when its stream runs next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from datapipe_local import canonical
from datapipe_local.errors import BadRequestError, NotFoundError, UnauthorizedError
from datapipe_local.service import webhook_credentials as credentials
from datapipe_local.sources.webhook import BasicAuthentication, WebhookSettings
from datapipe_local.store.group_commit import GroupCommit
from datapipe_local.store.records import WebhookRecord
from datapipe_local.store.watch import Watch

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


def check_headers(place: Endpoint, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """
    See to it that a request can be let in, as far as can be told without its body.

    :raises UnauthorizedError: it can't.
    """
    if not credentials.may_be(place.authentication, headers):
        raise UnauthorizedError(
            "The credentials are missing or wrong: send those that the webhook connection asks for."
        )


class Pushed(NamedTuple):
    """
    What was pushed.

    :param connection_id: To which connection.
    :param table_name: To which of its tables.
    :param text: The body, as it arrived.
    :param rows: How many rows it will be.
    """

    connection_id: str
    table_name: str
    text: str
    rows: int


def read(place: Endpoint, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Pushed:
    """
    Read what was pushed.

    :param place: Where it was pushed to.
    :param headers: Those of the request, which :func:`check_headers` has let in.
    :param body: The body, as it arrived.
    :raises UnauthorizedError: it is not signed, or is not in the form that can be signed.
    :raises BadRequestError: it is no JSON, or the table can't take it apart.
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
    rows = 1
    if place.table.sync_mode == "unpacked":
        records = value if isinstance(value, list) else [value]
        if not all(isinstance(record, dict) for record in records):
            raise BadRequestError(
                "The body must be an object, or an array of objects: this table is Unpacked.",
                error_code="invalid_payload",
            )
        rows = len(records)
    return Pushed(place.connection_id, place.table.name, text, rows)


class Intake:
    """
    Where requests find their table, and have what they bring kept.

    Thousands of requests may come for one table, so that what is known of it is remembered until connections or
    settings change, and those that come at the same time share a transaction.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._watch = Watch(context.store.database, "connections", "settings")
        self._known: dict[tuple[str, str], tuple[int, Endpoint]] = {}
        self._commits = GroupCommit(self._keep_all)

    def known(self, connection_id: str, table_name: str) -> Endpoint | None:
        """Give the place of a table if it is remembered."""
        count, place = self._known.get((connection_id, table_name), (None, None))
        return place if count == self._watch.count else None

    def endpoint(self, connection_id: str, table_name: str) -> Endpoint:
        """
        Give the place of a table.

        :raises NotFoundError: there is no such table of such a connection.
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
        # Together with what it was read at: another thread may have read it later, and be done earlier.
        self._known[connection_id, table_name] = count, found
        return found

    async def keep(self, pushed: Pushed) -> None:
        """
        Keep what was pushed; afterwards it is in the store.

        :raises NotFoundError: the connection has gone in the meantime.
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
