"""
Flows: coroutines that describe sequences of requests without I/O.

A flow is an ``async def`` function that awaits :func:`send`, :func:`sleep`, :func:`gather` and other flows. It needs no
event loop: a driver receives each operation, executes it, and resumes the flow with the result. A blocking task
(:func:`run_blocking`) and a trigger (:func:`run_async`) execute the same flows, so that they behave in the same way.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from airflow_provider_datapipe.api import paging
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sleep:
    """Operation that waits some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gather:
    """Operation that executes several flows in any order, or concurrently."""

    flows: Sequence[Flow[Any]]


Operation: TypeAlias = Request[Any] | Sleep | Gather
#: A coroutine whose operations are executed by a driver of this module.
Flow: TypeAlias = Coroutine[Operation, Any, T]


@types.coroutine
def _execute(operation: Operation) -> Generator[Operation, Any, Any]:
    """Pass an operation to the driver, and return its result."""
    return (yield operation)


async def send(request: Request[T]) -> T:
    """Send one request, and return its response. An error of the service is raised here."""
    response: T = await _execute(request)
    return response


async def sleep(seconds: float) -> None:
    """Wait some seconds."""
    await _execute(Sleep(seconds))


async def gather(flows: Sequence[Flow[T]]) -> list[T]:
    """
    Execute several flows, and return their results in the same order.

    :param flows: the flows. They may run in another thread, so they must only send requests.
    """
    results: list[T] = await _execute(Gather(flows))
    return results


async def list_all(request: Request[Page[T]], *, limit: int | None = None) -> list[T]:
    """
    Return the items of all pages of a list, or the first items.

    :param limit: the most items to read; None for all.
    :raises ValueError: if the limit is negative.
    """
    items: list[T] = []
    following = paging.first_page(request, limit)
    seen = paging.SeenPages()
    while following is not None and (limit is None or len(items) < limit):
        page = await send(following)
        items += seen.new_items(page)
        following = seen.after(following, page)
    return items[:limit]


def run_blocking(
    flow: Flow[T],
    send: Callable[[Request[Any]], Any],
    sleep: Callable[[float], None],
    gather: Callable[[Sequence[Flow[Any]]], list[Any]] | None = None,
) -> T:
    """
    Execute a flow without an event loop, and return its result.

    :param flow: the flow.
    :param send: function that sends a request.
    :param sleep: function that waits some seconds.
    :param gather: function that executes several flows concurrently; None to execute them one after another.
    """
    result: Any = None
    failure: DatapipeError | None = None
    while True:
        try:
            operation = flow.send(result) if failure is None else flow.throw(failure)
        except StopIteration as stop:
            value: T = stop.value
            return value
        result = failure = None
        if isinstance(operation, Sleep):
            sleep(operation.seconds)
            continue
        try:
            if not isinstance(operation, Gather):
                result = send(operation)
            elif gather is not None:
                result = gather(operation.flows)
            else:
                result = run_each(operation.flows, lambda each: run_blocking(each, send, sleep))
        except DatapipeError as error:
            failure = error


def run_each(flows: Sequence[Flow[T]], run: Callable[[Flow[T]], T]) -> list[T]:
    """
    Execute several flows one after another, and return their results in the same order.

    :param flows: the flows. If one fails, the ones after it are closed.
    :param run: function that executes one flow.
    """
    try:
        return [run(each) for each in flows]
    finally:
        for each in flows:
            each.close()


async def run_async(
    flow: Flow[T], send: Callable[[Request[Any]], Awaitable[Any]], sleep: Callable[[float], Awaitable[None]]
) -> T:
    """
    Execute a flow on an event loop, and return its result. The asynchronous variant of :func:`run_blocking`.

    :param flow: the flow.
    :param send: function that sends a request.
    :param sleep: function that waits some seconds.
    """
    result: Any = None
    failure: DatapipeError | None = None
    while True:
        try:
            operation = flow.send(result) if failure is None else flow.throw(failure)
        except StopIteration as stop:
            value: T = stop.value
            return value
        result = failure = None
        if isinstance(operation, Sleep):
            await sleep(operation.seconds)
            continue
        try:
            if isinstance(operation, Gather):
                result = await asyncio.gather(*(run_async(each, send, sleep) for each in operation.flows))
            else:
                result = await send(operation)
        except DatapipeError as error:
            failure = error
