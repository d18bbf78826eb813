"""Failure notifications, and failures while sending them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import mask_secret
from airflow.sdk import DAG, BaseNotifier

from airflow_provider_datapipe.links import ADDRESS
from airflow_provider_datapipe.notifications.describe import describe_failure, failure_of, report_of
from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.errors import LostContactError, RunPartialError
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result, exception_for
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason
from tests.support.raw_server import RawServer
from tests.support.scripted_server import Reply, ScriptedServer

LINK = "https://app.example.com/reverse_etl_syncs/crm"
LOG = "https://airflow.example.com/dags/shop/runs/r/tasks/send"
CRM = RunRef("reverse_etl", "crm", "crm", run_id="run-7")
RECORDS = [{"record_id": f"customer-{number}", "error": f"no e-mail <!channel> & {number}"} for number in range(5)]
NO_CONTEXT: list[Any] = [
    {},
    {"ti": None, "task": None},
    {"exception": ValueError("odd")},
    {"dag": SimpleNamespace(dag_id="d"), "run_id": "r", "reason": "task_failure"},
    {"ti": SimpleNamespace(task_id="t"), "task": SimpleNamespace(_batch="no batch")},
    {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, xcom_pull=lambda **_: 1 / 0)},
]


def instance(**more: Any) -> Any:
    known = {"dag_id": "shop", "run_id": "r", "task_id": "send", "map_index": -1, "try_number": 2, "log_url": LOG}
    return SimpleNamespace(**known | more)


def partial_end() -> WaitOutcome:
    result: Any = {**build_run_result(WaitOutcome(WaitOutcomeReason.RUN_OVER, CRM, Outcome.PARTIAL))}
    result |= {"rows_synced": 1200, "rows_failed": 5, "rows_total": 1205}
    quote = "for example " + "; ".join(f"record {one['record_id']}: {one['error']}" for one in RECORDS[:3])
    return WaitOutcome(WaitOutcomeReason.RUN_OVER, CRM, Outcome.PARTIAL, result, quote, RECORDS)


def of_partial_run(**more: Any) -> dict[str, Any]:
    end = partial_end()
    task = SimpleNamespace(_batch=Batch("reverse_etl", ended=[end]), **{ADDRESS: LINK})
    return {"ti": instance(), "task": task, "exception": exception_for(end), **more}


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ScriptedServer([Reply()]) as server:
        connect(monkeypatch, f"{server.url}/services/T0/SECRETPART")
        yield server


def connect(monkeypatch: pytest.MonkeyPatch, host: str, **more: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps({"conn_type": "http", "host": host, **more}))


def test_report_has_title_error_runs_records_and_links() -> None:
    failure = failure_of(of_partial_run())
    assert failure.title == "Task send of DAG shop, run r, try 2 failed."
    assert failure.error.startswith("reverse ETL sync crm: 5 of 1,205 rows failed, 0 are allowed: for example record ")
    assert failure.runs == ("reverse ETL sync crm: run run-7 partial, 1,200 of 1,205 rows, 5 failed.",)
    assert failure.records == tuple(f"{one['record_id']}: {one['error']}" for one in RECORDS[:3])
    assert (failure.link, failure.log_url) == (LINK, LOG)
    lines = failure.text.splitlines()
    assert lines[0] == failure.title
    assert lines[-2:] == [f"On the service: {LINK}", f"Log: {LOG}"]


def test_report_without_records() -> None:
    text = failure_of(of_partial_run(), show_records=0).text
    assert "customer-" not in text
    assert "its records are not shown here" in text
    assert "5 of 1,205 rows failed" in text


def test_report_names_a_run_that_continues() -> None:
    batch = Batch("reverse_etl", waiting=[CRM])
    context = {"ti": instance(), "task": SimpleNamespace(_batch=batch), "exception": LostContactError("Lost.")}
    assert failure_of(context).runs == ("reverse ETL sync crm: run run-7 had not ended, and continues.",)


def test_error_without_an_exception_in_the_context() -> None:
    context = {"ti": instance(), "task": SimpleNamespace(_failure=LostContactError("Lost."))}
    assert failure_of(context).error == "Lost."
    assert failure_of(context | {"reason": "timed_out"}).error == "Reason from Airflow: timed_out."


def test_report_reads_xcom_of_a_task_in_another_process() -> None:
    left = {"return_value": build_run_result(partial_end()), "_link_DatapipeLink": LINK}
    pulled: list[tuple[Any, ...]] = []

    def pull(*, task_ids: str, map_indexes: int, key: str) -> Any:
        pulled.append((task_ids, map_indexes))
        return left.get(key)

    failure = failure_of({"ti": instance(xcom_pull=pull)})
    assert failure.runs == ("reverse ETL sync crm: run run-7 partial, 1,200 of 1,205 rows, 5 failed.",)
    assert "without a reason" in failure.error
    assert failure.link == LINK
    assert set(pulled) == {("send", -1)}


def test_report_lists_a_limited_number_of_runs() -> None:
    ends = [
        WaitOutcome(
            WaitOutcomeReason.RUN_OVER, RunRef("elt_stream", str(number), f"s{number}", run_id="r"), Outcome.FAILED
        )
        for number in range(9)
    ]
    failure = failure_of({"ti": instance(), "task": SimpleNamespace(_batch=Batch("elt_stream", ended=ends))})
    assert len(failure.runs) == 6
    assert failure.runs[-1] == "... and 4 more."


@pytest.mark.parametrize(
    ("context", "title", "error"),
    [
        ({"ti": instance(map_index=3)}, "Task send[3] of DAG shop, run r, try 2 failed.", None),
        (
            {"ti": instance(), "dag": SimpleNamespace(dag_id="shop"), "run_id": "r", "reason": "timed_out"},
            "DAG shop, run r failed.",
            "Reason from Airflow: timed_out.",
        ),
        (
            {"dag_run": {"dag_id": "shop", "dag_run_id": "r"}, "deadline": {"id": 1}},
            "DAG shop, run r missed its deadline.",
            None,
        ),
    ],
    ids=["mapped task", "DAG run", "deadline"],
)
def test_title_for_tasks_dag_runs_and_deadlines(context: dict[str, Any], title: str, error: str | None) -> None:
    failure = failure_of(context)
    assert failure.title == title
    assert error is None or failure.error == error
    assert failure.runs == ()


def test_report_is_short_and_masks_secrets() -> None:
    mask_secret("hunter2-hunter2")
    error = RunPartialError("line\n" * 3000)
    secret = ValueError("password hunter2-hunter2 refused")
    assert len(failure_of({"ti": instance(), "exception": error}).text) < 2000
    assert "hunter2" not in failure_of({"ti": instance(), "exception": secret}).text
    assert len(failure_of({"ti": instance(), "exception": error}).text.splitlines()) == 3


@pytest.mark.parametrize("context", NO_CONTEXT)
def test_report_with_missing_context(context: Any) -> None:
    assert "failed." in report_of(context).text
    DatapipeFailureNotifier(notifier=lambda known: None)(context)


def test_describe_failure_in_a_template() -> None:
    dag = DAG("d", schedule=None, user_defined_macros={"describe_failure": describe_failure})
    template = dag.get_template_env().from_string("{{ describe_failure(show_records=1) }}")
    assert template.render(of_partial_run()) == describe_failure(of_partial_run(), show_records=1)
    assert "customer-1:" not in describe_failure(of_partial_run(), show_records=1).split("Records that failed:")[1]


def test_report_is_posted_in_the_format_of_slack(
    gateway: ScriptedServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        DatapipeFailureNotifier(http_conn_id="chat")(of_partial_run())
    # The URL is the credential, and HTTP libraries log it at level DEBUG.
    assert "SECRETPART" not in caplog.text + "".join(capsys.readouterr())
    (seen,) = gateway.seen
    assert (seen.method, seen.path) == ("POST", "/services/T0/SECRETPART")
    text = json.loads(seen.body)["text"]
    assert text == failure_of(of_partial_run()).slack_text
    # An error text must not mention a channel.
    assert "<!channel>" not in text
    assert "&lt;!channel&gt; &amp; 0" in text


def test_login_and_headers_come_from_the_connection(gateway: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"X-Team": "data", "timeout": 5, "verify": False}
    connect(monkeypatch, gateway.url, login="ada", password="pw", extra=extra)
    DatapipeFailureNotifier(http_conn_id="chat", endpoint="/alerts")(of_partial_run())
    (seen,) = gateway.seen
    assert seen.path == "/alerts"
    headers = {name.lower(): value for name, value in seen.headers.items()}
    assert headers["x-team"] == "data"
    assert headers["authorization"].startswith("Basic ")
    assert "timeout" not in headers


def test_custom_body_is_rendered_but_error_texts_are_not(gateway: ScriptedServer) -> None:
    body = {"title": "{{ failure.title }}", "why": ["{{ failure.error }}", 1], "dag": "{{ ti.dag_id }}"}
    context = {"ti": instance(), "exception": ValueError("{{ 7 * 6 }}")}
    notifier = DatapipeFailureNotifier(http_conn_id="chat", body=body)
    for _ in range(2):
        notifier(context)
    assert [json.loads(seen.body) for seen in gateway.seen] == [
        {"title": failure_of(context).title, "why": ["ValueError: {{ 7 * 6 }}", 1], "dag": "shop"}
    ] * 2
    # Tasks share a notifier, so rendering must not change it.
    assert notifier.body is body


def test_report_is_passed_to_another_notifier() -> None:
    class Other(BaseNotifier):
        template_fields = ("message",)

        def __init__(self) -> None:
            super().__init__()
            self.message = "{{ failure.title }} {{ failure.error }}"

        def notify(self, context: Any) -> None:
            reported.append(self.message)

    reported: list[str] = []
    context: Any = {"ti": instance(), "exception": ValueError("{{ 7 * 6 }}")}
    DatapipeFailureNotifier(notifier=Other())(context)
    assert reported == ["Task send of DAG shop, run r, try 2 failed. ValueError: {{ 7 * 6 }}"]


def report(notifier: DatapipeFailureNotifier, is_async: bool) -> None:
    """Report the failure of a task, as a worker or as a triggerer does."""
    context: Any = of_partial_run()

    async def wait() -> None:
        notifier.context = context
        await notifier

    if is_async:
        asyncio.run(wait())
    else:
        notifier(context)


@pytest.mark.parametrize("is_async", [False, True])
def test_other_notifier_runs_although_the_post_fails(monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    connect(monkeypatch, "http://127.0.0.1:1")
    reported: list[Any] = []
    report(DatapipeFailureNotifier(http_conn_id="chat", notifier=reported.append), is_async)
    assert [known["failure"].title for known in reported] == [failure_of(of_partial_run()).title]


def test_notifier_can_be_awaited(gateway: ScriptedServer) -> None:
    class Other(BaseNotifier):
        async def async_notify(self, context: Any) -> None:
            reported.append(context["failure"].title)

    reported: list[str] = []
    report(DatapipeFailureNotifier(http_conn_id="chat", notifier=Other()), is_async=True)
    assert len(gateway.seen) == 1
    assert reported == [failure_of(of_partial_run()).title]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("http://127.0.0.1:1/SECRETPART", "ConnectError"),
        ("ftp://example.com/SECRETPART", "UnsupportedProtocol"),
        ("", "There is no base address"),
        (None, "AirflowNotFoundException"),
        ("refusing", "the answer was 403"),
        ("leading", "the answer was 307"),
        ("silent", "no answer within 0.5 s"),
    ],
)
def test_failed_post_is_logged_without_secrets(
    host: str | None, says: str, is_async: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = {
        "refusing": Reply(403, b"SECRETPART"),
        "leading": Reply(307, headers={"location": "/SECRETPART"}),
        "silent": Reply(delay=60),
    }
    with ScriptedServer([script.get(host or "", Reply())]) as server:
        if host is not None:
            connect(monkeypatch, f"{server.url}/SECRETPART" if host in script else host, password="pw")
        report(DatapipeFailureNotifier(http_conn_id="chat", timeout=0.5), is_async)
    output = capsys.readouterr()
    assert says in output.out
    assert "SECRETPART" not in output.out + output.err


def send_endless_headers(connection: socket.socket, stopping: threading.Event) -> None:
    """Send headers without an end, at short intervals."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not stopping.wait(0.05):
        connection.sendall(b"x-more: 1\r\n")


def test_endless_response_ends_at_the_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(send_endless_headers) as server:
        connect(monkeypatch, server.url)
        DatapipeFailureNotifier(http_conn_id="chat", timeout=0.5)(of_partial_run())
    assert "no answer within 0.5 s" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_proxy_of_the_environment_without_a_scheme(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    connect(monkeypatch, "http://chat.example.com/alerts")
    with ScriptedServer([Reply()]) as proxy:
        monkeypatch.setenv(variable, f"127.0.0.1:{proxy.port}")
        DatapipeFailureNotifier(http_conn_id="chat")(of_partial_run())
    assert [seen.path for seen in proxy.seen] == ["http://chat.example.com/alerts"]


def test_a_failed_notification_is_logged_without_its_content(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(known: Any) -> None:
        raise ValueError("pw")

    DatapipeFailureNotifier(http_conn_id="chat", body="{{ 1 / 0 }}")(of_partial_run())
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert gateway.seen == []
    DatapipeFailureNotifier(notifier=other)(of_partial_run())
    output = capsys.readouterr().out
    assert "was not sent: ValueError" in output
    assert "pw" not in output


@pytest.mark.parametrize(
    "arguments", [{}, {"http_conn_id": "c", "timeout": 0}, {"http_conn_id": "c", "show_records": -1}]
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"set http_conn_id|timeout|show_records"):
        DatapipeFailureNotifier(**arguments)
