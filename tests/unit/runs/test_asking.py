"""Questions to a board that are about no wait: equal ones once, and with the patience of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import reverse_etl_failed_records
from airflow_provider_datapipe.api.errors import NotFoundError, RateLimitError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.board import _BOARDS, Board, joined
from tests.support.many_runs import ManyRuns, ManyRunsServer, Said

COUNT = reverse_etl_failed_records.count("e")


def answering(said: Said) -> ManyRuns:
    runs = ManyRuns()
    runs.fault = lambda path, now: said
    return runs


def on_board(server: ManyRunsServer, main: Callable[[Board], Coroutine[Any, Any, Any]]) -> Any:
    """Use a board, and assert that it leaves nothing behind."""

    async def read() -> Settings:
        return Settings(server.url, "key")

    async def whole() -> Any:
        async with asyncio.timeout(20):
            async with joined("c", read) as board:
                result = await main(board)
            assert not _BOARDS.get(asyncio.get_running_loop())
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return result

    return asyncio.run(whole())


def test_equal_questions_are_asked_once_at_a_time() -> None:
    runs = answering(Said(200, {"count": 3}))
    with ManyRunsServer(runs, latency=0.1) as server:

        async def main(board: Board) -> list[Any]:
            first = await asyncio.gather(*(board.ask(COUNT) for _ in range(20)))
            other = await board.ask(reverse_etl_failed_records.count("other"))
            return [*first, other, await board.ask(COUNT)]

        answers = on_board(server, main)
    assert [answer.count for answer in answers] == [3] * 22
    assert runs.count() == 3


def test_an_error_reaches_all_who_have_asked() -> None:
    runs = answering(Said(404, {"error_code": "not_found", "message": "no such sync"}))
    with ManyRunsServer(runs, latency=0.1) as server:

        async def main(board: Board) -> list[Any]:
            return await asyncio.gather(*(board.ask(COUNT) for _ in range(3)), return_exceptions=True)

        answers = on_board(server, main)
    assert [type(answer) for answer in answers] == [NotFoundError] * 3
    assert runs.count() == 1


def test_who_leaves_does_not_take_the_answer_from_the_others() -> None:
    runs = answering(Said(200, {"count": 3}))
    with ManyRunsServer(runs, latency=0.3) as server:

        async def main(board: Board) -> Any:
            leaving, staying = (asyncio.create_task(board.ask(COUNT)) for _ in range(2))
            while not server.peers:  # noqa: ASYNC110 - what is waited for happens in another thread
                await asyncio.sleep(0.01)
            leaving.cancel()
            return await staying

        assert on_board(server, main).count == 3
    assert runs.count() == 1


def test_questions_that_nobody_waits_for_any_more_leave_nothing() -> None:
    runs = ManyRuns()
    with ManyRunsServer(runs) as server:
        server.hangs = ("/reverse_etl_failed_records",)

        async def main(board: Board) -> None:
            asking = [asyncio.create_task(board.ask(COUNT)) for _ in range(3)]
            while not runs.count():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

        on_board(server, main)


def test_a_service_that_asks_for_patience_is_given_it() -> None:
    runs = ManyRuns()
    slow = Said(429, {"error_code": "rate", "message": "slowly"}, {"Retry-After": "1"})
    runs.fault = lambda path, now: slow if runs.count() == 1 else Said(200, {"count": 3})
    with ManyRunsServer(runs) as server:

        async def main(board: Board) -> Any:
            with pytest.raises(RateLimitError):
                await board.ask(once(COUNT))
            return await board.ask(reverse_etl_failed_records.count("other"))

        assert on_board(server, main).count == 3
    first, second = (asked.at for asked in runs.asked)
    assert second >= first + 1


def once(request: Any) -> Any:
    from dataclasses import replace

    return replace(request, once=True)
