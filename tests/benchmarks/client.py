"""
Measured process: ``python -m tests.benchmarks.client PORT BASE PLAN``.

Runs triggers on one event loop like Airflow's ``TriggerRunner``: with a greenback portal and a logging context in each
task, and JSON logs from level INFO. Imports only modules of Airflow and of the triggers.
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

#: Limit of the quoted length of unexpected events, in bytes.
_QUOTED = 300


class Client:
    """Runner of the triggers, which records their events."""

    def __init__(self, adapter: Adapter, plan: Plan, line: Line) -> None:
        self._adapter = adapter
        self._plan = plan
        self._line = line
        #: Run, time, and unexpected content of each event. The content is None for a success.
        self._events: list[tuple[int, float, str | None]] = []
        self._samples: list[Sample] = []
        #: Start times of the triggers.
        self._started: dict[int, float] = {}
        self._go = asyncio.Event()
        self._stop = asyncio.Event()

    async def measure(self) -> dict[str, Any]:
        """Execute a command of the driver, and return the response."""
        first = await self._warm_up()
        ticker = asyncio.create_task(self._tick())
        idle = await self._idle()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._receive_commands, args=(loop,), daemon=True).start()
        self._line.send("ready")
        await self._go.wait()
        everything = asyncio.gather(*await self._start(), return_exceptions=True)
        self._line.send("created")
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
        """Wait for a run like ``TriggerRunner.run_trigger``, without the supervisor."""
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
        """Wait for two ended runs, so that imports on first use do not count for the other runs."""
        clock, cpu, rss = time.monotonic(), time.process_time(), memory_of("self")
        await asyncio.create_task(self._wait(WARM))
        first = {
            "wall": time.monotonic() - clock,
            "cpu": time.process_time() - cpu,
            "rss": float(memory_of("self") - rss),
        }
        await asyncio.create_task(self._wait(WARM + 1))
        if [said for _, _, said in self._events] != [None, None]:
            raise RuntimeError(f"The end of a finished run was not detected: {self._events}")
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
        """Return the share of a core that the ticker takes, as the minimum of four measurements."""
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
            # Yield to the event loop after each trigger, like TriggerRunner.create_triggers.
            await asyncio.sleep(max(0.0, begin + offsets[run] - time.monotonic()))
            if self._stop.is_set():
                break
            tasks.append(asyncio.create_task(self._wait(run)))
        return tasks

    def _receive_commands(self, loop: asyncio.AbstractEventLoop) -> None:
        commands = {"go": self._go, "stop": self._stop}
        try:
            while (command := self._line.receive()) is not None:
                loop.call_soon_threadsafe(commands[command["what"]].set)
        except LineClosedError:
            # The driver has ended.
            os._exit(1)


def main(port: str, base: str, plan_text: str) -> None:
    from airflow.sdk.log import configure_logging, reset_logging

    # The logging configuration of the triggerer's supervisor, with another destination.
    reset_logging()
    log = Path(os.devnull).open("wb", buffering=0)  # noqa: SIM115 - open until the process ends
    configure_logging(json_output=True, output=log, sending_to_supervisor=True)
    plan = Plan.from_json(plan_text)
    adapter = plan.make()
    adapter.redirect(base)
    line = Line.to(int(port))
    line.send("client")

    async def measure() -> None:
        line.send("done", **await Client(adapter, plan, line).measure())
        # Exit without waiting for thousands of stopped triggers.
        os._exit(0)

    asyncio.run(measure())


if __name__ == "__main__":
    main(*sys.argv[1:])
