"""Task groups and DAGs that are generated from a snapshot."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator, TransformRematerializeOperator
from airflow_provider_datapipe.pipelines.errors import CycleError, PipelineError, SelectionError, SnapshotError
from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.snapshot import Node, Snapshot
from airflow_provider_datapipe.task_groups import DatapipeDag, DatapipeTaskGroup
from tests.support.airflow_versions import IMPORT_DAG_BAG
from tests.support.dags import stored_dag
from tests.support.examples import scaled
from tests.unit.pipelines.graphs import node, of_edges, snapshots

BEGIN = pendulum.datetime(2026, 1, 1)
SHOP = Snapshot(
    [
        node("sync:s", name="shop"),
        node("stream:1", name="orders", folder="shop", sync="sync:s"),
        node("stream:2", name="people", folder="shop", sync="sync:s"),
        node("transform:a", "stream:1", "stream:2", name="staged", folder="staging/eu"),
        node("transform:b", "transform:a", name="paid", folder="marts", documentation="Who has *paid*."),
        node("transform:c", "transform:b", name="draft", folder="marts", status="draft"),
        node("transform:d", "transform:c", name="top"),
        node("reverse_etl:r", "transform:d", name="top_to_http"),
    ]
)
ORDERS, PEOPLE, STAGED = "elt.shop.orders", "elt.shop.people", "transforms.staging.eu.staged"
PAID, DRAFT, TOP, SENT = "transforms.marts.paid", "transforms.marts.draft", "transforms.top", "reverse_etl.top_to_http"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "pipelines.json"
    file.write_text(SHOP.as_text(), encoding="utf-8")
    return file


def generated(file: Path, **arguments: Any) -> DatapipeDag:
    return DatapipeDag("d", snapshot=file, start_date=BEGIN, **arguments)


def upstream(dag: DAG, prefix: str = "") -> dict[str, set[str]]:
    return {
        task.task_id.removeprefix(prefix): {each.removeprefix(prefix) for each in task.upstream_task_ids}
        for task in dag.tasks
    }


def tasks_of(dag: DAG) -> dict[str, Any]:
    return {task.task_id: task for task in dag.tasks}


REBUILT: dict[str, set[str]] = {
    ORDERS: set(),
    PEOPLE: set(),
    STAGED: {ORDERS, PEOPLE},
    PAID: {STAGED},
    # The dependency skips the draft, which cannot be rebuilt.
    TOP: {PAID},
    SENT: {TOP},
}


def test_a_group_has_a_task_for_each_node(file: Path) -> None:
    with DAG("d", start_date=BEGIN) as dag:
        group = DatapipeTaskGroup("shop", snapshot=file)
    assert upstream(dag, "shop.") == REBUILT
    tasks = tasks_of(dag)
    assert isinstance(tasks[f"shop.{ORDERS}"], EltStreamRunOperator)
    assert isinstance(tasks[f"shop.{PAID}"], TransformRematerializeOperator)
    assert isinstance(tasks[f"shop.{SENT}"], ReverseEtlRunOperator)
    assert tasks[f"shop.{ORDERS}"].stream_id == "1"
    assert tasks[f"shop.{PAID}"].transform_id == "b"
    assert tasks[f"shop.{SENT}"].reverse_etl_sync_id == "r"
    assert tasks[f"shop.{PAID}"].doc_md == "Who has *paid*."
    assert {task.datapipe_conn_id for task in tasks_of(dag).values()} == {"datapipe_default"}
    assert dag.get_task(group.task_ids["transform:b"]) is tasks[f"shop.{PAID}"]


def test_generated_dag_has_the_tasks_of_the_group(file: Path) -> None:
    dag = generated(file, schedule="@daily", datapipe_conn_id="other", tags=["x"])
    assert upstream(dag) == REBUILT
    assert {task.datapipe_conn_id for task in tasks_of(dag).values()} == {"other"}
    assert str(dag.schedule) == "@daily"
    assert set(dag.tags) == {"x"}
    assert dag.task_ids_of_nodes["stream:1"] == ORDERS
    assert dag.fileloc == __file__


def test_group_by_folder_does_not_change_task_ids(file: Path) -> None:
    with DAG("d", start_date=BEGIN) as dag:
        DatapipeTaskGroup("shop", snapshot=file)
    with DAG("flat", start_date=BEGIN) as flat:
        DatapipeTaskGroup("shop", snapshot=file, group_by_folder=False)
    assert upstream(flat) == upstream(dag)
    assert set(flat.task_group_dict) == {"shop"}
    assert set(dag.task_group_dict) == {
        "shop",
        *("shop.elt", "shop.elt.shop", "shop.reverse_etl"),
        *("shop.transforms", "shop.transforms.staging", "shop.transforms.staging.eu", "shop.transforms.marts"),
    }


def test_transforms_publish_includes_drafts(file: Path) -> None:
    dag = generated(file, transforms="publish")
    assert upstream(dag) == REBUILT | {DRAFT: {PAID}, TOP: {DRAFT}}
    assert isinstance(dag.get_task(DRAFT), TransformPublishOperator)


def test_dependencies_follow_the_executed_sql_version(tmp_path: Path) -> None:
    nodes = [node("stream:1"), node("stream:2"), node("transform:t", "stream:1", draft_depends_on=("stream:2",))]
    (tmp_path / "p.json").write_text(Snapshot(nodes).as_text())
    assert upstream(generated(tmp_path / "p.json"))["transforms.t"] == {"elt.1"}
    assert upstream(generated(tmp_path / "p.json", transforms="publish"))["transforms.t"] == {"elt.2"}


def test_select_and_exclude(file: Path) -> None:
    dag = generated(file, select="+top_to_http", exclude=["folder:staging", "people"])
    assert upstream(dag) == {ORDERS: set(), PAID: {ORDERS}, TOP: {PAID}, SENT: {TOP}}


def test_operator_args_and_node_args(file: Path) -> None:
    dag = generated(
        file,
        default_args={"retries": 3, "owner": "shop"},
        operator_args={
            "deferrable": True,
            "pool": "usual",
            "trigger_rule": "none_failed",
            "retry_delay": timedelta(seconds=7),
        },
        node_args={
            "kind:stream": {"pool": "loads", "full_refresh": True},
            "orders": {"pool": "slow", "retries": 0},
            "kind:reverse_etl": {"max_failed_rows": 4},
            "legacy_*": {"pool": "gone"},
        },
    )
    orders, people, paid, sent = (tasks_of(dag)[each] for each in (ORDERS, PEOPLE, PAID, SENT))
    assert [each.pool for each in (orders, people, paid)] == ["slow", "loads", "usual"]
    assert [each.retries for each in (orders, people, paid)] == [0, 3, 3]
    assert [each.full_refresh for each in (orders, people)] == [True, True]
    assert sent.max_failed_rows == 4
    assert {each.trigger_rule for each in dag.tasks} == {"none_failed"}
    assert {each.owner for each in dag.tasks} == {"shop"}
    assert {each.retry_delay for each in dag.tasks} == {timedelta(seconds=7)}
    assert all(each.deferrable for each in tasks_of(dag).values())


@pytest.mark.parametrize(
    ("given_", "connection"),
    [
        ({}, "of_the_dag"),
        ({"datapipe_conn_id": "own"}, "own"),
        ({"datapipe_conn_id": "own", "operator_args": {"datapipe_conn_id": "args"}}, "args"),
        ({"datapipe_conn_id": "own", "node_args": {"*": {"datapipe_conn_id": "nodes"}}}, "nodes"),
    ],
)
def test_most_specific_connection_is_used(file: Path, given_: dict[str, Any], connection: str) -> None:
    dag = generated(file, default_args={"datapipe_conn_id": "of_the_dag"}, **given_)
    assert {task.datapipe_conn_id for task in tasks_of(dag).values()} == {connection}


def test_node_args_can_be_a_function(file: Path) -> None:
    def arguments(one: Node) -> dict[str, Any] | None:
        return {"pool": f"{one.kind}_{one.folder or 'top'}", "doc_md": "ours"} if one.kind != "stream" else None

    with DAG("d", start_date=BEGIN) as dag:
        DatapipeTaskGroup("g", snapshot=file, node_args=arguments, default_args={"pool": "others"})
    assert dag.get_task(f"g.{PAID}").pool == "transform_marts"
    assert dag.get_task(f"g.{PAID}").doc_md == "ours"
    assert dag.get_task(f"g.{ORDERS}").pool == "others"


def test_groups_have_upstream_and_downstream_tasks(file: Path) -> None:
    with DAG("d", start_date=BEGIN) as dag:
        before, after, beside = (BaseOperator(task_id=each) for each in ("before", "after", "beside"))
        first = DatapipeTaskGroup("first", snapshot=file, select="kind:stream")
        second = DatapipeTaskGroup("second", snapshot=file, select="kind:transform kind:reverse_etl")
        before >> first >> second >> after
        dag.get_task(second.task_ids["transform:b"]) >> beside
    tasks = upstream(dag)
    assert tasks[f"first.{ORDERS}"] == tasks[f"first.{PEOPLE}"] == {"before"}
    assert tasks[f"second.{STAGED}"] == {f"first.{ORDERS}", f"first.{PEOPLE}"}
    assert tasks["after"] == {f"second.{SENT}"}
    assert tasks["beside"] == {f"second.{PAID}"}


def test_group_can_be_nested(file: Path) -> None:
    pool: Any = {"pool": "p"}
    with DAG("d", start_date=BEGIN) as dag, TaskGroup("outer", default_args=pool):
        DatapipeTaskGroup("inner", snapshot=file, select="orders", tooltip="Loads")
    (task,) = dag.tasks
    assert (task.task_id, task.pool) == (f"outer.inner.{ORDERS}", "p")
    assert dag.task_group_dict["outer.inner"].tooltip == "Loads"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"snapshot": "gone.json"}, SnapshotError, "There is no snapshot "),
        ({"snapshot": "broken.json"}, SnapshotError, "broken.json, line 2, column 1: not valid JSON"),
        ({"snapshot": "stale.json"}, SnapshotError, "has the format version 0"),
        ({"snapshot": "circle.json"}, CycleError, "x -> y -> x"),
        ({"select": "order"}, SelectionError, "Did you mean orders"),
        ({"select": "draft"}, SelectionError, "all selected transforms are drafts"),
        ({"node_args": {"order": {"pool": "x"}}}, SelectionError, "node_args=['order']: there is no node 'order'"),
        ({"transforms": "build"}, ValueError, "transforms must be 'rebuild' or 'publish', not 'build'"),
        ({"operator_args": {"task_id": "x"}}, ValueError, "operator_args and node_args must not contain task_id"),
        ({"node_args": lambda _: {"dag": None}}, ValueError, "operator_args and node_args must not contain dag"),
    ],
)
def test_invalid_group_arguments_are_refused(
    file: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    (file.parent / "broken.json").write_text('{"format":\n')
    (file.parent / "stale.json").write_text(SHOP.as_text().replace('"version": 1', '"version": 0'))
    circle = {"transform:x": ["transform:y"], "transform:y": ["transform:x"]}
    (file.parent / "circle.json").write_text(of_edges(circle).as_text())
    given_ = {"snapshot": file, **arguments}
    given_["snapshot"] = file.parent / given_["snapshot"]
    with DAG("d", start_date=BEGIN), pytest.raises(error) as refused:
        DatapipeTaskGroup("g", **given_)
    assert message in str(refused.value)


def test_an_unknown_operator_argument_is_rejected_by_airflow(file: Path) -> None:
    with pytest.raises(TypeError, match="Invalid arguments were passed to EltStreamRunOperator"):
        generated(file, operator_args={"max_failed_rows": 4})


COUNTER = itertools.count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=scaled(40))
@given(snapshots(), st.data(), st.booleans())
def test_task_dependencies_match_the_graph(
    tmp_path: Path, snapshot: Snapshot, data: st.DataObject, grouped: bool
) -> None:
    chosen = data.draw(st.sets(st.sampled_from(sorted(snapshot.nodes)), min_size=1))
    file = tmp_path / f"{next(COUNTER)}.json"
    file.write_text(snapshot.as_text())
    dag = generated(file, select=[f"id:{key}" for key in sorted(chosen)], group_by_folder=grouped)
    ids = dag.task_ids_of_nodes
    expected = {ids[key]: {ids[each] for each in read} for key, read in Graph(snapshot).among(chosen).items()}
    assert upstream(dag) == expected
    again = stored_dag(dag)
    assert {task.task_id: set(task.upstream_task_ids) for task in again.tasks} == expected
    assert set(again.task_group_dict) == set(dag.task_group_dict)


def test_partial_subset_of_a_generated_dag(file: Path) -> None:
    part = generated(file).partial_subset(PAID, include_upstream=True)
    assert set(part.task_ids) == {ORDERS, PEOPLE, STAGED, PAID}


@pytest.mark.slow
def test_snapshot_path_is_relative_to_the_dag_file(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "dags"
    folder.mkdir()
    file.rename(folder / "pipelines.json")
    (folder / "generated.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_datapipe.task_groups import DatapipeDag, DatapipeTaskGroup\n"
        "whole = DatapipeDag('whole', snapshot='pipelines.json')\n"
        "with DAG('part') as part:\n"
        "    DatapipeTaskGroup('shop', snapshot='pipelines.json', select='+paid')\n"
    )
    (folder / "wrong.py").write_text(
        "from airflow_provider_datapipe.task_groups import DatapipeDag\n"
        "dag = DatapipeDag('wrong', snapshot='pipelines.json', select='padi')\n"
    )
    dags, errors = parsed(folder)
    assert dags == {"whole": 6, "part": 4}
    (message,) = errors.values()
    assert "SelectionError: select='padi': there is no node 'padi' in" in message
    assert "Did you mean paid" in message


def parsed(folder: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Let Airflow parse a folder in a process without access to a service or its modules."""
    program = (
        "import json, socket, sys\n"
        f"{IMPORT_DAG_BAG}"
        "before = set(sys.modules)\n"
        "def refuse(*arguments): raise AssertionError(f'asks the network: {arguments}')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "bag = DagBag(sys.argv[1])\n"
        "loaded = {name for name in set(sys.modules) - before if name.startswith('airflow_provider_datapipe.')}\n"
        "assert not {name for name in loaded if name.split('.')[1] in ('api', 'runs', 'hooks', 'changes')}, loaded\n"
        "assert not {'httpx', 'aiohttp'} & (set(sys.modules) - before)\n"
        "for dag in bag.dags.values(): assert dag.fileloc == sys.argv[1] + '/generated.py', dag.fileloc\n"
        "print(json.dumps([{key: len(dag.tasks) for key, dag in bag.dags.items()}, bag.import_errors]))\n"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    dags, errors = json.loads(done.stdout.splitlines()[-1])
    return dags, errors


def test_errors_share_a_base_class() -> None:
    assert all(issubclass(each, PipelineError) for each in (CycleError, SelectionError, SnapshotError))
