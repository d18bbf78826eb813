"""
Generators that describe sequences of requests without I/O, called steps.

A generator yields a :class:`~airflow_provider_datapipe.api.request.Request` and receives its answer. It can also yield
a :class:`Pause`, or :class:`Together` with other steps, and receive their results. A blocking task and a trigger
execute the same generator, so that they behave in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from airflow_provider_datapipe.api import paging
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """
    Several steps to execute in any order or concurrently.

    :param several: the steps. They may run in another thread, so they must only send requests.
    """

    several: Sequence[Steps[Any]]


Steps: TypeAlias = Generator[Request[Any] | Pause | Together, Any, T]


def ask(request: Request[T]) -> Steps[T]:
    """Send one request, and return its answer. An error of the service is raised here."""
    answer: T = yield request
    return answer


def ask_all(request: Request[Page[T]], *, limit: int | None = None) -> Steps[list[T]]:
    """
    Return the items of all pages of a list, or the first items.

    :param limit: the most items to read; None for all.
    """
    items: list[T] = []
    following: Request[Page[T]] | None = paging.first_page(request)
    cursors = paging.Cursors()
    while following is not None and (limit is None or len(items) < limit):
        page = yield from ask(following)
        items += page.data
        following = cursors.after(following, page)
    return items[:limit]


def ask_together(several: Sequence[Steps[T]]) -> Steps[list[T]]:
    """
    Execute several steps, and return their results in the same order.

    :param several: the steps, see :class:`Together`.
    """
    answers: list[T] = yield Together(several)
    return answers


def drive(
    steps: Steps[T],
    send: Callable[[Request[Any]], Any],
    sleep: Callable[[float], None],
    together: Callable[[Sequence[Steps[Any]]], list[Any]] | None = None,
) -> T:
    """
    Execute steps, blocking, and return their result.

    :param steps: the steps.
    :param send: function that sends a request.
    :param sleep: function that waits some seconds.
    :param together: function that executes several steps concurrently; None to execute them one after another.
    """
    answer: Any = None
    failure: DatapipeError | None = None
    while True:
        try:
            step = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer = failure = None
        if isinstance(step, Pause):
            sleep(step.seconds)
            continue
        try:
            if not isinstance(step, Together):
                answer = send(step)
            elif together is not None:
                answer = together(step.several)
            else:
                answer = [drive(each, send, sleep) for each in step.several]
        except DatapipeError as error:
            failure = error


async def adrive(
    steps: Steps[T], send: Callable[[Request[Any]], Awaitable[Any]], sleep: Callable[[float], Awaitable[None]]
) -> T:
    """
    Execute steps on an event loop, and return their result. The asynchronous variant of :func:`drive`.

    :param steps: the steps.
    :param send: function that sends a request.
    :param sleep: function that waits some seconds.
    """
    answer: Any = None
    failure: DatapipeError | None = None
    while True:
        try:
            step = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer = failure = None
        if isinstance(step, Pause):
            await sleep(step.seconds)
            continue
        try:
            if isinstance(step, Together):
                answer = await asyncio.gather(*(adrive(each, send, sleep) for each in step.several))
            else:
                answer = await send(step)
        except DatapipeError as error:
            failure = error
