"""Tests of omitted response fields: of attached syncs, and with the older interface description."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.testing.service import DatapipeLocal
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import seed
from tests.support.local_service import LocalService

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
    content["transforms"].append(
        {
            "id": "hourly",
            "name": "hourly",
            "sql_template": "SELECT 1 AS x",
            "materialization": "table",
            "publish": True,
            "cron_expression": HOURLY,
        }
    )
    return content


def omitted(service: LocalService) -> dict[str, set[str]]:
    api = Api(service)
    return {path: fields - api.get(path).keys() for path, fields in NEWER.items()}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["seed", "environment"])
def test_the_older_description_omits_newer_fields(data: Path, where: str) -> None:
    content = seed_with_schedules(data) | (OLDER if where == "seed" else {})
    environment = {} if where == "seed" else {"DATAPIPE_LOCAL_OLDER_DESCRIPTION": "1"}
    with LocalService(content, environment=environment) as service:
        api = Api(service)
        assert omitted(service) == NEWER
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
    with LocalService(seed_with_schedules(data)) as service:
        assert omitted(service) == {path: set() for path in NEWER}
        # A field without a value is null, not omitted.
        assert Api(service).get("/elt_streams/people")["sync_interval"] is None


def test_an_attached_elt_sync_omits_its_schedule(data: Path) -> None:
    with LocalService(seed_with_schedules(data)) as service:
        api = Api(service)
        answers = [api.get("/elt_syncs/shop"), *api.get("/elt_syncs")["data"]]
        assert [("sync_interval" in one, one["orchestration_workflow_id"]) for one in answers] == [
            (False, "nightly"),
            (False, "nightly"),
        ]
        detached = api.client.delete("/elt_syncs/shop/orchestration").raise_for_status().json()
        assert detached["sync_interval"] == HOURLY
        attached = api.post("/elt_syncs/shop/orchestration", {"orchestration_workflow_id": "nightly"})
        assert "sync_interval" not in attached


def test_a_variable_that_is_neither_0_nor_1_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "datapipe_local", "serve", "--home", str(tmp_path), "--init", "--port", "0"]
    variable = "DATAPIPE_LOCAL_OLDER_DESCRIPTION"
    environment = {**os.environ, variable: "yes"}
    done = subprocess.run(  # noqa: S603 - our own program
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.startswith(f"datapipe-local: {variable} is ")) == (1, True)


@pytest.mark.datapipe_local(OLDER | {"orchestrations": [{"id": "o", "name": "O", "cron_schedule": HOURLY}]})
def test_the_pytest_fixture_takes_the_setting_as_a_seed(datapipe_local: DatapipeLocal) -> None:
    assert datapipe_local.api.get("/orchestrations/o").json() == {"id": "o", "name": "O"}


def test_the_setting_lasts_for_one_test_only(datapipe_local: DatapipeLocal) -> None:
    datapipe_local.seed({"orchestrations": [{"id": "o", "name": "O", "cron_schedule": HOURLY}]})
    assert datapipe_local.api.get("/orchestrations/o").json()["cron_schedule"] == HOURLY
