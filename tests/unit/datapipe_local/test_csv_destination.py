from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local import destinations
from datapipe_local.destinations.base import ABSENT, Destination, Outcome, Progress, Record, Target
from datapipe_local.destinations.csv_form import as_row
from datapipe_local.errors import RunError
from datapipe_local.store.records import Connection
from tests.support.examples import scaled

INSERT, UPDATE, UPSERT, MIRROR = OperationName.INSERT, OperationName.UPDATE, OperationName.UPSERT, OperationName.MIRROR
ODD = "a,\"b\"\r\n\nü; 'c'"


def connection(folder: Path) -> Connection:
    return Connection(id="c", integration_id="csv", label="", settings={"path": str(folder)}, created_at="")


def opened(folder: Path, mode: OperationName, progress: Progress | None = None) -> Destination:
    target = Target("sync", "people", mode)
    return destinations.connect(connection(folder), target, progress=progress or Progress(), pause=lambda _: None)


def person(number: Any, **others: Any) -> Record:
    return Record(str(number), {"id": number, **others}, {"id": number})


def run(folder: Path, mode: OperationName, *records: Record, delete: tuple[Record, ...] = ()) -> list[Outcome]:
    destination = opened(folder, mode)
    outcomes = destination.send(records) if records else []
    if delete:
        destination.delete(delete)
    destination.close()
    return outcomes


def table(folder: Path) -> list[list[str]]:
    with (folder / "people.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, strict=True))


def test_rows_are_appended_under_a_first_line(tmp_path: Path) -> None:
    assert run(tmp_path / "new", INSERT, person(1, name=ODD), person(2, name=None)) == [None, None]
    run(tmp_path / "new", INSERT, person(True, name=[1, "x"]))
    assert table(tmp_path / "new") == [["id", "name"], ["1", ODD], ["2", ""], ["true", '[1, "x"]']]


def test_the_first_line_of_a_file_says_what_its_columns_are(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(b"name,more,id\r\nAda,x,1\r\n")
    run(tmp_path, INSERT, person(2, name="Bob"))
    assert table(tmp_path) == [["name", "more", "id"], ["Ada", "x", "1"], ["Bob", "", "2"]]
    with pytest.raises(RunError, match="has no column 'age': it has name, more, id"):
        run(tmp_path, INSERT, person(3, age=1))


def test_upsert_update_and_mirror_change_rows_by_their_key(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(b"id,name\r\n1,Ada\r\nno row\r\n2,Bob")
    assert run(tmp_path, UPSERT, person(2, name="Eve"), person(3, name=ODD)) == [None, None]
    # What stays is as it was, byte for byte.
    assert file.read_bytes().startswith(b'id,name\r\n1,Ada\r\nno row\r\n2,Eve\n"3",')
    assert run(tmp_path, UPDATE, person(1, name="Zoe"), person(9, name="Nobody")) == [None, ABSENT]
    assert run(tmp_path, MIRROR, person(3, name="Cyd", age=7), delete=(person(2),)) == [None]
    assert table(tmp_path) == [["id", "name", "age"], ["1", "Zoe", ""], ["no row"], ["3", "Cyd", "7"]]
    # To do it again changes nothing.
    before = file.read_bytes()
    run(tmp_path, UPSERT, person(3, name="Cyd"))
    assert file.read_bytes() == before


def test_what_a_killed_process_has_kept_is_done_by_the_next(tmp_path: Path) -> None:
    killed = opened(tmp_path, UPSERT)
    begin = killed.checkpoint()
    killed.send([person(1, name="Ada")])
    next_one = opened(tmp_path, UPSERT, Progress(begin))
    next_one.send([person(1, name="Ada"), person(2, name="Bob")])
    next_one.close()
    assert table(tmp_path) == [["id", "name"], ["1", "Ada"], ["2", "Bob"]]


@settings(max_examples=scaled(60))
@given(
    names=st.lists(st.text(alphabet='ab,"\r\n ü', max_size=5), min_size=1, max_size=4, unique=True),
    share=st.floats(0, 1),
)
def test_killed_at_any_byte_an_insert_ends_with_each_row_once(names: list[str], share: float) -> None:
    records = [person(number, name=name) for number, name in enumerate(names)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, INSERT, person(-1, name="before"))
        noted: list[str] = []
        file = folder / "people.csv"
        begin = file.stat().st_size
        opened(folder, INSERT, Progress(note=noted.append)).send(records)
        whole = file.read_bytes()
        file.write_bytes(whole[: begin + int(share * (len(whole) - begin))])
        carry_on(folder, noted[-1])
        assert sorted(table(folder)) == sorted(
            [["id", "name"], ["-1", "before"], *([str(n), s] for n, s in enumerate(names))]
        )


def test_killed_in_the_first_line_it_is_written_anew(tmp_path: Path) -> None:
    noted: list[str] = []
    opened(tmp_path, INSERT, Progress(note=noted.append)).send([person(1, name="Ada")])
    file = tmp_path / "people.csv"
    for torn in (b"", b"i", b"id,name", as_row(["id", "name"])):
        file.write_bytes(torn)
        carry_on(tmp_path, noted[-1])
        assert table(tmp_path) == [["id", "name"], ["1", "Ada"]]


def carry_on(folder: Path, noted: str) -> None:
    """Repeat the last batch, as the engine does after a kill."""
    destination = opened(folder, INSERT, Progress(noted))
    left = destination.unanswered()
    assert left is not None
    destination.send(left.records)


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(b"\xef\xbb\xbfid,name\r\n1,Ada\r\n")
    run(tmp_path, INSERT, person(2, name="Bob"))
    run(tmp_path, UPSERT, person(1, name="Eve"))
    assert file.read_bytes() == b"\xef\xbb\xbfid,name\r\n1,Eve\n2,Bob\n"
    run(tmp_path, UPSERT, person(1, age=7))
    assert file.read_bytes() == b"\xef\xbb\xbfid,name,age\n1,Eve,7\n2,Bob,\n"


def test_a_file_removed_during_an_append_is_created_again(tmp_path: Path) -> None:
    destination = opened(tmp_path, INSERT)
    destination.send([person(1)])
    (tmp_path / "people.csv").unlink()
    assert destination.send([person(2)]) == [None]
    assert table(tmp_path) == [["id"], ["2"]]


def test_what_a_folder_offers(tmp_path: Path) -> None:
    run(tmp_path, INSERT, person(1, name="Ada"))
    (tmp_path / "other.jsonl").touch()
    offer = destinations.offer(connection(tmp_path))
    assert offer.object_type_ids() == ["people"]
    assert [one.id for one in offer.properties("people")] == ["id", "name"]
    assert offer.properties("nobody") == []
