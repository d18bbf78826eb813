"""Tests of webhooks against the local service: signatures, authentication, sources and failures."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow has no type hints
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]  # fsspec has no type hints
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from airflow_provider_datapipe.api.canonical import canonical
from airflow_provider_datapipe.api.errors import AuthenticationError
from airflow_provider_datapipe.api.webhook import HmacAuthentication
from airflow_provider_datapipe.get_provider_info import WEBHOOK_FIELDS
from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
from airflow_provider_datapipe.operators.webhooks import WebhookIngestOperator
from airflow_provider_datapipe.webhook.delivery import BatchResult, IngestError, IngestResult, SourceChangedError
from tests.contract.datapipe_local.api import Api
from tests.contract.seeds import elt_sync, page_blocks, send
from tests.support.documents import names_of, pages
from tests.support.examples import scaled
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.tasks import Memory, context_of
from tests.support.webhook_gateway import Trouble, WebhookGateway

Between = Callable[[dict[int, Trouble]], WebhookGateway]

SECRET = "shared-s3cret-ü"
LIMIT = 1 << 20
METHODS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "open": ({"method": "none"}, {}),
    "basic": (
        {"method": "basic", "username": "ann", "password": "p:ss wörd"},
        {"login": "ann", "password": "p:ss wörd", "extra": {"authentication": "basic"}},
    ),
    "token": (
        {"method": "token", "header": "X-Token", "token": "Bearer t0ken"},
        {"password": "Bearer t0ken", "extra": {"authentication": "token", "header": "X-Token"}},
    ),
    "hmac": (
        {"method": "hmac", "header": "X-Signature", "secret": SECRET},
        {"password": SECRET, "extra": {"authentication": "hmac", "header": "x-signature"}},
    ),
}
TABLES = ("events", "raw", "orders")


def webhook(name: str, authentication: dict[str, str]) -> dict[str, Any]:
    tables = [{"name": table} | ({"sync_mode": "packed"} if table == "raw" else {}) for table in TABLES]
    settings = {"authentication": authentication, "tables": tables}
    return {"id": name, "integration_id": "webhook", "label": name, "settings": settings}


def streams(name: str) -> list[dict[str, Any]]:
    return [{"id": f"{name}.{table}", "name": table, "table": table} for table in TABLES]


SEED: dict[str, Any] = {
    "connections": [webhook(name, method) for name, (method, _) in METHODS.items()],
    "elt_syncs": [elt_sync(name, connection_id=name, source_streams=streams(name)) for name in METHODS],
}


@pytest.fixture(scope="module")
def running() -> Iterator[LocalService]:
    with LocalService(SEED, control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture(autouse=True)
def connected(running: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create an Airflow connection for each authentication method."""
    for name, (_, fields) in METHODS.items():
        connect(monkeypatch, f"hooks_{name}", f"{running.base_url}/webhooks/{name}", **fields)


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, host: str, **fields: Any) -> None:
    connection = {"conn_type": "datapipe_webhook", "host": host, "extra": {}} | fields
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))


def run(memory: Memory | None = None, *, method: str = "hmac", table: str = "events", **arguments: Any) -> Any:
    task = WebhookIngestOperator(task_id="t", webhook_conn_id=f"hooks_{method}", endpoint=table, **arguments)
    return task.execute(context_of(memory or Memory()))


def query(service: LocalService, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = send(service, "POST", "/_local/query", json={"sql": sql})["data"]
    return found


def loaded(service: LocalService, table: str, select: str = "*") -> list[dict[str, Any]]:
    """Load a table into the warehouse, and return its rows."""
    ended = Api(service).run_stream(table)
    assert ended.status == "COMPLETED", ended
    return query(service, f"SELECT {select} FROM {table}")  # noqa: S608 - names of this test


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALAR = (
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=12
)


@pytest.mark.slow
@settings(max_examples=scaled(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JSON, min_size=1, max_size=20))
def test_random_payloads_match_reference_signatures(service: LocalService, payloads: list[Any]) -> None:
    """
    Sign payloads alone and in arrays.

    The references are the JSON encoder and HMAC of the standard library, and the service. The service shares no code
    with the signer and verifies the received bytes.
    """
    service.reset()
    hook = WebhookIngestHook("hooks_hmac")
    for payload in (sent := [*payloads, payloads]):
        by_others = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert canonical(payload) == by_others
        signature = hmac.digest(SECRET.encode(), by_others, hashlib.sha256).hex()
        assert hook.settings.authentication.headers(by_others) == {"x-signature": signature}
        assert hook.push(payload, "raw").rows == 1
    hook.close()
    # The service has received exactly the signed bytes.
    there = Counter(row["payload"] for row in loaded(service, "hmac.raw", "payload"))
    assert there == Counter(canonical(payload).decode() for payload in sent)


@pytest.mark.parametrize("changed", ["body", "signature", "order"])
def test_request_with_a_wrong_signature_is_refused(service: LocalService, changed: str) -> None:
    body = {"body": b'{"a":1,"b":3}', "order": b'{"b":2,"a":1}'}.get(changed, b'{"a":1,"b":2}')
    signed = b'{"a":1,"b":2}' if changed == "body" else body
    headers = dict(WebhookIngestHook("hooks_hmac").settings.authentication.headers(signed))
    if changed == "signature":
        headers["x-signature"] = headers["x-signature"][::-1]
    url, kind = f"{service.base_url}/webhooks/hmac/raw", {"content-type": "application/json"}
    assert httpx.post(url, content=body, headers=headers | kind).status_code == 401
    if changed == "order":
        # The hook sorts the keys.
        assert WebhookIngestHook("hooks_hmac").push({"b": 2, "a": 1}, "raw").rows == 1


@pytest.mark.parametrize("method", METHODS)
def test_each_authentication_method(service: LocalService, method: str) -> None:
    result = run(method=method, records=[{"id": number, "name": f"Zoë {number}"} for number in range(7)], batch_size=3)
    batches = [(each["first"], each["records"], each["rows"], each["attempts"]) for each in result["results"]]
    assert batches == [(0, 3, 3, 1), (3, 3, 3, 1), (6, 1, 1, 1)]
    assert (result["records"], result["rows"], result["maybe_twice"]) == (7, 7, 0)
    found = loaded(service, f"{method}.events")
    assert sorted((row["id"], row["name"]) for row in found) == [(number, f"Zoë {number}") for number in range(7)]


@pytest.mark.parametrize("method", ["basic", "token", "hmac"])
def test_wrong_secret_is_an_authentication_error(
    service: LocalService, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = METHODS[method][1] | {"password": "wrong-canary"}
    connect(monkeypatch, f"hooks_{method}", f"{service.base_url}/webhooks/{method}", **fields)
    memory = Memory()
    with pytest.raises(IngestError, match=r"answered 401: (?s:.*)\nThe first 0 records were accepted") as failed:
        run(memory, method=method, records={"id": 1})
    assert isinstance(failed.value.__cause__, AuthenticationError)
    assert "wrong-canary" not in str(failed.value)
    assert memory.pushed["return_value"]["records"] == 0


ACCEPTED = "accepts the credentials"


@pytest.mark.parametrize(
    ("method", "endpoint", "password", "message"),
    [
        ("hmac", "events", SECRET, ACCEPTED),
        ("hmac", "raw", SECRET, ACCEPTED),
        ("hmac", "events", "wrong", "does not accept the credentials"),
        ("basic", "events", "p:ss wörd", ACCEPTED),
        ("basic", "events", "wrong", "does not accept the credentials"),
        ("token", "events", "Bearer t0ken", ACCEPTED),
        ("open", "events", "", ACCEPTED),
        ("open", "nowhere", "", "No table has this address"),
    ],
)
def test_test_connection_sends_no_record(
    service: LocalService, monkeypatch: pytest.MonkeyPatch, *, method: str, endpoint: str, password: str, message: str
) -> None:
    fields = METHODS[method][1] | {"password": password}
    connect(monkeypatch, "tried", f"{service.base_url}/webhooks/{method}/{endpoint}", **fields)
    answer = WebhookIngestHook("tried").test_connection()
    assert (answer[0], message in answer[1]) == (message == ACCEPTED, True), answer
    if endpoint != "nowhere":
        assert Api(service).run_stream(f"{method}.{endpoint}").rows_synced == 0


def test_single_records_and_batches_of_one_keep_their_form(service: LocalService) -> None:
    run(table="raw", records={"b": 1, "a": "é"})
    run(table="raw", records=[{"id": 1}, {"id": 2}], batch_size=1)
    run(table="raw", records='[{"price": 1.10}]')
    found = sorted(row["payload"] for row in loaded(service, "hmac.raw"))
    assert found == ['[{"price":1.10}]', '{"a":"é","b":1}', '{"id":1}', '{"id":2}']


@pytest.mark.parametrize(
    ("table", "batch_size", "warned"), [("raw", 10, True), ("raw", 1, False), ("events", 10, False)]
)
def test_different_row_count_logs_a_warning(
    service: LocalService, capsys: pytest.CaptureFixture[str], table: str, batch_size: int, *, warned: bool
) -> None:
    run(table=table, records=[{"id": 1}, {"id": 2}], batch_size=batch_size)
    assert ("reported 1 rows for 2 records" in capsys.readouterr().out) == warned


def json_lines_file(folder: Path, records: list[Any]) -> Path:
    path = folder / "records.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["path", "url", "memory"])
def test_json_lines_from_each_storage(service: LocalService, tmp_path: Path, kind: str) -> None:
    path = json_lines_file(tmp_path, [{"id": 2**53 + 1, "price": 1.5, "who": {"name": "Zoë"}}, {"id": 2}])
    source = {"path": str(path), "url": path.as_uri(), "memory": "memory://bucket/records.ndjson"}[kind]
    if kind == "memory":
        # Register the file system like a provider.
        attach("memory", fs=MemoryFileSystem())
        ObjectStoragePath(source).write_bytes(path.read_bytes())
    assert run(source=source)["records"] == 2
    found = sorted(loaded(service, "hmac.events"), key=lambda row: row["id"])
    assert [row["id"] for row in found] == [2, 2**53 + 1]
    assert (found[1]["price"], found[1]["who"]) == (1.5, {"name": "Zoë"})


class SeparateStorage(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no type hints
    """Storage with separate files."""

    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]


def test_file_of_a_storage_with_a_connection(service: LocalService) -> None:
    # Only the storage of this connection contains the file.
    attach("memory", conn_id="store", fs=SeparateStorage())
    SeparateStorage().pipe_file("/bucket/records.jsonl", b'{"id":1}\n{"id":2}\n')
    result = run(source="memory://bucket/records.jsonl", source_conn_id="store")
    assert result["records"] == 2
    assert len(loaded(service, "hmac.events")) == 2


def test_parquet_file(service: LocalService, tmp_path: Path) -> None:
    columns = {
        "id": pa.array(range(2500)),
        "price": pa.array([Decimal(number) / 4 for number in range(2500)], pa.decimal128(12, 2)),
        "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2500, pa.timestamp("us", tz="UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "records", row_group_size=600)
    result = run(source=str(tmp_path / "records"), source_format="parquet")
    assert [each["records"] for each in result["results"]] == [1000, 1000, 500]
    found = loaded(service, "hmac.events", 'count(*) AS n, sum(price) AS price, min(CAST("at" AS text)) AS at')
    assert found[0]["n"] == 2500
    assert float(found[0]["price"]) == sum(range(2500)) / 4
    assert found[0]["at"].startswith("2026-01-01 00:00:00")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "/nowhere/x.jsonl"}, "x.jsonl"),
        ({"source": "/nowhere/x.csv"}, "set source_format to 'jsonl' or 'parquet'"),
        ({"source": ""}, "source is empty"),
        ({"source": "None"}, "source is empty"),
        ({"records": "{oops"}, "records was rendered to invalid text .not valid JSON"),
        ({"records": "17"}, "records must be an object or a list of objects, not int"),
        ({"records": iter([{}])}, "must be an object or a list of objects"),
    ],
)
def test_unreadable_sources_and_records_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of records and source"),
        ({"records": [], "source": "x"}, "exactly one of records and source"),
        ({"records": [], "source_format": "jsonl"}, "require source"),
        ({"records": [], "batch_size": 0}, "batch_size"),
        ({"records": [], "batch_size": "10"}, "batch_size must be a whole number"),
        ({"records": [], "max_batch_bytes": 0}, "max_batch_bytes"),
        ({"records": [], "if_changed": "ignore"}, "if_changed"),
    ],
)
def test_invalid_arguments_are_refused_at_parsing(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WebhookIngestOperator(task_id="t", **arguments)


def test_413_names_max_batch_bytes_and_smaller_batches_succeed(service: LocalService) -> None:
    records = [{"id": number, "text": "x" * 1000} for number in range(2500)]
    memory = Memory()
    with pytest.raises(IngestError, match=r"answered 413: (?s:.*)lower max_batch_bytes") as failed:
        run(memory, records=records, batch_size=2000, max_batch_bytes=2 * LIMIT)
    assert failed.value.result["records"] == 0
    result = run(memory, records=records, batch_size=2000)
    assert result["records"] == 2500
    assert all(each["bytes"] <= 1_000_000 for each in result["results"])
    assert loaded(service, "hmac.events", "count(*) AS n, count(DISTINCT id) AS ids") == [{"n": 2500, "ids": 2500}]


def test_error_names_a_record_above_the_limit(service: LocalService, tmp_path: Path) -> None:
    path = json_lines_file(tmp_path, [{"id": 1}, {"id": 2, "text": "x" * 100_000}])
    memory = Memory()
    with pytest.raises(IngestError, match=r"line 2 of records\.jsonl: 100,0\d\d bytes, more than max_batch_bytes \(5"):
        run(memory, source=str(path), max_batch_bytes=50_000)
    assert memory.pushed["return_value"]["records"] == 1


@pytest.fixture
def between(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    """Return a function that starts a scripted gateway between the task and the service."""
    with ExitStack() as stack:

        def start_gateway(script: dict[int, Trouble]) -> WebhookGateway:
            gateway = stack.enter_context(WebhookGateway(service.base_url, script))
            connect(monkeypatch, "hooks_hmac", f"{gateway.url}/webhooks/hmac", **METHODS["hmac"][1])
            return gateway

        yield start_gateway


REFUSED = Trouble(status=400, body={"message": "no"})


def test_retry_continues_after_the_accepted_records(service: LocalService, between: Between, tmp_path: Path) -> None:
    path = json_lines_file(tmp_path, [{"id": number} for number in range(10)])
    gateway = between({2: REFUSED})
    memory = Memory()
    with pytest.raises(IngestError) as failed:
        run(memory, source=str(path), batch_size=3)
    message = str(failed.value)
    assert "The first 6 records were accepted, in 2 batches. The next record is line 7 of records.jsonl." in message
    assert memory.pushed["return_value"] == failed.value.result
    # Records that were not accepted may be changed.
    json_lines_file(tmp_path, [{"id": number} for number in (*range(6), 60, 70)])
    result = run(memory, source=str(path), batch_size=3)
    assert gateway.requests == 4
    assert (result["resumed_from"], result["records"], result["batches"], result["maybe_twice"]) == (6, 8, 3, 0)
    ids = sorted(row["id"] for row in loaded(service, "hmac.events"))
    assert ids == [*range(6), 60, 70]


def test_changed_source_fails_the_retry_unless_restart_is_set(
    service: LocalService, between: Between, tmp_path: Path
) -> None:
    path = json_lines_file(tmp_path, [{"id": number} for number in range(4)])
    between({1: REFUSED})
    memory = Memory()
    with pytest.raises(IngestError):
        run(memory, source=str(path), batch_size=3)
    json_lines_file(tmp_path, [{"id": number} for number in range(100, 104)])
    with pytest.raises(SourceChangedError, match="3 records were accepted before"):
        run(memory, source=str(path))
    result = run(memory, source=str(path), if_changed="restart")
    assert (result["records"], result["resumed_from"]) == (4, 0)
    assert len(loaded(service, "hmac.events")) == 7


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("trouble", [Trouble(), Trouble(status=503), Trouble(status=502, body=b"<html>")])
def test_lost_responses_lose_no_record_and_are_counted(
    service: LocalService, between: Between, trouble: Trouble, after: bool
) -> None:
    between({1: trouble._replace(after=after)})
    result = run(records=[{"id": number} for number in range(9)], batch_size=3)
    assert (result["records"], result["maybe_twice"]) == (9, 3)
    ids = Counter(row["id"] for row in loaded(service, "hmac.events"))
    assert set(ids) == set(range(9))
    assert {record for record, times in ids.items() if times > 1} == ({3, 4, 5} if after else set())


TOTAL = 100_000
KILL_AT = (20_000, 60_000)


@pytest.mark.slow
def test_two_service_kills_lose_no_record_of_a_large_file(service: LocalService, tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    lines = (f'{{"id":{number},"name":"customer {number}","spent":{number / 8}}}\n' for number in range(TOTAL))
    path.write_text("".join(lines), encoding="utf-8")
    memory = Memory()

    def accepted() -> int:
        stored = memory.get("datapipe.webhook")
        return 0 if stored is None else int(stored["record"]["records"])

    with ThreadPoolExecutor(1) as others:
        worker = others.submit(run, memory, source=str(path))
        for number in KILL_AT:
            wait_for(f"{number} are accepted", lambda number=number: accepted() >= number, limit=120, interval=0.001)  # type: ignore[misc]  # the loop's
            assert accepted() < TOTAL
            service.kill()
            service.start()
        result = worker.result()
    assert (result["records"], result["results_omitted"]) == (TOTAL, 0)
    figures = "count(*) AS n, count(DISTINCT id) AS ids, min(id) AS first, max(id) AS last"
    (found,) = loaded(service, "hmac.events", figures)
    assert (found["ids"], found["first"], found["last"]) == (TOTAL, 0, TOTAL - 1)
    # Duplicates belong to batches that report them as possible.
    repeated = "SELECT id FROM hmac.events GROUP BY id HAVING count(*) > 1"
    first = "CAST(floor(id / 1000) AS integer) * 1000 AS first"
    twice = query(service, f"SELECT {first}, count(*) AS n FROM ({repeated}) GROUP BY 1")  # noqa: S608 - names of this test
    doubtful = {each["first"]: each["maybe_twice"] for each in result["results"] if each["maybe_twice"]}
    assert all(doubtful[each["first"]] == each["n"] for each in twice)
    assert found["n"] - TOTAL == sum(each["n"] for each in twice) <= result["maybe_twice"] <= len(KILL_AT) * 1000


def test_examples_of_the_webhook_page(
    service: LocalService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_blocks("webhook.md")
    dag_file, hook = (block.text for block in page if block.language == "python")
    (shown,) = (json.loads(block.text) for block in page if block.language == "json")
    # The shown connection is valid. With another host and secret, it leads to this service.
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_WEBHOOK_DEFAULT", json.dumps(shown))
    assert isinstance(WebhookIngestHook().settings.authentication, HmacAuthentication)
    here = shown | {"host": f"{service.base_url}/webhooks/hmac", "password": SECRET}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_WEBHOOK_DEFAULT", json.dumps(here))

    names = names_of(dag_file)
    made = names["dag"].get_task("new_orders").python_callable()
    (tmp_path / "orders.jsonl").write_text('{"id": 4, "total": 1}\n')
    memory = Memory()
    context = context_of(memory) | {"params": {"folder": str(tmp_path)}}
    given, from_a_file = (names["dag"].get_task(task_id) for task_id in ("given", "from_a_file"))
    # Airflow resolves the argument before the execution.
    given.records = made
    assert given.execute(context)["records"] == 2
    memory.kept.clear()
    from_a_file.render_template_fields(context)
    assert from_a_file.execute(context)["records"] == 1
    capsys.readouterr()
    names_of(hook)
    assert "1 1 False" in capsys.readouterr().out
    assert sorted(row["id"] for row in loaded(service, "hmac.orders")) == [1, 2, 3, 4]


def test_connection_fields_are_documented() -> None:
    table = pages()["docs/webhook.md"].partition("## Connection")[2].partition("```json")[0]
    reported = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))
    assert reported.keys() == WEBHOOK_FIELDS.keys()
    for name, field in WEBHOOK_FIELDS.items():
        default = field["schema"].get("default")
        assert reported[name].strip("`") == (str(default).lower() if default not in (None, "") else "none"), name


def test_result_keys_are_documented() -> None:
    table = pages()["docs/webhook.md"].partition("## Result")[2].partition("The result is pushed")[0]
    reported = set(re.findall(r"`(\w+)`", table))
    assert reported == set(IngestResult.__annotations__) | set(BatchResult.__annotations__)
