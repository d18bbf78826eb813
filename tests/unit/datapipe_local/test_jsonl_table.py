"""A file with one line per record: whatever is interrupted, it has the old lines or the new ones."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.destinations.base import ABSENT, Record
from datapipe_local.destinations.changes import Changes
from datapipe_local.destinations.jsonl_table import JsonLinesTable
from datapipe_local.errors import RunError
from tests.support.examples import scaled
from tests.support.room import no_file_beyond

Json = dict[str, Any]


def record(key: int, **properties: Any) -> Record:
    return Record(str(key), {"id": key, **properties}, {"id": key})


def opened(
    folder: Path, mode: OperationName = OperationName.MIRROR, checkpoint: str | None = None, sync_id: str = "sync"
) -> JsonLinesTable:
    return JsonLinesTable(folder / "things.jsonl", sync_id, mode, checkpoint)


def lines(folder: Path) -> list[Json]:
    return [json.loads(line) for line in (folder / "things.jsonl").read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_to_be_seen_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "things.jsonl").write_text('{"id": 1, "a": 1}\n{"id": 2}\n')
    table = opened(tmp_path)
    table.send([record(1, b=2), record(3)])
    table.delete([record(2)])
    assert lines(tmp_path) == [{"id": 1, "a": 1}, {"id": 2}]
    table.close()
    assert lines(tmp_path) == [{"id": 1, "a": 1, "b": 2}, {"id": 3}]
    assert names(tmp_path) == ["things.jsonl"]


def test_a_killed_process_is_carried_on(tmp_path: Path) -> None:
    table = opened(tmp_path)
    before = table.checkpoint()
    table.send([record(1)])
    noted = table.checkpoint()
    table.send([record(2)])
    # Killed here, in the middle of a line, and what came after the checkpoint is sent again.
    with (tmp_path / ".things.jsonl.sync").open("a") as torn:
        torn.write('{"key": {"id": 3')
    assert int(before) < int(noted)
    again = opened(tmp_path, checkpoint=noted)
    again.send([record(2), record(3)])
    kept = (tmp_path / ".things.jsonl.sync").read_text().splitlines()
    assert [json.loads(line)["key"]["id"] for line in kept] == [1, 2, 3]
    again.close()
    assert [line["id"] for line in lines(tmp_path)] == [1, 2, 3]


def test_a_kill_after_the_write_repeats_it_with_the_same_result(tmp_path: Path) -> None:
    (tmp_path / "things.jsonl").write_text('{"id": 2}\n')
    table = opened(tmp_path)
    table.send([record(1)])
    table.delete([record(2)])
    noted, kept = table.checkpoint(), (tmp_path / ".things.jsonl.sync").read_bytes()
    table.close()
    after = lines(tmp_path)
    (tmp_path / ".things.jsonl.sync").write_bytes(kept)
    opened(tmp_path, checkpoint=noted).close()
    assert lines(tmp_path) == after == [{"id": 1}]
    # And if it was killed later still, there is nothing that is kept.
    opened(tmp_path, checkpoint=noted).close()
    assert lines(tmp_path) == after


def test_what_a_failed_run_has_left_is_done_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path)
    table.send([record(1)])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(RunError, match=r"things\.jsonl cannot be written: No space left on device"):
            table.close()
    assert lines(tmp_path) == []
    opened(tmp_path).close()
    assert lines(tmp_path) == [{"id": 1}]
    assert names(tmp_path) == ["things.jsonl"]


def test_an_update_tells_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "things.jsonl").write_text('{"id": 1, "a": 1}\n{"id": "2"}\n{"id": 1.5, "a": 1}')
    table = opened(tmp_path, OperationName.UPDATE)
    assert table.send([record(1, a=2), record(2), record(3)]) == [None, ABSENT, ABSENT]
    assert table.send([Record("x", {"a": 3}, {"a": 1})]) == [None]
    table.close()
    assert lines(tmp_path) == [{"id": 1, "a": 2}, {"id": "2"}, {"id": 1.5, "a": 3}]


def test_what_others_have_put_there_is_kept_as_it_is(tmp_path: Path) -> None:
    theirs = b'  {"id": 9}  \n\xff\n"\\ud800"\n[' + b"[" * 100_000 + b'\n{"other": NaN}\n{"id": 1, "half": "\\ud800"}\n'
    (tmp_path / "things.jsonl").write_bytes(theirs)
    table = opened(tmp_path)
    table.send([record(1, x="é")])
    table.close()
    *before, changed = (tmp_path / "things.jsonl").read_bytes().splitlines()
    assert before == theirs.splitlines()[:-1]
    assert json.loads(changed) == {"id": 1, "half": "\ud800", "x": "é"}


def test_what_somebody_writes_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "things.jsonl"
    file.write_text('{"id": 1}\n')
    table = opened(tmp_path)
    table.send([record(1, a=2), record(3, a=4)])
    rewritten = JsonLinesTable.rewritten
    looks: list[int] = []

    def somebody_writes(self: JsonLinesTable, changes: Changes) -> Iterator[bytes]:
        yield from rewritten(self, changes)
        if not looks:
            file.write_text('{"id": 1}\n{"id": 2}\n{"id": 3}\n')
        looks.append(1)

    monkeypatch.setattr(JsonLinesTable, "rewritten", somebody_writes)
    table.close()
    assert lines(tmp_path) == [{"id": 1, "a": 2}, {"id": 2}, {"id": 3, "a": 4}]
    assert len(looks) == 2


def test_a_file_stays_who_may_read_it_and_where_it_is(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text('{"id": 1}\n')
    (elsewhere / "file").chmod(0o640)
    (tmp_path / "things.jsonl").symlink_to(elsewhere / "file")
    table = opened(tmp_path)
    table.send([record(2)])
    table.close()
    assert (tmp_path / "things.jsonl").is_symlink()
    assert (elsewhere / "file").read_text() == '{"id": 1}\n{"id": 2}\n'
    assert (elsewhere / "file").stat().st_mode & 0o777 == 0o640
    assert names(elsewhere) == ["file"]


@pytest.mark.parametrize("room", [10_000, 300_000])
def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: Path, room: int) -> None:
    """There is no room for what is to be done; or for that, and not for the new file."""
    file = tmp_path / "things.jsonl"
    file.write_text('{"id": -1, "text": "' + "y" * 250_000 + '"}\n')
    before = file.read_bytes()
    table = opened(tmp_path)
    many = [record(n, text="x" * 200) for n in range(1_000)]

    def run() -> None:
        table.send(many)
        table.close()

    with no_file_beyond(room), pytest.raises(RunError, match="cannot be written: File too large"):
        run()
    assert file.read_bytes() == before
    # What takes room is what was noted as sent, and nothing else.
    assert set(names(tmp_path)) == {"things.jsonl", ".things.jsonl.sync"}
    again = opened(tmp_path)
    again.send(many)
    again.close()
    assert len(lines(tmp_path)) == 1_001


@pytest.mark.slow
@pytest.mark.parametrize("mode", [OperationName.UPSERT, OperationName.UPDATE])
def test_memory_does_not_grow_with_what_changes(tmp_path: Path, mode: OperationName) -> None:
    number = 4_000
    (tmp_path / "things.jsonl").write_text("".join(f'{{"id": {n}}}\n' for n in range(0, number, 2)))
    table = opened(tmp_path, mode)
    tracemalloc.start()
    try:
        for start in range(0, number, 200):
            table.send([record(n, text=f"{n} {'x' * 100}") for n in range(start, start + 200)])
        table.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    changed = sum("text" in line for line in lines(tmp_path))
    assert changed == (number if mode == OperationName.UPSERT else number // 2)
    # To keep all of it, or all keys, takes 3 to 5 MiB of so few already.
    assert peak < 1.5 * 1024 * 1024


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
        st.tuples(st.just("end"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=scaled(60))
@given(steps=_STEPS)
def test_it_is_as_if_nobody_had_been_killed(steps: list[tuple[str, int, int]], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("table")
    expected: dict[int, int] = {}
    noted: str | None = None
    table = opened(folder)
    for what, key, value in steps:
        if what == "send":
            table.send([record(key, v=value)])
            expected[key] = value
        elif what == "delete":
            table.delete([record(key)])
            expected.pop(key, None)
        elif what == "kill":
            table = opened(folder, checkpoint=noted or "0")
            continue
        else:
            table.close()
            assert {line["id"]: line["v"] for line in lines(folder)} == expected
            table = opened(folder)
        noted = table.checkpoint()
    table.close()
    found = lines(folder)
    assert {line["id"]: line["v"] for line in found} == expected
    assert len(found) == len(expected)
