"""Databases of query processes, opened within their memory limit."""

from __future__ import annotations

import time

import duckdb

from datapipe_local.warehouse.warehouse import use_utc

_THREADS = 2
_SECONDS_BETWEEN_TRIES = 0.01
#: Memory of the interpreter and DuckDB. DuckDB may use half of the rest: its allocator reserves more than it uses.
_RESERVED_MEMORY = 256 << 20
#: Multiple of the memory limit that a query may use on disk.
_TEMPORARY_PER_MEMORY = 8


def open_database(file: str, memory: int, temporary: str) -> duckdb.DuckDBPyConnection:
    """
    Open a database.

    :param file: The database.
    :param memory: The memory limit of this process, in bytes.
    :param temporary: The folder for data that exceeds the memory.
    """
    while True:
        try:
            return _connected(file, memory, temporary)
        except duckdb.IOException as error:
            # The service closes a snapshot only after statements that list all databases. The time limit ends this
            # loop.
            if "Could not set lock" not in str(error):
                raise
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _connected(file: str, memory: int, temporary: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        file,
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # Python variables of this program are not tables.
            "python_enable_replacements": False,
            "preserve_insertion_order": False,
            "threads": _THREADS,
            "memory_limit": f"{(memory - _RESERVED_MEMORY) // 2 >> 20}MiB",
            "temp_directory": temporary,
            "max_temp_directory_size": f"{_TEMPORARY_PER_MEMORY * memory >> 20}MiB",
        },
    )
    use_utc(connection)
    return connection
