"""DAGs of the docs pages on assets and notifications."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe import assets
from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from tests.support.documents import blocks, names_of, pages


def names_of_page(page: str) -> dict[str, Any]:
    (block,) = (block for block in blocks() if block.page == page and block.language == "python")
    return names_of(block.text)


class Events:
    """Triggering events by asset, as Airflow passes them. Not a dict: assets are not hashable before Airflow 3.2."""

    def __init__(self, asset: Any, events: list[Any]) -> None:
        self._asset, self._events = asset, events

    def __getitem__(self, asset: Any) -> list[Any]:
        assert asset == self._asset
        return self._events


def test_producer_and_consumer_of_the_page_share_the_asset() -> None:
    names = names_of_page("docs/assets.md")
    (task,) = names["producer"].tasks
    assert task.outlets == [names["orders"]] == [assets.elt_stream_asset("orders")]
    assert list(names["consumer"].timetable.asset_condition.objects) == [names["orders"]]
    event = SimpleNamespace(extra={"run_id": "r1", "rows_synced": 7})
    rows_loaded = names["consumer"].get_task("rows_loaded").python_callable
    assert rows_loaded(triggering_asset_events=Events(names["orders"], [event])) == {"r1": 7}


def test_dag_of_the_notifications_page_notifies_the_chat() -> None:
    (task,) = names_of_page("docs/notifications.md")["dag"].tasks
    (notifier,) = task.on_failure_callback
    assert isinstance(notifier, DatapipeFailureNotifier)
    assert notifier.http_conn_id == "team_chat"


@pytest.mark.parametrize("kind", ["elt_stream", "elt_sync", "transform", "orchestration", "reverse_etl_sync"])
def test_table_of_asset_names(kind: str) -> None:
    argument = {"elt_stream": "stream_id", "elt_sync": "sync_id"}.get(kind, f"{kind}_id")
    asset = getattr(assets, f"{kind}_asset")("ID")
    name, uri = (text.replace("ID", "<id>") for text in (asset.name, asset.uri))
    assert f"| `{kind}_asset({argument})` | `{name}` | `{uri}` |" in pages()["docs/assets.md"]
