"""Reverse ETL destinations: settings, catalogs and writers by integration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.connectors.destinations.settings import (
    CsvSettings,
    DestinationSettings,
    HttpSettings,
    JsonLinesSettings,
    SqlSettings,
)
from datapipe_local.connectors.egress import EgressRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from datapipe_local.connectors.destinations.base import Destination, Progress, Target
    from datapipe_local.connectors.destinations.catalog import DestinationCatalog
    from datapipe_local.storage.records import Connection

#: Settings models of destination connections, by integration ID.
DESTINATIONS: dict[str, type[DestinationSettings]] = {
    "csv": CsvSettings,
    "http": HttpSettings,
    "jsonl": JsonLinesSettings,
    "sql_tables": SqlSettings,
}


def catalog_of(connection: Connection) -> DestinationCatalog:
    """Return the catalog of a connection's destination."""
    if connection.integration_id == "http":
        from datapipe_local.connectors.destinations.http_catalog import HttpCatalog

        return HttpCatalog()
    if connection.integration_id == "sql_tables":
        from datapipe_local.connectors.destinations.sql_catalog import SqlCatalog

        return SqlCatalog(connection.settings)
    if connection.integration_id == "csv":
        from datapipe_local.connectors.destinations.csv_catalog import CsvCatalog

        return CsvCatalog(connection.settings)
    from datapipe_local.connectors.destinations.jsonl_catalog import JsonLinesCatalog

    return JsonLinesCatalog(connection.settings)


def connect(
    connection: Connection,
    target: Target,
    *,
    progress: Progress,
    pause: Callable[[float], None],
    rule: EgressRule = EgressRule.LOOPBACK,
) -> Destination:
    """
    Return the writer for a connection's destination, for one run.

    :param connection: The connection.
    :param target: The object and the mode of the sync.
    :param progress: The progress of this run and of earlier runs.
    :param pause: A function that waits a number of seconds, or raises when the service stops.
    :param rule: The class of addresses that records may be sent to over HTTP.
    :raises RunError: the destination cannot be written.
    """
    if connection.integration_id == "http":
        from datapipe_local.connectors.destinations.http import HttpDestination

        return HttpDestination(connection.settings, target, progress, pause, rule)
    if connection.integration_id == "sql_tables":
        from datapipe_local.connectors.destinations.sql import SqlTable

        return SqlTable(connection.settings, target, progress)
    from datapipe_local.connectors.destinations.jsonl_catalog import file_of

    path = file_of(connection.settings, target.object_type_id, target.settings, f".{connection.integration_id}")
    from datapipe_local.connectors.destinations.csv_files import CsvLog, CsvTable
    from datapipe_local.connectors.destinations.jsonl import JsonLinesLog
    from datapipe_local.connectors.destinations.jsonl_table import JsonLinesTable

    is_csv = connection.integration_id == "csv"
    table = CsvTable if is_csv else JsonLinesTable
    if target.mode != OperationName.INSERT:
        return table(path, target.sync_id, target.mode, progress.checkpoint)
    if progress.checkpoint is None:
        table.finish(path, target.sync_id)
    return CsvLog(path, progress) if is_csv else JsonLinesLog(path, progress)
