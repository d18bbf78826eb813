"""Data pushed to a webhook connection: each of its tables is a stream."""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from datapipe_local.common import canonical
from datapipe_local.common.base_model import Secret, Strict
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources.base import Fetched, Need, Offer
from datapipe_local.storage.records import Connection
from datapipe_local.storage.store import Store
from datapipe_local.warehouse.loading.json_lines import LONGEST_LINE
from datapipe_local.warehouse.warehouse import Scan

#: Column with the whole payload, if it is not unpacked.
PAYLOAD = "payload"
# Number of requests in memory at a time.
_AT_A_TIME = 200
_TABLE = r"^[A-Za-z](?:_?[A-Za-z0-9])*$"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
#: Headers with another meaning.
_TAKEN = frozenset({"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"})


def _check_header(name: str) -> str:
    if not _HEADER.fullmatch(name) or name.lower() in _TAKEN:
        raise ValueError("give the name of a header of your own, such as X-Signature")
    return name


_Header = Annotated[str, Field(min_length=1), AfterValidator(_check_header)]


class NoAuthentication(Strict, title="None"):
    """No authentication: every client that knows the URL can push."""

    method: Literal["none"]


class BasicAuthentication(Strict, title="Basic"):
    """User name and password."""

    method: Literal["basic"]
    username: str = Field(min_length=1)
    password: Secret

    @field_validator("username")
    @classmethod
    def _ends_somewhere(cls, username: str) -> str:
        if ":" in username:
            raise ValueError("remove the colon: it ends the user name")
        return username


class TokenAuthentication(Strict, title="Token"):
    """Token in a header."""

    method: Literal["token"]
    header: _Header = Field(description="The name of the header, such as X-Token.")
    token: Secret

    @field_validator("token")
    @classmethod
    def _fits_into_a_header(cls, token: str) -> str:
        if not (token.isascii() and token.isprintable() and token == token.strip()):
            raise ValueError("use printable ASCII characters without leading and trailing spaces, as in a header")
        return token


class HmacAuthentication(Strict, title="HMAC SHA-256"):
    """Signature of the body in a header."""

    method: Literal["hmac"]
    header: _Header = Field(description="The name of the header, such as X-Signature.")
    secret: Secret


Authentication = Annotated[
    NoAuthentication | BasicAuthentication | TokenAuthentication | HmacAuthentication, Field(discriminator="method")
]


class WebhookTable(Strict, title="Table"):
    """Table, with its own URL."""

    name: str = Field(
        pattern=_TABLE,
        max_length=63,
        description="Letters, digits and single underscores, starting with a letter. The last part of its URL.",
    )
    sync_mode: Literal["unpacked", "packed"] = Field(
        default="unpacked",
        description="Unpacked: a column for each field. Packed: the whole payload as text, in the column payload.",
    )


class WebhookSettings(Strict, title="Webhook"):
    """Settings of a webhook connection."""

    authentication: Authentication = Field(
        default=NoAuthentication(method="none"), description="How a request must authenticate."
    )
    tables: list[WebhookTable] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _tables_differ(self) -> Self:
        names = [table.name.lower() for table in self.tables]
        if len(set(names)) != len(names):
            raise ValueError("the names of tables must be unique")
        return self

    def table(self, name: str) -> WebhookTable | None:
        """Return the table with a name; None if there is none."""
        return next((table for table in self.tables if table.name == name), None)


class WebhookOrigin(Strict):
    """Table of the connection that a stream reads."""

    table: str = Field(min_length=1)


class WebhookSource:
    """
    Source of the data that was pushed to a connection.

    :param connection: The connection; its settings are :class:`WebhookSettings`.
    :param store: The store that has the requests.
    """

    def __init__(self, connection: Connection, store: Store) -> None:
        self._connection = connection
        self._settings = WebhookSettings.model_validate(connection.settings)
        self._store = store

    def offers(self) -> list[Offer]:
        """Return the tables."""
        return [Offer(table.name, {"table": table.name}) for table in self._settings.tables]

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """Return False: a check would have to read all pushed data."""
        return False

    def has(self, origin: dict[str, Any]) -> bool:
        """Return True if the connection has the stream's table."""
        return self._settings.table(WebhookOrigin.model_validate(origin).table) is not None

    @contextmanager
    def fetch(self, origin: dict[str, Any], scratch: Path, need: Need) -> Iterator[Fetched]:
        """
        Yield all data that was pushed to one table.

        :param origin: The origin of the stream: :class:`WebhookOrigin`.
        :param scratch: The folder for the rows.
        :param need: Used only to interrupt the work.
        :raises RunError: the connection has no such table.
        """
        name = WebhookOrigin.model_validate(origin).table
        table = self._settings.table(name)
        if table is None:
            raise RunError(f"The webhook connection {self._connection.id!r} has no table {name!r}: add it there.")
        packed = table.sync_mode == "packed"
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            path, size, longest = Path(folder) / "rows.jsonl", 0, LONGEST_LINE
            with path.open("wb") as file:
                for record in self._records(name, need):
                    size += len(record.encode())
                    for row in rows(record, packed=packed):
                        longest = max(longest, file.write(f"{row}\n".encode()))
            options: dict[str, Any] = {"format": "newline_delimited", "maximum_object_size": longest}
            if packed:
                options["columns"] = {PAYLOAD: "VARCHAR"}
            else:
                # Infer the types from every row, so that no later row fails to fit.
                options |= {"sample_size": -1, "map_inference_threshold": -1, "field_appearance_threshold": 0}
            yield Fetched(f"the webhook table {name}", Scan("read_json", path, options), size)

    def _records(self, table: str, need: Need) -> Iterator[str]:
        last = 0
        while True:
            need.check()
            found = self._store.database.rows(
                "SELECT seq, record FROM webhook_records WHERE connection_id = ? AND table_name = ? AND seq > ?"
                " ORDER BY seq LIMIT ?",
                self._connection.id,
                table,
                last,
                _AT_A_TIME,
            )
            yield from (row["record"] for row in found)
            if not found:
                return
            last = found[-1]["seq"]


def rows(record: str, *, packed: bool) -> list[str]:
    """
    Return the rows of a request, each as a line of JSON.

    :param record: The body, as it arrived.
    :param packed: Return the body as one row, whatever it contains.
    """
    if packed:
        return [json.dumps({PAYLOAD: record})]
    whole = canonical.one_line(record)
    found = canonical.elements(whole) if whole.startswith("[") else [whole]
    # Values that cannot be unpacked arrived while the table was packed.
    return [row if _has_columns(row) else f'{{"json": {row}}}' for row in found]


def _has_columns(row: str) -> bool:
    """Return True if JSON is an object without an empty key."""
    return row.startswith("{") and not ('""' in row and "" in json.loads(row))
