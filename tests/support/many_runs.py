"""Service with many runs that end by the clock: in memory, and as a server on loopback."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from tests.support.scripted_server import Reply


def stamp(seconds: float) -> str:
    """Return a time in the format of the interface."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Run:
    """
    Run of any kind.

    :param started_at: start, as seconds since the epoch.
    :param ends_at: end, as seconds since the epoch.
    :param ends_as: final status.
    """

    started_at: float
    ends_at: float
    ends_as: str = "COMPLETED"


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """Received request."""

    path: str
    at: float
    headers: Mapping[str, str] = field(default_factory=dict)


#: Called with path and time of a request. Returns a reply in place of the service's, or None.
Fault = Callable[[str, float], Reply | None]


class ManyRuns:
    """
    Runs of ELT streams, orchestrations and reverse ETL syncs, by ID, and the responses that show them.

    Stream ``s`` of sync ``y`` has one run, ``y.s``, and its name is its ID.
    """

    def __init__(self) -> None:
        self.streams: dict[str, dict[str, Run]] = {}
        self.orchestrations: dict[str, Run] = {}
        self.reverse_etl: dict[str, Run] = {}
        #: Seconds by which the status of a sync lags behind the runs, and the runs lag behind their true state.
        self.status_lag = self.run_lag = 0.0
        #: Changes the status of a sync before the service returns it.
        self.forge: Callable[[dict[str, Any]], Any] = lambda status: status
        self.fault: Fault = lambda path, now: None
        self.asked: list[ReceivedRequest] = []
        #: Accepted API keys. None accepts all.
        self.keys: set[str] | None = None

    def answer(self, path: str, now: float, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the response to a GET request."""
        self.asked.append(ReceivedRequest(path, now, headers or {}))
        if headers is not None and self.keys is not None and headers.get("x-api-key") not in self.keys:
            return Reply(401, {"error_code": "unauthorized", "message": "wrong key"})
        return self.fault(path, now) or self._answer(path, now)

    def count(self, begin: str = "", since: float = 0.0) -> int:
        """Count the requests whose paths start with a prefix."""
        return sum(each.path.startswith(begin) and each.at >= since for each in self.asked)

    @property
    def per_path(self) -> Counter[str]:
        """Count the requests by path."""
        return Counter(each.path for each in self.asked)

    def _answer(self, path: str, now: float) -> Reply:
        address = urlsplit(path)
        parts = address.path.strip("/").split("/")
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        seen = now - self.run_lag
        if parts[0] == "elt_syncs" and parts[2:] == ["status"] and parts[1] in self.streams:
            return Reply(body=self.forge(self._status(parts[1], now - self.status_lag)))
        if parts[0] == "elt_stream_runs" and len(parts) > 1:
            sync_id, _, stream_id = parts[1].partition(".")
            run = self.streams.get(sync_id, {}).get(stream_id)
            more = {"elt_sync_id": sync_id, "elt_stream_id": stream_id}
            return _one(parts[1], run, seen, more)
        if parts[0] == "reverse_etl_sync_runs" and len(parts) > 1:
            return _one(parts[1], self.reverse_etl.get(parts[1]), seen, {"reverse_etl_sync_id": "r"})
        if parts[0] == "orchestration_runs":
            if len(parts) > 1:
                return _one(parts[1], self.orchestrations.get(parts[1]), seen, _due(parts[1], self.orchestrations))
            return Reply(body=self._list(query, seen))
        return Reply(404, {"error_code": "not_found", "message": "no such thing"})

    def _status(self, sync_id: str, at: float) -> dict[str, Any]:
        streams = []
        for stream_id, run in self.streams[sync_id].items():
            shown: dict[str, Any] = {"bytes_synced": 0, "started_at": stamp(run.started_at), "status": "RUNNING"}
            stream: dict[str, Any] = {"name": stream_id}
            if at >= run.ends_at:
                stream["latest_sync"] = shown | {"status": run.ends_as, "finished_at": stamp(run.ends_at)}
            elif at >= run.started_at:
                stream["active_sync"] = shown
            streams.append(stream)
        return {"elt_sync_id": sync_id, "source_streams": streams}

    def _list(self, query: Mapping[str, str], at: float) -> dict[str, Any]:
        newest_first = sorted(self.orchestrations, key=lambda run_id: -self.orchestrations[run_id].started_at)
        begin = newest_first.index(query["starting_after"]) + 1 if "starting_after" in query else 0
        page = newest_first[begin : begin + int(query.get("limit", 10))]
        more = begin + len(page) < len(newest_first)
        runs = [_run(run_id, self.orchestrations[run_id], at, _due(run_id, self.orchestrations)) for run_id in page]
        return {"data": runs, "has_more": more, **({"next_cursor": page[-1]} if more else {})}


def _due(run_id: str, runs: Mapping[str, Run]) -> dict[str, str]:
    run = runs.get(run_id)
    return {"orchestration_id": "o", "due_at": stamp(run.started_at if run else 0.0)}


def _one(run_id: str, run: Run | None, at: float, more: dict[str, Any]) -> Reply:
    if run is None:
        return Reply(404, {"error_code": "not_found", "message": "no such run"})
    return Reply(body=_run(run_id, run, at, more))


def _run(run_id: str, run: Run, at: float, more: dict[str, Any]) -> dict[str, Any]:
    shown = {"id": run_id, "started_at": stamp(run.started_at), "status": "RUNNING"} | more
    if at >= run.ends_at:
        shown |= {"status": run.ends_as, "finished_at": stamp(run.ends_at)}
    return shown


class ManyRunsServer:
    """
    HTTP server of :class:`ManyRuns` in a separate thread.

    :param runs: the served runs. Tests may change them at any time.
    :param latency: seconds per response.
    """

    def __init__(self, runs: ManyRuns, latency: float = 0.0) -> None:
        self.runs = runs
        self.latency = latency
        #: Largest number of concurrent requests, and all peers that connected.
        self.most_under_way = 0
        self.peers: set[Any] = set()
        #: Requests with these path prefixes get no response.
        self.hangs: tuple[str, ...] = ()
        self._under_way = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await self._stopping.wait()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            self.peers.add(request.transport and request.transport.get_extra_info("peername"))
            if request.path.startswith(self.hangs or "none"):
                self.runs.asked.append(ReceivedRequest(request.path_qs, time.time(), request.headers))
                await self._stopping.wait()
            if self.latency:
                await asyncio.sleep(self.latency)
            reply = self.runs.answer(request.path_qs, time.time(), request.headers)
        finally:
            self._under_way -= 1
        return web.Response(
            status=reply.status, body=reply.encoded(), headers=reply.headers, content_type="application/json"
        )
