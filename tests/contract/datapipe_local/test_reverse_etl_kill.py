"""Tests of kills during mirror syncs: the final state equals that of an undisturbed run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.partner import Partner, accept
from tests.contract.datapipe_local.reverse_etl_home import Home, seed
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow

Json = dict[str, Any]
NUMBER = 4_000


@pytest.fixture(scope="module")
def careful() -> Iterator[Partner]:
    with Partner(honours_keys=True) as partner:
        yield partner


@pytest.fixture(scope="module")
def killed(
    tmp_path_factory: pytest.TempPathFactory, endpoint: Collection, careful: Partner
) -> Iterator[tuple[LocalService, Home]]:
    folder: Path = tmp_path_factory.mktemp("source")
    content = seed(folder, endpoint.url)
    content["connections"].append(
        {"id": "careful", "integration_id": "http", "label": "Careful", "settings": {"url": careful.url}}
    )
    with LocalService(content) as service:
        yield service, Home(service, folder)
        assert "Traceback" not in service.log


def numbers(run: Json) -> tuple[Any, ...]:
    assert run["status"] == "COMPLETED", run
    return tuple(run[f"{name}_rows"] for name in ("total", "distinct", "new", "synced", "failed"))


def test_killed_mirror_writes_and_counts_each_record_once(killed: tuple[LocalService, Home]) -> None:
    process, home = killed
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
def test_kill_repeats_at_most_one_request(killed: tuple[LocalService, Home], endpoint: Collection, method: str) -> None:
    process, home = killed
    endpoint.reset()
    sync_id = home.create(mode="mirror", destination_connection_id="endpoint", object_type_id=method.lower())
    home.load({n: f"P{n}" for n in range(20)})
    assert home.run(sync_id) == (20, 20, 20, 20, 0)
    endpoint.calls.clear()
    home.load({n: f"P{n}" for n in range(10, 30)})
    with endpoint.held(lambda: [called for called, _ in endpoint.calls].count(method) == 5) as enough:
        url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
        assert enough.wait(10)
        process.kill()
    process.start()
    assert numbers(home.api.ended(url)) == (20, 20, 20, 20, 0)
    assert sorted(map(int, endpoint.objects)) == list(range(10, 30))
    assert 20 <= len(endpoint.calls) <= 21


@pytest.mark.parametrize(("settings", "under_way"), [({}, [2]), ({"batch_size": 3}, [6, 7, 8])])
def test_idempotency_keys_prevent_repeated_writes(
    killed: tuple[LocalService, Home], careful: Partner, settings: Json, under_way: list[int]
) -> None:
    process, home = killed
    careful.reset()
    sync_id = home.create(destination_connection_id="careful", object_type_id="people", settings=settings)
    home.load({n: f"P{n}" for n in range(12)})
    enough, go_on = threading.Event(), threading.Event()

    def third(_: Json) -> tuple[int, Json]:
        if len(careful.received) == 3:
            enough.set()
            go_on.wait(10)
        return 200, {}

    careful.rule = third
    url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    assert enough.wait(10)
    process.kill()
    # The changed source would be divided into other batches.
    with duckdb.connect(str(process.warehouse)) as warehouse:
        warehouse.execute("UPDATE shop.people SET name = 'new' WHERE id IN (2, 8)")
        warehouse.execute("DELETE FROM shop.people WHERE id = 7")
        warehouse.execute("INSERT INTO shop.people (id, name) VALUES (-1, 'first')")
    go_on.set()
    process.start()
    assert home.api.ended(url)["status"] == "COMPLETED"
    careful.rule = accept
    sent: list[Any] = careful.records
    batches = [content if isinstance(content, list) else [content] for content in sent]
    assert batches[2] == [{"id": n, "name": f"P{n}"} for n in under_way]
    assert careful.repeated == 1
    assert careful.keys[2] == careful.keys[3]
    records = [(one["id"], one["name"]) for batch in batches for one in batch]
    assert len(records) == len(set(records))
    # The request of the kill is repeated, also for records that the source has lost.
    expected = {-1: "first", **{n: f"P{n}" for n in range(12)}, 2: "new", 8: "new"}
    if 7 not in under_way:
        del expected[7]
    if 2 not in under_way:
        assert (2, "P2") in records
    assert dict(records) == expected
    assert home.run(sync_id)[2:] == (0, 0, 0)


def test_retry_reuses_idempotency_key_only_for_unchanged_record(
    killed: tuple[LocalService, Home], careful: Partner
) -> None:
    _, home = killed
    careful.reset()
    sync_id = home.create(destination_connection_id="careful", object_type_id="again")
    home.load({1: "Ada"})
    assert home.run(sync_id)[2:] == (1, 1, 0)

    def fail(name: str) -> str:
        """Fail a run after the endpoint executed its request, and return the idempotency key."""
        home.load({1: name})
        careful.breaks = True
        assert home.api.run_reverse(sync_id).status == "FAILED"
        careful.breaks = False
        assert len(set(careful.keys[-5:])) == 1
        return str(careful.keys[-1])

    key = fail("Bob")
    assert home.run(sync_id)[2:] == (1, 1, 0)
    assert careful.keys[-1] == key
    assert [one["name"] for one in careful.records] == ["Ada", "Bob"]
    # A changed record has a new key, also if it has the value of the last success.
    key = fail("Cyd")
    home.load({1: "Bob"})
    assert home.run(sync_id)[2:] == (1, 1, 0)
    assert careful.keys[-1] != key
    assert [one["name"] for one in careful.records] == ["Ada", "Bob", "Cyd", "Bob"]
    # So has the same record with another operation.
    key = fail("Dan")
    home.update(sync_id, mode="mirror", object_type_id="again")
    assert home.run(sync_id)[2:] == (1, 1, 0)
    assert careful.keys[-1] != key
    assert home.run(sync_id)[2:] == (0, 0, 0)


def test_record_that_returns_after_a_failed_delete_is_sent_again(
    killed: tuple[LocalService, Home], endpoint: Collection
) -> None:
    _, home = killed
    endpoint.reset()
    sync_id = home.create(mode="mirror", destination_connection_id="endpoint", object_type_id="back")
    home.load({1: "Ada", 2: "Bob"})
    assert home.run(sync_id)[2:] == (2, 2, 0)
    home.load({1: "Ada"})
    # It deletes the object, and responds with an error.
    del endpoint.objects["2"]
    endpoint.refuses = lambda method, key: 500
    assert home.api.run_reverse(sync_id).status == "FAILED"
    endpoint.refuses = lambda method, key: 0
    home.load({1: "Ada", 2: "Bob"})
    assert home.run(sync_id)[2:] == (1, 1, 0)
    assert sorted(endpoint.objects) == ["1", "2"]
