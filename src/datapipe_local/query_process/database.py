"""Databases of a query process: opened within its memory limit."""

from __future__ import annotations

import time

import duckdb

_THREADS = 2
_SECONDS_BETWEEN_TRIES = 0.01
#: Reserved by the interpreter and DuckDB. DuckDB may use half of the rest: its allocator reserves more than it uses.
_RESERVED_MEMORY = 256 << 20
#: On disk, a query may use this multiple of the memory limit.
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
            # The service closes a snapshot only after the statements that list all databases. The time limit ends this.
            if "Could not set lock" not in str(error):
                raise
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _connected(file: str, memory: int, temporary: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        file,
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # Variables of this program are not tables.
            "python_enable_replacements": False,
            "preserve_insertion_order": False,
            "threads": _THREADS,
            "memory_limit": f"{(memory - _RESERVED_MEMORY) // 2 >> 20}MiB",
            "temp_directory": temporary,
            "max_temp_directory_size": f"{_TEMPORARY_PER_MEMORY * memory >> 20}MiB",
        },
    )
