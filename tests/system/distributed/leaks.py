"""Search for secrets in logs and in all rows of the metadata database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psycopg
from cryptography.fernet import Fernet
from psycopg import sql

from tests.system.distributed.metadata import Metadata

#: A value that Airflow has encrypted with its Fernet key.
_ENCRYPTED = re.compile(r"gAAAA[\w-]{40,}={0,2}")
#: Airflow decrypts the rows of this table for the triggerers, so their content must contain no secret either.
_TRIGGERS = "trigger"


class LeakCheck:
    """
    Search for secrets.

    :param metadata: the metadata database.
    :param fernet_key: the key with which Airflow encrypts values.
    :param secrets: the secrets by name.
    """

    def __init__(self, metadata: Metadata, fernet_key: str, secrets: Mapping[str, str]) -> None:
        self._metadata = metadata
        self._fernet = Fernet(fernet_key)
        self._secrets = dict(secrets)
        #: Places with a secret: "<secret> in <place>".
        self.found: set[str] = set()
        self.rows = 0
        self.triggers = 0
        self.files = 0

    def check_rows(self) -> None:
        """Search all tables. Do nothing while the database is down."""
        try:
            with self._metadata.connection() as connection:
                tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
                for (table,) in tables:
                    self._check_table(connection, table)
        except psycopg.OperationalError:
            return

    def _check_table(self, connection: psycopg.Connection[tuple[object, ...]], table: str) -> None:
        # bytea columns are shown in hexadecimal.
        for (row,) in connection.execute(sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(table))):
            text = str(row)
            self.rows += 1
            self._check(text, f"table {table}")
            if table == _TRIGGERS:
                self.triggers += 1
                for token in _ENCRYPTED.findall(text):
                    self._check(self._fernet.decrypt(token).decode(), f"table {table}, decrypted")

    def check_files(self, files: Iterable[Path]) -> None:
        """Search files."""
        for file in files:
            self.files += 1
            self._check(file.read_text(errors="replace"), file.name)

    def _check(self, text: str, place: str) -> None:
        self.found |= {f"{name} in {place}" for name in self._named(text)}

    def _named(self, text: str) -> Iterator[str]:
        for name, secret in self._secrets.items():
            if secret in text or secret.encode().hex() in text:
                yield name
