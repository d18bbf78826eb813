"""Command ``query``: the rows of a query over the warehouse of a home, whether its service runs or not."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.cli import local_http
from datapipe_local.common.errors import SetupError

if TYPE_CHECKING:
    from datapipe_local.storage.home import Home

_PREVIEWS = "/transforms/query_previews"
_SECONDS_PER_REQUEST = 60.0
#: Seconds between two polls of a running query.
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5


class QueryRows(NamedTuple):
    """
    The first rows of a query.

    :param rows: The rows, with values that JSON can carry.
    :param total: The number of all rows.
    """

    rows: list[dict[str, Any]]
    total: int


def run_query(home: Home, sql: str, *, seconds: float) -> QueryRows:
    """
    Run a query: through the service if it runs, otherwise over the files of the home.

    :param home: An initialized home.
    :param sql: The query. It can name tables, and references in double braces as the SQL of transforms does.
    :param seconds: The time limit, if the service does not run. A running service has its own.
    :raises SetupError: The query is refused or fails, or the service does not answer.
    """
    sql = sql.strip().rstrip("; \n\t\r")
    holder = home.holder()
    if holder is None:
        from datapipe_local.cli.home_commands import preview

        found = preview(home, sql, seconds=seconds)
        return QueryRows(found.rows, len(found.rows) if found.total is None else found.total)
    if holder.address is None:
        raise SetupError(
            f"The home {home.folder} is in use by process {holder.pid}, which does not answer requests yet: try again."
        )
    try:
        return _through_service(holder.address, home.read_key(), sql)
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SetupError(
            f"No valid answer from the service at {holder.address} ({reason}): check with `datapipe-local status` that"
            " it runs, and see its log."
        ) from error


def _through_service(address: str, key: str, sql: str) -> QueryRows:
    with closing(local_http.connect(address, _SECONDS_PER_REQUEST)) as connection:

        def send(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
            headers = {"x-api-key": key, "content-type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
            if response.status >= http.client.BAD_REQUEST:
                raise SetupError(str(answer.get("message", f"HTTP status {response.status}")))
            return answer

        preview = f"{_PREVIEWS}/{send('POST', _PREVIEWS, {'sql_template': sql})['query_execution_id']}"
        pause = _FIRST_PAUSE
        while (state := send("GET", f"{preview}/status"))["status"] == "RUNNING":
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
        if state["status"] == "FAILED":
            raise SetupError(str(state.get("error", "The query failed.")))
        result = send("GET", f"{preview}/result")
    return QueryRows(result["rows"], result["num_rows_total"])
