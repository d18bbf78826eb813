"""What a query that somebody else wrote may do, as DuckDB reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from datapipe_local import sandbox
from datapipe_local.warehouse import Place, Warehouse, WarehouseError

READING = [
    "SELECT 1",
    "VALUES (1)",
    "TABLE shop.people",
    "FROM shop.people p, unnest([1]), range(3), generate_series(1, 2), (VALUES (1)) v(a)",
    'FROM "Shop"."PEOPLE"',
    'WITH "my cte" AS (SELECT 1) SELECT * FROM "my cte"',
    "WITH RECURSIVE c AS (SELECT 1 AS a UNION SELECT a + 1 FROM c WHERE a < 3) FROM c",
    "SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3",
    "PIVOT shop.people ON id IN (1, 2) USING count(*)",
    "UNPIVOT shop.people ON id INTO NAME n VALUE v",
    "SELECT (SELECT count(*) FROM shop.people), [x + 1 FOR x IN [1]], EXISTS (FROM shop.people)",
    "FROM shop.people TABLESAMPLE 10%",
    "FROM json_each('[1]')",
    "SELECT p.id, shop.people.id AS x, t.s.a.b FROM shop.people p, shop.people, (SELECT {'a': {'b': 1}} AS s) t",
    "SELECT 'read_csv', \"id\" AS \"x.csv\" FROM shop.people -- read_csv('x')",
]
FILES = [
    "FROM '{0}'",
    'FROM "{0}"',
    "FROM read_csv('{0}')",
    "FROM read_text('{0}')",
    "FROM read_blob('{0}')",
    "FROM read_json_auto('{0}')",
    "FROM glob('{0}')",
    "FROM sniff_csv('{0}')",
    "FROM query('FROM ''{0}''')",
    "FROM query_table('{0}')",
    "SUMMARIZE '{0}'",
    "FROM (DESCRIBE '{0}')",
    "SELECT (SELECT count(*) FROM read_text('{0}'))",
    "SELECT 1 WHERE 'x' IN (FROM read_text('{0}'))",
    "WITH c AS (FROM read_text('{0}')) FROM c",
    "FROM shop.people p, LATERAL (FROM read_text('{0}'))",
    "FROM shop.people JOIN read_text('{0}') ON true",
    "SELECT 1 UNION ALL (SELECT content FROM read_text('{0}'))",
]
WRITING = [
    "WITH c AS (COPY shop.people TO '{0}') FROM c",
    "WITH c AS (INSERT INTO shop.numbers VALUES (2) RETURNING *) FROM c",
    "WITH c AS (DELETE FROM shop.numbers RETURNING *) FROM c",
    "WITH c AS (UPDATE shop.numbers SET n = 3 RETURNING *) FROM c",
    "SELECT * FROM (WITH c AS (COPY shop.people TO '{0}') FROM c)",
]
OTHER = [
    "",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE shop.numbers",
    "CREATE TABLE shop.x AS SELECT 1",
    "COPY shop.people TO '{0}'",
    "ATTACH '{0}'",
    "INSTALL httpfs",
    "SET threads = 1",
    "PRAGMA version",
    "CALL range(3)",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "FROM checkpoint()",
    "FROM json_execute_serialized_sql('{{}}')",
    "FROM temp.x",
    "FROM warehouse.shop.people",
    "SELECT a" + ".a" * 49_000,
    "FROM " + "(FROM " * 5_000 + "shop.people" + ")" * 5_000,
]

#: DuckDB's parser would hold up this whole process with these: for seconds and gigabytes, and longer ones for ever.
NESTED = [
    "SELECT " + "(" * 1_000,
    "FROM " + "(" * 1_000,
    "SELECT " + "map(" * 1_000,
    "SELECT '(' " + ", ".join(["(" * 100 + "1" + ")" * 100] * 60) + " (",
    "SELECT " + "([{" * 400,
    "SELECT 1" + ")" * 1_000 + "; SELECT " + "(" * 1_000,
]
NOT_NESTED = [
    "SELECT " + "(" * 300 + "1" + ")" * 300,
    "SELECT " + ", ".join(["(1)"] * 9_000),
    f"SELECT '{'(' * 50_000}' -- {'(' * 40_000}",
    f"SELECT $a${'(' * 1_000}$a$, 'é' AS \"{'(' * 1_000}\" /* {'(' * 1_000} */",
]


@pytest.fixture
def ours(warehouse: Warehouse) -> Warehouse:
    warehouse.create_view(Place("shop", "people"), "SELECT 1 AS id")
    warehouse.show(warehouse.build(Place("shop", "numbers"), "SELECT 1 AS n", 1))
    return warehouse


@pytest.mark.parametrize("query", READING)
def test_it_can_read_the_warehouse(ours: Warehouse, query: str) -> None:
    ours.check_query(query)
    assert ours.columns(f"FROM ({query}\n)")


@pytest.mark.parametrize("query", [*FILES, *WRITING, *OTHER])
def test_it_can_do_nothing_else(ours: Warehouse, tmp_path: Path, query: str) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id\n1\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(WarehouseError):
        ours.check_query(query.format(file))
    assert sorted(tmp_path.iterdir()) == before
    assert ours.count(Place("shop", "numbers")) == 1


def test_a_file_that_is_named_like_a_table(ours: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.csv").write_text("id\n1\n")
    with pytest.raises(WarehouseError, match=r"There is no table shop\.csv"):
        ours.check_query("FROM shop.csv")
    # One that is there is meant.
    ours.create_view(Place("shop", "csv"), "SELECT 2 AS id")
    ours.check_query("FROM shop.csv")


@pytest.mark.parametrize("name", ["query", "cursor", "self", "json"])
def test_variables_of_this_program_are_no_tables(ours: Warehouse, name: str) -> None:
    ours.check_query(f"FROM {name}")
    # These are names that are known where the query is executed.
    with pytest.raises(WarehouseError, match=f"{name} does not exist"):
        ours.columns(f"FROM {name}")


@pytest.mark.parametrize("query", NESTED)
def test_what_is_nested_too_deeply_is_not_even_parsed(ours: Warehouse, query: str) -> None:
    with pytest.raises(WarehouseError, match="nested too deeply"):
        ours.check_query(query)
    with pytest.raises(WarehouseError, match="nested too deeply"):
        sandbox.tables_named(query)


@pytest.mark.parametrize("query", NOT_NESTED)
def test_brackets_side_by_side_or_in_texts_are_not_nested(ours: Warehouse, query: str) -> None:
    ours.check_query(query)
    assert sandbox.tables_named(query) == set()
