"""The file: what is read is what was written, and what is wrong in it is said."""

from __future__ import annotations

import json
import os
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.pipelines.errors import SnapshotError
from airflow_provider_datapipe.pipelines.snapshot import Node, Snapshot, parse, read
from tests.unit.pipelines.graphs import node, snapshots

SCHEMA = json.loads(files("airflow_provider_datapipe.pipelines").joinpath("snapshot.schema.json").read_text())

EXAMPLE = Snapshot(
    [
        node("orchestration:night", name="Nightly"),
        node("sync:s", name="shop", status="enabled", orchestration="orchestration:night", integration="files"),
        node("stream:orders", folder="shop", status="enabled", sync="sync:s"),
        node(
            "transform:paid",
            "stream:orders",
            folder="marts/eu",
            status="published",
            draft_depends_on=(),
            unresolved=("raw.gone.table",),
            documentation="Bezahlte Aufträge\nvon heute",
            sql="SELECT 1",
        ),
        node("reverse_etl:out", "transform:paid", name="paid_to_http", status="disabled", integration="http"),
    ]
)


def test_what_is_written_is_read() -> None:
    again = parse(EXAMPLE.as_text())
    assert again.nodes == EXAMPLE.nodes
    assert again.as_text() == EXAMPLE.as_text()


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_does_not_matter(snapshot: Snapshot, shuffled: random.Random) -> None:
    nodes = list(snapshot.nodes.values())
    shuffled.shuffle(nodes)
    assert Snapshot(nodes).as_text() == snapshot.as_text()


def test_what_is_empty_is_not_written() -> None:
    written = json.loads(EXAMPLE.as_text())["nodes"]
    assert {"id": "orchestration:night", "kind": "orchestration", "resource_id": "night", "name": "Nightly"} in written
    (paid,) = [each for each in written if each["id"] == "transform:paid"]
    # That its newest SQL reads nothing is not the same as that it has not changed.
    assert paid["draft_depends_on"] == []


def test_titles() -> None:
    assert {each.id: each.title for each in EXAMPLE.nodes.values()} == {
        "orchestration:night": "Nightly",
        "sync:s": "shop",
        "stream:orders": "shop.orders",
        "transform:paid": "marts/eu/paid",
        "reverse_etl:out": "paid_to_http",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": "datapipe-snapshot",\n "version": 1,\n "nodes": [}\n', "line 3, column 12: this is no JSON"),
        ("", "line 1, column 1: this is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "is no snapshot"),
        ('{"nodes": []}', "is no snapshot"),
        (
            '{"format": "datapipe-snapshot", "version": 2, "nodes": []}',
            "has the format version 2, and this release reads version 1: take it again",
        ),
        ('{"format": "datapipe-snapshot", "version": true, "nodes": []}', "format version True"),
        ('{"format": "datapipe-snapshot", "version": 1}', "nodes is not a list"),
    ],
)
def test_what_is_no_snapshot_is_refused(text: str, said: str) -> None:
    with pytest.raises(SnapshotError) as refused:
        parse(text, origin="pipelines.json")
    assert said in str(refused.value)
    assert str(refused.value).startswith("pipelines.json")


STREAM = {"id": "stream:a", "kind": "stream", "resource_id": "a", "name": "a"}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (["x"], "nodes[0] is no object"),
        ([STREAM, {**STREAM, "name": 1}], "nodes[1]: name is no text"),
        ([{**STREAM, "name": ""}], "name is no text"),
        ([{**STREAM, "kind": "table", "id": "table:a"}], "kind is 'table' and not one of stream, transform,"),
        ([{**STREAM, "id": "stream:b"}], "id is 'stream:b' and not made of kind and resource_id"),
        ([{**STREAM, "depends_on": "stream:b"}], "depends_on is no list of texts"),
        ([{**STREAM, "depends_on": [1]}], "depends_on is no list of texts"),
        ([{**STREAM, "depends_on": None}], "depends_on is no list of texts"),
        ([STREAM, STREAM], "the id 'stream:a' is there twice"),
        ([{**STREAM, "depends_on": ["stream:b"]}], "depends_on of 'stream:a' names 'stream:b', which is not there"),
        ([{**STREAM, "sync": "sync:b"}], "sync of 'stream:a' names 'sync:b', which is not there"),
        ([{**STREAM, "sync": "stream:a"}], "sync of 'stream:a' names 'stream:a', which is of the kind stream"),
        (
            [STREAM, {**STREAM, "id": "transform:a", "kind": "transform", "draft_depends_on": ["stream:c"]}],
            "draft_depends_on of 'transform:a' names 'stream:c'",
        ),
    ],
)
def test_what_is_wrong_with_a_node_is_said(nodes: list[Any], said: str) -> None:
    with pytest.raises(SnapshotError) as refused:
        parse(json.dumps({"format": "datapipe-snapshot", "version": 1, "nodes": nodes}), origin="p.json")
    assert said in str(refused.value)
    assert "datapipe snapshot" in str(refused.value)


def test_what_a_later_release_adds_is_passed_over() -> None:
    document = json.loads(EXAMPLE.as_text())
    document["nodes"][0]["colour"] = "red"
    document["made_by"] = "2.0"
    assert parse(json.dumps(document)).nodes == EXAMPLE.nodes


def test_the_schema_describes_the_fields() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(EXAMPLE.as_text()), SCHEMA)
    assert SCHEMA["$defs"]["node"]["properties"].keys() == Node.__dataclass_fields__.keys()


VALUES: st.SearchStrategy[Any] = st.sampled_from([None, True, 1, 1.5, "", "x", [], [""], ["stream:orders"], [1], {}])


@given(st.integers(0, 4), st.sampled_from(sorted(Node.__dataclass_fields__)), VALUES)
def test_the_schema_and_the_reader_agree(place: int, field: str, value: Any) -> None:
    document = json.loads(EXAMPLE.as_text())
    document["nodes"][place][field] = value
    valid = jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    try:
        parse(json.dumps(document))
    except SnapshotError as refused:
        # A schema can't say that an id is made of other fields, or leads to something.
        said = str(refused)
        assert not valid or "names" in said or "not made of" in said, said
    else:
        assert valid


def test_a_file_is_read_once_as_long_as_it_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.json"
    file.write_text(EXAMPLE.as_text(), encoding="utf-8")
    first = read(file)
    assert read(file) is first
    assert first.origin == str(file)
    file.write_text(Snapshot([node("stream:b")]).as_text(), encoding="utf-8")
    assert list(read(file).nodes) == ["stream:b"]
    # The same size within the same tick of a coarse clock, but another file.
    state = file.stat()
    other = tmp_path / "other"
    other.write_text(Snapshot([node("stream:c")]).as_text(), encoding="utf-8")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(file)
    assert list(read(file).nodes) == ["stream:c"]


def test_a_file_that_is_broken_and_mended_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.json"
    file.write_text("{", encoding="utf-8")
    with pytest.raises(SnapshotError, match="this is no JSON"):
        read(file)
    file.write_text(EXAMPLE.as_text(), encoding="utf-8")
    assert read(file).nodes == EXAMPLE.nodes


def test_a_file_that_is_not_there_or_none(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"There is no snapshot .*gone\.json: take one with"):
        read(tmp_path / "gone.json")
    with pytest.raises(SnapshotError, match="can't be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "latin").write_bytes(b'{"format": "\xe4"}')
    with pytest.raises(SnapshotError, match="is no text in UTF-8"):
        read(tmp_path / "latin")
