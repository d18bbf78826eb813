"""Tests of HTTP destinations: requests, refusals, retries, batches, and idempotency keys."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from email.utils import format_datetime
from typing import Any, NamedTuple

import pytest

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.base import ABSENT, Outcome, Progress, Record, Target, Unanswered
from datapipe_local.connectors.destinations.http import HttpDestination
from datapipe_local.connectors.destinations.http_answer import Answer
from tests.support.scripted_server import Reply, ScriptedServer, Seen

UPDATE, UPSERT = OperationName.UPDATE, OperationName.UPSERT
PATH = "/base/con%20tacts"
BATCHES = {"batch_size": 100}
MANY = [Record(str(n), {"n": n, "name": "Zoë", "nested": [n, {"x": None}]}, {"n": n}) for n in range(8)]
ZERO, ONE, TWO = MANY[:3]


class Process:
    """One process that sends records, and the state that it stores for the next process."""

    def __init__(
        self,
        server: ScriptedServer,
        checkpoint: str | None = None,
        *,
        before: str | None = None,
        mode: OperationName = UPSERT,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.noted: list[str] = []
        self.pauses: list[float] = []
        target = Target("sync", "con tacts", mode, settings or {})
        progress = Progress(checkpoint, before, self.noted.append)
        self.destination = HttpDestination({"url": f"{server.url}/base/"}, target, progress, self.pauses.append)

    def send(self, *records: Record, delete: bool = False) -> list[Outcome]:
        """Send until each record has an outcome, as the engine does."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(records):
            left = records[len(outcomes) :]
            outcomes += self.destination.delete(left) if delete else self.destination.send(left)
        self.noted.append(self.destination.checkpoint())
        return outcomes

    @property
    def left(self) -> Unanswered | None:
        return self.destination.unanswered()


class Sent(NamedTuple):
    outcomes: list[Outcome]
    pauses: list[float]
    seen: list[Seen]

    @property
    def batches(self) -> list[list[int]]:
        return [[entry["n"] for entry in json.loads(request.body)] for request in self.seen]


def send(script: Sequence[Reply], *records: Record, delete: bool = False, **options: Any) -> Sent:
    with ScriptedServer(script) as server:
        process = Process(server, **options)
        try:
            return Sent(process.send(*records, delete=delete), process.pauses, server.seen)
        finally:
            process.destination.close()


def send_batch(script: Sequence[Reply], *records: Record) -> Sent:
    return send(script, *records, settings=BATCHES)


def keys(server: ScriptedServer) -> list[str]:
    """Return the idempotency keys. They are quoted strings, as the draft of the header requires."""
    found = [seen.headers["idempotency-key"] for seen in server.seen]
    assert all(re.fullmatch('"[0-9a-f]{32}"', key) for key in found)
    return found


@pytest.mark.parametrize(
    ("options", "method", "paths"),
    [
        ({}, "POST", [PATH, PATH]),
        ({"mode": UPDATE}, "PATCH", [f"{PATH}/0", f"{PATH}/1"]),
        ({"delete": True}, "DELETE", [f"{PATH}/0", f"{PATH}/1"]),
    ],
)
def test_each_record_is_one_request(options: dict[str, Any], method: str, paths: list[str]) -> None:
    sent = send([Reply(201)], ZERO, ONE, **options)
    assert (sent.outcomes, sent.pauses) == ([None, None], [])
    assert [(seen.method, seen.path) for seen in sent.seen] == [(method, path) for path in paths]
    bodies = [json.loads(seen.body) if seen.body else None for seen in sent.seen]
    assert bodies == ([None, None] if method == "DELETE" else [ZERO.properties, ONE.properties])


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(422, {"message": "no such\n carrier"}), "no such carrier"),
        (Reply(400, {"error": "bad name"}), "bad name"),
        (Reply(400, {"error": {"message": "deep"}}), "deep"),
        (Reply(409, {"message": "", "error": "taken"}), "taken"),
        (Reply(404, b"<html>"), "404 Not Found"),
        (Reply(403, [1]), "403 Forbidden"),
        (Reply(499, {}), "499"),
        (Reply(400, {"message": "half a \ud800 character"}), "half a ? character"),
        *((Reply(400, body), "400 Bad Request") for body in (b"[" * 100_000, b"\xff\xfe")),
        (Reply(400, b"?" * 50, {"content-encoding": "gzip"}), "400 Bad Request"),
        (Reply(413, {"message": "too much"}), "too much"),
    ],
)
def test_a_refusal_is_the_reason_of_that_record_alone(reply: Reply, reason: str) -> None:
    sent = send([reply, Reply(200)], ZERO, ONE)
    assert (sent.outcomes, sent.pauses) == ([reason, None], [])


def test_absent_records_are_outcomes_of_updates_and_deletions() -> None:
    replies = [Reply(200), Reply(404), Reply(410), Reply(403)]
    assert send(replies, *MANY[:4], mode=UPDATE).outcomes == [None, ABSENT, ABSENT, "403 Forbidden"]
    sent = send([Reply(200), Reply(404), Reply(503), Reply(403)], *MANY[:3], delete=True)
    assert (sent.outcomes, sent.pauses) == ([None, None, "403 Forbidden"], [0.2])


@pytest.mark.parametrize("key", ["", ".", ".."])
@pytest.mark.parametrize("options", [{"mode": UPDATE}, {"delete": True}])
def test_a_key_that_would_change_the_path_is_not_sent(key: str, options: dict[str, Any]) -> None:
    sent = send([Reply(200)], Record(key, {}), **options)
    assert sent.outcomes == ["The key of this record cannot be part of a URL."]
    assert sent.seen == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 0])
def test_transient_failures_are_retried(status: int) -> None:
    sent = send([Reply(status), Reply(status), Reply(200)], ZERO)
    assert (sent.outcomes, sent.pauses, len(sent.seen)) == ([None], [0.2, 0.4], 3)


@pytest.mark.parametrize(
    ("retry_after", "waited"),
    [
        ("2", 2.0),
        *((text, 0.2) for text in ("0", "-1", "soon", "Wed, 21 Oct 2015 07:28:00 GMT")),
        *((text, 30.0) for text in ("100000", "9" * 400, "Wed, 21 Oct 2093 07:28:00 GMT")),
    ],
)
def test_retry_after_is_honored_within_bounds(retry_after: str, waited: float) -> None:
    assert send([Reply(429, headers={"retry-after": retry_after}), Reply(200)], ZERO).pauses == [waited]


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        ("Wed, 21 Oct 2015 07:28:07 GMT", 7.0),
        ("Wednesday, 21-Oct-15 07:29:00 GMT", 60.0),
        *((until, None) for until in ("Wed, 21 Oct 2015 07:27:59 GMT", "Wed, 99 Oct 2015 07:28:07 GMT", "")),
    ],
)
def test_dates_count_by_the_clock_of_the_endpoint(until: str, seconds: float | None) -> None:
    assert Answer(503, {"retry-after": until, "date": "Wed, 21 Oct 2015 07:28:00 GMT"}).wait() == seconds


def test_dates_count_by_our_clock_if_the_endpoint_has_none() -> None:
    until = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=20), usegmt=True)
    assert 0 < (Answer(429, {"retry-after": until}).wait() or 0) <= 20


@pytest.mark.parametrize("headers", [{"content-encoding": "gzip"}, {"content-type": "application/json"}])
def test_the_head_of_a_response_accepts_a_record(headers: dict[str, str]) -> None:
    sent = send([Reply(201, b"<html>" * 10, headers)], ZERO)
    assert (sent.outcomes, sent.pauses, len(sent.seen)) == ([None], [], 1)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(503), "answered 503 Service Unavailable"),
        (Reply(0), "could not be reached"),
        # A redirect is not followed.
        (Reply(302, headers={"location": "http://127.0.0.1:1/"}), "answered 302 Found"),
    ],
)
def test_a_lasting_failure_fails_the_run(reply: Reply, message: str) -> None:
    with pytest.raises(RunError, match=f"{PATH} {message}.* for record '0'") as failure:
        send([reply], ZERO)
    assert "\n" not in str(failure.value)


def test_a_batch_is_one_array() -> None:
    sent = send_batch([Reply(200)], *MANY)
    assert (sent.outcomes, sent.batches) == ([None] * 8, [list(range(8))])
    assert (sent.seen[0].method, sent.seen[0].path) == ("POST", PATH)
    sent = send([Reply(204, b"")], ZERO, settings={"batch_size": 1})
    assert (sent.outcomes, sent.batches) == ([None], [[0]])


def test_an_accepted_batch_names_its_refused_records() -> None:
    two = {"record_id": "5", "index": 4, "message": "of two"}
    errors: list[Any] = [{"index": 1, "message": "no\n name"}, {"record_id": "3"}, two]
    sent = send_batch([Reply(207, {"errors": errors})], *MANY)
    assert sent.outcomes == [None, "no name", None, "The endpoint gave no reason.", "of two", None, None, None]
    assert len(sent.seen) == 1


def test_refused_records_are_omitted_and_the_rest_is_resent() -> None:
    bad, bad_too = ({"errors": [{"index": 1, "message": message}]} for message in ("bad", "bad too"))
    sent = send_batch([Reply(422, bad), Reply(400, bad_too), Reply(201)], *MANY[:4])
    assert sent.outcomes == [None, "bad", "bad too", None]
    assert sent.batches == [[0, 1, 2, 3], [0, 2, 3], [0, 3]]
    sent = send_batch([Reply(422, {"errors": [{"index": 0, "message": "x"}]})], ZERO)
    assert (sent.outcomes, sent.batches) == (["x"], [[0]])


@pytest.mark.parametrize("body", [{"message": "bad"}, {"message": "bad", "errors": ["?"]}, {"error": "bad"}])
def test_an_unnamed_refused_record_is_found_by_halves(body: dict[str, object]) -> None:
    no, yes = Reply(422, body), Reply(200)
    # The third record is bad. Accepted records are not sent again.
    sent = send_batch([no, no, yes, no, no, no, no, yes], *MANY)
    assert sent.batches[:3] == [list(range(8)), [0, 1, 2, 3], [0, 1]]
    assert sent.batches[3:] == [[2, 3, 4, 5, 6, 7], [2, 3, 4], [2, 3], [2], [3, 4, 5, 6, 7]]
    assert sent.outcomes == [None, None, "bad", *[None] * 5]
    sent = send_batch([no, no, no, yes], *MANY[:4])
    assert sent.batches == [[0, 1, 2, 3], [0, 1], [0], [1, 2, 3]]
    assert sent.outcomes == ["bad", None, None, None]


@pytest.mark.parametrize("status", [401, 403, 404, 405, 302])
def test_an_endpoint_without_batches_fails_the_run_at_once(status: int) -> None:
    with ScriptedServer([Reply(status)]) as server:
        with pytest.raises(RunError, match=f"answered {status} .* for 8 records from '0' on"):
            Process(server, settings=BATCHES).send(*MANY)
        assert len(server.seen) == 1


UNCLEAR: list[Any] = [
    *(["?"], {"0": "bad"}, [{}]),
    *([{**named, "message": "x"}] for named in ({"index": 8}, {"index": -1}, {"record_id": "9"})),
]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(200, b"?" * 50, {"content-encoding": "gzip"}), "could not be reached"),
        (Reply(200, b"[" + b" " * (17 * 1024 * 1024)), "has more than 16,777,216 bytes"),
        *((Reply(200, {"errors": errors}), "errors without a record") for errors in UNCLEAR),
    ],
)
def test_an_unclear_answer_to_a_batch_fails_the_run(reply: Reply, message: str) -> None:
    with pytest.raises(RunError, match=message):
        send_batch([reply], *MANY)


def test_a_batch_is_repeated_after_the_requested_time() -> None:
    sent = send_batch([Reply(429, headers={"retry-after": "3"}), Reply(503), Reply(200)], *MANY)
    assert (sent.outcomes, sent.pauses) == ([None] * 8, [3.0, 0.4])
    assert len({seen.body for seen in sent.seen}) == 1


def test_requests_have_own_keys_that_their_tries_share() -> None:
    with ScriptedServer([Reply(503), Reply(0), Reply(429), Reply(200)]) as server:
        process = Process(server)
        # The third request has the content of the first. Another value may have been sent in between.
        for record in (ZERO, ONE, ZERO):
            process.send(record)
        process.send(ZERO, delete=True)
        # Another home has keys of its own.
        Process(server).send(ZERO)
    first, *others = keys(server)
    assert others[:3] == [first] * 3
    assert len({first, *others[3:]}) == 5


def test_a_deletion_interrupted_by_a_kill_is_repeated() -> None:
    with ScriptedServer([Reply(204, b"")]) as server:
        killed = Process(server)
        killed.destination.delete([ZERO, ONE])
        second = Process(server, killed.noted[-1])
        assert second.left == Unanswered([ZERO], is_deletion=True)
        assert second.send(ZERO, delete=True) == [None]
        second.send(ZERO)
    assert [seen.method for seen in server.seen] == ["DELETE", "DELETE", "POST"]
    one, again, other = keys(server)
    assert one == again != other


def test_each_part_of_a_refused_batch_is_stored_before_sending() -> None:
    """After a kill, the half is repeated, not the whole batch, which might be accepted by then."""
    with ScriptedServer([Reply(422), Reply(200)]) as server:
        killed = Process(server, settings=BATCHES)
        assert killed.destination.send([ZERO, ONE, TWO]) == [None, None]
        second = Process(server, killed.noted[-1], settings=BATCHES)
        assert second.left == Unanswered([ZERO, ONE])
        second.send(ZERO, ONE)
    whole, half, again = keys(server)
    assert whole != half == again


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "is_repeated"),
    [
        *(([Reply(status)], True) for status in (500, 0)),
        ([Reply(0), Reply(429)], True),
        *(([Reply(status)], False) for status in (429, 408, 302)),
    ],
)
def test_a_failed_run_leaves_possible_deliveries_to_the_next(script: Sequence[Reply], is_repeated: bool) -> None:
    with ScriptedServer(script) as server:
        failed = Process(server)
        with pytest.raises(RunError):
            failed.send(ZERO)
        following = Process(server, before=failed.noted[-1])
        assert following.left == (Unanswered([ZERO], of_failed_run=True) if is_repeated else None)
        # Also if the following run is killed before its first request.
        same = Process(server, following.destination.checkpoint())
        assert same.left == following.left
        with pytest.raises(RunError):
            same.send(ZERO)
    assert (len(set(keys(server))) == 1) == is_repeated


def test_requests_that_were_surely_not_executed_leave_nothing() -> None:
    with ScriptedServer([Reply()]) as stopped:
        pass
    process = Process(stopped)
    with pytest.raises(RunError, match="could not be reached"):
        process.send(ZERO)
    assert Process(stopped, process.noted[-1]).left is None
    for reply, is_left in ((Reply(401), False), (Reply(200, {"errors": ["?"]}), True)):
        with ScriptedServer([reply]) as server:
            process = Process(server, settings=BATCHES)
            with pytest.raises(RunError):
                process.send(ZERO, ONE)
            assert (Process(server, process.noted[-1]).left is not None) == is_left


def test_a_conflict_with_an_earlier_try_is_waited_for() -> None:
    """By the draft, 409 states that the first request with that key is still being executed."""
    with ScriptedServer([Reply(200), Reply(409), Reply(409, headers={"retry-after": "3"}), Reply(200)]) as server:
        killed = Process(server)
        killed.destination.send([ZERO])
        second = Process(server, killed.noted[-1])
        assert second.send(ZERO) == [None]
        assert second.pauses == [0.2, 3.0]
    # A conflict that lasts is a refusal, as is one of a first try.
    conflict = Reply(409, {"message": "no"})
    for script, waits in (([Reply(0), conflict], 4), ([conflict], 0)):
        sent = send(script, ZERO)
        assert (sent.outcomes, len(sent.pauses)) == (["no"], waits)
