"""Concurrent execution of flows for blocking callers, with as many requests at a time as the connection allows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_datapipe.flows import Flow, run_async

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.api.settings import Settings

T = TypeVar("T")

#: Number of flows up to which sequential execution is faster, because importing the asynchronous client takes time.
FEW = 8


def run_concurrently(
    settings: Settings, flows: Sequence[Flow[T]], on_request: Callable[[Request[Any]], None] = lambda _: None
) -> list[T]:
    """
    Execute several flows concurrently, and return their results in the same order.

    They run on an event loop in a separate thread. Airflow stops a task by a signal whose handler raises an exception
    in the main thread, and an event loop in that thread can swallow the exception. Whenever the exception is raised,
    the thread has ended when this function returns.

    :param settings: settings of the connection.
    :param flows: the flows, which are executed in the other thread.
    :param on_request: function that is called with every request, in the other thread.
    :raises DatapipeError: if one of the flows fails; the others are canceled.
    """
    loop = asyncio.new_event_loop()
    work = loop.create_task(_run_all(settings, flows, on_request))
    ended: Future[list[T]] = Future()
    # Held by the thread that executes the work, or by the caller if it is stopped before that thread begins.
    begun = threading.Lock()

    def carry_out() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            result = loop.run_until_complete(work)
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            ended.set_exception(error)
        else:
            ended.set_result(result)
        finally:
            _close(loop)

    thread = threading.Thread(target=carry_out, name="datapipe-concurrent-flows", daemon=True)
    try:
        thread.start()
        return ended.result()
    finally:
        if begun.acquire(blocking=False):
            work.cancel()
            loop.run_until_complete(asyncio.wait([work]))
            _close(loop)
        else:
            # The loop is closed if the work has just ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(work.cancel)
            thread.join()
        for flow in flows:
            # Flows that were not started would cause a warning.
            flow.close()


def _close(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def _run_all(settings: Settings, flows: Sequence[Flow[T]], on_request: Callable[[Request[Any]], None]) -> list[T]:
    from airflow_provider_datapipe.api.async_client import AsyncClient

    # A request that waits for a free HTTP connection in the client would count as time without an answer.
    free = asyncio.Semaphore(settings.max_connections)

    async def send(request: Request[Any]) -> Any:
        async with free:
            on_request(request)
            return await client.send(request)

    async with AsyncClient(settings) as client:
        tasks = [asyncio.ensure_future(run_async(flow, send, asyncio.sleep)) for flow in flows]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
