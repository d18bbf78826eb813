"""Triggers of this project. Responses of the stub have all fields of the interface, so that their size is realistic."""

from __future__ import annotations

import base64
import binascii
import json
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from typing_extensions import override

from tests.benchmarks.adapters.base import Adapter, Trigger
from tests.benchmarks.runs import Runs

#: Streams per sync.
STREAMS = 100
#: Runs per page of a list.
PAGE = 100
#: Typical duration in seconds of the runs of adaptive waits.
_TYPICAL = 600.0
_DAY = 86_400.0


def stamp(moment: float) -> str:
    """Return a time in the format of the service."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode(run: int) -> str:
    # The form of the service: base64 of an ID and a time, 60 characters. Only the stub decodes it.
    return base64.b64encode(f"stream-sync-{run:07d}|2026-01-01T00:00:00.000Z".encode()).decode()


def decode(run_id: str) -> int | None:
    """Return the run with an ID; None if there is none."""
    try:
        text = base64.b64decode(run_id).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    found = re.match(r"stream-sync-(\d+)\|", text)
    return int(found[1]) if found else None


class Ours(Adapter):
    """Common parts of all kinds of run."""

    distribution = "airflow-provider-datapipe"
    is_ours = True
    kind: ClassVar[str]

    @override
    def env(self, base: str) -> Mapping[str, str]:
        connection = {"conn_type": "datapipe", "host": base, "password": "key"}
        return {"AIRFLOW_CONN_DATAPIPE_DEFAULT": json.dumps(connection)}

    def reference(self, run: int) -> dict[str, Any]:
        """Return the reference of a run, as :class:`~airflow_provider_datapipe.runs.models.RunRef` stores it."""
        raise NotImplementedError

    def interval(self, run: int, poll: float) -> float | None:
        """Return the poll interval in seconds; None for one that depends on the history."""
        return None if self.is_adaptive else poll

    def history(self, run: int) -> list[float]:
        """Return the durations of the earlier runs, which a task stores with any poll interval."""
        chance = random.Random(f"history {run}")  # noqa: S311 - no secret
        return [round(_TYPICAL * chance.lognormvariate(0, 0.3)) for _ in range(20)]

    @override
    def runs(self, count: int) -> Runs:
        now = time.time()
        return Runs(count, began=lambda _: now)

    @override
    def trigger(self, run: int, poll: float) -> Trigger:
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.models import RunRef
        from airflow_provider_datapipe.runs.wait import WaitPolicy
        from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger

        # A copy, as from Airflow's database, that shares no object with other triggers.
        batch = Batch(self.kind, waiting=[RunRef(**self.reference(run), durations=self.history(run))]).as_dict()
        policy = WaitPolicy(poll_interval=self.interval(run, poll)).as_dict()
        return DatapipeRunTrigger("datapipe_default", batch, policy)

    @override
    def succeeded(self, payload: Any) -> bool:
        batch = payload.get("batch")
        return bool(batch) and [end["outcome"] for end in batch["ended"]] == ["succeeded"]


class StreamsOfSyncs(Ours):
    """Streams with known syncs, a hundred per sync. One status request covers a sync."""

    name = "streams-of-syncs"
    kind = "elt_stream"
    knows_sync = True

    @override
    def reference(self, run: int) -> dict[str, Any]:
        named = {"kind": self.kind, "resource_id": f"S{run:013d}", "name": f"table_{run:07d}", "run_id": _encode(run)}
        return {**named, "sync_id": f"Y{run // STREAMS:013d}"} if self.knows_sync else named

    @override
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        if found := re.search(r"/elt_stream_runs/([^/?]+)$", path):
            run = decode(found[1])
            return None if run is None else self._run(run, runs)
        if found := re.search(r"/elt_syncs/Y(\d+)/status$", path):
            streams = [self._stream(run, runs) for run in self.streams_of(int(found[1]))]
            return {"elt_sync_id": f"Y{found[1]}", "source_streams": streams}
        return None

    def streams_of(self, sync: int) -> range:
        """Return the runs of the streams of a sync."""
        return range(sync * STREAMS, (sync + 1) * STREAMS)

    def _run(self, run: int, runs: Runs) -> dict[str, Any]:
        is_over = runs.is_over(run)
        shown = {
            "id": _encode(run),
            "elt_sync_id": f"Y{run // STREAMS:013d}",
            "elt_stream_id": f"S{run:013d}",
            "started_at": stamp(runs.began(run)),
            "status": "COMPLETED" if is_over else "RUNNING",
            "rows_synced": 1_234_567,
        }
        return {**shown, "finished_at": stamp(runs.finished(run))} if is_over else shown

    def _stream(self, run: int, runs: Runs) -> dict[str, Any]:
        if runs.is_over(run):
            return {"name": f"table_{run:07d}", "latest_sync": _snapshot(runs.began(run), is_over=True)}
        active = {"active_sync": _snapshot(runs.began(run), is_over=False)} if runs.has_begun(run) else {}
        # Each stream also ran on the day before.
        return {"name": f"table_{run:07d}", **active, "latest_sync": _snapshot(runs.began(run) - _DAY, is_over=True)}


def _snapshot(began: float, *, is_over: bool) -> dict[str, Any]:
    shown = {
        "bytes_synced": 123_456_789,
        "records_synced": 1_234_567,
        "estimated_total_count": 2_345_678,
        "started_at": stamp(began),
        "status": "COMPLETED" if is_over else "RUNNING",
        "full_sync_trigger": "NONE",
        "operation_mode": "INCREMENTAL",
        "retry_attempt": 0,
        "details": "Processing chunk 1/5",
    }
    return {**shown, "finished_at": stamp(began + _TYPICAL)} if is_over else shown


class StreamsAlone(StreamsOfSyncs):
    """Streams with unknown syncs. Each run requires its own requests."""

    name = "streams-alone"
    knows_sync = False


class Orchestrations(Ours):
    """Orchestrations, whose runs are in one list."""

    name = "orchestrations"
    kind = "orchestration"

    @override
    def reference(self, run: int) -> dict[str, Any]:
        named = {"resource_id": f"O{run:013d}", "name": f"orchestration_{run:07d}", "run_id": f"R{run:013d}"}
        return {"kind": self.kind, **named}

    @override
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        if found := re.search(r"/orchestration_runs/R(\d+)$", path):
            return self._run(int(found[1]), runs)
        if re.search(r"/orchestration_runs(\?|$)", path):
            after = re.search(r"starting_after=R(\d+)", path)
            first = int(after[1]) + 1 if after else 0
            # The list continues with earlier runs, like that of a real service.
            page = [self._run(run, runs) for run in range(first, first + PAGE)]
            return {"data": page, "has_more": True, "next_cursor": page[-1]["id"]}
        return None

    def _run(self, run: int, runs: Runs) -> dict[str, Any]:
        is_over = runs.is_over(run)
        return {
            "id": f"R{run:013d}",
            "orchestration_id": f"O{run:013d}",
            "status": "COMPLETED" if is_over else "RUNNING",
            "due_at": stamp(runs.began(run)),
            "started_at": stamp(runs.began(run)),
            **({"finished_at": stamp(runs.finished(run))} if is_over else {}),
        }


def _age(run: int) -> float:
    """Return the age of a run at the start of the stub, in seconds."""
    return random.Random(f"age {run}").uniform(0, _TYPICAL)  # noqa: S311 - no secret


class AdaptiveAlone(StreamsAlone):
    """Streams in the middle of runs of ten minutes, with an adaptive poll interval."""

    name = "adaptive-alone"
    is_adaptive = True

    @override
    def runs(self, count: int) -> Runs:
        started = time.time()
        ages = [_age(run) for run in range(count)]
        return Runs(count, began=lambda run: started - (ages[run] if run < count else 0))


class AdaptiveOfSyncs(AdaptiveAlone):
    """Adaptive waits for streams with known syncs."""

    name = "adaptive-of-syncs"
    knows_sync = True
