"""A mirror that is killed at any instant ends as if it had not been."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.reverse_etl_home import Home, seed
from tests.support.local_service import LocalService

Json = dict[str, Any]
NUMBER = 4_000


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Collection]:
    with Collection() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, endpoint: Collection) -> Iterator[tuple[LocalService, Home]]:
    folder: Path = tmp_path_factory.mktemp("source")
    with LocalService(seed(folder, endpoint.url)) as service:
        yield service, Home(service, folder)
        assert "Traceback" not in service.log


def numbers(run: Json) -> tuple[Any, ...]:
    assert run["status"] == "COMPLETED", run
    return tuple(run[f"{name}_rows"] for name in ("total", "distinct", "new", "synced", "failed"))


def test_a_file_has_each_record_once_and_the_run_counts_each_once(service: tuple[LocalService, Home]) -> None:
    process, home = service
    sync_id = home.create(mode="mirror")
    home.load({n: f"P{n}" for n in range(NUMBER)})
    assert home.run(sync_id) == (NUMBER, NUMBER, NUMBER, NUMBER, 0)
    # Half of them go, as many come, and a few change.
    half = NUMBER // 2
    home.load({n: "changed" if n % 100 == 0 else f"P{n}" for n in range(half, NUMBER + half)})
    url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    for moment in range(6):
        time.sleep(0.01 * moment)
        process.kill()
        process.start()
    due = NUMBER + half // 100
    assert numbers(home.api.ended(url)) == (NUMBER, NUMBER, due, due, 0)
    lines = home.lines("people.jsonl")
    assert {line["id"]: line["name"] for line in lines} == {
        n: "changed" if n % 100 == 0 else f"P{n}" for n in range(half, NUMBER + half)
    }
    assert len(lines) == NUMBER
    assert list(home.file("").glob(".*")) == []
    assert home.run(sync_id) == (NUMBER, NUMBER, 0, 0, 0)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_an_endpoint_is_asked_twice_for_one_record_at_the_most(
    service: tuple[LocalService, Home], endpoint: Collection, method: str
) -> None:
    process, home = service
    endpoint.reset()
    sync_id = home.create(mode="mirror", destination_connection_id="endpoint", object_type_id=method.lower())
    home.load({n: f"P{n}" for n in range(20)})
    assert home.run(sync_id) == (20, 20, 20, 20, 0)
    endpoint.calls.clear()
    home.load({n: f"P{n}" for n in range(10, 30)})
    enough, go_on = threading.Event(), threading.Event()

    def fifth(seen: str, key: str) -> int:
        if [called for called, _ in endpoint.calls].count(method) == 5:
            enough.set()
            go_on.wait(10)
        return 0

    endpoint.refuses = fifth
    url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    assert enough.wait(10)
    process.kill()
    go_on.set()
    endpoint.refuses = lambda seen, key: 0
    process.start()
    assert numbers(home.api.ended(url)) == (20, 20, 20, 20, 0)
    assert sorted(map(int, endpoint.objects)) == list(range(10, 30))
    assert 20 <= len(endpoint.calls) <= 21
