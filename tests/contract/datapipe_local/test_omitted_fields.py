"""Tests of omitted response fields: of attached syncs, and with the older interface description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from datapipe_local.testing.service import DatapipeLocal
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.controlled import seed
from tests.contract.datapipe_local.seeds import transform

HOURLY = "0 * * * *"
OLDER: dict[str, Any] = {"responses": {"older_description": True}}
#: Fields that only the newer description declares, by the path of a resource that has them.
NEWER = {
    "/elt_streams/orders": {"sync_interval"},
    "/transforms/hourly": {"cron_expression", "rebuild_trigger"},
    "/orchestrations/nightly": {"cron_schedule"},
}


def seed_with_schedules(folder: Path) -> dict[str, Any]:
    content = seed(folder)
    content["elt_syncs"][0] |= {"sync_interval": HOURLY}
    content["elt_syncs"][0]["source_streams"][0]["sync_interval"] = HOURLY
    content["reverse_etl_syncs"][0] |= {"sync_interval": HOURLY}
    table = {"materialization": "table", "publish": True, "cron_expression": HOURLY}
    content["transforms"].append(transform("hourly", "SELECT 1 AS x", **table))
    return content


def omitted(api: Api) -> dict[str, set[str]]:
    return {path: fields - api.get(path).keys() for path, fields in NEWER.items()}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["seed", "environment"])
def test_the_older_description_omits_newer_fields(data: Path, where: str) -> None:
    content = seed_with_schedules(data) | (OLDER if where == "seed" else {})
    environment = {} if where == "seed" else {"DATAPIPE_LOCAL_OLDER_DESCRIPTION": "1"}
    with served(content, environment=environment) as (_, api):
        assert omitted(api) == NEWER
        listed = {path: api.get(path)["data"] for path in ("/elt_streams", "/transforms", "/orchestrations")}
        assert not any({"cron_expression", "rebuild_trigger"} & one.keys() for one in listed["/transforms"])
        assert not any("sync_interval" in one for one in listed["/elt_streams"])
        assert not any("cron_schedule" in one for one in listed["/orchestrations"])
        assert not any("sync_interval" in one for one in api.get("/elt_syncs/shop")["source_streams"])
        set_ = api.post("/elt_streams/people/set_sync_interval", {"sync_interval": HOURLY})
        renamed = api.post("/orchestrations/nightly", {"name": "Renamed"})
        assert ("sync_interval" in set_, "cron_schedule" in renamed) == (False, False)
        # Both descriptions declare the schedule of syncs.
        assert api.get("/reverse_etl_syncs/export")["sync_interval"] == HOURLY


def test_the_newer_description_shows_all_fields(data: Path) -> None:
    with served(seed_with_schedules(data)) as (_, api):
        assert omitted(api) == {path: set() for path in NEWER}
        # A field without a value is null, not omitted.
        assert api.get("/elt_streams/people")["sync_interval"] is None
        # An attached sync omits its schedule.
        for sync in (api.get("/elt_syncs/shop"), *api.get("/elt_syncs")["data"]):
            assert ("sync_interval" in sync, sync["orchestration_workflow_id"]) == (False, "nightly")
        detached = api.client.delete("/elt_syncs/shop/orchestration").raise_for_status().json()
        assert detached["sync_interval"] == HOURLY
        attached = api.post("/elt_syncs/shop/orchestration", {"orchestration_workflow_id": "nightly"})
        assert "sync_interval" not in attached


@pytest.mark.datapipe_local(OLDER | {"orchestrations": [{"id": "o", "name": "O", "cron_schedule": HOURLY}]})
def test_the_pytest_fixture_takes_the_setting_as_a_seed(datapipe_local: DatapipeLocal) -> None:
    assert datapipe_local.api.get("/orchestrations/o").json() == {"id": "o", "name": "O"}


def test_the_setting_lasts_for_one_test_only(datapipe_local: DatapipeLocal) -> None:
    datapipe_local.seed({"orchestrations": [{"id": "o", "name": "O", "cron_schedule": HOURLY}]})
    assert datapipe_local.api.get("/orchestrations/o").json()["cron_schedule"] == HOURLY
