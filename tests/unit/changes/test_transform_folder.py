"""Transforms from SQL files, and their build order."""

from __future__ import annotations

import graphlib
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.formats.sql_references import tags
from airflow_provider_datapipe.pipelines.transforms.files import desired_from_files, parse_files
from airflow_provider_datapipe.resources.transform_folder import (
    CyclicTransformsError,
    levels,
    read_folder,
    reads,
    replace_this,
)


def test_folder_is_read_with_subfolders(tmp_path: Path) -> None:
    for path in ("orders.sql", "sales/eu/orders.sql", "sales/notes.txt", ".git/x.sql", "sales/.hidden.sql"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"-- {path} ❤", encoding="utf-8")
    (tmp_path / "folder.sql").mkdir()
    files = read_folder(tmp_path)
    assert files == {path: f"-- {path} ❤" for path in ("orders.sql", "sales/eu/orders.sql")}
    found = [(each.folder_path, each.name, each.path) for each in desired_from_files(parse_files(files))]
    assert found == [("", "orders", "orders"), ("sales/eu", "orders", "sales/eu/orders")]
    below = [each.path for each in desired_from_files(parse_files(files), folder_path="/dbt/core/")]
    assert below == ["dbt/core/orders", "dbt/core/sales/eu/orders"]


@pytest.mark.parametrize("folder", ["nowhere", "file.sql", "empty"])
def test_folder_without_sql_files_is_an_error(folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.sql").write_text("SELECT 1")
    with pytest.raises(ValueError, match=folder):
        read_folder(tmp_path / folder)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("FROM {{raw.a.b}} JOIN {{ model.c }} JOIN {{raw.a.b}}", ["raw.a.b", "model.c"]),
        ("-- {{a}}\n{{b}} /* {{c}}\n */ '{{d}} ''{{e}}' \"{{f}}\" {{g}}", ["b", "g"]),
        ("{{a}} /* {{b}}", ["a"]),
        ("{{a b-c}}{{}}", ["a b-c", ""]),
        ("/* a /* b */ {{c}} */ {{d}}", ["d"]),
        ("$$ {{a}} $$ {{b}} $x$ $$ {{c}} $x$ {{d}} $y$ {{e}}", ["b", "d"]),
        (r"E'it\'s {{a}}' {{b}} 'c\' {{d}}", ["b", "d"]),
        ("SELECT 1", []),
    ],
)
def test_comments_and_quotes_contain_no_references(sql: str, expected: list[str]) -> None:
    assert tags(sql) == expected


def test_reference_consists_of_folder_and_name() -> None:
    sql = (
        "FROM {{model.sales.orders}}, {{sales.orders}}, {{raw.sales.orders}}, {{model.orders}}, {{other.sales.people}}"
    )
    files = {"sales/orders.sql": "SELECT 1", "orders.sql": "SELECT 2", "sales/people.sql": "SELECT 3", "all.sql": sql}
    desired = desired_from_files(parse_files(files))
    read = reads(desired)
    assert read["all"] == ["sales/orders", "orders", "sales/people"]
    assert read["orders"] == []
    # A known reference of the service takes precedence over a file.
    assert reads(desired, {"model.orders", "sales.orders"})["all"] == ["sales/orders", "sales/people"]


def test_build_order_follows_the_references() -> None:
    read = {"c": ["b", "a"], "b": ["a"], "a": [], "alone": []}
    assert levels(read) == [["a", "alone"], ["b"], ["c"]]


def test_circular_references_are_an_error() -> None:
    read = {"a": ["b"], "b": ["c"], "c": ["d"], "d": ["b"], "e": []}
    with pytest.raises(CyclicTransformsError, match=r"cycle: b -> c -> d -> b\."):
        levels(read)
    with pytest.raises(CyclicTransformsError, match=r"cycle: a -> a\."):
        levels({"a": ["a"]})


PATHS = "abcdefgh"
GRAPHS = st.dictionaries(st.sampled_from(PATHS), st.lists(st.sampled_from(PATHS), max_size=4), max_size=8)


@given(GRAPHS)
def test_random_graph_is_ordered_or_circular(graph: dict[str, list[str]]) -> None:
    read = {path: [other for other in others if other in graph] for path, others in graph.items()}
    try:
        ordered = levels(read)
    except CyclicTransformsError as error:
        with pytest.raises(graphlib.CycleError):
            graphlib.TopologicalSorter(read).prepare()
        cycle = str(error).partition("cycle: ")[2].partition(".")[0].split(" -> ")
        assert cycle[0] == cycle[-1]
        assert all(after in read[before] for before, after in itertools.pairwise(cycle))
        return
    assert sorted(path for level in ordered for path in level) == sorted(read)
    place = {path: number for number, level in enumerate(ordered) for path in level}
    assert all(place[other] < place[path] for path, others in read.items() for other in others)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", "(SELECT 1)"),
        ("SELECT 1; -- one;\n /* a; */ ;\n", "(SELECT 1)"),
        ("SELECT ';' AS a -- {{b}}", "(SELECT ';' AS a)"),
        ("-- first\nSELECT '--;'", "(-- first\nSELECT '--;')"),
    ],
)
def test_this_is_replaced_by_a_subquery(sql: str, expected: str) -> None:
    assert replace_this("'{{this}}' {{ this }} -- {{this}}", sql) == f"'{{{{this}}}}' {expected} -- {{{{this}}}}"
