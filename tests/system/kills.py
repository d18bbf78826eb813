"""
Kill the local service repeatedly under load, and check its data: ``python -m tests.system.kills``.

The service loads tables (full refresh, merge with a history, append), builds a table, sends records to an HTTP
endpoint, files and a table, and receives webhook requests. After each SIGKILL, each table of the warehouse must be
the complete result of one load or build. At the end, the service runs without kills, and its data are compared with
the input: no acknowledged row is missing or duplicated, each run has ended, and no destination has a record twice.
The endpoint honors the ``Idempotency-Key`` of a request: a request that is repeated after a kill has no second effect.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import sqlite3
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import httpx

from tests.contract.datapipe_local.partner import Partner
from tests.support.local_service import LocalService
from tests.support.processes import Workspace
from tests.system import seeds

Json = dict[str, Any]
#: Rows of ``merged`` at a destination, in order of arrival: ID and version.
Rows = list[tuple[int, int]]

_WHOLE_ROWS = 60_000
_KEYS = 2_000
_LIMIT = 60.0
_STREAMS = ("whole", "renewed", "merged", "appended", "hooks")
#: Syncs: connection, object type, mode and settings.
_SENDS: dict[str, tuple[str, str, str, Json]] = {
    "send": ("partner", "single", "upsert", {}),
    "send_together": ("partner", "together", "upsert", {"batch_size": 60}),
    "lines": ("lines", "people", "mirror", {}),
    "lines_log": ("lines", "log", "insert", {}),
    "rows": ("rows", "people", "mirror", {}),
    "rows_log": ("rows", "log", "insert", {}),
    "table_log": ("shop", "log", "insert", {}),
}
#: Syncs without a primary key, which send each version of a row as a record.
_KEYLESS = ("lines_log", "table_log")
_LOADS = tuple(f"/elt_streams/{name}/request_run" for name in _STREAMS)
_REVERSE = tuple(f"/reverse_etl_syncs/{name}/request_run" for name in _SENDS)


class SoakCounts(NamedTuple):
    """Counts of one soak test."""

    kills: int
    interrupted: int
    ended: int
    acknowledged: int
    sent: int
    repeated: int
    written: int
    twice: int


class _Sources:
    """Source files that change between the kills. Each change replaces a whole file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = 0
        self.appended: list[Json] = []
        self.merged: dict[int, int] = {}
        #: All rows, including earlier versions.
        self.ever: set[tuple[int, int]] = set()
        self.advance(random.Random(0))  # noqa: S311 - no secret

    @property
    def version(self) -> int:
        return self._version

    def advance(self, rng: random.Random) -> None:
        self._version += 1
        rows = f"SELECT range AS id, {self._version} AS version, random() AS x FROM range({_WHOLE_ROWS})"  # noqa: S608 - values of this module
        fresh = self._folder / "fresh"
        duckdb.execute(f"COPY ({rows}) TO '{fresh}' (FORMAT csv)")
        # A merge replaces all rows of this table, which must never be empty.
        shutil.copy(fresh, self._folder / "renewing")
        (self._folder / "renewing").replace(self._folder / "renewed.csv")
        fresh.replace(self._folder / "whole.csv")
        for _ in range(_KEYS // 4):
            self.merged[rng.randrange(_KEYS)] = self._version
        self.ever.update(self.merged.items())
        self._write("merged", [{"id": key, "version": version} for key, version in self.merged.items()])
        # Add rows with the same cursor value as the newest row.
        self.appended += [{"at": max(1, self._version - 1), "n": rng.randrange(3)} for _ in range(50)]
        self.appended += [{"at": self._version, "n": rng.randrange(3)} for _ in range(500)]
        self._write("appended", self.appended)

    def _write(self, name: str, rows: Sequence[Json]) -> None:
        fresh = self._folder / "fresh"
        fresh.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        fresh.replace(self._folder / f"{name}.jsonl")


class _Pusher(threading.Thread):
    """Thread that pushes each record once, and records the acknowledgements."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self.acknowledged: set[int] = set()
        self.pushed = 0

    def run(self) -> None:
        with httpx.Client(timeout=10) as client:
            while not self._over.is_set():
                self.pushed += 1
                try:
                    answer = client.post(self._url, json={"id": self.pushed})
                except httpx.HTTPError:
                    # The service is down, so the result of this request is unknown.
                    self._over.wait(0.05)
                    continue
                if answer.status_code == 200:
                    self.acknowledged.add(self.pushed)
                self._over.wait(0.002)

    def end(self) -> None:
        self._over.set()
        self.join()


def _seed(folder: Path, partner: Partner) -> Json:
    newest: Json = {
        "incremental_pointer_id": "version",
        "incremental_primary_key_name": ["id"],
        "enabled_history_table": True,
    }
    streams = [
        seeds.stream("whole", file="whole.csv"),
        seeds.stream("renewed", file="renewed.csv", **newest),
        seeds.stream("merged", file="merged.jsonl", **newest),
        seeds.stream("appended", file="appended.jsonl", incremental_pointer_id="at"),
    ]
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.execute("CREATE TABLE log (id INTEGER, version INTEGER)")
    hooks, out = seeds.webhook("hooks", "hooks"), str(folder / "out")
    return {
        "connections": [
            seeds.connection("data", "files", path=str(folder)),
            *hooks["connections"],
            seeds.connection("partner", "http", url=partner.url),
            seeds.connection("lines", "jsonl", path=out),
            seeds.connection("rows", "csv", path=out),
            seeds.connection("shop", "sql_tables", url=f"sqlite:///{folder / 'shop.db'}"),
        ],
        "elt_syncs": [
            seeds.elt_sync("a", "data", streams),
            {**hooks["elt_syncs"][0], "id": "b", "destination_schema_name": "b"},
        ],
        "transforms": [
            seeds.transform(
                "sums",
                "SELECT id % 1000 AS k, min(version) AS low, max(version) AS high, count(*) AS n"
                " FROM {{raw.a.whole}} GROUP BY ALL",
                materialization="table",
                publish=False,
            )
        ],
        "reverse_etl_syncs": [
            seeds.reverse_etl_sync(
                name,
                "a.merged",
                conn_id,
                object_type,
                columns=("id", "version"),
                key=() if name in _KEYLESS else ("id",),
                mode=mode,
                settings=settings,
            )
            for name, (conn_id, object_type, mode, settings) in _SENDS.items()
        ],
    }


class Soak:
    """Soak test of the service: its input, and the expected data."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._sources = _Sources(folder)
        self._rng = rng
        self._folder = folder
        self._interrupted = 0

    def run(self, kills: int) -> SoakCounts:
        """
        Kill the service a number of times, let it finish, and compare the data.

        :raises AssertionError: data are missing, duplicated or incomplete.
        """
        with Partner(honours_keys=True) as partner, LocalService(_seed(self._folder, partner)) as service:
            # Suppress errors about responses to a killed client.
            partner._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # replaced for this test
            pusher = _Pusher(f"{service.base_url}/webhooks/hooks/hooks")
            pusher.start()
            try:
                self._let_it_load(service)
                for _ in range(kills):
                    self._ask(service)
                    time.sleep(self._rng.uniform(0, 0.4))
                    going = self._going(service)
                    service.kill()
                    self._check_tables(service)
                    self._sources.advance(self._rng)
                    service.start()
                    self._interrupted += self._have_ended(service, going)
            finally:
                pusher.end()
            self._let_it_load(service)
            ended = self._runs_that_ended(service)
            service.stop()
            self._check_all(service, pusher)
            assert "Traceback" not in service.log
            sent, written = self._check_sent(partner), self._check_written()
        return SoakCounts(
            kills,
            self._interrupted,
            ended,
            len(pusher.acknowledged),
            sum(map(len, sent.values())),
            partner.repeated,
            sum(map(len, written.values())),
            sum(len(rows) - len(set(rows)) for rows in (*sent.values(), *written.values())),
        )

    def _ask(self, service: LocalService) -> None:
        with service.client() as client:
            for path in (*_LOADS, *_REVERSE):
                answer = client.post(path)
                assert answer.status_code in (200, 409), answer.text
            assert client.post("/transforms/sums/publish").status_code == 200

    def _let_it_load(self, service: LocalService) -> None:
        """Start all runs, and wait for their ends without kills."""
        with service.client() as client:
            for paths in (_LOADS, _REVERSE):
                urls = []
                for path in paths:
                    answer = client.post(path)
                    assert answer.status_code == 200, answer.text
                    urls.append(answer.json()["status_url"])
                for url in urls:
                    run = _ended(client, url)
                    assert run["status"] == "COMPLETED", run
            assert client.post("/transforms/sums/publish").status_code == 200
            _until(lambda: client.get("/transforms/sums").json()["materialization_status"] == "completed")

    def _going(self, service: LocalService) -> list[str]:
        found = []
        with service.client() as client:
            for name, path, field in _lists():
                page = client.get(path, params={field: name, "limit": 1}).json()["data"]
                found += [f"{path}/{run['id']}" for run in page if not run.get("finished_at")]
        return found

    def _have_ended(self, service: LocalService, going: Sequence[str]) -> int:
        """Wait until all runs have succeeded, and no work is left."""
        with service.client() as client:
            for path in going:
                run = _ended(client, path)
                assert run["status"] == "COMPLETED", run
            _until(lambda: not self._is_owing(client))
        return len(going)

    def _is_owing(self, client: httpx.Client) -> bool:
        streams = [one for sync in "ab" for one in client.get(f"/elt_syncs/{sync}/status").json()["source_streams"]]
        if any(one.get("active_sync") for one in streams):
            return True
        for name in _SENDS:
            query: Json = {"reverse_etl_sync_id": name, "limit": 1}
            page = client.get("/reverse_etl_sync_runs", params=query).json()["data"]
            if any(not run.get("finished_at") for run in page):
                return True
        return False

    def _runs_that_ended(self, service: LocalService) -> int:
        number = 0
        with service.client() as client:
            for name, path, field in _lists():
                after: Json = {}
                while True:
                    page = client.get(path, params={field: name, "limit": 100, **after}).json()
                    assert all(run["status"] == "COMPLETED" for run in page["data"]), page
                    number += len(page["data"])
                    if not page.get("next_cursor"):
                        break
                    after = {"starting_after": page["next_cursor"]}
        return number

    def _check_tables(self, service: LocalService) -> None:
        """Assert that each table is the complete result of one load or build."""
        with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:

            def one(query: str) -> tuple[Any, ...]:
                row = warehouse.execute(query).fetchone()
                assert row is not None
                return row

            for table in ("a.whole", "a.renewed", "a.renewed_history WHERE valid_to IS NULL"):
                counts = f"SELECT count(*), count(DISTINCT id), count(DISTINCT version) FROM {table}"  # noqa: S608 - tables of this module
                assert one(counts) == (_WHOLE_ROWS, _WHOLE_ROWS, 1), table
            assert one("SELECT count(*), sum(n) FROM models.sums") == (1000, _WHOLE_ROWS)
            assert one("SELECT count(DISTINCT low), count(DISTINCT high), bool_and(low = high) FROM models.sums") == (
                1,
                1,
                True,
            )
            rows, keys = one("SELECT count(*), count(DISTINCT id) FROM a.merged")
            assert rows == keys
            # The current rows of the history equal the table.
            now = "SELECT id, version FROM a.merged_history WHERE valid_to IS NULL"
            assert one(f"SELECT count(*) FROM (SELECT id, version FROM a.merged EXCEPT ALL {now})") == (0,)  # noqa: S608 - values of this module
            assert one("SELECT count(*) FROM a.merged_history WHERE valid_to IS NULL") == (rows,)
            assert one("SELECT count(*) - count(DISTINCT id) FROM b.hooks") == (0,)
            newest = one('SELECT max("at") FROM a.appended')[0]
            older = Counter((row["at"], row["n"]) for row in self._sources.appended if row["at"] < newest)
            there = warehouse.execute('SELECT "at", n FROM a.appended WHERE "at" < ?', [newest]).fetchall()
            # No older row is duplicated. A late row with an older cursor value is never requested.
            assert not Counter(there) - older

    def _check_all(self, service: LocalService, pusher: _Pusher) -> None:
        self._check_tables(service)
        with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
            merged = dict(warehouse.execute("SELECT id, version FROM a.merged").fetchall())
            assert merged == self._sources.merged
            appended = Counter(warehouse.execute('SELECT "at", n FROM a.appended').fetchall())
            assert appended == Counter((row["at"], row["n"]) for row in self._sources.appended)
            (version,) = warehouse.execute("SELECT DISTINCT version FROM a.whole").fetchall()
            assert version == (self._sources.version,)
            hooks = [number for (number,) in warehouse.execute("SELECT id FROM b.hooks").fetchall()]
        assert len(hooks) == len(set(hooks))
        assert pusher.acknowledged <= set(hooks) <= set(range(1, pusher.pushed + 1))

    def _check_sent(self, partner: Partner) -> dict[str, Rows]:
        """Assert that the endpoint has each record once."""
        sent: dict[str, Rows] = defaultdict(list)
        received: list[tuple[str, Any]] = [*partner.received]
        for path, content in received:
            records: list[Json] = content if isinstance(content, list) else [content]
            sent[path] += [(record["id"], record["version"]) for record in records]
        assert set(sent) == {"/single", "/together"}
        for path, rows in sent.items():
            assert dict(rows) == self._sources.merged, path
            assert _doubled(rows) == [], path
        return sent

    def _check_written(self) -> dict[str, Rows]:
        """Assert that the files and the table have each record once."""
        out, merged = self._folder / "out", self._sources.merged
        written: dict[str, Rows] = {}
        for name in ("people", "log"):
            lines = [json.loads(line) for line in (out / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
            written[f"{name}.jsonl"] = [(line["id"], line["version"]) for line in lines]
            with (out / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                assert file.readline() == "id,version\n"
                written[f"{name}.csv"] = [(int(key), int(version)) for key, version in csv.reader(file, strict=True)]
        with closing(sqlite3.connect(self._folder / "shop.db")) as database:
            written["table"] = database.execute("SELECT id, version FROM log").fetchall()
        for name in ("people.jsonl", "people.csv"):
            assert sorted(written[name]) == sorted(merged.items()), name
        # Mode insert never updates a record.
        keys = [key for key, _ in written["log.csv"]]
        assert sorted(keys) == sorted(merged)
        assert set(written["log.csv"]) <= self._sources.ever
        for name in ("log.jsonl", "table"):
            assert _doubled(written[name]) == [], name
            assert set(merged.items()) <= set(written[name]) <= self._sources.ever, name
        # No temporary files remain.
        assert sorted(file.name for file in out.iterdir()) == ["log.csv", "log.jsonl", "people.csv", "people.jsonl"]
        return written


def _doubled(rows: Rows) -> Rows:
    return [row for row, number in Counter(rows).items() if number > 1]


def _lists() -> Iterator[tuple[str, str, str]]:
    for name in _STREAMS:
        yield name, "/elt_stream_runs", "elt_stream_id"
    for name in _SENDS:
        yield name, "/reverse_etl_sync_runs", "reverse_etl_sync_id"


def _ended(client: httpx.Client, url: str) -> Json:
    """Wait for the end of the run at a status URL, or at its own address."""
    found: list[Json] = []

    def is_over() -> bool:
        body = client.get(url).json()
        found[:] = body.get("data", [body])
        return bool(found) and bool(found[0].get("finished_at"))

    _until(is_over)
    return found[0]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not condition():
        assert time.monotonic() < deadline, "it goes on for ever"
        time.sleep(0.01)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7, help="says when it is killed")
    chosen = parser.parse_args(arguments)
    with Workspace("datapipe-kills-") as workspace:
        sources = workspace.path / "sources"
        sources.mkdir()
        counts_of_test = Soak(sources, random.Random(chosen.seed)).run(chosen.kills)  # noqa: S311 - no secret
    for name, value in counts_of_test._asdict().items():
        print(f"{name:12} {value:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
