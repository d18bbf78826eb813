"""Tests of forms that are derived from a settings schema: input becomes settings, and settings become input."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from datapipe_local.common.base_model import Secret, Strict
from datapipe_local.connectors.sources.webhook import WebhookSettings
from datapipe_local.pages.fields import Kind, fields_of
from datapipe_local.pages.form import read, shown
from datapipe_local.pages.form_html import FormHtml
from datapipe_local.services.integrations import known
from datapipe_local.services.settings_schema import settings_schema


class Inner(Strict):
    word: str | None = None
    key: Secret


class All(Strict, title="All kinds"):
    text: str
    many: int = 3
    ratio: float | None = None
    yes: bool = False
    colour: Literal["red", "blue"] | None = None
    inner: Inner
    words: list[str] = Field(default_factory=list)


WEBHOOK = fields_of(settings_schema(WebhookSettings))
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
TABLES = st.lists(
    st.fixed_dictionaries({"name": NAMES, "sync_mode": st.sampled_from(["packed", "unpacked"])}),
    min_size=1,
    max_size=5,
    unique_by=lambda table: table["name"],
)


@pytest.mark.parametrize("integration", known().values(), ids=lambda one: one.id)
def test_every_integration_has_a_name_and_a_form(integration: Any) -> None:
    schema = settings_schema(integration.settings)
    assert schema.keys() <= {"$schema", "title", "type", "properties", "required", "dependencies"}
    assert schema["title"] == integration.name != integration.id
    assert "$ref" not in str(schema)
    # Required settings have fields of their own, except the tables of generated data, which have columns.
    written = [one.name for one in fields_of(schema) if one.required and one.kind == Kind.WRITTEN]
    assert written == (["tables"] if integration.id == "generated" else [])


def test_each_kind_of_field_is_parsed() -> None:
    fields = fields_of(settings_schema(All))
    kinds = [Kind.TEXT, Kind.NUMBER, Kind.NUMBER, Kind.YES_OR_NO, Kind.CHOICE, Kind.GROUP, Kind.WRITTEN]
    assert {one.name: one.kind for one in fields} == dict(zip(All.model_fields, kinds, strict=True))
    typed = {"text": "t", "many": "5", "ratio": "", "yes": "yes", "colour": "", "inner.key": "k", "words": '["a"]'}
    found = read(fields, typed)
    assert found.problems == {}
    assert All.model_validate(found.settings) == All(text="t", many=5, yes=True, inner=Inner(key="k"), words=["a"])
    wrong = read(fields, {"text": "a\x00b", "many": "five", "words": "[", "inner.key": "k\n"})
    assert wrong.problems.keys() == {"text", "many", "words", "inner.key"}


@given(TABLES)
def test_a_form_shows_settings_without_secrets(tables: list[dict[str, str]]) -> None:
    basic = {"method": "basic", "username": "ann", "password": "s3cret"}
    given_ = shown(WEBHOOK, {"authentication": basic, "tables": tables})
    assert "s3cret" not in str(given_)
    found = read(WEBHOOK, given_ | {"authentication.basic.password": "new"})
    assert found.settings == {"authentication": basic | {"password": "new"}, "tables": tables}


def test_a_password_in_an_address_is_a_secret() -> None:
    fields = fields_of(settings_schema(known()["http"].settings))
    assert shown(fields, {"url": "https://ann:s3cret@example.com/x"}) == {}
    assert shown(fields, {"url": "https://example.com:8443/a:b@c"}) == {"url": "https://example.com:8443/a:b@c"}


@given(TABLES, st.lists(st.integers(0, 99), min_size=5, max_size=5, unique=True))
def test_empty_rows_are_omitted(tables: list[dict[str, str]], numbers: list[int]) -> None:
    places = sorted(numbers)
    typed = {f"tables.{number}.sync_mode": "unpacked" for number in range(99)}
    typed |= {
        f"tables.{number}.{name}": text
        for number, table in zip(places, tables, strict=False)
        for name, text in table.items()
    }
    found = read(WEBHOOK, typed)
    assert found.settings["tables"] == tables
    # The rows have the numbers that errors in the settings have.
    assert {name: text for name, text in found.given.items() if name.endswith(".name")} == {
        f"tables.{number}.name": table["name"] for number, table in enumerate(tables)
    }


@given(st.dictionaries(st.text() | st.from_regex(r"tables\.[0-9]{1,6}\.(name|x)"), st.text()), st.text())
def test_input_is_escaped_in_html(typed: dict[str, str], text: str) -> None:
    hostile = f'"><script>{text}</script>'
    names = ["tables.0.name", "authentication.basic.username", "authentication.method"]
    found = read(WEBHOOK, typed)
    for given_, problems in ((found.given, found.problems), (dict.fromkeys(names, hostile),) * 2):
        html = FormHtml(given_, problems, is_resubmitted=bool(problems)).fields(WEBHOOK)
        assert "<script" not in html.lower()
        assert problems is found.problems or "&lt;script&gt;" in html
