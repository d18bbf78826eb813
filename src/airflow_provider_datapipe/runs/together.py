"""Many series of steps at once, for whoever may block: as many requests at a time as the connection allows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_datapipe.runs.steps import Steps, adrive

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.api.settings import Settings

T = TypeVar("T")

#: Of so few, one after another are done before the library for many would be loaded.
FEW = 8


def run_together(
    settings: Settings, several: Sequence[Steps[T]], told: Callable[[Request[Any]], None] = lambda _: None
) -> list[T]:
    """
    Carry out several series of steps, and give what each gives, in their order.

    They have an event loop in a thread of its own: an event loop passes over what a signal raises while it calls
    somebody back, and Airflow stops tasks by signals, which reach the thread that waits here.

    :param settings: how to reach the service.
    :param several: the steps; they are carried out in the other thread.
    :param told: is told of every request, there.
    :raises DatapipeError: what the first of them that fails raises; the others are given up.
    """
    loop = asyncio.new_event_loop()
    work = loop.create_task(_carry_out(settings, several, told))
    ended: Future[list[T]] = Future()

    def carry_out() -> None:
        try:
            result = loop.run_until_complete(work)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            ended.set_exception(error)
        else:
            ended.set_result(result)
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    thread = threading.Thread(target=carry_out, name="datapipe-together", daemon=True)
    thread.start()
    try:
        return ended.result()
    finally:
        # It may have come to its end by itself, just now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(work.cancel)
        thread.join()


async def _carry_out(settings: Settings, several: Sequence[Steps[T]], told: Callable[[Request[Any]], None]) -> list[T]:
    from airflow_provider_datapipe.api.async_client import AsyncClient

    # What waits for a connection would count as time without an answer.
    free = asyncio.Semaphore(settings.max_connections)

    async def send(request: Request[Any]) -> Any:
        async with free:
            told(request)
            return await client.send(request)

    async with AsyncClient(settings) as client:
        series = [asyncio.ensure_future(adrive(steps, send, asyncio.sleep)) for steps in several]
        try:
            return await asyncio.gather(*series)
        finally:
            for each in series:
                each.cancel()
            await asyncio.gather(*series, return_exceptions=True)
