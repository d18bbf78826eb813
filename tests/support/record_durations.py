"""
Recorder of the durations of real runs: ``python -m tests.support.record_durations``.

Runs loads and a transform of datapipe-local one after the other, on the flights of the demo, and writes their durations
from the service's journal to ``recorded_durations.csv``. Other processes on the machine affect the data.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.local_service import LocalService
from tests.support.processes import Workspace, wait_for
from tests.system import seeds
from tests.system.demo import source_folder

RECORDED = Path(__file__).with_name("recorded_durations.csv")
RUNS = 60
#: Number of runs between two full loads of an incremental stream.
WHOLE_EVERY = 7

SQL = """
SELECT carrier, dest, month, count(*) AS flights, avg(arr_delay) AS late, quantile_cont(dep_delay, 0.9) AS very_late
FROM {{raw.nycflights.same}} GROUP BY ALL
"""
STREAMS = ("same", "growing", "parts")


def seed(folder: Path) -> dict[str, Any]:
    """Return the seed of a service with three streams of flights and a table of one of them."""
    options = {"nullstr": "NA", "sample_size": -1}
    streams = [seeds.stream(name, file=f"{name}.csv", options=options) for name in STREAMS]
    return {
        "connections": [seeds.connection("files", "files", path=str(folder))],
        "elt_syncs": [seeds.elt_sync("nycflights", "files", streams)],
        "transforms": [
            seeds.transform("table", SQL, folder_path="flights", materialization="table", publish=False),
        ],
    }


def record() -> dict[str, list[float]]:
    """Run all series, and return their durations in seconds, oldest first."""
    with zipfile.ZipFile(source_folder() / "flights.csv.zip") as archive:
        header, *rows = archive.read("flights.csv").splitlines(keepends=True)
    with Workspace("datapipe-durations-") as workspace:
        files = workspace.path / "files"
        files.mkdir()

        def write(name: str, count: int) -> None:
            (files / f"{name}.csv").write_bytes(b"".join([header, *rows[:count]]))

        for name in STREAMS:
            write(name, len(rows))
        with LocalService(seed(files), workspace=workspace, control=True) as service:
            for run in range(RUNS):
                write("growing", len(rows) // 4 + len(rows) * 3 * run // (4 * RUNS))
                write("parts", len(rows) if run % WHOLE_EVERY == WHOLE_EVERY - 1 else len(rows) // 20)
                for name in STREAMS:
                    _run(service, name, f"/elt_streams/{name}/request_run")
                _run(service, "table", "/transforms/table/publish")
            return {name: [_seconds(one) for one in service.journal_runs(name)] for name in (*STREAMS, "table")}


def _run(service: LocalService, name: str, path: str) -> None:
    before = len(service.journal_runs(name))
    service.request("POST", path)
    wait_for(f"the run of {name}", _ended(service, name, before + 1), limit=120, interval=0.05)
    status = service.journal_runs(name)[-1]["status"]
    if status not in ("COMPLETED", "completed"):
        raise RuntimeError(f"{name}: {status}")


def _ended(service: LocalService, name: str, count: int) -> Callable[[], bool]:
    def ended() -> bool:
        runs = service.journal_runs(name)
        return len(runs) == count and runs[-1]["finished_at"] is not None

    return ended


def _seconds(run: dict[str, Any]) -> float:
    begin, end = (datetime.fromisoformat(run[field]) for field in ("started_at", "finished_at"))
    return (end - begin).total_seconds()


def main() -> None:
    """Write ``recorded_durations.csv``."""
    with RECORDED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["series", "seconds"])
        writer.writerows([name, f"{seconds:.3f}"] for name, series in record().items() for seconds in series)


if __name__ == "__main__":
    main()
