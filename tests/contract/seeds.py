"""Resources of seeds, Airflow connections, modes and requests that contract tests share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.documents import Block, blocks, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.local_service import LocalService

Json = dict[str, Any]

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
#: The fixtures of the conftest replace ``{folder}`` by their folder.
FILES: Json = {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": "{folder}"}}
OUT: Json = {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": "{folder}/out"}}
NIGHTLY: Json = {"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}
ROWS = "id,name\n1,x\n2,y\n3,z\n"


def elt_sync(sync_id: str, *streams: str, **more: Any) -> Json:
    """Return a sync whose streams load the CSV files of their names."""
    return {
        "id": sync_id,
        "connection_id": "files",
        "destination_schema_name": sync_id,
        "sync_interval": "0 3 * * *",
        "source_streams": [{"id": f"{sync_id}.{name}", "name": name, "file": f"{name}.csv"} for name in streams],
    } | more


def transform(transform_id: str, sql: str = "SELECT 1 AS id", **more: Any) -> Json:
    """Return a published transform whose name is its ID."""
    return {"id": transform_id, "name": transform_id, "publish": True, "sql_template": sql} | more


def mapped(*names: str, mode: str = "upsert") -> Json:
    """Return an operation that keeps the names of columns. The first one is the primary key."""
    mappings = [{"source_property_id": name, "destination_property_id": name} for name in names]
    return {"mode": mode, "mappings": [mappings[0] | {"primary_key": True}, *mappings[1:]]}


def reverse_etl_sync(sync_id: str, source_id: str, **more: Any) -> Json:
    """Return an enabled reverse ETL sync to the destination ``out``."""
    return {
        "id": sync_id,
        "source_id": source_id,
        "destination_connection_id": "out",
        "object_type_id": "ids",
        "sync_interval": "0 5 * * *",
        "operation": mapped("id"),
    } | more


def connect(
    patch: pytest.MonkeyPatch,
    service: LocalService,
    conn_id: str = "datapipe_default",
    *,
    host: str | None = None,
    key: str | None = None,
    **extra: Any,
) -> None:
    """Create an Airflow connection of the service, or of another host or key."""
    connection = {
        "conn_type": "datapipe",
        "host": service.base_url if host is None else host,
        "password": service.api_key if key is None else key,
        "extra": {"poll_interval": 0.1, "retry_budget": 0} | extra,
    }
    patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))


def send(service: LocalService, method: str, path: str, **more: Any) -> Any:
    """Send a request, and return the parsed response, None without content."""
    url = f"{service.base_url}{path}"
    answer = httpx.request(method, url, headers=service.headers, timeout=60, **more).raise_for_status()
    return answer.json() if answer.content else None


def changes(service: LocalService, after: int = 0) -> list[str]:
    """Return the received requests that may change something, as methods and paths."""
    requests = service.journal_requests(after=after)
    return [f"{each['method']} {each['path']}" for each in requests if each["method"] != "GET"]


def page_blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the code blocks of a page of the docs."""
    return [block for block in blocks() if block.page == f"docs/{page}" and language in (None, block.language)]


def page_tasks(found: Iterable[Block], **dag_arguments: Any) -> dict[str, Any]:
    """Return the tasks of a DAG with code blocks of a page."""
    # Imported here, because tests of the local service load the conftest without Airflow.
    from airflow.sdk import DAG

    with DAG("page", schedule=None, **dag_arguments) as dag:
        for block in found:
            names_of(block.text)
    return {task.task_id: task for task in dag.topological_sort()}
