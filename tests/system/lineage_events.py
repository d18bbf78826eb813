"""
OpenLineage events of tasks on real components.

``python -m tests.system.lineage_events`` runs the example, and updates the diagram in docs/lineage.md.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.demo import DAG, ROOT, RUN_LIMIT, set_up
from tests.system.demo_progress import Display

PAGE = ROOT / "docs" / "lineage.md"
_PICTURE = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.DOTALL)
_STYLES = (
    "classDef task fill:#d7efe9,stroke:#2a7f6d,color:#111",
    "classDef table fill:#dfe8f7,stroke:#3b5f9e,color:#111",
    "classDef external fill:#f7e6d7,stroke:#a5682a,color:#111",
)

Event = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """Components that emit OpenLineage events."""

    airflow: AirflowComponents
    service: LocalService
    folder: Path

    def run(self, dag_id: str) -> tuple[str, list[Event]]:
        """Run a DAG. Return its state and the events of its tasks."""
        run_id = self.airflow.trigger(dag_id)
        state = self.airflow.wait(dag_id, run_id, limit=RUN_LIMIT)
        return state, self.events_of(dag_id)

    def events_of(self, dag_id: str) -> list[Event]:
        """Wait for all events of the tasks of a DAG, and return them in order."""

        def is_complete() -> bool:
            events = self.events()
            started = {each["job"]["name"] for each in events if each["job"]["name"].startswith(f"{dag_id}.")}
            # Tasks send their last event from another process, which can take longer than the scheduler.
            return {dag_id, *started} <= {each["job"]["name"] for each in events if is_last(each)}

        wait_for("the last events of the DAG run and its tasks", is_complete, limit=60)
        return [each for each in self.events() if each["job"]["name"].startswith(f"{dag_id}.")]

    def events(self) -> list[Event]:
        found = []
        for file in self.folder.glob("*.json"):
            try:
                found.append(json.loads(file.read_text()))
            except json.JSONDecodeError:
                # The file is incomplete.
                continue
        return sorted(found, key=lambda event: (event["eventTime"], event["eventType"] != "START"))


def lineage_config(folder: Path) -> dict[str, str]:
    """Return settings of Airflow that write each OpenLineage event to a file in a folder."""
    transport = {"type": "file", "log_file_path": str(folder / "event"), "debug_mode": False}
    return {"openlineage.transport": json.dumps(transport), "openlineage.namespace": "airflow"}


def is_last(event: Event) -> bool:
    """Return True if an event is the last of its run."""
    return event["eventType"] in ("COMPLETE", "FAIL", "ABORT")


def edges_of(events: list[Event]) -> list[tuple[str, str, str]]:
    """Return the edges between datasets and tasks: origin, destination, and ``reads`` or ``writes``."""
    edges: dict[tuple[str, str, str], None] = {}
    for event in filter(is_last, events):
        task = event["job"]["name"].partition(".")[2]
        for dataset in event["inputs"]:
            edges[dataset["name"], task, "reads"] = None
        for dataset in event["outputs"]:
            edges[task, dataset["name"], "writes"] = None
    return list(edges)


def picture(events: list[Event]) -> str:
    """Return the lineage of a run as a Mermaid diagram. It does not depend on the time and the host."""
    edges = edges_of(events)
    tasks = [event["job"]["name"].partition(".")[2] for event in events if is_last(event)]
    datasets = sorted({name for one, other, _ in edges for name in (one, other)} - set(tasks))
    numbers = {name: f"n{number}" for number, name in enumerate([*tasks, *datasets])}
    lines = ["flowchart LR"]
    lines += [f'  {numbers[task]}("{task}"):::task' for task in tasks]
    for name in datasets:
        is_external = name.startswith("connections/")
        begin, end, kind = ("[/", "/]", "external") if is_external else ("[(", ")]", "table")
        lines.append(f'  {numbers[name]}{begin}"{name}"{end}:::{kind}')
    lines += sorted(f"  {numbers[one]} --> {numbers[other]}" for one, other, _ in edges)
    lines += [f"  {style}" for style in _STYLES]
    return "\n".join(lines) + "\n"


def picture_of_the_page() -> str:
    found = _PICTURE.search(PAGE.read_text())
    return "" if found is None else found[0]


def _write() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        started = set_up(stack, Display(), lineage_config(folder := Path(name)))
        _, events = Stage(started.airflow, started.service, folder).run(DAG)
    PAGE.write_text(_PICTURE.sub(lambda _: picture(events), PAGE.read_text(), count=1))


if __name__ == "__main__":
    _write()
