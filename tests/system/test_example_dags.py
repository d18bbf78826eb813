"""Example DAGs of a shop on real components: data of the service, its warehouse and the CRM."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.conftest import connected, saved
from tests.system.demo import EXAMPLES

SOURCE = EXAMPLES / "shop"
SECRET = "made-up-for-this-test"
#: Backfill of the example's docstring.
BACKFILL = {"from_date": "2026-03-01", "to_date": "2026-03-03"}
#: Time limit in seconds for a busy machine.
LIMIT = 300.0
#: DAGs that can run concurrently after the first load.
CONCURRENT = ("shop_branches", "shop_deploy_models", "shop_till_receipts", "shop_generated")
#: State of a task that waits for input: since Airflow 3.3, and before.
WAITING = ("awaiting_input", "deferred")
#: Changes of the examples: no schedules, because only the tests start DAG runs, and shorter retry delays, because a
#: busy machine may lose tasks.
CHANGES = {
    'schedule="0 2 * * *"': "schedule=None",
    'schedule="0 3 * * *"': "schedule=None",
    "start_date=pendulum.datetime(2026, 3, 1)": (
        "start_date=pendulum.datetime(2026, 3, 1), end_date=pendulum.datetime(2026, 3, 4)"
    ),
    "timedelta(minutes=5)": "timedelta(seconds=2)",
    "delta=timedelta(hours=1)": "delta=timedelta(seconds=1)",
    '"datapipe_conn_id": "shop"': '"datapipe_conn_id": "shop", "retries": 9, "retry_delay": 2',
    '"retries": 2': '"retries": 9',
}
EMAIL = "CHECK constraint failed: email LIKE '%_@_%'"
COUNTRY = "country is not registered"


@dataclass
class Shop:
    """The shop and its components."""

    airflow: AirflowComponents
    service: LocalService
    folder: Path
    crm: Path
    started: dict[str, str] = field(default_factory=dict)

    def run(self, dag_id: str) -> str:
        """Run a DAG successfully, and return the ID of the DAG run."""
        run_id = self.started.pop(dag_id, None) or self.airflow.trigger(dag_id)
        self.airflow.ends(dag_id, run_id)
        return run_id

    def backfill(self, dag_id: str) -> None:
        """Create a backfill, like ``airflow backfill create``."""
        # With SQLite, Airflow may roll back the backfill. The DAG is paused so that the scheduler does not start it.
        self.airflow.api.request("PATCH", f"/dags/{dag_id}", json={"is_paused": True})
        self.airflow.api.request("POST", "/backfills", json={"dag_id": dag_id, **BACKFILL, "max_active_runs": 3})
        self.airflow.api.request("PATCH", f"/dags/{dag_id}", json={"is_paused": False})

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        return self.airflow.api.xcom(dag_id, run_id, task_id)

    def runs_of(self, dag_id: str, **wanted: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG with some values of fields."""
        runs = self.airflow.api.request("GET", f"/dags/{dag_id}/dagRuns", params={"limit": 100})["dag_runs"]
        return [run for run in runs if all(run[name] == value for name, value in wanted.items())]

    def ask(self, sql: str) -> list[Any]:
        """Query the warehouse, and return the first column."""
        rows = self.service.request("POST", "/_local/query", json={"sql": sql})["data"]
        return [next(iter(row.values())) for row in rows]

    def ask_crm(self, sql: str) -> list[Any]:
        """Query or change the CRM, and return the first column."""
        with closing(sqlite3.connect(self.crm)) as database, database:
            return [row[0] for row in database.execute(sql)]

    def change(self, file: str, old: str, new: str) -> None:
        path = self.folder / "data" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def is_watched(self, path: str) -> None:
        """Wait until a watcher has polled, so that later ends of runs have events."""
        wait_for(f"a poll of {path}", lambda: bool(self.service.journal_requests(path)), limit=LIMIT)


def with_changes(code: str) -> str:
    pattern = "|".join(map(re.escape, CHANGES))
    return re.sub(pattern, lambda found: CHANGES[found[0]], code)


def test_all_changes_of_the_examples_apply() -> None:
    code = "".join(file.read_text() for file in SOURCE.glob("*.py"))
    assert [old for old in CHANGES if old not in code] == []


@pytest.fixture(scope="module")
def shop(airflow: AirflowComponents, dags_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Return a shop with its DAGs, after the first run of the nightly one."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(SOURCE, folder / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    crm = folder / "crm.db"
    with closing(sqlite3.connect(crm)) as database:
        database.executescript((SOURCE / "crm.sql").read_text())
    variables = {"SHOP_CRM": str(crm), "SHOP_WEBHOOK_SECRET": SECRET}
    with ExitStack() as stack:
        service = stack.enter_context(LocalService(folder / "shop/seed.yaml", environment=variables, control=True))
        stack.enter_context(connected(airflow, "shop", service))
        webhook = {"conn_type": "datapipe_webhook", "host": f"{service.base_url}/webhooks/till", "password": SECRET}
        extra = json.dumps({"authentication": "hmac", "header": "X-Signature"})
        stack.enter_context(saved(airflow, "shop_till", **webhook, extra=extra))
        dags = dags_folder / "shop"
        shutil.copytree(SOURCE, dags, ignore=shutil.ignore_patterns("__pycache__", "data", "*.yaml", "crm.sql"))
        for file in dags.glob("*.py"):
            file.write_text(with_changes(file.read_text()))
        # The watchers end when Airflow detects that their files were removed.
        stack.callback(shutil.rmtree, dags)
        yield Shop(airflow, service, folder / "shop", crm)


@pytest.fixture(scope="module")
def nightly(shop: Shop) -> str:
    """Run the nightly DAG with a watcher of the failed records, start further DAGs, and return its run ID."""
    shop.is_watched("/reverse_etl_failed_records/count")
    run_id = shop.run("shop_nightly")
    shop.backfill("shop_daily_close")
    for dag_id in CONCURRENT:
        shop.started[dag_id] = shop.airflow.trigger(dag_id)
    return run_id


def test_nightly_dag(shop: Shop, nightly: str) -> None:
    assert shop.xcom("shop_nightly", nightly, "load")["rows_synced"] == 15
    assert shop.xcom("shop_nightly", nightly, "check")["passed"] is True
    assert shop.airflow.was_deferred("shop_nightly", nightly, "load")
    assert shop.ask("SELECT count(*) FROM marts.customer_value") == [6]
    assert shop.ask_crm("SELECT revenue FROM contacts WHERE name IN ('Ada', 'Bob', 'Dan') ORDER BY name") == [
        105.0,
        45.49,
        15.25,
    ]
    (sent,) = shop.service.journal_runs("contacts")[:1]
    assert (sent["trigger"], sent["status"]) == ("request", "COMPLETED")
    # The schedule was paused and restored.
    sync = "/elt_syncs/shop"
    changes = [one["method"] for one in shop.service.journal_requests(sync) if one["committed"]]
    assert len(changes) >= 2
    now = shop.service.request("GET", sync)
    assert (now["sync_interval"], now["enabled"]) == ("0 * * * *", True)


@pytest.mark.usefixtures("nightly")
def test_branches_dag_loads_open_branches(shop: Shop) -> None:
    run_id = shop.run("shop_branches")
    assert shop.xcom("shop_branches", run_id, "rows") == {"branch_north": 3, "branch_south": 2}
    assert shop.ask("SELECT receipt FROM branch_north.sales ORDER BY 1") == ["N1", "N2", "N3"]
    assert shop.ask("SELECT count(*) FROM branch_south.sales") == [2]
    assert shop.service.journal_runs("branch_east.sales") == []
    assert len(shop.service.journal_runs("branch_north.sales")) == 1


@pytest.mark.usefixtures("nightly")
def test_deploy_models_dag(shop: Shop) -> None:
    run_id = shop.run("shop_deploy_models")
    assert shop.xcom("shop_deploy_models", run_id, "plan")["counts"]["create"] == 2
    assert shop.ask("SELECT orders FROM finance.daily_revenue ORDER BY ordered_on") == [3, 2, 4]
    # Not the result of the task: that of a second try contains only its own changes.
    requests = [
        request["path"].rpartition("/")[2]
        for request in shop.service.journal_requests("/transforms/**")
        if request["method"] == "POST" and request["committed"]
    ]
    assert requests.count("bulk") == 1
    assert requests.count("publish") >= 2


@pytest.mark.usefixtures("nightly")
def test_till_receipts_dag(shop: Shop) -> None:
    run_id = shop.run("shop_till_receipts")
    assert shop.xcom("shop_till_receipts", run_id, "push")["records"] == 4
    assert shop.ask("SELECT receipt FROM till.receipts ORDER BY 1") == ["T1", "T2", "T3", "T4"]


@pytest.mark.usefixtures("nightly")
def test_generated_group_follows_the_references(shop: Shop) -> None:
    run_id = shop.run("shop_generated")
    tasks = shop.airflow.tasks("shop_generated", run_id)
    assert {task_id: shop.xcom("shop_generated", run_id, task_id)["outcome"] for task_id in tasks} == {
        "finance.elt.payments.payments": "succeeded",
        "finance.elt.shop.orders": "succeeded",
        "finance.transforms.marts.open_orders": "succeeded",
    }


@pytest.mark.usefixtures("nightly")
def test_backfill_of_the_daily_close_dag(shop: Shop) -> None:
    runs: list[dict[str, Any]] = []

    def are_over() -> bool:
        runs[:] = shop.runs_of("shop_daily_close", run_type="backfill")
        return len(runs) == 3 and all(run["state"] in ("success", "failed") for run in runs)

    wait_for("three days are closed", are_over, limit=LIMIT, interval=0.5)
    for run in runs:
        shop.airflow.ends("shop_daily_close", run["dag_run_id"])
    intervals = sorted((run["data_interval_start"][:10], run["data_interval_end"][:10]) for run in runs)
    assert intervals == [("2026-03-01", "2026-03-02"), ("2026-03-02", "2026-03-03"), ("2026-03-03", "2026-03-04")]
    for day, orders in ((1, [101, 102, 103]), (2, [104, 105]), (3, [106, 107, 108, 109])):
        assert shop.ask(f"FROM closed.orders_2026030{day} ORDER BY id") == orders


@pytest.mark.usefixtures("nightly")
def test_load_by_another_client_triggers_a_dag(shop: Shop) -> None:
    shop.is_watched("/elt_syncs/payments/status")
    shop.change("payments.csv", "1,101,", "9,103,2026-03-04,12.00\n1,101,")
    path = "/elt_streams/payments.payments/request_run"
    # The generated group may be loading the stream, in a run from before the change.
    with shop.service.client() as client:
        wait_for("a run is started", lambda: client.post(path).is_success, limit=LIMIT)
    (asked,) = shop.service.journal_runs("payments.payments")[-1:]
    found: list[str] = []

    def is_reported() -> bool:
        run_id = shop.service.journal_runs("payments.payments")[-1]["run_id"]
        runs = [run["dag_run_id"] for run in shop.runs_of("shop_payments_loaded")]
        found[:] = [run for run in runs if run_id in (shop.xcom("shop_payments_loaded", run, "rows_loaded") or {})]
        return bool(found)

    wait_for("a DAG run has got the event", is_reported, limit=LIMIT, interval=0.5)
    assert asked["trigger"] == "request"
    shop.airflow.ends("shop_payments_loaded", found[0])
    (run,) = [run for run in shop.runs_of("shop_payments_loaded") if run["dag_run_id"] == found[0]]
    assert run["run_type"] == "asset_triggered"
    assert shop.ask("SELECT id FROM marts.open_orders ORDER BY id") == [105, 107, 108, 109]
    assert shop.xcom("shop_payments_loaded", found[0], "owed")["rows"][0]["orders"] == 4


@pytest.mark.usefixtures("nightly")
def test_failed_records_trigger_a_dag_that_retries_them(shop: Shop) -> None:
    first: list[dict[str, Any]] = []

    def is_over() -> bool:
        first[:] = shop.runs_of("shop_failed_records", run_type="asset_triggered")
        return bool(first) and first[0]["state"] in ("success", "failed")

    wait_for("the DAG has run", is_over, limit=LIMIT, interval=0.5)
    run_id = first[0]["dag_run_id"]
    shop.airflow.ends("shop_failed_records", run_id)
    assert shop.xcom("shop_failed_records", run_id, "by_reason") == {COUNTRY: 2, EMAIL: 1}
    assert shop.xcom("shop_failed_records", run_id, "retry")["details"]["requested"] == 2
    assert shop.ask_crm("SELECT name FROM contacts WHERE country = 'IS'") == []

    shop.ask_crm("INSERT INTO countries VALUES ('IS')")
    run_id = shop.run("shop_failed_records")
    assert shop.ask_crm("SELECT name FROM contacts ORDER BY 1") == ["Ada", "Bob", "Cyd", "Dan", "Fay"]
    assert shop.xcom("shop_failed_records", run_id, "left") == {EMAIL: 1}
    # The run of the nightly DAG, and one run for each run of this DAG.
    assert {run["status"] for run in shop.service.journal_runs("contacts")} == {"COMPLETED"}


def answered(shop: Shop, answer: str) -> str:
    """Run the full refresh, and answer its question like a user in the pages of Airflow."""
    dag_id = "shop_full_refresh"
    run_id = shop.airflow.trigger(dag_id)
    asked: list[dict[str, Any]] = []

    def is_asked() -> bool:
        asked[:] = shop.airflow.api.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}/hitlDetails")["hitl_details"]
        return bool(asked) and shop.airflow.tasks(dag_id, run_id)["approve"].state in WAITING

    def is_processed() -> bool:
        reported = f"Received executor event with state success for task instance TaskInstanceKey(dag_id='{dag_id}'"
        logs = [path for path in shop.airflow.log_files() if path.name.startswith("scheduler")]
        return any(
            reported in line and "task_id='approve'" in line and run_id in line
            for path in logs
            for line in path.read_text(errors="replace").splitlines()
        )

    wait_for("the question", is_asked, limit=LIMIT, interval=0.5)
    # Airflow fails a task that is answered before the scheduler has processed the end of its first pass
    # (docs/waiting.md, "Minimum deferral time").
    wait_for("the scheduler knows that the task waits", is_processed, limit=LIMIT, interval=0.5)
    before = shop.xcom(dag_id, run_id, "before")["rows"][0]["orders"]
    assert f"There are {before} orders now" in asked[0]["body"]
    path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    shop.airflow.api.request("PATCH", path, json={"chosen_options": [answer], "params_input": {}})
    shop.airflow.ends(dag_id, run_id)
    return run_id


@pytest.mark.usefixtures("nightly")
def test_full_refresh_runs_after_approval_by_a_user(shop: Shop) -> None:
    # Wait for the end of the backfill, which reads the same orders.
    test_backfill_of_the_daily_close_dag(shop)
    shop.change("orders.csv", "109,1,2026-03-03,5.00,2026-03-03 19:45:00\n", "")
    path = "/elt_streams/*/request_full_refresh"
    loads = len(shop.service.journal_runs("shop.orders"))

    rejected = answered(shop, "Reject")
    states = {task_id: one.state for task_id, one in shop.airflow.tasks("shop_full_refresh", rejected).items()}
    assert states == {"before": "success", "approve": "success", "refresh": "skipped", "after": "skipped"}
    assert shop.service.journal_requests(path) == []
    assert len(shop.service.journal_runs("shop.orders")) == loads

    approved = answered(shop, "Approve")
    assert [one["committed"] for one in shop.service.journal_requests(path)] == [True]
    assert len(shop.service.journal_runs("shop.orders")) == loads + 1
    assert shop.ask("SELECT count(*) FROM shop.orders WHERE id = 109") == [0]
    assert shop.xcom("shop_full_refresh", approved, "after")["rows"][0]["orders"] == 8
