"""Tests that tasks with secrets leave none of them in logs, errors, results or task state."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.operators.connections import ConnectionBridgeCreateOperator
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncCreateOperator, EltSyncUpdateOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import (
    ReverseEtlSyncCreateOperator,
    ReverseEtlSyncUpdateOperator,
)
from tests.support.local_service import LocalService
from tests.support.operator_examples import seed
from tests.support.operator_examples.reverse_etl import UPSERT
from tests.support.tasks import Memory, run

CANARY = "canary-of-a-setting"
SECRET: dict[str, Any] = {"password": CANARY, "more": [{"token": CANARY}]}
NEW = {"connection_id": "elt_new", "destination_schema_name": "secret", "sync_interval": "0 1 * * *"}
REVERSE: dict[str, Any] = {"source_id": "reverse.people", "destination_connection_id": "out"}
REVERSE |= {"object_type_id": "secret", "operation": UPSERT, "sync_interval": "0 1 * * *"}
BRIDGE = {"integration_id": "files", "redirect_uri": "https://app.example.com/connected"}
NEW_BRIDGE, LABELED_BRIDGE = BRIDGE | {"new_label": "x"}, BRIDGE | {"label": "x", "state": CANARY}


def update(settings: Any) -> dict[str, Any]:
    return {"endpoint": "elt_syncs.update", "arguments": {"sync_id": "elt.update", "elt_settings": settings}}


USES: list[tuple[type[Any], dict[str, Any], str | None]] = [
    (EltSyncCreateOperator, NEW | {"elt_settings": SECRET}, None),
    (EltSyncCreateOperator, NEW | {"elt_settings": json.dumps(SECRET)[:-1]}, "must be a mapping"),
    (EltSyncCreateOperator, NEW | {"elt_settings": SECRET | {"x": {CANARY}}}, "only JSON values"),
    (EltSyncUpdateOperator, {"sync_id": "elt.update", "elt_settings": SECRET}, None),
    (EltSyncUpdateOperator, {"sync_id": "nowhere", "elt_settings": SECRET}, "answered 404"),
    (DatapipeOperator, update(SECRET), None),
    (DatapipeOperator, update(CANARY), "valid dictionary"),
    (DatapipeOperator, update(SECRET) | {"arguments": f'{{"sync_id": "{CANARY}"'}, "must be a mapping"),
    (ReverseEtlSyncCreateOperator, REVERSE | {"settings": SECRET}, "answered 400"),
    (ReverseEtlSyncCreateOperator, REVERSE | {"settings": [CANARY]}, "settings must be a dict"),
    (ReverseEtlSyncUpdateOperator, {"reverse_etl_sync_id": "reverse.update", "settings": SECRET}, "answered 400"),
    (ConnectionBridgeCreateOperator, NEW_BRIDGE | {"state": CANARY, "notifiers": [lambda _: None]}, None),
    (ConnectionBridgeCreateOperator, NEW_BRIDGE | {"state": CANARY * 20, "show_authorize_url": True}, "at most 255"),
    (DatapipeOperator, {"endpoint": "connection_bridges.create", "arguments": LABELED_BRIDGE}, None),
    (DatapipeOperator, {"endpoint": "connection_bridges.list"}, None),
]


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[LocalService]:
    with LocalService(seed(folder), control=True) as service:
        yield service


@pytest.mark.parametrize(("operator", "arguments", "error"), USES)
def test_no_secret_in_logs_errors_results_or_task_state(
    service: LocalService,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    *,
    operator: type[Any],
    arguments: dict[str, Any],
    error: str | None,
) -> None:
    caplog.set_level(logging.DEBUG)
    memory, error_text, result = Memory(), "", None
    tasks: list[Any] = []

    def execute() -> Any:
        tasks.append(operator(task_id="t", **arguments))
        return run(tasks[0], memory)

    if error is None:
        result = execute()
    else:
        with pytest.raises(Exception, match=error) as failed:
            execute()
        error_text = "".join(traceback.format_exception(failed.value))
    results = [result, memory.kept, memory.pushed, tasks, capsys.readouterr()]
    output = f"{results!r} {error_text} {caplog.text}"
    for secret in (CANARY, service.api_key, "/authorize/"):
        assert secret not in output
