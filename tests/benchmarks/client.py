"""
The process that is measured: ``python -m tests.benchmarks.client PORT BASE PLAN``.

One event loop, on which triggers run as Airflow's ``TriggerRunner`` runs them: a greenback portal and a logging context
in each task, logs as JSON from INFO. It imports nothing that is neither Airflow's nor the trigger's.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.adapters import Adapter
from tests.benchmarks.figures import TICK, Sample, memory_of
from tests.benchmarks.line import Line, LineClosedError
from tests.benchmarks.plan import Plan
from tests.benchmarks.runs import WARM

#: How many bytes of an event that says something else are told.
_QUOTED = 300


class Client:
    """Starts the triggers, and takes their events."""

    def __init__(self, adapter: Adapter, plan: Plan, line: Line) -> None:
        self._adapter = adapter
        self._plan = plan
        self._line = line
        #: Of each event: the run, when, and what it said if that was not success.
        self._events: list[tuple[int, float, str | None]] = []
        self._samples: list[Sample] = []
        #: When each trigger started.
        self._started: dict[int, float] = {}
        self._go = asyncio.Event()
        self._stop = asyncio.Event()

    async def measure(self) -> dict[str, Any]:
        """Execute a command of the driver, and return the response."""
        first = await self._warm_up()
        ticker = asyncio.create_task(self._tick())
        idle = await self._idle()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._obey, args=(loop,), daemon=True).start()
        self._line.report("ready")
        await self._go.wait()
        everything = asyncio.gather(*await self._start(), return_exceptions=True)
        self._line.report("created")
        stopped = asyncio.create_task(self._stop.wait())
        either: list[asyncio.Future[Any]] = [everything, stopped]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        ended_at = time.monotonic()
        ticker.cancel()
        errors = [repr(error)[:_QUOTED] for error in everything.result() if error] if everything.done() else []
        return {
            "ended_at": ended_at,
            "events": self._events,
            "samples": self._samples,
            "started": list(self._started.items()),
            "errors": errors,
            "idle": idle,
            "first": first,
        }

    async def _wait(self, run: int) -> None:
        """Wait for a run as ``TriggerRunner.run_trigger`` does, without the supervisor."""
        import greenback
        import structlog

        await greenback.ensure_portal()
        structlog.contextvars.bind_contextvars(trigger_id=run, dag_id="bench", task_id=f"t{run}")
        self._started[run] = time.monotonic()
        async for event in self._adapter.trigger(run, self._plan.poll).run():
            payload = getattr(event, "payload", event)
            said = None if self._adapter.succeeded(payload) else str(payload)[:_QUOTED]
            self._events.append((run, time.monotonic(), said))

    async def _warm_up(self) -> dict[str, float]:
        """Wait for two runs that are over: what is imported on first use is not counted for the others."""
        clock, cpu, rss = time.monotonic(), time.process_time(), memory_of("self")
        await asyncio.create_task(self._wait(WARM))
        first = {
            "wall": time.monotonic() - clock,
            "cpu": time.process_time() - cpu,
            "rss": float(memory_of("self") - rss),
        }
        await asyncio.create_task(self._wait(WARM + 1))
        if [said for _, _, said in self._events] != [None, None]:
            raise RuntimeError(f"A run that is over was not seen to be: {self._events}")
        self._events.clear()
        self._started.clear()
        gc.collect()
        return first

    async def _tick(self) -> None:
        due = time.monotonic() + TICK
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            self._samples.append(Sample(now, now - due, time.process_time()))
            due = now + TICK

    async def _idle(self) -> float:
        """Return the share of a core that the ticker takes: the least of four measurements."""
        rates = []
        for _ in range(4):
            clock, cpu = time.monotonic(), time.process_time()
            await asyncio.sleep(0.5)
            rates.append((time.process_time() - cpu) / (time.monotonic() - clock))
        return min(rates)

    async def _start(self) -> list[asyncio.Task[None]]:
        begin, tasks = time.monotonic(), []
        offsets = self._adapter.offsets(self._plan.count, self._plan.ramp)
        for run in sorted(range(len(offsets)), key=offsets.__getitem__):
            # As TriggerRunner.create_triggers: the loop gets its turn after each one.
            await asyncio.sleep(max(0.0, begin + offsets[run] - time.monotonic()))
            if self._stop.is_set():
                break
            tasks.append(asyncio.create_task(self._wait(run)))
        return tasks

    def _obey(self, loop: asyncio.AbstractEventLoop) -> None:
        orders = {"go": self._go, "stop": self._stop}
        try:
            while (order := self._line.hear()) is not None:
                loop.call_soon_threadsafe(orders[order["what"]].set)
        except LineClosedError:
            # Nobody is left who wants to know.
            os._exit(1)


def main(port: str, base: str, plan_text: str) -> None:
    from airflow.sdk.log import configure_logging, reset_logging

    # As the triggerer's supervisor has it, but for where it goes.
    reset_logging()
    log = Path(os.devnull).open("wb", buffering=0)  # noqa: SIM115 - for as long as the process lives
    configure_logging(json_output=True, output=log, sending_to_supervisor=True)
    plan = Plan.from_json(plan_text)
    adapter = plan.make()
    adapter.redirect(base)
    line = Line.to(int(port))
    line.report("client")

    async def measure() -> None:
        line.report("done", **await Client(adapter, plan, line).measure())
        # The end of thousands of triggers that were stopped is nobody's concern.
        os._exit(0)

    asyncio.run(measure())


if __name__ == "__main__":
    main(*sys.argv[1:])
