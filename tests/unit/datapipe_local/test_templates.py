"""Tests of references in SQL templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.formats import sql_references
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import templates


@pytest.mark.parametrize(
    ("template", "tags"),
    [
        ("SELECT * FROM {{raw.a.b}}, {{ model.c }} WHERE {{raw.a.b}}.x", ["raw.a.b", "model.c"]),
        ("SELECT 1 -- {{a}}\n, {{b}}", ["b"]),
        ("SELECT /* {{a}} /* {{b}} */ {{c}} */ {{d}}", ["d"]),
        ("SELECT '{{a}}', 'it''s {{b}}', {{c}}", ["c"]),
        ("SELECT '--', {{a}}", ["a"]),
        ("SELECT e'\\'{{a}}', E'\\\\', {{b}}", ["b"]),
        ("SELECT name'{{a}}', {{b}}", ["b"]),
        ('SELECT "{{a}}" AS "x""{{b}}", {{c}}', ["c"]),
        ("SELECT $$ {{a}} ' $$, $t$ $$ {{b}} $t$, {{c}}", ["c"]),
        ("SELECT $1, a$b$, {{c}}, $d", ["c"]),
        ("SELECT 'never ends {{a}}", []),
        ("/* nor does this {{a}}", []),
        ("SELECT {'a': {'b': {'c': 1}}}, {{d}}", ["d"]),
        ("SELECT {{}}, {{ }}, {{{a}}}", ["", "a"]),
        ("{{a\nb}}", ["a\nb"]),
    ],
)
def test_references_are_found(template: str, tags: list[str]) -> None:
    assert sql_references.tags(template) == tags


@pytest.mark.parametrize(
    ("template", "sql"),
    [
        ("SELECT {{a}}, '{{a}}' FROM {{ b }}", "SELECT <a>, '{{a}}' FROM <b>"),
        ("  SELECT 1; ;\n", "SELECT 1"),
        ("SELECT 1; -- {{a}};\n;/* {{b}} */ -- c", "SELECT 1"),
        ("SELECT {{a}} -- c", "SELECT <a>"),
        ("SELECT ';-- {{a}}'", "SELECT ';-- {{a}}'"),
        ("-- {{a}}\nSELECT 1 /* b */ + 1", "-- {{a}}\nSELECT 1 /* b */ + 1"),
        ("-- nothing", ""),
    ],
)
def test_references_are_replaced(template: str, sql: str) -> None:
    assert templates.filled(template, lambda tag: f"<{tag}>") == sql


@given(st.text(alphabet="{}'\"-/*$e\\ a;\n", max_size=60))
def test_only_found_references_are_replaced(template: str) -> None:
    seen: list[str] = []

    def name_of(tag: str) -> str:
        seen.append(tag)
        return ""

    # References in comments after the last word do not count.
    templates.filled(template, name_of)
    assert list(dict.fromkeys(seen)) == sql_references.tags(template)


@pytest.mark.parametrize(
    "template", ["{{" + " " * 99_000, "'" * 99_999, "/*" * 49_000, "{{a" * 33_000, "e'" * 49_000, "-- x\n" * 19_000]
)
def test_long_templates_are_parsed_in_time(template: str) -> None:
    # With backtracking, this would take hours.
    assert set(templates.filled(template, str)) <= set(template)
    assert sql_references.tags(template) == []


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "no SQL"),
        (" \n", "no SQL"),
        ("SELECT '\0'", "NUL"),
        ("x" * (templates.LONGEST + 1), "100001 characters: at most 100000 are allowed"),
    ],
    ids=["empty", "blank", "NUL", "too long"],
)
def test_invalid_templates_are_refused(template: str, message: str) -> None:
    templates.check("sql_template", "x" * templates.LONGEST)
    with pytest.raises(BadRequestError, match=f"sql_template: .*{message}"):
        templates.check("sql_template", template)
