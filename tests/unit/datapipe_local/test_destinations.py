from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from email.utils import format_datetime
from pathlib import Path

import pytest

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.destinations import connect
from datapipe_local.destinations.base import ABSENT, Destination, Outcome, Progress, Record, Target
from datapipe_local.destinations.http import HttpDestination
from datapipe_local.destinations.http_answer import Answer
from datapipe_local.errors import RunError
from datapipe_local.store.records import Connection
from tests.support.room import no_file_beyond
from tests.support.scripted_server import Reply, ScriptedServer

ONE = Record("1", {"n": 1, "name": "Zoë"}, {"n": 1})
TWO = Record("2", {"n": 2, "name": None}, {"n": 2})
UPDATE, UPSERT, INSERT = OperationName.UPDATE, OperationName.UPSERT, OperationName.INSERT


def send(
    script: Sequence[Reply], *records: Record, mode: OperationName = UPSERT, delete: bool = False
) -> tuple[list[Outcome], list[float], ScriptedServer]:
    pauses: list[float] = []
    with ScriptedServer(script) as server:
        target = Target("sync", "con tacts", mode)
        destination = HttpDestination({"url": f"{server.url}/base/"}, target, Progress(), pauses.append)
        done: list[Outcome] = []
        try:
            while len(done) < len(records):
                left = records[len(done) :]
                done += destination.delete(left) if delete else destination.send(left)
            return done, pauses, server
        finally:
            destination.close()


def test_each_record_is_one_post_on_one_connection() -> None:
    reasons, pauses, server = send([Reply(201)], ONE, TWO)
    assert (reasons, pauses) == ([None, None], [])
    assert [(seen.method, seen.path) for seen in server.seen] == [("POST", "/base/con%20tacts")] * 2
    assert [json.loads(seen.body) for seen in server.seen] == [ONE.properties, TWO.properties]


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
        (Reply(400, b"[" * 100_000), "400 Bad Request"),
        (Reply(400, b"\xff\xfe"), "400 Bad Request"),
        (Reply(400, b"?" * 50, {"content-encoding": "gzip"}), "400 Bad Request"),
        (Reply(413, {"message": "too much"}), "too much"),
    ],
)
def test_a_refusal_is_the_reason_of_that_record_alone(reply: Reply, reason: str) -> None:
    reasons, pauses, _ = send([reply, Reply(200)], ONE, TWO)
    assert reasons == [reason, None]
    assert pauses == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 0])
def test_what_may_pass_is_tried_again(status: int) -> None:
    reasons, pauses, server = send([Reply(status), Reply(status), Reply(200)], ONE)
    assert reasons == [None]
    assert pauses == [0.2, 0.4]
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("retry_after", "waited"),
    [
        ("2", 2.0),
        ("0", 0.2),
        ("100000", 30.0),
        ("9" * 400, 30.0),
        ("-1", 0.2),
        ("soon", 0.2),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.2),
        ("Wed, 21 Oct 2093 07:28:00 GMT", 30.0),
    ],
)
def test_retry_after_is_honoured_within_bounds(retry_after: str, waited: float) -> None:
    _, pauses, _ = send([Reply(429, headers={"retry-after": retry_after}), Reply(200)], ONE)
    assert pauses == [waited]


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        ("Wed, 21 Oct 2015 07:28:07 GMT", 7.0),
        ("Wednesday, 21-Oct-15 07:29:00 GMT", 60.0),
        ("Wed, 21 Oct 2015 07:27:59 GMT", None),
        ("Wed, 99 Oct 2015 07:28:07 GMT", None),
        ("", None),
    ],
)
def test_a_moment_is_waited_for_by_the_clock_of_the_endpoint(until: str, seconds: float | None) -> None:
    assert Answer(503, {"retry-after": until, "date": "Wed, 21 Oct 2015 07:28:00 GMT"}).wait() == seconds


def test_a_date_is_awaited_by_our_clock_if_the_endpoint_has_none() -> None:
    until = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=20), usegmt=True)
    assert 0 < (Answer(429, {"retry-after": until}).wait() or 0) <= 20


@pytest.mark.parametrize("headers", [{"content-encoding": "gzip"}, {"content-type": "application/json"}])
def test_a_record_is_accepted_once_the_response_head_says_so(headers: dict[str, str]) -> None:
    outcomes, pauses, server = send([Reply(201, b"<html>" * 10, headers)], ONE)
    assert (outcomes, pauses, len(server.seen)) == ([None], [], 1)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(200, b"?" * 50, {"content-encoding": "gzip"}), "could not be reached"),
        (Reply(200, b"[" + b" " * (17 * 1024 * 1024)), "has more than 16,777,216 bytes"),
    ],
)
def test_an_answer_to_a_batch_that_cannot_be_read_is_none(reply: Reply, said: str) -> None:
    with pytest.raises(RunError, match=said):
        send_batches([reply], MANY)


@pytest.mark.parametrize(
    ("reply", "said"), [(Reply(503), "answered 503 Service Unavailable"), (Reply(0), "could not be reached")]
)
def test_in_the_end_the_run_fails(reply: Reply, said: str) -> None:
    with pytest.raises(RunError, match=f"/base/con%20tacts {said}.* for record '1'") as failure:
        send([reply], ONE)
    assert "\n" not in str(failure.value)


def test_a_redirect_is_not_followed() -> None:
    with pytest.raises(RunError, match="302 Found"):
        send([Reply(302, headers={"location": "http://127.0.0.1:1/"})], ONE)


def test_nobody_there() -> None:
    with ScriptedServer([Reply()]) as server:
        url = server.url
    destination = HttpDestination({"url": url}, Target("sync", "x"), Progress(), lambda _: None)
    with pytest.raises(RunError, match="could not be reached"):
        destination.send([ONE])
    destination.close()


def test_an_update_uses_the_address_of_the_record_and_adds_none() -> None:
    script = [Reply(200), Reply(404), Reply(410), Reply(403)]
    outcomes, _, server = send(script, ONE, TWO, ONE, TWO, mode=UPDATE)
    assert outcomes == [None, ABSENT, ABSENT, "403 Forbidden"]
    assert [(seen.method, seen.path) for seen in server.seen[:2]] == [
        ("PATCH", "/base/con%20tacts/1"),
        ("PATCH", "/base/con%20tacts/2"),
    ]


def test_a_deletion_is_done_if_there_is_nothing() -> None:
    outcomes, pauses, server = send([Reply(200), Reply(404), Reply(503), Reply(403)], ONE, TWO, ONE, delete=True)
    assert outcomes == [None, None, "403 Forbidden"]
    assert pauses == [0.2]
    assert {(seen.method, seen.body) for seen in server.seen} == {("DELETE", b"")}


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_a_key_that_leads_elsewhere_is_not_followed(key: str) -> None:
    for delete in (True, False):
        outcomes, _, server = send([Reply(200)], Record(key, {}), mode=UPDATE, delete=delete)
        assert outcomes == ["A record with this key can have no address of its own."]
        assert server.seen == []


MANY = [Record(str(number), {"n": number}, {"n": number}) for number in range(8)]


def send_batches(
    script: Sequence[Reply], records: Sequence[Record], batch_size: int = 100
) -> tuple[list[Outcome], list[list[int]]]:
    """Send, as the engine does, and give what became of the records and which were in each request."""
    outcomes: list[Outcome] = []
    with ScriptedServer(script) as server:
        target = Target("sync", "contacts", INSERT, {"batch_size": batch_size})
        destination = HttpDestination({"url": server.url}, target, Progress(), lambda _: None)
        assert destination.batch_size == batch_size
        try:
            while len(outcomes) < len(records):
                outcomes += destination.send(records[len(outcomes) :])
        finally:
            destination.close()
    assert {(seen.method, seen.path) for seen in server.seen} == {("POST", "/contacts")}
    return outcomes, [[entry["n"] for entry in json.loads(seen.body)] for seen in server.seen]


def error(message: str | None = None, **where: object) -> dict[str, object]:
    return {**where, **({} if message is None else {"message": message})}


def test_a_batch_is_one_array() -> None:
    assert send_batches([Reply(200)], MANY) == ([None] * 8, [list(range(8))])
    assert send_batches([Reply(204, b"")], MANY[:1], 1) == ([None], [[0]])


def test_an_answer_names_those_that_are_refused() -> None:
    errors = [error("no\n name", index=1), error(record_id="3"), error("of two", record_id="5", index=4)]
    outcomes, requests = send_batches([Reply(207, {"errors": errors})], MANY)
    assert outcomes == [None, "no name", None, "The endpoint gave no reason.", "of two", None, None, None]
    assert len(requests) == 1


def test_refused_records_are_omitted_and_the_rest_is_resent() -> None:
    script = [Reply(422, {"errors": [error("bad", index=1)]}), Reply(400, {"errors": [error("bad too", index=1)]})]
    outcomes, requests = send_batches([*script, Reply(201)], MANY[:4])
    assert outcomes == [None, "bad", "bad too", None]
    assert requests == [[0, 1, 2, 3], [0, 2, 3], [0, 3]]
    assert send_batches([Reply(422, {"errors": [error("x", index=0)]})], MANY[:1]) == (["x"], [[0]])


@pytest.mark.parametrize("body", [{"message": "bad"}, {"message": "bad", "errors": ["?"]}, {"error": "bad"}])
def test_a_refusal_that_names_none_is_found_out_by_halves(body: dict[str, object]) -> None:
    no, yes = Reply(422, body), Reply(200)
    # The third of them is bad.
    outcomes, requests = send_batches([no, no, yes, no, no, no, no, yes], MANY)
    assert requests[:3] == [list(range(8)), [0, 1, 2, 3], [0, 1]]
    # What was taken is not sent again.
    assert requests[3:] == [[2, 3, 4, 5, 6, 7], [2, 3, 4], [2, 3], [2], [3, 4, 5, 6, 7]]
    assert outcomes == [None, None, "bad", *[None] * 5]
    outcomes, requests = send_batches([no, no, no, yes], MANY[:4])
    assert requests == [[0, 1, 2, 3], [0, 1], [0], [1, 2, 3]]
    assert outcomes == ["bad", None, None, None]


@pytest.mark.parametrize("status", [401, 403, 404, 405, 302])
def test_an_endpoint_that_takes_no_batch_fails_the_run_at_once(status: int) -> None:
    with ScriptedServer([Reply(status)]) as server:
        destination = HttpDestination(
            {"url": server.url}, Target("sync", "x", INSERT, {"batch_size": 10}), Progress(), lambda _: None
        )
        with pytest.raises(RunError, match=f"answered {status} .* for 8 records from '0' on"):
            destination.send(MANY)
        destination.close()
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "errors", [["?"], {"0": "bad"}, [error("x", index=8)], [error("x", index=-1)], [error("x", record_id="9")], [{}]]
)
def test_errors_that_name_no_record_are_no_success(errors: object) -> None:
    with pytest.raises(RunError, match="errors that name no record"):
        send_batches([Reply(200, {"errors": errors})], MANY)


def test_a_batch_waits_as_long_as_it_is_told() -> None:
    pauses: list[float] = []
    with ScriptedServer([Reply(429, headers={"retry-after": "3"}), Reply(503), Reply(200)]) as server:
        target = Target("sync", "x", UPSERT, {"batch_size": 10})
        destination = HttpDestination({"url": server.url}, target, Progress(), pauses.append)
        assert destination.send(MANY) == [None] * 8
        destination.close()
    assert pauses == [3.0, 0.4]
    assert len({seen.body for seen in server.seen}) == 1


def opened(folder: Path, mode: OperationName, progress: Progress | None = None, sync_id: str = "sync") -> Destination:
    connection = Connection(id="c", integration_id="jsonl", label="c", settings={"path": str(folder)}, created_at="")
    return connect(connection, Target(sync_id, "things", mode), progress=progress or Progress(), pause=lambda _: None)


def written(folder: Path, *records: Record) -> str:
    """Append records, and give what was noted before they were written."""
    noted: list[str] = []
    destination = opened(folder, INSERT, Progress(note=noted.append))
    assert destination.send(records) == [None] * len(records)
    assert destination.checkpoint() == "null"
    destination.close()
    return noted[-1]


def carried_on(folder: Path, noted: str, *records: Record) -> None:
    """Repeat the last batch, as the engine does after a kill."""
    destination = opened(folder, INSERT, Progress(noted))
    left = destination.unanswered()
    assert left is not None
    assert destination.send(left.records) == [None] * len(left.records)
    if records:
        destination.send(records)
    destination.close()


@pytest.mark.parametrize("integration", ["jsonl", "csv"])
def test_an_append_only_sync_finishes_what_a_failed_run_left(
    tmp_path: Path, integration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(
        id="c", integration_id=integration, label="c", settings={"path": str(tmp_path)}, created_at=""
    )

    def run(mode: OperationName, record: Record) -> None:
        target = Target("sync", "things", mode)
        destination = connect(connection, target, progress=Progress(), pause=lambda _: None)
        destination.send([record])
        destination.close()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(RunError, match="No space left"):
            run(UPSERT, ONE)
    run(INSERT, TWO)
    (file,) = tmp_path.iterdir()
    *_, one, two = file.read_text(encoding="utf-8").splitlines()
    assert ("Zoë" in one, "2" in two) == (True, True)


def numbers(folder: Path) -> list[int]:
    return [json.loads(line)["n"] for line in (folder / "things.jsonl").read_text(encoding="utf-8").splitlines()]


def test_records_are_lines_appended(tmp_path: Path) -> None:
    written(tmp_path / "new" / "folder", ONE)
    written(tmp_path / "new" / "folder", TWO)
    lines = (tmp_path / "new" / "folder" / "things.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [ONE.properties, TWO.properties]


@pytest.mark.parametrize("bytes_there", range(-1, 22))
def test_killed_at_any_byte_what_was_being_written_is_there_once(tmp_path: Path, bytes_there: int) -> None:
    file = tmp_path / "things.jsonl"
    written(tmp_path, Record("0", {"n": 0}))
    before = file.stat().st_size
    noted = written(tmp_path, ONE, Record("2", {"n": 2}))
    whole = file.read_bytes()
    file.write_bytes(whole if bytes_there < 0 else whole[: before + bytes_there])
    carried_on(tmp_path, noted, Record("3", {"n": 3}))
    assert numbers(tmp_path) == [0, 1, 2, 3]


def test_what_others_have_written_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "things.jsonl"
    noted = written(tmp_path, ONE)
    # All of it was written, and then the same by another, who left out the end of the last line.
    file.write_bytes(file.read_bytes() + b'{"n": 1}\n{"n": 8}')
    carried_on(tmp_path, noted, TWO)
    assert numbers(tmp_path) == [1, 1, 8, 2]
    # Nothing of it was written, and others wrote there.
    file.write_bytes(b'{"n": 9}')
    carried_on(tmp_path, noted)
    assert numbers(tmp_path) == [9, 1]


@pytest.mark.parametrize("integration", ["jsonl", "csv"])
def test_a_disk_that_is_full_leaves_nothing_half_written(tmp_path: Path, integration: str) -> None:
    connection = Connection(
        id="c", integration_id=integration, label="c", settings={"path": str(tmp_path)}, created_at=""
    )
    file = tmp_path / f"things.{integration}"
    target = Target("sync", "things", INSERT)
    many = [Record(str(n), {"n": n, "name": "x" * 50}) for n in range(1_000)]

    def send(*records: Record) -> None:
        destination = connect(connection, target, progress=Progress(), pause=lambda _: None)
        destination.send(records)
        destination.close()

    send(ONE)
    before = file.read_bytes()
    with no_file_beyond(len(before) + 20_000), pytest.raises(RunError, match=r"cannot be written: File too large"):
        send(*many)
    assert file.read_bytes() == before
    send(*many)
    assert file.read_bytes().count(b"\n") == before.count(b"\n") + 1_000


@pytest.mark.parametrize("mode", [INSERT, UPSERT, UPDATE])
def test_a_folder_that_cannot_be_made(tmp_path: Path, mode: OperationName) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"things\.jsonl.* cannot be written"):
        opened(tmp_path / "file" / "folder", mode).send([ONE])
