"""Tests of log lines and errors of operators and sensors, against the local service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from airflow_provider_datapipe.api.errors import AuthenticationError, DatapipeError, NotFoundError, TransportError
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncEnableOperator, EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.query_previews import DatapipeCheckOperator, QueryPreviewOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator, TransformRematerializeOperator
from airflow_provider_datapipe.runs.errors import LostContactError, RunFailedError, RunPartialError
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, OrchestrationRunSensor
from tests.contract.seeds import FILES, MODES, NIGHTLY, OUT, connect, elt_sync, reverse_etl_sync, transform
from tests.support.local_service import LocalService
from tests.support.tasks import run

pytestmark = pytest.mark.usefixtures("service")

NEWEST: dict[str, Any] = {"stream_id": "shop.orders", "newest": True}
UNREACHABLE = "http://127.0.0.1:9"
TIME = r"\d+\.\d s"
RUN = r"\(run (\w{1,16}|\w{8}\.\.\.)\)"
SEED = {
    "runs": {"scheduling_delay": 0.1, "minimum_duration": 0.2},
    "connections": [FILES, OUT],
    "elt_syncs": [elt_sync("shop", "orders", "lost", destination_schema_name="raw_shop")],
    "transforms": [transform("vip", folder_path="shop", materialization="table"), transform("adults")],
    "orchestrations": [NIGHTLY],
    "reverse_etl_syncs": [reverse_etl_sync("crm", "adults")],
}


@pytest.fixture(autouse=True)
def broken_connections(running: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, running, "wrong_key", key="no-key-of-it")
    connect(monkeypatch, running, "wrong_host", host=UNREACHABLE)
    connect(monkeypatch, running, "no_host", host="")


@pytest.fixture
def log() -> Iterator[list[Any]]:
    """Return the log entries of tasks."""
    with capture_logs() as entries:
        yield entries


def lines(log: list[Any]) -> list[str]:
    return [line for entry in log for line in entry["event"].splitlines()]


def logged(log: list[Any], pattern: str) -> bool:
    return any(re.fullmatch(pattern, line) for line in lines(log))


ORDERS = rf"ELT stream shop\.orders: 3 rows in {TIME} {RUN}\."
NIGHTLY_RUN = rf"Orchestration Nightly succeeded in {TIME} {RUN}\."
RESULTS = [
    (EltStreamRunOperator, {"stream_id": "shop.orders"}, ORDERS),
    (EltSyncRunOperator, {"sync_id": "shop", "streams": ["orders"]}, ORDERS),
    (OrchestrationRunOperator, {"orchestration_name": "Nightly"}, NIGHTLY_RUN),
    (ReverseEtlRunOperator, {"reverse_etl_sync_id": "crm"}, rf"Reverse ETL sync crm: \d rows? in {TIME} {RUN}\."),
    (TransformPublishOperator, {"transform_id": "vip"}, rf"Transform shop/vip was published( in {TIME})?\."),
    (TransformRematerializeOperator, {"transform_id": "vip"}, rf"Transform shop/vip was rebuilt( in {TIME})?\."),
    (QueryPreviewOperator, {"sql_template": "SELECT 1"}, rf"Query preview SELECT 1 finished( in {TIME})? {RUN}\."),
    (DatapipeCheckOperator, {"sql_template": "SELECT 1"}, rf"Query preview SELECT 1 finished( in {TIME})? {RUN}\."),
]


@pytest.mark.slow
@MODES
@pytest.mark.parametrize(("kind", "arguments", "expected"), RESULTS)
def test_success_is_logged_with_rows_and_duration(
    kind: type[Any], arguments: dict[str, Any], expected: str, deferrable: bool, log: list[Any]
) -> None:
    run(kind(task_id="t", deferrable=deferrable, defer_after=0, **arguments))
    assert logged(log, expected), lines(log)
    assert not re.search(r"None|unknown|run_over|elt_stream|reverse_etl\b", "\n".join(lines(log)))


def test_publication_in_the_worker_is_logged_with_its_duration(log: list[Any]) -> None:
    run(TransformPublishOperator(task_id="t", transform_id="vip"))
    assert logged(log, rf"Transform shop/vip was published in {TIME}\."), lines(log)


def test_sensor_logs_the_result_of_the_run(log: list[Any]) -> None:
    run(EltStreamRunOperator(task_id="t", stream_id="shop.orders"))
    log.clear()
    run(EltStreamRunSensor(task_id="t", poke_interval=0.1, **NEWEST))
    assert logged(log, ORDERS), lines(log)


@MODES
def test_failed_run_is_logged_and_raised_with_the_cause_first(deferrable: bool, log: list[Any]) -> None:
    with pytest.raises(RunFailedError) as failed:
        run(EltStreamRunOperator(task_id="t", stream_id="shop.lost", deferrable=deferrable))
    first, *details = str(failed.value).splitlines()
    assert re.fullmatch(r"ELT stream shop\.lost: the run failed: .*lost\.csv.*", first)
    assert any(re.fullmatch(r"Run: \w{20,}", line) for line in details)
    assert logged(log, rf"ELT stream shop\.lost failed after {TIME} {RUN}: .*lost\.csv.*"), lines(log)


def test_error_of_a_sync_has_the_lines_of_each_stream() -> None:
    with pytest.raises(RunFailedError) as failed:
        run(EltSyncRunOperator(task_id="t", sync_id="shop"))
    first, second, *_ = str(failed.value).splitlines()
    assert first == "ELT sync shop: 1 of 2 streams failed:"
    assert second.startswith("  ELT stream shop.lost: the run failed: ")


WRONG = {"orchestration_id": "nightli"}
SHOP, RIGHT = "Did you mean shop (named raw_shop)?", "Did you mean nightly (named Nightly)?"
WRONG_IDS: list[tuple[type[Any], dict[str, Any], str]] = [
    (EltStreamRunOperator, {"stream_id": "orders"}, "Did you mean shop.orders (named orders)?"),
    (EltSyncRunOperator, {"sync_id": "shops"}, SHOP),
    (EltSyncRunOperator, {"sync_id": "raw_shop"}, SHOP),
    (EltStreamRunOperator, {"sync_id": "shops", "stream_name": "orders"}, SHOP),
    (OrchestrationRunOperator, WRONG, RIGHT),
    (TransformPublishOperator, {"transform_id": "vips"}, "Did you mean vip (named shop/vip)?"),
    (ReverseEtlRunOperator, {"reverse_etl_sync_id": "crn"}, "Did you mean crm?"),
    (ReverseEtlRunOperator, {"reverse_etl_sync_id": "zzz"}, "The service has crm."),
    (EltSyncEnableOperator, {"sync_id": "shops"}, SHOP),
    (OrchestrationRunSensor, WRONG | {"newest": True}, RIGHT),
    (OrchestrationRunSensor, WRONG | {"newest": True, "deferrable": True}, RIGHT),
]


@pytest.mark.parametrize(("kind", "arguments", "expected"), WRONG_IDS)
def test_wrong_id_gets_a_suggestion(kind: type[Any], arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(NotFoundError) as failed:
        run(kind(task_id="t", **arguments))
    first, second, *_ = str(failed.value).splitlines()
    assert first.startswith("Not found: ")
    assert second == expected


HINTS = {
    "wrong_key": (
        AuthenticationError,
        "The service does not accept the API key: ",
        "Check the password (API key) of the Airflow connection `wrong_key`.",
    ),
    "wrong_host": (
        TransportError,
        f"got no answer from {UNREACHABLE}",
        "Check the host (base address) of the Airflow connection `wrong_host`, and that the service is up.",
    ),
    "no_host": (DatapipeError, "There is no base address", "Check the Airflow connection `no_host`."),
}


@pytest.mark.parametrize(
    ("kind", "arguments", "conn_ids"),
    [
        (EltStreamRunOperator, {"stream_id": "shop.orders"}, HINTS),
        (EltSyncEnableOperator, {"sync_id": "shop"}, HINTS),
        # Sensors do not fail while the host does not respond.
        (EltStreamRunSensor, NEWEST, ["wrong_key"]),
        (EltStreamRunSensor, NEWEST | {"deferrable": True}, ["wrong_key"]),
    ],
)
def test_error_of_the_settings_names_the_connection(
    kind: type[Any], arguments: dict[str, Any], conn_ids: Iterable[str]
) -> None:
    for conn_id in conn_ids:
        raised, problem, hint = HINTS[conn_id]
        with pytest.raises(raised) as failed:
            run(kind(task_id="t", datapipe_conn_id=conn_id, **arguments))
        first, *_, last = str(failed.value).splitlines()
        assert problem in first
        assert last == hint


def test_sensor_warning_names_the_unreachable_connection(log: list[Any]) -> None:
    assert EltStreamRunSensor(task_id="t", datapipe_conn_id="wrong_host", **NEWEST).poke({}) is False
    assert any("the Airflow connection `wrong_host`" in line for line in lines(log)), lines(log)


@pytest.mark.parametrize(
    ("conn_id", "field"), [("wrong_key", "password (API key)"), ("wrong_host", "host (base address)")]
)
def test_test_connection_speaks_of_this_connection(conn_id: str, field: str) -> None:
    is_healthy, message = DatapipeHook(conn_id).test_connection()
    assert not is_healthy
    assert f"{field} of this connection" in message
    assert conn_id not in message


def test_test_connection_of_a_webhook_speaks_of_this_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "datapipe_webhook", "host": UNREACHABLE, "extra": {"authentication": "none"}}
    monkeypatch.setenv("AIRFLOW_CONN_HOOKS", json.dumps(connection))
    is_healthy, message = WebhookIngestHook("hooks").test_connection()
    assert not is_healthy
    assert "Check the host of this connection" in message


def test_deleted_connection_error_after_a_deferral_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    task = EltStreamRunOperator(task_id="t", stream_id="shop.orders", deferrable=True, defer_after=0)
    original = task.defer

    def defer(**arguments: Any) -> None:
        arguments["trigger"].datapipe_conn_id = "no_host"
        original(**arguments)

    monkeypatch.setattr(task, "defer", defer)
    with pytest.raises(LostContactError) as failed:
        run(task)
    first, *details = str(failed.value).splitlines()
    assert first.startswith("The trigger could not wait for the run: There is no base address")
    assert "Check the Airflow connection `no_host`." in details


@pytest.mark.parametrize("retries", [False, True])
def test_partial_run_is_logged_and_its_error_suggests_retries(
    retries: bool, service: LocalService, log: list[Any]
) -> None:
    failing = {"rewrite": {"failed_rows": 2, "synced_rows": 8, "total_rows": 10}, "times": "always"}
    service.faults([{"method": "GET", "path": f"/reverse_etl_sync_runs{rest}", **failing} for rest in ("", "/*")])
    task = ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="crm", retry_failed_records=retries)
    with pytest.raises(RunPartialError) as failed:
        run(task)
    assert str(failed.value).startswith("reverse ETL sync crm: 2 of 10 rows failed, 0 are allowed.\n")
    assert ("retry_failed_records" in str(failed.value)) is not retries
    assert logged(log, rf"Reverse ETL sync crm: 8 of 10 rows in {TIME}, 2 failed {RUN}\."), lines(log)
