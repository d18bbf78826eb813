"""Tests of workspace files: errors with line and column, environment variables, JSON Schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from airflow_provider_datapipe.api.models.formats.yaml_reader import escape_variables
from airflow_provider_datapipe.pipelines.workspace.document import Document, WorkspaceError
from airflow_provider_datapipe.pipelines.workspace.models import Workspace, schema_text, workspace_of

SYNC = """\
elt_syncs:
  - connection_label: Shop files
    destination_schema_name: raw_shop
"""
DAILY = (
    "1:43: orchestrations[0].cron_schedule: 'daily' is not a cron expression: set five fields, minute, hour, "
    "day of month, month, day of week"
)
NOT_HERE = (
    "2:11: orchestrations[0].name: ${NAME}: environment variables are allowed only in settings: write "
    "$${NAME} for the literal text"
)
SURROGATE = (
    "1:25: orchestrations[0].name: text must not contain unpaired surrogates such as \\ud800, which UTF-8 can't encode"
)
NOT_SET = "4:23: elt_syncs[0].settings.token: the environment variable TOKEN is not set"


def read(text: str, **environment: str) -> Workspace:
    return workspace_of(Document(text, "shop.yaml", environment))


def errors_of(text: str, **environment: str) -> list[str]:
    with pytest.raises(WorkspaceError) as error:
        read(text, **environment)
    lines = [line.strip() for line in str(error.value).splitlines()]
    if len(lines) > 1:
        assert lines[0] == f"{len(lines) - 1} errors:"
        del lines[0]
    assert all(line.startswith("shop.yaml:") for line in lines)
    return [line.removeprefix("shop.yaml:") for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "1:6: this is not valid YAML: expected ',' or ']', but got '<stream end>'."),
        ("- 1", "1:1: a workspace file must be a mapping with keys such as elt_syncs"),
        ("elt_sync: []", "1:1: elt_sync: unknown field"),
        ("orchestrations:\norchestrations: []", "2:1: orchestrations: the key stands here a second time"),
        ("orchestrations: [{name: 1}]", "1:25: orchestrations[0].name: Input should be a valid string"),
        ("orchestrations: [{name: A, cron_schedule: daily}]", DAILY),
        ("orchestrations:\n  - name: null", "2:11: orchestrations[0].name: Input should be a valid string"),
        ("orchestrations:\n  - 2: 3", "2:5: orchestrations[0].2: a key must be text"),
        ("orchestrations: !x 1", "1:17: orchestrations: the value '1' is not allowed here: put text in quotes"),
        ("orchestrations: .nan", "1:17: orchestrations: the value '.nan' is not allowed here: put text in quotes"),
        ('orchestrations: [{name: "\\ud83d"}]', SURROGATE),
        ("orchestrations:\n  - name: ${NAME}", NOT_HERE),
        (f"{SYNC}    enabled: 'true'", "4:14: elt_syncs[0].enabled: Input should be a valid boolean"),
        (f"{SYNC}    enabled: null", "4:14: elt_syncs[0].enabled: must not be null"),
        (f"{SYNC}    start_date: 2026-02-30", "4:17: elt_syncs[0].start_date: day is out of range for month"),
        (f"{SYNC}    settings: {{token: '${{TOKEN}}'}}", NOT_SET),
        (f"{SYNC}    source_streams: [a, {{names: x}}]", "4:25: elt_syncs[0].source_streams[1].name: Field required"),
        (f"{SYNC}    connection_id: files", "2:5: elt_syncs[0]: set either connection_label or connection_id"),
        ("a: &a [*a]", "1:4: a[0]: it is nested too deep"),
        ("<<: [1]", "1:1: what << merges must be a mapping"),
    ],
)  # fmt: skip
def test_errors_have_line_and_column(text: str, expected: str) -> None:
    assert expected in errors_of(text)


def test_variables_that_are_not_utf_8_are_errors() -> None:
    text = f"{SYNC}    settings: {{token: '${{TOKEN}}'}}"
    expected = "4:23: elt_syncs[0].settings.token: the environment variable TOKEN is not valid UTF-8"
    # Python represents the invalid byte in this way.
    assert errors_of(text, TOKEN="a\udcff") == [expected]


def test_all_errors_are_reported_together() -> None:
    text = f"{SYNC}    enabled: 1\n    settings: {{a: '${{A}}'}}\n"
    text += "    sync_interval: x\nreverse_etl_syncs: [{object_type_id: things, source_id: ''}]"
    assert [line.split(": ")[:2] for line in errors_of(text)] == [
        ["4:14", "elt_syncs[0].enabled"],
        ["5:19", "elt_syncs[0].settings.a"],
        ["6:20", "elt_syncs[0].sync_interval"],
        ["7:57", "reverse_etl_syncs[0].source_id"],
    ]


def test_expanding_aliases_are_rejected() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]" for each in range(1, 9)]
    assert "more than 200,000 values" in errors_of("\n".join(lines))[0]


def test_settings_contain_environment_variables() -> None:
    text = (
        f"{SYNC}    settings: {{token: 'Bearer ${{TOKEN}}', keep: '$${{TOKEN}}', nested: [{{port: 1, x: '${{A}}'}}]}}\n"
    )
    document = Document(text, "shop.yaml", {"TOKEN": "s3cret: {a}", "A": "true"})
    sync = (workspace_of(document).elt_syncs or [])[0]
    # Values stay text, also if they look like another type.
    assert sync.settings == {"token": "Bearer s3cret: {a}", "keep": "${TOKEN}", "nested": [{"port": 1, "x": "true"}]}
    assert "s3cret" not in repr(sync)
    assert document.masked("it was s3cret: {a}, and true") == "it was ***, and ***"


def test_merge_keys_share_fields_between_entries() -> None:
    text = """\
elt_syncs:
  - &shop {connection_label: Shop files, destination_schema_name: raw_shop, enabled: false, source_streams: [orders]}
  - {<<: *shop, destination_schema_name: raw_other}
"""
    first, second = read(text).elt_syncs or []
    assert first.source_streams is not None
    assert (first.destination_schema_name, second.destination_schema_name) == ("raw_shop", "raw_other")
    assert second.enabled is False
    assert second.source_streams == first.source_streams


@given(st.text(st.sampled_from("${}A x"), max_size=12))
def test_escaped_text_round_trip(text: str) -> None:
    plain: Any = Document(f"x: '{escape_variables(text)}'", "shop.yaml", {}).content
    assert plain == {"x": text}


def test_json_schema_matches_the_parser() -> None:
    validator = jsonschema.Draft202012Validator(YAML(typ="safe").load(schema_text()))
    good = """
orchestrations: [{name: Nightly, cron_schedule: 0 2 * * *}]
elt_syncs:
  - connection_label: Shop
    destination_schema_name: raw_shop
    orchestration: null
    start_date: '2026-01-31'
    source_streams: [orders, {name: people, sync_interval: null}]
"""
    validator.validate(YAML(typ="safe").load(good))
    read(good)
    for bad in ("elt_sync: []", "orchestrations: [{name: null}]", "elt_syncs: [{enabled: null}]", "elt_syncs: 1"):
        assert not validator.is_valid(YAML(typ="safe").load(bad))
