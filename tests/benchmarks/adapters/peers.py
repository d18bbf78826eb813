"""Triggers of other providers, and the responses of their services. The other adapters do not need this module."""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from tests.benchmarks.adapters.base import Adapter, Trigger
from tests.benchmarks.runs import Runs

_ACCOUNT = 42
_SPARE = "x" * 24


class Airbyte(Adapter):
    """Jobs of Airbyte."""

    name = "airbyte"
    distribution = "apache-airflow-providers-airbyte"

    @override
    def env(self, base: str) -> Mapping[str, str]:
        api = f"{base}/api/public/v1"
        connection = {"conn_type": "airbyte", "host": api, "schema": f"{api}/applications/token"}
        login = {"login": "client-id", "password": "client-secret"}
        return {"AIRFLOW_CONN_AIRBYTE_DEFAULT": json.dumps({**connection, **login})}

    @override
    def trigger(self, run: int, poll: float) -> Trigger:
        module = importlib.import_module("airflow.providers.airbyte.triggers.airbyte")
        trigger: Trigger = module.AirbyteSyncTrigger(
            job_id=run, conn_id="airbyte_default", end_time=time.time() + 3600, poll_interval=poll
        )
        return trigger

    @override
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        if path.endswith("/applications/token"):
            return {"access_token": "t" * 800, "token_type": "Bearer", "expires_in": 900}
        if found := re.search(r"/jobs/(\d+)$", path):
            return {
                "jobId": int(found[1]),
                "status": "succeeded" if runs.is_over(int(found[1])) else "running",
                "jobType": "sync",
                "startTime": "2026-01-01T00:00:00Z",
                "connectionId": "c" * 36,
                "lastUpdatedAt": "2026-01-01T00:00:00Z",
                "duration": "PT8H6M12S",
                "bytesSynced": 1,
                "rowsSynced": 1,
            }
        return None


class DbtCloud(Adapter):
    """Jobs of dbt Cloud."""

    name = "dbt_cloud"
    distribution = "apache-airflow-providers-dbt-cloud"

    @override
    def env(self, base: str) -> Mapping[str, str]:
        host = base.partition("//")[2]
        connection = {"conn_type": "dbt_cloud", "host": host, "login": str(_ACCOUNT), "password": "token"}
        return {"AIRFLOW_CONN_DBT_CLOUD_DEFAULT": json.dumps(connection)}

    @override
    def trigger(self, run: int, poll: float) -> Trigger:
        module = importlib.import_module("airflow.providers.dbt.cloud.triggers.dbt")
        trigger: Trigger = module.DbtCloudRunJobTrigger(
            conn_id="dbt_cloud_default",
            run_id=run,
            end_time=time.time() + 3600,
            poll_interval=poll,
            account_id=_ACCOUNT,
        )
        return trigger

    @override
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        found = re.search(r"/accounts/\d+/runs/(\d+)/$", path)
        if not found:
            return None
        data = {"id": int(found[1]), "status": 10 if runs.is_over(int(found[1])) else 3, "account_id": _ACCOUNT}
        return {
            "status": {"code": 200, "is_success": True, "user_message": "Success!", "developer_message": ""},
            "data": data | {f"field_{number}": _SPARE for number in range(50)},
        }


class Fivetran(Adapter):
    """Syncs of Fivetran's connectors."""

    name = "fivetran"
    distribution = "airflow-provider-fivetran-async"

    @override
    def env(self, base: str) -> Mapping[str, str]:
        connection = {"conn_type": "fivetran", "login": "key", "password": "secret"}
        return {"AIRFLOW_CONN_FIVETRAN_DEFAULT": json.dumps(connection)}

    @override
    def redirect(self, base: str) -> None:
        hook = importlib.import_module("fivetran_provider_async.hooks").FivetranHook
        hook.api_protocol, _, hook.api_host = base.partition("://")

    @override
    def trigger(self, run: int, poll: float) -> Trigger:
        import pendulum

        module = importlib.import_module("fivetran_provider_async.triggers")
        trigger: Trigger = module.FivetranTrigger(
            task_id="t",
            connector_id=f"c{run}",
            fivetran_conn_id="fivetran_default",
            previous_completed_at=pendulum.datetime(2026, 1, 1),
            poke_interval=poll,
        )
        return trigger

    @override
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        found = re.search(r"/v1/connectors/c(\d+)$", path)
        if not found:
            return None
        is_over = runs.is_over(int(found[1]))
        state = {"setup_state": "connected", "sync_state": "scheduled" if is_over else "syncing"}
        data = {
            "id": f"c{found[1]}",
            "service": "s",
            "schema": "s",
            "paused": False,
            "schedule_type": "auto",
            "failed_at": None,
            "succeeded_at": "2026-01-02T00:00:00Z" if is_over else "2026-01-01T00:00:00Z",
            "status": {**state, "tasks": [], "warnings": []},
        }
        return {"code": "Success", "data": data | {f"field_{number}": _SPARE for number in range(15)}}
