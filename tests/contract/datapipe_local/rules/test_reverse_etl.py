"""Tests of the rows of reverse ETL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.reverse_etl_home import Home, body, seed
from tests.support.local_service import LocalService

Json = dict[str, Any]
SCHEDULE = {"sync_interval": "*/5 * * * *"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Collection]:
    with Collection() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, endpoint: Collection) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("source")
    with LocalService(seed(folder, endpoint.url)) as service:
        home = Home(service, folder)
        home.load({1: "Ada", 2: "Bob", 3: "Cyd"})
        yield home
        assert "Traceback" not in service.log


@pytest.fixture(autouse=True)
def fresh(endpoint: Collection) -> None:
    endpoint.reset()


def shown(home: Home, sync_id: str) -> Json:
    return home.api.get(f"/reverse_etl_syncs/{sync_id}")


def changed(**changes: Any) -> Json:
    content = body(**changes)
    return {name: value for name, value in content.items() if name not in ("source_id", "destination_connection_id")}


def test_reverse_etl_sync_create(home: Home) -> None:
    created = home.post("/reverse_etl_syncs", body(settings={"folder": "."}), status=201)
    assert created["enabled"] is True
    assert (created["source_type"], created["source_id"]) == ("RawView", "shop.people")
    assert "transform_id" not in created
    assert created["settings"] == {"folder": "."}
    assert created["operation"] == body()["operation"]
    assert created["destination_integration_id"] == "jsonl"
    # It is on record, and can run at once.
    assert shown(home, created["id"]) == created
    assert home.run(created["id"])[3] == 3
    of_transform = home.post("/reverse_etl_syncs", body(source_id="ones"), status=201)
    assert (of_transform["source_type"], of_transform["transform_id"]) == ("Transform", "ones")
    # A body that is not valid creates nothing.
    before = home.api.all_pages("/reverse_etl_syncs")
    assert (
        "source_id" in home.api.refused("POST", "/reverse_etl_syncs", 400, json={**body(), "source_id": 1})["message"]
    )
    assert "surprise" in home.api.refused("POST", "/reverse_etl_syncs", 400, json=body(surprise=1))["message"]
    assert home.api.all_pages("/reverse_etl_syncs") == before


def test_reverse_etl_sync_activate(home: Home) -> None:
    sync_id = home.create()
    home.api.post(f"/reverse_etl_syncs/{sync_id}/deactivate", status=204)
    before = shown(home, sync_id)
    home.api.post(f"/reverse_etl_syncs/{sync_id}/activate", status=204)
    after = shown(home, sync_id)
    # It has its schedule again (that it fires is shown with the schedules), and can be run.
    assert (after["enabled"], after["sync_interval"]) == (True, "0 4 * * *")
    assert after["updated_at"] >= before["updated_at"]
    assert home.run(sync_id)[0] == 3
    # Once more: it is active, and that was all.
    home.api.post(f"/reverse_etl_syncs/{sync_id}/activate", status=204)
    assert shown(home, sync_id) == after
    home.api.refused("POST", "/reverse_etl_syncs/nope/activate", 404)


def test_reverse_etl_sync_deactivate(home: Home) -> None:
    sync_id = home.create()
    home.api.post(f"/reverse_etl_syncs/{sync_id}/deactivate", status=204)
    after = shown(home, sync_id)
    assert after["enabled"] is False
    home.api.refused("POST", f"/reverse_etl_syncs/{sync_id}/request_run", 400)
    home.api.post(f"/reverse_etl_syncs/{sync_id}/deactivate", status=204)
    assert shown(home, sync_id) == after
    home.api.refused("POST", "/reverse_etl_syncs/nope/deactivate", 404)


def test_reverse_etl_sync_update(home: Home) -> None:
    sync_id = home.create(settings={"folder": "."})
    path = f"/reverse_etl_syncs/{sync_id}"
    before = shown(home, sync_id)
    # It must be deactivated.
    assert home.api.refused("POST", path, 400, json=changed())["error_code"] == "sync_still_active"
    assert shown(home, sync_id) == before
    home.api.post(f"{path}/deactivate", status=204)
    # Settings are validated against the settings schema.
    refused = home.api.refused("POST", path, 400, json=changed(settings={"folder": "nowhere"}))
    assert refused["message"].startswith("settings.folder: ")
    assert shown(home, sync_id)["settings"] == {"folder": "."}
    content = changed(mode="mirror", object_type_id="other", settings={}, **SCHEDULE)
    updated = home.post(path, content)
    assert {name: updated[name] for name in content} == content
    assert updated["enabled"] is False
    assert (updated["id"], updated["created_at"]) == (before["id"], before["created_at"])
    assert updated["updated_at"] >= before["updated_at"]
    assert shown(home, sync_id) == updated
    home.api.refused("POST", "/reverse_etl_syncs/nope", 404, json=changed())


def test_reverse_etl_sync_request_run(home: Home) -> None:
    sync_id = home.create()
    answer = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")
    assert answer.keys() == {"status_url"}
    assert answer["status_url"].startswith("/reverse_etl_sync_runs?")
    first = home.api.ended(answer["status_url"])
    assert first["status"] == "COMPLETED"
    # The cursor means: the first run after the last there was.
    again = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    assert home.api.ended(again)["id"] != first["id"]
    assert home.api.first(answer["status_url"]) == home.api.get(f"/reverse_etl_sync_runs/{first['id']}")
    home.api.refused("POST", "/reverse_etl_syncs/nope/request_run", 404)


@pytest.mark.slow
def test_reverse_etl_failed_records_retry(home: Home, endpoint: Collection) -> None:
    sync_id = home.create(destination_connection_id="endpoint")
    endpoint.refuses = lambda method, key: 0 if key == "2" else 422
    assert home.run(sync_id) == (3, 3, 3, 1, 2)
    assert home.failures(sync_id) == {"1": "refused with 422", "3": "refused with 422"}
    query = f"reverse_etl_sync_id={sync_id}"
    listed = home.api.get("/reverse_etl_failed_records", reverse_etl_sync_id=sync_id, limit=1)["data"]
    assert listed == [{"sync_id": sync_id, "record_id": "1", "error": "refused with 422"}]

    # Those that are listed are reset, and retried at the next run; ids without a failure change nothing.
    endpoint.reset()
    home.api.post(f"/reverse_etl_failed_records/retry?{query}", {"record_ids": []}, status=204)
    assert list(home.failures(sync_id)) == ["1", "3"]
    home.api.post(f"/reverse_etl_failed_records/retry?{query}", {"record_ids": ["1", "2", "nope"]}, status=204)
    assert list(home.failures(sync_id)) == ["3"]
    assert endpoint.calls == []
    assert home.run(sync_id) == (3, 3, 1, 1, 0)
    assert list(endpoint.objects) == ["1"]

    home.api.post(f"/reverse_etl_failed_records/retry_all?{query}", status=204)
    assert home.failures(sync_id) == {}
    assert home.run(sync_id) == (3, 3, 1, 1, 0)
    assert list(endpoint.objects) == ["1", "3"]

    unknown = "reverse_etl_sync_id=nope"
    home.api.refused("POST", f"/reverse_etl_failed_records/retry?{unknown}", 404, json={"record_ids": []})
    home.api.refused("POST", f"/reverse_etl_failed_records/retry_all?{unknown}", 404)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"settings": {"folder": "nowhere"}}, "settings.folder"),
        ({"settings": {"file": "x.jsonl"}}, "settings.file"),
        ({"settings": {"fold": "."}}, "settings.fold"),
        ({"settings": {"folder": 7}}, "settings.folder"),
        ({"settings": None}, "settings"),
        ({"object_type_id": "../people"}, "object_type_id"),
        ({"object_type_id": ""}, "object_type_id"),
        ({"destination_connection_id": "crm", "object_type_id": "nope"}, "object_type_id"),
        ({"sync_interval": "every day"}, "sync_interval"),
        ({"sync_interval": "0 0 4 * * *"}, "sync_interval"),
        ({"sync_interval": None}, "sync_interval"),
        ({"orchestration_workflow_id": "nope"}, "orchestration_workflow_id"),
        ({"mode": "delete"}, "operation.mode"),
        ({"mappings": []}, "operation"),
    ],
    ids=str,
)
def test_error_invalid_reverse_etl_sync(home: Home, wrong: Json, field: str) -> None:
    said = home.api.refused("POST", "/reverse_etl_syncs", 400, json=body(**wrong))
    assert said["message"].startswith(f"{field}: "), said
    # And so for what is changed.
    destination = wrong.get("destination_connection_id", "files")
    sync_id = home.create(destination_connection_id=destination, object_type_id="notes")
    home.api.refused("POST", f"/reverse_etl_syncs/{sync_id}", 400, json=changed())
    home.api.post(f"/reverse_etl_syncs/{sync_id}/deactivate", status=204)
    before = shown(home, sync_id)
    content = {name: value for name, value in wrong.items() if name != "destination_connection_id"}
    said = home.api.refused("POST", f"/reverse_etl_syncs/{sync_id}", 400, json=changed(**content))
    assert said["message"].startswith(f"{field}: "), said
    assert shown(home, sync_id) == before


def test_error_reverse_etl_sync_not_eligible(home: Home) -> None:
    idle = home.create()
    home.api.post(f"/reverse_etl_syncs/{idle}/deactivate", status=204)
    said = home.api.refused("POST", f"/reverse_etl_syncs/{idle}/request_run", 400)
    assert said["error_code"] == "not_eligible"
    assert "deactivated" in said["message"]
    # A stream that was never loaded is in no warehouse; neither is what was deleted.
    early = home.create(source_id="raw.shop.never")
    assert "run its stream first" in home.api.refused("POST", f"/reverse_etl_syncs/{early}/request_run", 400)["message"]
    assert home.api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=early)["data"] == []
    home.api.run_stream("never")
    assert home.run(early)[0] == 3


def test_error_reverse_etl_sync_has_an_active_run(home: Home, endpoint: Collection) -> None:
    sync_id = home.create(destination_connection_id="endpoint")
    go_on, arrived = threading.Event(), threading.Event()

    def wait(method: str, key: str) -> int:
        arrived.set()
        assert go_on.wait(20)
        return 0

    endpoint.refuses = wait
    url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    try:
        assert arrived.wait(10)
        said = home.api.refused("POST", f"/reverse_etl_syncs/{sync_id}/request_run", 409)
        run = home.api.first(url)
        assert run is not None
        assert said["active_run_id"] == run["id"]
    finally:
        go_on.set()
    assert home.api.ended(url)["status"] == "COMPLETED"
    # Only one run came of it.
    assert len(home.api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=sync_id)["data"]) == 1
