"""Conversion of rendered templates to the intended types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_datapipe.changes.values import choice, flag, mapping, mappings, named, number, texts


@pytest.mark.parametrize(
    ("value", "meant"),
    [(True, True), (False, False), ("True", True), ("false", False), (" TRUE ", True), ("False\n", False)],
)
def test_a_truth_value(value: Any, *, meant: bool) -> None:
    assert flag("x", value) is meant


@pytest.mark.parametrize(("value", "meant"), [(3, 3), ("3", 3), (" 3 ", 3)])
def test_a_number(value: Any, meant: int) -> None:
    assert number("x", value, least=3) == meant


@pytest.mark.parametrize("value", [{"a": [1, None]}, '{"a": [1, null]}', "{'a': [1, None]}"])
def test_a_mapping_as_json_and_as_python_prints_it(value: Any) -> None:
    assert mapping("x", value) == {"a": [1, None]}
    assert mappings("x", [value, value]) == [{"a": [1, None]}] * 2
    assert mappings("x", str([mapping("x", value)])) == [{"a": [1, None]}]


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b"), '["a", "b"]', "['a', 'b']", "('a', 'b')"])
def test_a_list_of_texts(value: Any) -> None:
    assert texts("x", value) == ["a", "b"]
    assert named("x", value) == [{"name": "a"}, {"name": "b"}]


def test_a_list_of_what_has_a_name() -> None:
    assert named("x", "orders") == [{"name": "orders"}]
    assert named("x", '[{"name": "a", "b": 1}, "c"]') == [{"name": "a", "b": 1}, {"name": "c"}]


@pytest.mark.parametrize("value", ["2024", 2024, ["2024"], [2024], [{"name": 2024}], "[2024]"])
def test_a_name_of_digits_stays_one_with_native_rendering(value: Any) -> None:
    assert named("x", value) == [{"name": "2024"}]


READERS: dict[str, Callable[[str, Any], Any]] = {
    "flag": flag,
    "number": lambda field, value: number(field, value, least=1),
    "mapping": mapping,
    "mappings": mappings,
    "texts": texts,
    "named": named,
    "choice": lambda field, value: choice(field, value, ("a", "b")),
}


WRONG: dict[str, list[Any]] = {
    "flag": ["", "None", "yes", "1", 1, 0, None, [True]],
    "number": ["", "None", "three", "1.5", 1.0, True, 0, "-1", None],
    "mapping": ["", "None", "[1]", "a: 1", {1: 2}, [("a", 1)], None],
    "mappings": ["", "None", '{"a": 1}', [["a"]], ["a"], None],
    "texts": ["", "a", "None", [1], '["a", 1]', {"a": 1}, None],
    "named": [[""], [{}], [{"name": 1.5}], [1.5], True, 1.5, [None], {"name": "a"}, None, "None"],
    "choice": ["", "None", "c", None, True],
}


@pytest.mark.parametrize(("reader", "value"), [(reader, value) for reader in WRONG for value in WRONG[reader]])
def test_what_is_something_else_is_said_with_its_field(reader: str, value: Any) -> None:
    with pytest.raises(ValueError, match="the_field"):
        READERS[reader]("the_field", value)


@pytest.mark.parametrize("reader", ["mapping", "mappings"])
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], '"hunter2"', '{"token": "hunter2"', [["hunter2"]]])
def test_what_may_be_secret_is_not_in_the_error(reader: str, value: Any) -> None:
    with pytest.raises(ValueError, match="mapping") as said:
        READERS[reader]("settings", value)
    assert "hunter2" not in str(said.value)
