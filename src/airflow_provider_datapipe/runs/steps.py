"""
Work on the service as a series of steps, apart from I/O.

A generator yields a :class:`~airflow_provider_datapipe.api.request.Request` and is sent its answer, or a
:class:`Pause`, or others that are to be carried out :class:`Together`, and is sent what these give. A blocking task and
a trigger drive the same generator, so that they cannot behave differently.
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
    """Nothing is to be done for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """
    Several series of steps are to be carried out, in any order, or at once.

    :param several: the steps. They may run in another thread, so they ask the service and touch nothing else.
    """

    several: Sequence[Steps[Any]]


Steps: TypeAlias = Generator[Request[Any] | Pause | Together, Any, T]


def ask(request: Request[T]) -> Steps[T]:
    """Send one request; an error of the service is raised where the answer would be."""
    answer: T = yield request
    return answer


def ask_all(request: Request[Page[T]], *, limit: int | None = None) -> Steps[list[T]]:
    """
    Read a whole list, or its beginning.

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
    Carry out several series of steps, and give what each of them gives, in their order.

    :param several: the steps: see :class:`Together`.
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
    Carry out steps, blocking.

    :param steps: what to do.
    :param send: sends a request.
    :param sleep: waits some seconds.
    :param together: carries out several series of steps; None for one after another.
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
    Carry out steps on an event loop: :func:`drive`, awaiting.

    :param steps: what to do.
    :param send: sends a request.
    :param sleep: waits some seconds.
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
