"""
Conditions of sensors, checked by flows, in a worker or in the triggerer.

A condition is created from fields that can be serialized to JSON, with the names of the sensors' parameters. It caches
the answers of earlier checks only to save requests: a recreated condition gives the same results.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import reverse_etl_failed_records
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.bridges import Bridge, BridgeExpiredError, authorized
from airflow_provider_datapipe.runs.conditions.base import Check, Condition, ServicePage
from airflow_provider_datapipe.runs.conditions.runs import FreshCondition, LastRunCondition, RunCondition
from airflow_provider_datapipe.runs.conditions.syncs import SyncCondition
from airflow_provider_datapipe.runs.targets import required


class FailedRecordsCondition(Condition):
    """
    Condition that a reverse ETL sync has no more unresolved failed records than a limit.

    Fields: ``reverse_etl_sync_id``, ``at_most``.
    """

    name = "failed_records"

    @override
    async def check(self, now: float) -> Check:
        sync_id = required("reverse_etl_sync_id", self.fields.get("reverse_etl_sync_id"))
        at_most = self.fields["at_most"]
        count = (await send(replace(reverse_etl_failed_records.count(sync_id), once=True))).count
        return Check(
            f"reverse ETL sync {sync_id} has {count:,} failed records, {at_most:,} are allowed",
            is_met=count <= at_most,
            result={"reverse_etl_sync_id": sync_id, "failed_records": count, "at_most": at_most},
        )

    @override
    def page(self, check: Check | None = None) -> ServicePage:
        return ServicePage("reverse_etl_sync", self.page_id("reverse_etl_sync_id"))


class ConnectionBridgeCondition(Condition):
    """
    Condition that a user has authorized a connection with a connection bridge, or that the bridge has expired.

    Field: ``bridge``, the result of the task that created the bridge.
    """

    name = "connection_bridge"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        # Remove the authorization URL, which must not be stored with the trigger. The first check raises for an invalid
        # bridge.
        with suppress(ValueError):
            self.fields["bridge"] = Bridge.of(self.fields.get("bridge")).as_dict()

    @override
    async def check(self, now: float) -> Check:
        bridge = Bridge.of(self.fields.get("bridge"))
        which = {"integration_id": bridge.integration_id, "label": bridge.label}
        try:
            connection_id = await authorized(bridge, datetime.fromtimestamp(now, UTC))
        except BridgeExpiredError as error:
            return Check(str(error), is_met=True, result={"connection_id": None, **which})
        if connection_id is None:
            return Check(f"no user has authorized {bridge.label!r} so far; the bridge expires at {bridge.expires_at}")
        return Check(
            f"connection {connection_id} was authorized",
            is_met=True,
            result={"connection_id": connection_id, **which},
        )

    @override
    def page(self, check: Check | None = None) -> ServicePage:
        result = (check.result if check else None) or {}
        return ServicePage("connection", result.get("connection_id"))

    @override
    def task_result(self, check: Check) -> tuple[Any, DatapipeError | None]:
        result = check.result or {}
        return result, None if result["connection_id"] else BridgeExpiredError(check.description)


#: All conditions by name.
CONDITIONS: dict[str, type[Condition]] = {
    condition.name: condition
    for condition in (
        RunCondition,
        FreshCondition,
        LastRunCondition,
        FailedRecordsCondition,
        ConnectionBridgeCondition,
        SyncCondition,
    )
}


def condition_of(name: str, fields: Mapping[str, Any]) -> Condition:
    """
    Return a new condition.

    :param name: name of the condition.
    :param fields: its fields, as JSON. Fields that are None are ignored.
    """
    return CONDITIONS[name](**fields)
