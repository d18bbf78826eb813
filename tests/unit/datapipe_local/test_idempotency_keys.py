"""A repeated request has the same idempotency key, and a new one another."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.destinations.base import Outcome, Progress, Record, Target, Unanswered
from datapipe_local.destinations.http import HttpDestination
from datapipe_local.errors import RunError
from tests.support.scripted_server import Reply, ScriptedServer

ONE, TWO, THREE = (Record(str(n), {"n": n, "nested": [n, {"x": None}]}, {"n": n}) for n in (1, 2, 3))
BATCHES = {"batch_size": 10}


class Process:
    """One process that sends, and what it noted."""

    def __init__(
        self,
        server: ScriptedServer,
        checkpoint: str | None = None,
        *,
        before: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._server = server
        self.noted: list[str] = []
        self.pauses: list[float] = []
        target = Target("sync", "things", OperationName.UPSERT, settings or {})
        progress = Progress(checkpoint, before, self.noted.append)
        self.destination = HttpDestination({"url": server.url}, target, progress, self.pauses.append)

    def send(self, *records: Record) -> list[Outcome]:
        outcomes = self.destination.send(records)
        self.noted.append(self.destination.checkpoint())
        return outcomes

    @property
    def left(self) -> Unanswered | None:
        return self.destination.unanswered()


def keys(server: ScriptedServer) -> list[str]:
    found = []
    for seen in server.seen:
        # As the header's draft has it: a quoted string.
        match = re.fullmatch(r'"([0-9a-f]{32})"', {k.lower(): v for k, v in seen.headers.items()}["idempotency-key"])
        assert match is not None
        found.append(match[1])
    return found


def bodies(server: ScriptedServer) -> list[Any]:
    return [json.loads(seen.body) for seen in server.seen]


def test_requests_have_own_keys_that_their_tries_share() -> None:
    with ScriptedServer([Reply(503), Reply(0), Reply(429), Reply(200)]) as server:
        process = Process(server)
        process.send(ONE)
        process.send(TWO)
        # The same as before, for something else may have been said in between.
        process.send(ONE)
        process.destination.delete([ONE])
    first, *others = keys(server)
    assert others[:3] == [first] * 3
    assert len({first, *others[3:]}) == 4


@pytest.mark.parametrize("settings", [{}, BATCHES])
def test_what_was_under_way_at_a_kill_is_sent_again_as_it_was(settings: dict[str, Any]) -> None:
    with ScriptedServer([Reply(201)]) as server:
        killed = Process(server, settings=settings)
        records = [ONE, TWO] if settings else [ONE]
        # Killed once the answer had come: that is not noted.
        killed.destination.send(records)
        noted = killed.noted[-1]
        second = Process(server, noted, settings=settings)
        assert second.left == Unanswered(records)
        assert second.send(*records) == [None] * len(records)
        assert second.left is None
        third = Process(server, second.noted[-1], settings=settings)
        assert third.left is None
        third.send(*records)
    one, again, later = keys(server)
    assert one == again != later
    assert bodies(server)[0] == bodies(server)[1]


def test_a_deletion_is_repeated_as_one() -> None:
    with ScriptedServer([Reply(204, b"")]) as server:
        killed = Process(server)
        killed.destination.delete([ONE, TWO])
        second = Process(server, killed.noted[-1])
        assert second.left == Unanswered([ONE], is_deletion=True)
        assert second.destination.delete([ONE]) == [None]
        second.send(ONE)
    assert [seen.method for seen in server.seen] == ["DELETE", "DELETE", "POST"]
    one, again, other = keys(server)
    assert one == again != other


def test_each_refused_part_of_a_batch_is_recorded_before_sending() -> None:
    """Killed after the half was taken, the half is repeated: not the whole, which might be taken by now."""
    with ScriptedServer([Reply(422), Reply(200)]) as server:
        killed = Process(server, settings=BATCHES)
        assert killed.destination.send([ONE, TWO, THREE]) == [None, None]
        second = Process(server, killed.noted[-1], settings=BATCHES)
        assert second.left == Unanswered([ONE, TWO])
        second.send(ONE, TWO)
    whole, half, again = keys(server)
    assert whole != half == again


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "is_asked_again"),
    [
        ([Reply(500)], True),
        ([Reply(0)], True),
        ([Reply(0), Reply(429)], True),
        ([Reply(429)], False),
        ([Reply(408)], False),
        ([Reply(302)], False),
    ],
)
def test_a_failed_run_leaves_possible_deliveries_to_the_next(script: Sequence[Reply], is_asked_again: bool) -> None:
    with ScriptedServer(script) as server:
        failed = Process(server)
        with pytest.raises(RunError):
            failed.destination.send([ONE])
        following = Process(server, before=failed.noted[-1])
        assert following.left == (Unanswered([ONE], of_failed_run=True) if is_asked_again else None)
        # Also if that is killed before it has asked.
        same = Process(server, following.destination.checkpoint())
        assert same.left == following.left
        with pytest.raises(RunError):
            same.destination.send([ONE])
    assert (len(set(keys(server))) == 1) == is_asked_again


def test_of_an_address_where_nobody_is_nothing_is_left() -> None:
    with ScriptedServer([Reply()]) as server:
        pass
    process = Process(server)
    with pytest.raises(RunError, match="could not be reached"):
        process.destination.send([ONE])
    assert Process(server, process.noted[-1]).left is None


def test_a_refused_batch_leaves_nothing_a_half_accepted_one_does() -> None:
    for reply, is_left in ((Reply(401), False), (Reply(200, {"errors": ["?"]}), True)):
        with ScriptedServer([reply]) as server:
            process = Process(server, settings=BATCHES)
            with pytest.raises(RunError):
                process.destination.send([ONE, TWO])
            assert (Process(server, process.noted[-1]).left is not None) == is_left


def test_a_conflict_with_what_was_sent_before_is_waited_for() -> None:
    """By the draft 409 says that the first request with that key is still being carried out."""
    with ScriptedServer([Reply(200), Reply(409), Reply(409, headers={"retry-after": "3"}), Reply(200)]) as server:
        killed = Process(server)
        killed.destination.send([ONE])
        second = Process(server, killed.noted[-1])
        assert second.send(ONE) == [None]
        assert second.pauses == [0.2, 3.0]
    # One that does not end is what it says; and what was never sent before is refused at once.
    for script, waits in (([Reply(0), Reply(409, {"message": "no"})], 4), ([Reply(409, {"message": "no"})], 0)):
        with ScriptedServer(script) as server:
            process = Process(server)
            assert process.send(ONE) == ["no"]
            assert len(process.pauses) == waits


def test_two_homes_say_the_same_and_mean_it() -> None:
    with ScriptedServer([Reply(200)]) as server:
        Process(server).send(ONE)
        Process(server).send(ONE)
    assert len(set(keys(server))) == 2
