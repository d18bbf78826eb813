"""Conversion of rendered templates to the intended types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_datapipe.resources.template_values import choice, flag, mapping, mappings, named, number, texts

READERS: dict[str, Callable[[str, Any], Any]] = {
    "flag": flag,
    "number": lambda field, value: number(field, value, least=1),
    "mapping": mapping,
    "mappings": mappings,
    "texts": texts,
    "named": named,
    "choice": lambda field, value: choice(field, value, ("a", "b")),
}
NULL, NAMES = {"a": [1, None]}, [{"name": "a"}, {"name": "b"}]
#: For each reader, a value and the values and texts with the same meaning.
MEANINGS: list[tuple[str, Any, list[Any]]] = [
    ("flag", True, [True, "True", " TRUE "]),
    ("flag", False, [False, "false", "False\n"]),
    ("number", 3, [3, "3", " 3 "]),
    ("number", 1, [1]),
    ("mapping", NULL, [NULL, '{"a": [1, null]}', "{'a': [1, None]}"]),
    ("mappings", [NULL], [[NULL], ['{"a": [1, null]}'], ["{'a': [1, None]}"], str([NULL])]),
    ("texts", ["a", "b"], [["a", "b"], ("a", "b"), '["a", "b"]', "['a', 'b']", "('a', 'b')"]),
    ("named", NAMES, [["a", "b"], ("a", "b"), '["a", "b"]', "['a', 'b']", "('a', 'b')"]),
    ("named", [{"name": "orders"}], ["orders"]),
    ("named", [{"name": "a", "b": 1}, {"name": "c"}], ['[{"name": "a", "b": 1}, "c"]']),
    # Native rendering turns a name of digits into a number.
    ("named", [{"name": "2024"}], ["2024", 2024, ["2024"], [2024], [{"name": 2024}], "[2024]"]),
]
WRONG: dict[str, list[Any]] = {
    "flag": ["", "None", "yes", "1", 1, 0, None, [True]],
    "number": ["", "None", "three", "1.5", 1.0, True, 0, "-1", None],
    "mapping": ["", "None", "[1]", "a: 1", {1: 2}, [("a", 1)], None],
    "mappings": ["", "None", '{"a": 1}', [["a"]], ["a"], None],
    "texts": ["", "a", "None", [1], '["a", 1]', {"a": 1}, None],
    "named": [[""], [{}], [{"name": 1.5}], [1.5], True, 1.5, [None], {"name": "a"}, None, "None"],
    "choice": ["", "None", "c", None, True],
}


@pytest.mark.parametrize(("reader", "meant", "values"), MEANINGS)
def test_text_is_converted_to_the_intended_value(reader: str, meant: Any, values: list[Any]) -> None:
    for value in values:
        found = READERS[reader]("x", value)
        assert (found, type(found)) == (meant, type(meant)), value


@pytest.mark.parametrize(("reader", "value"), [(reader, value) for reader in WRONG for value in WRONG[reader]])
def test_error_of_an_invalid_value_names_the_field(reader: str, value: Any) -> None:
    with pytest.raises(ValueError, match="the_field"):
        READERS[reader]("the_field", value)


@pytest.mark.parametrize("reader", ["mapping", "mappings"])
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], '"hunter2"', '{"token": "hunter2"', [["hunter2"]]])
def test_error_contains_no_possible_secret(reader: str, value: Any) -> None:
    with pytest.raises(ValueError, match="mapping") as refused:
        READERS[reader]("settings", value)
    assert "hunter2" not in str(refused.value)
