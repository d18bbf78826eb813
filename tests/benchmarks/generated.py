"""
Cost of a DAG that is generated from a snapshot: ``python -m tests.benchmarks.generated``.

Compares it with the same handwritten DAG, after a check that IDs, groups, arguments and edges are equal. Both are
parsed in new interpreters, alternately. Prints the median of the CPU seconds in addition to Airflow, including imports
of the operators and compilation of the file.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.naming import Place, places
from airflow_provider_datapipe.pipelines.snapshot import REVERSE_ETL, STREAM, SYNC, TRANSFORM, Node, Snapshot
from tests.benchmarks.environment import process_env

WAYS = ("generated", "written")
#: Time limit of one interpreter in seconds.
_LIMIT = 300.0
_OPERATORS = {
    STREAM: ("EltStreamRunOperator", "stream_id"),
    TRANSFORM: ("TransformRematerializeOperator", "transform_id"),
    REVERSE_ETL: ("ReverseEtlRunOperator", "reverse_etl_sync_id"),
}
_HEAD = "import pendulum\nfrom airflow.sdk import DAG, TaskGroup\n"


@dataclass(frozen=True, slots=True)
class Parsed:
    """Cost of one parse in CPU seconds."""

    way: str
    parse: float
    again: float
    serialize: float
    tasks: dict[str, list[str]]


def shop(count: int) -> Snapshot:
    """Return a snapshot with usual proportions: 30% streams, 60% transforms in layers, and 10% reverse ETL syncs."""
    chance = random.Random(1)  # noqa: S311 - no secret
    nodes = [Node(f"sync:s{number}", SYNC, f"s{number}", f"source_{number}") for number in range(10)]
    read: list[str] = []
    for number in range(count * 3 // 10):
        sync = f"s{number % 10}"
        nodes.append(
            Node(
                f"stream:{number}", STREAM, str(number), f"table_{number}", f"source_{number % 10}", sync=f"sync:{sync}"
            )
        )
        read.append(nodes[-1].id)
    models = [f"m{number}" for number in range(count * 6 // 10)]
    for number, model in enumerate(models):
        parents = chance.sample(read[-100:], min(3, len(read)))
        folder = f"layer_{number * 5 // len(models)}/part_{number % 8}"
        depends_on = tuple(sorted(parents))
        nodes.append(
            Node(f"transform:{model}", TRANSFORM, model, f"model_{number}", folder, "published", depends_on=depends_on)
        )
        read.append(nodes[-1].id)
    for number in range(count - len(read)):
        model = models[-1 - number % len(models)]
        name = f"{model}_to_http_{number}"
        nodes.append(Node(f"reverse_etl:{number}", REVERSE_ETL, str(number), name, depends_on=(f"transform:{model}",)))
    return Snapshot(nodes)


def written(snapshot: Snapshot) -> str:
    """Return the source of the handwritten DAG."""
    graph = Graph(snapshot)
    where = places(graph.nodes.values())
    names = {key: f"t{number}" for number, key in enumerate(graph.nodes)}
    lines = [
        "from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator",
        "from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator",
        "from airflow_provider_datapipe.operators.transforms import TransformRematerializeOperator",
        "with DAG('shop', start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:",
        *_inside(graph, where, names, ()),
    ]
    for key, parents in graph.among(graph.nodes).items():
        if parents:
            lines.append(f"    [{', '.join(names[each] for each in parents)}] >> {names[key]}")
    return _HEAD + "\n".join(lines) + "\n"


def _inside(graph: Graph, where: Any, names: dict[str, str], group: tuple[str, ...]) -> Iterator[str]:
    indent = "    " * (len(group) + 1)
    depth = len(group)
    for key, node in graph.nodes.items():
        place: Place = where[key]
        if place.groups == group:
            operator, field = _OPERATORS[node.kind]
            yield (
                f"{indent}{names[key]} = {operator}(task_id={place.label!r}, {field}={node.resource_id!r}, "
                "datapipe_conn_id='datapipe_default')"
            )
    below = sorted(
        {place.groups[depth] for place in where.values() if place.groups[:depth] == group and place.groups[depth:]}
    )
    for each in below:
        yield f"{indent}with TaskGroup({each!r}):"
        yield from _inside(graph, where, names, (*group, each))


def measure(count: int, repetitions: int) -> Iterator[Parsed]:
    snapshot = shop(count)
    with TemporaryDirectory(prefix="datapipe-bench-") as name:
        folder = Path(name)
        (folder / "pipelines.json").write_text(snapshot.as_text(), encoding="utf-8")
        (folder / "written.py").write_text(written(snapshot), encoding="utf-8")
        (folder / "generated.py").write_text(
            f"{_HEAD}from airflow_provider_datapipe.task_groups import DatapipeDag\n"
            "dag = DatapipeDag('shop', snapshot='pipelines.json', start_date=pendulum.datetime(2026, 1, 1))\n"
        )
        env = process_env(folder / "airflow")
        # The first repetition fills the caches, and is not counted.
        for repetition in range(-1 if repetitions > 1 else 0, repetitions):
            for way in WAYS:
                done = subprocess.run(  # noqa: S603 - this module
                    [sys.executable, "-m", "tests.benchmarks.generated", "--parse", str(folder / f"{way}.py")],
                    env=env,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=_LIMIT,
                )
                if repetition >= 0:
                    yield Parsed(way=way, **json.loads(done.stdout.splitlines()[-1]))


def parse(path: Path) -> None:
    """Parse a DAG file, and print the cost."""
    import airflow.sdk

    from tests.support.airflow_versions import dag_serialization

    serialization = dag_serialization()
    took = []
    names: dict[str, Any] = {}
    for _ in range(2):
        names = {"__file__": str(path), "__name__": "bench_dag"}
        began = time.process_time()
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)  # noqa: S102 - source of this module
        took.append(time.process_time() - began)
    dag = names["dag"]
    assert isinstance(dag, airflow.sdk.DAG)
    began = time.process_time()
    encoded = serialization.to_dict(dag)
    serialize = time.process_time() - began
    serialization.validate_schema(encoded)
    tasks = {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks}
    print(json.dumps({"parse": took[0], "again": took[1], "serialize": serialize, "tasks": tasks}))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.generated", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="tasks")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--parse", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.parse is not None:
        parse(chosen.parse)
        return 0
    found = list(measure(chosen.count, chosen.repetitions))
    ours, theirs = ([one for one in found if one.way == way] for way in WAYS)
    if ours[0].tasks != theirs[0].tasks:
        print("The two DAGs are not the same.", file=sys.stderr)
        return 1
    edges = sum(len(each) for each in ours[0].tasks.values())
    print(f"{len(ours[0].tasks):,} tasks, {edges:,} edges; median CPU seconds of {chosen.repetitions}\n")
    print("| What | Generated | Written by hand | Ratio |\n| --- | --- | --- | --- |")
    for reported, figure in (("parse", "parse"), ("parse again, same process", "again"), ("serialize", "serialize")):
        one, other = (median(getattr(each, figure) for each in these) for these in (ours, theirs))
        print(f"| {reported} | {one:.3f} | {other:.3f} | {one / other:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
