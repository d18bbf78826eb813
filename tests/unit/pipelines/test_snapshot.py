"""Tests of snapshot files: round trip, errors, schema and cache."""

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


HEAD = '{"format": "datapipe-snapshot", "version": '


def test_parse_returns_the_written_nodes() -> None:
    again = parse(EXAMPLE.as_text())
    assert again.nodes == EXAMPLE.nodes
    assert again.as_text() == EXAMPLE.as_text()


@given(snapshots(), st.randoms(use_true_random=False))
def test_text_does_not_depend_on_the_node_order(snapshot: Snapshot, shuffled: random.Random) -> None:
    nodes = list(snapshot.nodes.values())
    shuffled.shuffle(nodes)
    assert Snapshot(nodes).as_text() == snapshot.as_text()


def test_empty_fields_are_omitted() -> None:
    written = json.loads(EXAMPLE.as_text())["nodes"]
    assert {"id": "orchestration:night", "kind": "orchestration", "resource_id": "night", "name": "Nightly"} in written
    (paid,) = [each for each in written if each["id"] == "transform:paid"]
    # An empty tuple means that the newest SQL reads nothing; None means that it did not change.
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
    ("text", "message"),
    [
        (f'{HEAD}\n1,\n "nodes": [}}\n', "line 3, column 12: not valid JSON"),
        ("", "line 1, column 1: not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        *((text, "is not a snapshot") for text in ("[]", '{"nodes": []}')),
        (HEAD + '2, "nodes": []}', "has the format version 2, and this release reads version 1: write it again"),
        (HEAD + 'true, "nodes": []}', "format version True"),
        (HEAD + "1}", "nodes is not a list"),
    ],
)
def test_invalid_documents_are_rejected(text: str, message: str) -> None:
    with pytest.raises(SnapshotError) as refused:
        parse(text, origin="pipelines.json")
    assert message in str(refused.value)
    assert str(refused.value).startswith("pipelines.json")


STREAM = {"id": "stream:a", "kind": "stream", "resource_id": "a", "name": "a"}
TRANSFORM = {**STREAM, "id": "transform:a", "kind": "transform"}
ABSENT = "which is not in the snapshot"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (["x"], "nodes[0] is not an object"),
        ([STREAM, {**STREAM, "name": 1}], "nodes[1]: name must be a non-empty string"),
        ([{**STREAM, "name": ""}], "name must be a non-empty string"),
        ([{**STREAM, "kind": "table", "id": "table:a"}], "kind is 'table', not one of stream, transform,"),
        ([{**STREAM, "id": "stream:b"}], "id is 'stream:b', not made of kind and resource_id"),
        *(([{**STREAM, "depends_on": no}], "depends_on is not a list of strings") for no in ("stream:b", [1], None)),
        ([STREAM, STREAM], "duplicate id 'stream:a'"),
        ([{**STREAM, "depends_on": ["stream:b"]}], f"depends_on of 'stream:a' refers to 'stream:b', {ABSENT}"),
        ([{**STREAM, "sync": "sync:b"}], f"sync of 'stream:a' refers to 'sync:b', {ABSENT}"),
        ([{**STREAM, "sync": "stream:a"}], "sync of 'stream:a' refers to 'stream:a', which has the kind stream"),
        ([{**TRANSFORM, "draft_depends_on": ["stream:c"]}], "draft_depends_on of 'transform:a' refers to 'stream:c'"),
    ],
)
def test_invalid_nodes_are_rejected(nodes: list[Any], message: str) -> None:
    with pytest.raises(SnapshotError) as refused:
        parse(json.dumps({"format": "datapipe-snapshot", "version": 1, "nodes": nodes}), origin="p.json")
    assert message in str(refused.value)
    assert "datapipe snapshot" in str(refused.value)


def test_unknown_fields_are_ignored() -> None:
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
def test_schema_and_parser_agree(place: int, field: str, value: Any) -> None:
    document = json.loads(EXAMPLE.as_text())
    document["nodes"][place][field] = value
    valid = jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    try:
        parse(json.dumps(document))
    except SnapshotError as refused:
        # A schema can't express how IDs are composed and that references exist.
        message = str(refused)
        assert not valid or "refers to" in message or "not made of" in message, message
    else:
        assert valid


def test_unchanged_file_is_read_once(tmp_path: Path) -> None:
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


def test_corrected_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.json"
    file.write_text("{", encoding="utf-8")
    with pytest.raises(SnapshotError, match="not valid JSON"):
        read(file)
    file.write_text(EXAMPLE.as_text(), encoding="utf-8")
    assert read(file).nodes == EXAMPLE.nodes


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"There is no snapshot .*gone\.json: create it with"):
        read(tmp_path / "gone.json")
    with pytest.raises(SnapshotError, match="can't be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "latin").write_bytes(b'{"format": "\xe4"}')
    with pytest.raises(SnapshotError, match="is not valid UTF-8"):
        read(tmp_path / "latin")
