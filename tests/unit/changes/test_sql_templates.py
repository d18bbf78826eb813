"""SQL templates: expressions of Airflow are rendered, and references of the service stay."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import DictLoader, Environment, StrictUndefined, TemplateNotFound, TemplateSyntaxError, UndefinedError
from jinja2.sandbox import SandboxedEnvironment

from airflow_provider_datapipe.resources.sql_templates import keeping_references, keeps_references

CONTEXT: dict[str, Any] = {"ds": "2026-01-02", "params": {"most": 3, "name": "orders"}}
#: Names of Airflow's context. The last one is not in the context of this test.
KNOWN = {*CONTEXT, "ts"}


def environment(**more: Any) -> Environment:
    made = SandboxedEnvironment(
        undefined=StrictUndefined,
        extensions=["jinja2.ext.do"],
        cache_size=0,
        loader=DictLoader(
            {
                "part.sql": "{{ here }}/{{ ds }}/{{raw.a.b}}",
                "macros.sql": "{% macro limit(n) %}LIMIT {{ n }} -- {{raw.x.y}}{% endmacro %}",
            }
        ),
        **more,
    )
    made.globals["twice"] = lambda text: text * 2
    return made


def rendered(template: str, **more: Any) -> str:
    return keeping_references(environment(**more), KNOWN).from_string(template).render(CONTEXT)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("SELECT '{{ ds }}' FROM {{raw.stripe.payments}}", "SELECT '2026-01-02' FROM {{raw.stripe.payments}}"),
        ("{{ params.name }} {{params.most + 1}}", "orders 4"),
        ("{{ twice('ab') }}{{ range(2) | list }}", "abab[0, 1]"),
        ("{{ 'text' }} {{ 1 }} {{ (ds) }} {{ not ds }} {{ [ds][0] }}", "text 1 2026-01-02 False 2026-01-02"),
        ("{{ {'a': {'b': ds}}.a.b }}", "2026-01-02"),
        # References in any form, with any spaces.
        ("{{ raw.stripe.payments }}", "{{ raw.stripe.payments }}"),
        ("{{raw.my-schema.2024 orders}}", "{{raw.my-schema.2024 orders}}"),
        ('{{raw.it\'s}} {{ ds }} {{raw."x"}}', '{{raw.it\'s}} 2026-01-02 {{raw."x"}}'),
        ("{{raw.größe.❤}}", "{{raw.größe.❤}}"),
        ("{{raw\n.x}}", "{{raw\n.x}}"),
        ("{{raw.a\\nb}}", "{{raw.a\\nb}}"),
        ("{{model | nosuch}} {{model.x(1)}}", "{{model | nosuch}} {{model.x(1)}}"),
        # Jinja's whitespace control has its usual effect.
        ("a  {{- raw.x -}}  b {{- ds -}}  c", "a{{ raw.x }}b2026-01-02c"),
        # A name belongs to Jinja only in its scope.
        ("{% set x = 1 %}{{ x }}", "1"),
        ("{% for raw in [1, 2] %}{{ raw }}{{ loop.index }}{% endfor %}{{ raw.x }}", "1122{{ raw.x }}"),
        ("{% for c in ['a', 'b'] %}{{ c }} FROM {{raw.t}}{% endfor %}", "a FROM {{raw.t}}b FROM {{raw.t}}"),
        ("{% macro m(a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ a }}", "1{{ b }}{{ a }}"),
        ("{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{raw.x}}{% endcall %}", "<{{raw.x}}>"),
        ("{% set body %}{{raw.x}}{{ ds }}{% endset %}{{ body }}", "{{raw.x}}2026-01-02"),
        ("{% with x = ds %}{{ x }}{% endwith %}{{ x }}", "2026-01-02{{ x }}"),
        ("{% set here = 'h' %}{% include 'part.sql' %}", "h/2026-01-02/{{raw.a.b}}"),
        ("{% from 'macros.sql' import limit %}{{ limit(5) }}", "LIMIT 5 -- {{raw.x.y}}"),
        ("{% import 'macros.sql' as tools %}{{ tools.limit(5) }}", "LIMIT 5 -- {{raw.x.y}}"),
        ("{% block a %}{{ self.b() }}{% endblock %}{% block b %}{{raw.x}}{% endblock %}", "{{raw.x}}{{raw.x}}"),
        # Raw blocks, comments and text.
        ("{% raw %}{{ ds }}{{ raw.x }}{% endraw %}{{ ds }}", "{{ ds }}{{ raw.x }}2026-01-02"),
        ("{%- raw -%} {{ ds }} {%- endraw -%} {{raw.x}}", "{{ ds }}{{raw.x}}"),
        ("a{# {{raw.x}} #}b{#- {{ -#}{{ ds }}", "ab2026-01-02"),
        ("{% set a = '%} {{' %}{{ a }}{{raw.x}}", "%} {{{{raw.x}}"),
        ("{% if '{{ x }}' %}yes{% endif %}", "yes"),
        ("-- {{ ds }}: {{raw.x}}", "-- 2026-01-02: {{raw.x}}"),
        ("} }} { {", "} }} { {"),
        ("", ""),
    ],
)
def test_expressions_are_rendered_and_references_stay(template: str, expected: str) -> None:
    assert rendered(template) == expected


@pytest.mark.parametrize(
    ("template", "error"),
    [
        # A context name that is undefined in this run is never sent to the service.
        ("{{ ts }}", UndefinedError),
        ("{{ params.nosuch }}", UndefinedError),
        # A reference of the service cannot contain braces.
        ("{{ nosuch({'a': 1}) }}", UndefinedError),
        ("{{ ds", TemplateSyntaxError),
        ("{{ ds + }}", TemplateSyntaxError),
        ("{{raw.x", TemplateSyntaxError),
        ("{% raw %}{{ ds }}", TemplateSyntaxError),
        ("{# {{ ds }}", TemplateSyntaxError),
        ("{% if %}", TemplateSyntaxError),
        ("{% include 'nosuch.sql' %}", TemplateNotFound),
    ],
)
def test_invalid_templates_raise_the_errors_of_jinja(template: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        rendered(template)


def test_syntax_error_has_the_line_number() -> None:
    with pytest.raises(TemplateSyntaxError) as failure:
        rendered("{{raw\n.a b}}\n{{model.x\n}}\n{{ ds + }}")
    assert failure.value.lineno == 5


@pytest.mark.parametrize(
    ("settings", "template", "expected"),
    [
        (
            {"variable_start_string": "[[", "variable_end_string": "]]"},
            "[[ ds ]] {{ ds }} {{raw.x}}",
            "2026-01-02 {{ ds }} {{raw.x}}",
        ),
        (
            {
                "block_start_string": "<%",
                "block_end_string": "%>",
                "comment_start_string": "<#",
                "comment_end_string": "#>",
            },
            "<% raw %>{{ ds }}<% endraw %>{{ ds }}<# {{ #>{{raw.x}}{% raw %}",
            "{{ ds }}2026-01-02{{raw.x}}{% raw %}",
        ),
        ({"trim_blocks": True, "lstrip_blocks": True}, "  {% if 1 %}\n  {{raw.x}}\n  {% endif %}\nb", "  {{raw.x}}\nb"),
    ],
    ids=["variables", "statements", "trimmed blocks"],
)
def test_settings_of_jinja_are_kept(settings: dict[str, Any], template: str, expected: str) -> None:
    assert rendered(template, **settings) == expected


def test_original_environment_is_unchanged() -> None:
    plain = environment()
    keeping = keeping_references(plain, KNOWN)
    assert (keeps_references(keeping), keeps_references(plain)) == (True, False)
    assert plain.from_string("{{ ds }}").render(CONTEXT) == "2026-01-02"
    with pytest.raises(UndefinedError):
        plain.from_string("{{ raw.x }}").render(CONTEXT)


#: Content of a reference: a name that is not Airflow's, and any further text without braces.
TAGS = st.from_regex(r"\A\s?(raw|model|stage_2|Émile)([.:/ $'\"\\|,(\[\])%#~+*-]?[\w❤]{1,5}){0,4}\s?\Z")
SQL = st.text(st.characters(blacklist_characters="{}%#\r", blacklist_categories=["Cs"]), max_size=20).map(
    # Jinja normalizes line ends and removes the last one.
    lambda text: " ".join(text.splitlines()) + "|"
)
JINJA = st.sampled_from(
    [
        ("{{ ds }}", "2026-01-02"),
        ("{{ params.most }}", "3"),
        ("{{ '{{raw.x}}' }}", "{{raw.x}}"),
        ("{{ {'a': {}}['a'] }}", "{}"),
        ("{% if ds == '}}' %}no{% else %}yes{% endif %}", "yes"),
        ("{% for each in [1, 2] %}{{ each }}{% endfor %}", "12"),
        ("{% raw %}{{ ds }}{% endraw %}", "{{ ds }}"),
        ("{# {{ ds }} #}", ""),
        ("{% set chosen = ds %}{{ chosen }}", "2026-01-02"),
    ]
)
PIECES = st.one_of(SQL.map(lambda text: (text, text)), TAGS.map(lambda tag: (f"{{{{{tag}}}}}",) * 2), JINJA)


@given(st.lists(PIECES, max_size=12))
@example([("{{raw.'}}", "{{raw.'}}"), ("{{ ds }}", "2026-01-02"), ("{{raw.'}}", "{{raw.'}}")])
@example([("{{raw.(}}", "{{raw.(}}"), ("{{ ds }}", "2026-01-02")])
def test_random_mixture_of_sql_references_and_jinja(pieces: list[tuple[str, str]]) -> None:
    template, expected = ("".join(parts) for parts in zip(*pieces, strict=True)) if pieces else ("", "")
    assert rendered(template) == expected


@given(st.lists(st.one_of(SQL.map(lambda text: (text, text)), JINJA), max_size=12))
def test_templates_without_references_equal_those_of_jinja(pieces: list[tuple[str, str]]) -> None:
    template = "".join(piece for piece, _ in pieces)
    assert rendered(template) == environment().from_string(template).render(CONTEXT)


@given(st.text("{}%#-'\"\\ \ndsraw.x()[]", max_size=40))
def test_arbitrary_text_is_rendered_or_refused_by_jinja(template: str) -> None:
    with suppress(TemplateSyntaxError, UndefinedError, TypeError):
        rendered(template)
