from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from airflow_provider_datapipe.lineage import columns as column_lineage
from airflow_provider_datapipe.lineage.columns import columns_of

PLACES = {"orders": "shop.orders", "people": "shop.people"}
#: Prefixes of source columns.
SHORT = {"shop.orders": "o.", "shop.people": "p."}
JOINED = "FROM {{orders}} o JOIN {{people}} p ON p.id = o.person"


@pytest.mark.parametrize(
    ("sql", "columns", "reported"),
    [
        ("SELECT id, total AS amount FROM {{orders}}", ["id", "amount"], "id=o.id amount=o.total"),
        # A table without an alias has its own name.
        ("SELECT orders.id FROM {{orders}} JOIN {{people}} ON people.id = orders.person", ["id"], "id=o.id"),
        (
            """
            WITH big AS (SELECT person, sum(total) AS t FROM {{orders}} GROUP BY person)
            SELECT p.name, round(b.t, 2) AS spent, count(*) AS n FROM big b JOIN {{people}} p ON p.id = b.person
            GROUP BY ALL
            """,
            ["name", "spent", "n"],
            "name=p.name spent=o.total",
        ),
        ("SELECT id FROM {{orders}} UNION ALL SELECT id FROM {{people}}", ["id"], "id=o.id,p.id"),
        # Column names are case-insensitive.
        ("SELECT ID AS Key FROM {{orders}}", ["Key"], "Key=o.id"),
        # A star stands for the columns that the service lists.
        (f"SELECT o.*, p.name AS buyer {JOINED}", ["id", "total", "buyer"], "id=o.id total=o.total buyer=p.name"),
        ("SELECT * FROM {{orders}}", ["id", "total"], "id=o.id total=o.total"),
        ("SELECT * EXCLUDE (total) FROM {{orders}}", ["id"], "id=o.id"),
        # The table of a column is ambiguous, or a column is replaced.
        ("SELECT * FROM {{orders}} JOIN {{people}} USING (id)", ["id", "total"], ""),
        ("SELECT o.*, p.* FROM {{orders}} o JOIN {{people}} p USING (id)", ["id", "total"], ""),
        ("SELECT total FROM {{orders}} JOIN {{people}} USING (id)", ["total"], ""),
        ("SELECT * REPLACE (1 AS total) FROM {{orders}}", ["id", "total"], ""),
        ("WITH c AS (SELECT * REPLACE (1 AS total) FROM {{orders}}) SELECT c.* FROM c", ["id", "total"], ""),
        ("SELECT * FROM {{orders}} UNION ALL SELECT * FROM {{people}}", ["id"], ""),
        # A table without a reference, and an unknown table.
        ("SELECT id FROM Shop.Orders", ["id"], "id=o.id"),
        ("SELECT id FROM elsewhere.orders", ["id"], ""),
        ("SELECT 1 AS id, now() AS at", ["id", "at"], ""),
        ("SELECT FROM WHERE", ["id"], ""),
        ("", ["id"], ""),
        ("SELECT id FROM {{orders}}", [], ""),
        # Column aliases of a table, pivots, and a union by name.
        ("SELECT * FROM {{orders}} AS o(x, y)", ["x", "y"], ""),
        ("SELECT x FROM {{orders}} AS o(x, y)", ["x"], ""),
        ("SELECT * FROM {{orders}} UNPIVOT (v FOR k IN (a, b))", ["id", "v", "k"], ""),
        ("SELECT * FROM {{orders}} PIVOT (sum(total) FOR person IN (1, 2))", ["id", "1"], ""),
        ("SELECT id, total FROM {{orders}} UNION ALL BY NAME SELECT total, id FROM {{people}}", ["id"], ""),
        # Beside a star, a generated column name does not belong to the table.
        ("SELECT *, total * 2 FROM {{orders}}", ["id", "(total * 2)"], ""),
        ("SELECT *, 1 AS total FROM {{orders}}", ["id", "total", "total_1"], "id=o.id"),
        # The star before a column has a column of the same name, so the service changes the name of the second one.
        (f"SELECT o.*, p.id {JOINED}", ["id", "person", "id_1"], "person=o.person"),
        ("SELECT *, person AS Total FROM {{orders}}", ["id", "total", "Total:1"], "id=o.id"),
        (f"SELECT p.id, o.* {JOINED}", ["id", "id_1", "person"], "id=p.id person=o.person"),
        ("SELECT *, total AS x, id AS x_1 FROM {{orders}}", ["id", "x", "x_1"], "id=o.id x=o.total x_1=o.id"),
        ("SELECT *, total * 2 AS twice FROM {{orders}}", ["id", "twice"], "id=o.id twice=o.total"),
        # A column name can contain a dot.
        ('SELECT "a.b" AS z FROM {{orders}}', ["z"], "z=o.a.b"),
        # Braces in a comment are not a reference.
        ("SELECT id -- from {{people}}\nFROM {{orders}}", ["id"], "id=o.id"),
    ],
)
def test_columns_of_the_result_and_their_sources(sql: str, columns: list[str], reported: str) -> None:
    sources = columns_of(sql, PLACES, columns)
    found = [f"{name}={','.join(SHORT[place] + column for place, column in froms)}" for name, froms in sources.items()]
    assert sorted(found) == sorted(reported.split())


def test_long_or_wide_sql_has_no_column_lineage() -> None:
    assert columns_of("SELECT id FROM {{orders}}" + " " * 60_000, PLACES, ["id"]) == {}
    assert columns_of("SELECT * FROM {{orders}}", PLACES, [f"c{n}" for n in range(301)]) == {}


def calls_for(count: int) -> int:
    """Count the function calls of column lineage through two common table expressions."""
    names = [f"column_{number}" for number in range(count)]
    sql = "WITH a AS (SELECT ALL_OF FROM {{orders}}), b AS (SELECT ALL_OF FROM a) SELECT ALL_OF FROM b"
    sql = sql.replace("ALL_OF", ", ".join(names))
    calls = 0

    def count_call(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_call)
    try:
        found = columns_of(sql, PLACES, names)
    finally:
        sys.setprofile(None)
    assert found == {name: [("shop.orders", name)] for name in names}
    return calls


def test_work_for_wide_sql_is_linear_in_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    # Counting the calls is slow, so a busy machine could exceed the default time limit.
    monkeypatch.setattr(column_lineage, "_TIME_LIMIT", 600)
    # The first call imports the parser.
    calls_for(1)
    assert calls_for(120) < 3 * calls_for(60)


def test_slow_parsing_has_no_column_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_lineage, "_TIME_LIMIT", -1)
    assert columns_of("SELECT id FROM {{orders}}", PLACES, ["id"]) == {}


def test_no_column_lineage_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert columns_of("SELECT id FROM {{orders}}", PLACES, ["id"]) == {}
