"""
Duration of list requests with many stored runs: ``python -m tests.benchmarks.local_lists``.

Compares a service with a hundred runs of each kind to one with a hundred thousand. One client repeats each request over
one connection. Prints the medians.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from datapipe_local.storage.clock import as_timestamp
from datapipe_local.storage.ids import RunId
from tests.support.local_service import LocalService
from tests.system import seeds

Json = dict[str, Any]

_STREAMS = 1_000
_SYNCS = 100
_TRANSFORMS = 1_000
#: Interval of the runs in seconds. All runs are within the last three months.
_SECONDS_BETWEEN_RUNS = 60
_SELECT = "SELECT id, name FROM {{raw.many.s0}} WHERE id > 0"


def _seed(folder: str, transforms: int) -> Json:
    def sync(name: str, streams: int) -> Json:
        return seeds.elt_sync(name, "files", (seeds.stream(f"{name}.s{n}", f"s{n}", "x.csv") for n in range(streams)))

    return {
        "connections": [
            seeds.connection("files", "files", path=folder),
            seeds.connection("exports", "jsonl", path=folder),
        ],
        "orchestrations": [seeds.orchestration("busy"), seeds.orchestration("idle")],
        "elt_syncs": [sync("one", 1), sync("many", _STREAMS), *(sync(f"sync{n}", 10) for n in range(_SYNCS))],
        "transforms": [seeds.transform(f"t{n}", _SELECT, folder_path="shop", publish=False) for n in range(transforms)],
        "reverse_etl_syncs": [seeds.reverse_etl_sync("out", "t0", "exports", "people")],
    }


def _moments(number: int) -> Iterator[str]:
    begin = datetime.now(UTC) - timedelta(seconds=number * _SECONDS_BETWEEN_RUNS)
    return (as_timestamp(begin + timedelta(seconds=n * _SECONDS_BETWEEN_RUNS)) for n in range(number))


def _fill(service: LocalService, number: int, for_each_stream: int) -> dict[str, str]:
    """Store runs, and return the ID of the middle run of each kind."""
    one, out = "one.s0", "out"
    stream_runs = [(str(RunId(one, at)), "one", one, at) for at in _moments(number)]
    for stream in (f"many.s{n}" for n in range(_STREAMS)):
        stream_runs += [(str(RunId(stream, at)), "many", stream, at) for at in _moments(for_each_stream)]
    reverse_runs = [(str(RunId(out, at)), out, at) for at in _moments(number)]
    orchestration_runs = [(f"run-{n}", "idle" if n < 10 else "busy", at) for n, at in enumerate(_moments(number))]
    with sqlite3.connect(service.home / "state.sqlite") as store:
        store.executemany(
            "INSERT INTO elt_stream_runs (id, elt_sync_id, elt_stream_id, started_at, finished_at, status, rows_synced,"
            " bytes_synced, full_sync_trigger, operation_mode)"
            " VALUES (?1, ?2, ?3, ?4, ?4, 'COMPLETED', 10, 100, 'NONE', 'FULL')",
            stream_runs,
        )
        store.executemany(
            "INSERT INTO reverse_etl_sync_runs (id, reverse_etl_sync_id, started_at, finished_at, status)"
            " VALUES (?1, ?2, ?3, ?3, 'COMPLETED')",
            reverse_runs,
        )
        store.executemany(
            "INSERT INTO orchestration_runs (id, orchestration_id, due_at, started_at, finished_at, status)"
            " VALUES (?1, ?2, ?3, ?3, ?3, 'COMPLETED')",
            orchestration_runs,
        )
    return {"stream": stream_runs[number // 2][0], "reverse": reverse_runs[number // 2][0]}


class _Client:
    """Client with one connection."""

    def __init__(self, service: LocalService) -> None:
        self._connection = http.client.HTTPConnection(service.base_url.partition("//")[2], timeout=60)
        self._headers = service.headers

    def get(self, path: str) -> Json:
        self._connection.request("GET", path, headers=self._headers)
        with self._connection.getresponse() as answer:
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")
        found: Json = json.loads(body)
        return found

    def seconds(self, path: str, times: int) -> float:
        """Return the median time of a request."""
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            self._connection.request("GET", path, headers=self._headers)
            with self._connection.getresponse() as answer:
                answer.read()
            taken.append(time.perf_counter() - began)
        return median(taken)


def _paths(client: _Client, middle: dict[str, str]) -> dict[str, str]:
    runs, reverse = "/elt_stream_runs?elt_stream_id=one.s0", "/reverse_etl_sync_runs?reverse_etl_sync_id=out"
    # The cursors of this list are not run IDs, so some pages are read to get one.
    deep, cursor = "/orchestration_runs?limit=100", ""
    for _ in range(200):
        page = client.get(deep + cursor)
        if not page["has_more"]:
            break
        cursor = f"&starting_after={page['next_cursor']}"
    return {
        "stream runs, first page": f"{runs}&limit=25",
        "stream runs, from the middle": f"{runs}&limit=25&starting_after={middle['stream']}",
        "stream runs, oldest first": f"{runs}&limit=25&sort_direction=asc",
        "a stream run": f"/elt_stream_runs/{middle['stream']}",
        "status URL of a stream run": f"{runs}&limit=1&sort_direction=asc&starting_after={middle['stream']}",
        "reverse ETL runs, first page": f"{reverse}&limit=25",
        "reverse ETL runs, from the middle": f"{reverse}&limit=25&starting_after={middle['reverse']}",
        "orchestration runs, first page": "/orchestration_runs?limit=25",
        "orchestration runs, from within": f"/orchestration_runs?limit=25{cursor}",
        "orchestration runs of a busy one": "/orchestration_runs?orchestration_id=busy&limit=25",
        "orchestration runs of an idle one": "/orchestration_runs?orchestration_id=idle&limit=25",
        f"status of a sync of {_STREAMS:,} streams": "/elt_syncs/many/status",
        "ELT syncs, first page": "/elt_syncs?limit=100",
        "transforms, first page": "/transforms?limit=25",
        "transforms, by name": "/transforms?limit=5&name=t9",
    }


def measure(number: int, for_each_stream: int, transforms: int, times: int) -> dict[str, float]:
    folder = "."
    with LocalService(_seed(folder, transforms), ready_within=120) as service:
        service.stop()
        middle = _fill(service, number, for_each_stream)
        service.start()
        client = _Client(service)
        paths = _paths(client, middle)
        for path in paths.values():
            client.get(path)
        return {name: client.seconds(path, times) for name, path in paths.items()}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_lists", description=__doc__)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=50)
    chosen = parser.parse_args(arguments)
    few = measure(chosen.few, 1, _TRANSFORMS // 10, chosen.times)
    many = measure(chosen.many, 100, _TRANSFORMS, chosen.times)
    print(f"{'':44}{chosen.few:>11,} {chosen.many:>11,}   ratio")
    for name, seconds in few.items():
        print(f"{name:44}{1e3 * seconds:8.2f} ms {1e3 * many[name]:8.2f} ms   {many[name] / seconds:5.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
