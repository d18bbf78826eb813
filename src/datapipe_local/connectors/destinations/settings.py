"""Settings of connections to destinations. Separate from the writers, which are loaded only for runs."""

import re
from typing import Literal

from pydantic import AnyHttpUrl, Field, field_validator

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.base_model import Secret, Strict
from datapipe_local.connectors.egress import EgressRule, allowed_addresses, literal_address

Mode = Literal["insert", "update", "upsert", "mirror"]
#: Largest length of the name of a property.
LONGEST_NAME = 300
PropertyType = Literal["string", "integer", "number", "boolean", "date", "datetime", "array", "object"]


class Property(Strict):
    """Property of an object type."""

    id: str = Field(min_length=1, max_length=LONGEST_NAME)
    name: str | None = None
    type: PropertyType = "string"
    required: bool = False
    primary_key: bool = False
    readonly: bool = False


class ObjectType(Strict):
    """Object type of a destination."""

    # Not only dots, which have another meaning in a path.
    id: str = Field(max_length=100, pattern=r"^[A-Za-z0-9._~-]*[A-Za-z0-9_~-][A-Za-z0-9._~-]*$")
    name: str | None = None
    operations: list[Mode] | None = Field(default=None, min_length=1)
    properties: list[Property] | None = Field(default=None, min_length=1)

    @property
    def modes(self) -> list[OperationName]:
        """The supported operations."""
        return [mode for mode in OperationName if self.operations is None or mode.value in self.operations]

    @property
    def keys(self) -> list[str]:
        """The declared key properties."""
        return [one.id for one in self.properties or () if one.primary_key]


class DestinationSettings(Strict):
    """
    Settings of all destinations.

    :param object_types: The object types; without them, any object type can be written.
    """

    object_types: list[ObjectType] | None = Field(default=None, min_length=1)


class HttpSettings(DestinationSettings, title="HTTP endpoint"):
    """Settings of a connection to an HTTP endpoint."""

    url: str = Field(min_length=1, description="The URL of the endpoint; the object type is added to it.")

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        AnyHttpUrl(url)
        return url

    def check_address(self, rule: EgressRule) -> None:
        """
        Check the address in the URL, if it has one. Host names are checked when the service connects.

        :raises RefusedDestinationError: the rule does not allow the address.
        """
        host = (AnyHttpUrl(self.url).host or "").strip("[]")
        address = literal_address("127.0.0.1" if host.removesuffix(".") == "localhost" else host)
        if address is not None:
            allowed_addresses(host, [address], rule)


class JsonLinesSettings(DestinationSettings, title="JSON Lines files"):
    """Settings of a connection to a folder of JSON Lines files."""

    path: str = Field(min_length=1, description="The folder for the files.")


class CsvSettings(DestinationSettings, title="CSV files"):
    """Settings of a connection to a folder of CSV files."""

    path: str = Field(min_length=1, description="The folder for the files.")


class SqlSettings(DestinationSettings, title="SQL tables"):
    """Settings of a connection to the tables of a SQL database."""

    # The URL may contain a password.
    url: Secret = Field(
        description="The database: sqlite:////folder/file.db, or postgresql://user:password@host:port/database."
    )

    @field_validator("url")
    @classmethod
    def _is_a_database(cls, url: str) -> str:
        if not re.match(
            r"(sqlite:///(/|[A-Za-z]:).+|postgresql(\+psycopg)?://([^/?#@]*@)?[^/?#@:]+(:[0-9]{1,5})?/[^?#]+$)", url
        ):
            raise ValueError(
                "give sqlite:///<absolute path> or postgresql://<user>:<password>@<host>:<port>/<database>"
            )
        return url
