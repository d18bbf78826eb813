"""Command ``status``: state of a home's service, its resources and last runs. It changes nothing."""

from __future__ import annotations

import http.client
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from datapipe_local.cli import local_http
from datapipe_local.common.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path

    from datapipe_local.storage.home import Home

#: Exit statuses; 1 and 2 have the same meaning for all commands.
RUNNING, NOT_RUNNING, NOT_ANSWERING = 0, 3, 4
_SECONDS_FOR_HEALTH = 5
_LAST_RUNS = 10
_COUNTED = (
    "connections",
    "orchestrations",
    "elt_syncs",
    "elt_streams",
    "custom_reports",
    "transforms",
    "reverse_etl_syncs",
)
# A deleted transform stays in the store until its table is removed.
_COUNT = "SELECT count(*) FROM {0}"
_COUNT_OF_TRANSFORMS = "SELECT count(*) FROM transforms WHERE deleted_at IS NULL"
_RUNS = """
    SELECT 'elt_stream' AS kind, elt_stream_id AS resource_id, id AS run_id, status, started_at, finished_at
    FROM elt_stream_runs
    UNION ALL SELECT 'reverse_etl', reverse_etl_sync_id, id, status, started_at, finished_at FROM reverse_etl_sync_runs
    UNION ALL SELECT 'orchestration', orchestration_id, id, status, started_at, finished_at FROM orchestration_runs
    WHERE started_at IS NOT NULL
    ORDER BY started_at DESC LIMIT ?
"""


def status(home: Home) -> tuple[dict[str, Any], int]:
    """
    Return the status of a home.

    :param home: An initialized home.
    :return: The status as a JSON object, and the exit status.
    :raises SetupError: the state of the home cannot be read.
    """
    holder = home.holder()
    address = None if holder is None else holder.address
    found: dict[str, Any] = {
        "home": str(home.folder),
        "running": holder is not None,
        "pid": None if holder is None else holder.pid,
        "address": address,
        "healthy": address is not None and _is_healthy(address),
        "bytes": {"state": _size(home.state), "warehouse": _size(home.warehouse)},
    }
    try:
        with closing(sqlite3.connect(f"{home.state.as_uri()}?mode=ro", uri=True)) as state:
            state.row_factory = sqlite3.Row
            found["counts"] = {
                table: state.execute(
                    _COUNT_OF_TRANSFORMS if table == "transforms" else _COUNT.format(table)
                ).fetchone()[0]
                for table in _COUNTED
            }
            found["owed"] = state.execute("SELECT count(*) FROM jobs").fetchone()[0]
            found["last_runs"] = [dict(row) for row in state.execute(_RUNS, [_LAST_RUNS])]
    except sqlite3.Error as error:
        raise SetupError(f"Cannot read the state in {home.state}: {error}.") from error
    if holder is None:
        return found, NOT_RUNNING
    return found, RUNNING if found["healthy"] else NOT_ANSWERING


def as_text(found: dict[str, Any]) -> str:
    """Return the status as text for users."""
    if not found["running"]:
        how = "not running"
    elif found["healthy"]:
        how = f"running at {found['address']} (process {found['pid']})"
    else:
        how = f"process {found['pid']} holds the home, and does not respond"
    counts = ", ".join(f"{number} {table.replace('_', ' ')}" for table, number in found["counts"].items() if number)
    sizes = ", ".join(f"{name} {number:,} bytes" for name, number in found["bytes"].items())
    lines = [f"Home: {found['home']} ({sizes})", f"Service: {how}", f"Resources: {counts or 'none'}"]
    if found["owed"]:
        lines.append(f"Active or pending jobs: {found['owed']}")
    runs = found["last_runs"]
    lines.append("Last runs:" if runs else "Last runs: none")
    lines += [f"  {run['started_at']} {run['kind']} {run['resource_id']}: {run['status']}" for run in runs]
    return "\n".join(lines)


def as_json(found: dict[str, Any]) -> str:
    """Return the status as JSON for programs."""
    return json.dumps(found, indent=2)


def _is_healthy(address: str) -> bool:
    connection = local_http.connect(address, _SECONDS_FOR_HEALTH)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _size(file: Path) -> int:
    """Return the number of bytes of a file and of its write-ahead log."""
    return sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*") if part.is_file())
