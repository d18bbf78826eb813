"""The DAGs of the pages on assets and notifications are as these tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe import assets
from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from tests.support.documents import blocks, pages


def names_of(page: str) -> dict[str, Any]:
    (block,) = (block for block in blocks() if block.page == page and block.language == "python")
    names: dict[str, Any] = {"__name__": "page"}
    exec(block.text, names)  # noqa: S102 - our own docs
    return names


class Events:
    """As Airflow gives them: by an asset, which is no key of a dict before Airflow 3.2."""

    def __init__(self, asset: Any, events: list[Any]) -> None:
        self._asset, self._events = asset, events

    def __getitem__(self, asset: Any) -> list[Any]:
        assert asset == self._asset
        return self._events


def test_the_dags_of_the_page_hang_together() -> None:
    names = names_of("docs/assets.md")
    (task,) = names["producer"].tasks
    assert task.outlets == [names["orders"]] == [assets.elt_stream_asset("orders")]
    assert list(names["consumer"].timetable.asset_condition.objects) == [names["orders"]]
    event = SimpleNamespace(extra={"run_id": "r1", "rows_synced": 7})
    rows_loaded = names["consumer"].get_task("rows_loaded").python_callable
    assert rows_loaded(triggering_asset_events=Events(names["orders"], [event])) == {"r1": 7}


def test_the_dag_of_the_page_tells_the_chat() -> None:
    (task,) = names_of("docs/notifications.md")["dag"].tasks
    (notifier,) = task.on_failure_callback
    assert isinstance(notifier, DatapipeFailureNotifier)
    assert notifier.http_conn_id == "team_chat"


@pytest.mark.parametrize("kind", ["elt_stream", "elt_sync", "transform", "orchestration", "reverse_etl_sync"])
def test_the_table_of_names_is_right(kind: str) -> None:
    argument = {"elt_stream": "stream_id", "elt_sync": "sync_id"}.get(kind, f"{kind}_id")
    asset = getattr(assets, f"{kind}_asset")("ID")
    name, uri = (text.replace("ID", "<id>") for text in (asset.name, asset.uri))
    assert f"| `{kind}_asset({argument})` | `{name}` | `{uri}` |" in pages()["docs/assets.md"]
