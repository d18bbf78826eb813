from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from airflow_provider_datapipe.lineage import columns as column_lineage
from airflow_provider_datapipe.lineage.columns import columns_of

PLACES = {"orders": "shop.orders", "people": "shop.people"}


@pytest.mark.parametrize(
    ("sql", "columns", "reported"),
    [
        ("SELECT id, total AS amount FROM {{orders}}", ["id", "amount"], {"id": ["o.id"], "amount": ["o.total"]}),
        # A table without an alias goes by its own name.
        (
            "SELECT orders.id FROM {{orders}} JOIN {{people}} ON people.id = orders.person",
            ["id"],
            {"id": ["o.id"]},
        ),
        (
            """
            WITH big AS (SELECT person, sum(total) AS t FROM {{orders}} GROUP BY person)
            SELECT p.name, round(b.t, 2) AS spent, count(*) AS n FROM big b JOIN {{people}} p ON p.id = b.person
            GROUP BY ALL
            """,
            ["name", "spent", "n"],
            {"name": ["p.name"], "spent": ["o.total"]},
        ),
        ("SELECT id FROM {{orders}} UNION ALL SELECT id FROM {{people}}", ["id"], {"id": ["o.id", "p.id"]}),
        # What is spelled otherwise is the same column.
        ("SELECT ID AS Key FROM {{orders}}", ["Key"], {"Key": ["o.id"]}),
        # The star stands for what the service says there is, and nothing else does.
        (
            "SELECT o.*, p.name AS person_name FROM {{orders}} o JOIN {{people}} p ON p.id = o.person",
            ["id", "total", "person_name"],
            {"id": ["o.id"], "total": ["o.total"], "person_name": ["p.name"]},
        ),
        ("SELECT * FROM {{orders}}", ["id", "total"], {"id": ["o.id"], "total": ["o.total"]}),
        ("SELECT * EXCLUDE (total) FROM {{orders}}", ["id"], {"id": ["o.id"]}),
        # Which of two tables a column is of can't be told, nor what was put in the place of one.
        ("SELECT * FROM {{orders}} JOIN {{people}} USING (id)", ["id", "total"], {}),
        ("SELECT o.*, p.* FROM {{orders}} o JOIN {{people}} p USING (id)", ["id", "total"], {}),
        ("SELECT total FROM {{orders}} JOIN {{people}} USING (id)", ["total"], {}),
        ("SELECT * REPLACE (1 AS total) FROM {{orders}}", ["id", "total"], {}),
        ("WITH c AS (SELECT * REPLACE (1 AS total) FROM {{orders}}) SELECT c.* FROM c", ["id", "total"], {}),
        ("SELECT * FROM {{orders}} UNION ALL SELECT * FROM {{people}}", ["id"], {}),
        # A table that the SQL names itself, and one that nothing is known of.
        ("SELECT id FROM Shop.Orders", ["id"], {"id": ["o.id"]}),
        ("SELECT id FROM elsewhere.orders", ["id"], {}),
        ("SELECT 1 AS id, now() AS at", ["id", "at"], {}),
        ("SELECT FROM WHERE", ["id"], {}),
        ("", ["id"], {}),
        ("SELECT id FROM {{orders}}", [], {}),
        # Names that an alias gives, those of a pivot, and columns that meet by name.
        ("SELECT * FROM {{orders}} AS o(x, y)", ["x", "y"], {}),
        ("SELECT x FROM {{orders}} AS o(x, y)", ["x"], {}),
        ("SELECT * FROM {{orders}} UNPIVOT (v FOR k IN (a, b))", ["id", "v", "k"], {}),
        ("SELECT * FROM {{orders}} PIVOT (sum(total) FOR person IN (1, 2))", ["id", "1"], {}),
        ("SELECT id, total FROM {{orders}} UNION ALL BY NAME SELECT total, id FROM {{people}}", ["id"], {}),
        # Beside a star, a name that the service makes up is none of the table's.
        ("SELECT *, total * 2 FROM {{orders}}", ["id", "(total * 2)"], {}),
        ("SELECT *, 1 AS total FROM {{orders}}", ["id", "total", "total_1"], {"id": ["o.id"]}),
        ("SELECT *, total * 2 AS twice FROM {{orders}}", ["id", "twice"], {"id": ["o.id"], "twice": ["o.total"]}),
        # A dot may be part of a name.
        ('SELECT "a.b" AS z FROM {{orders}}', ["z"], {"z": ["o.a.b"]}),
        # Braces in a comment are no reference.
        ("SELECT id -- from {{people}}\nFROM {{orders}}", ["id"], {"id": ["o.id"]}),
    ],
)
def test_columns_are_followed_as_far_as_can_be_told(
    sql: str, columns: list[str], reported: dict[str, list[str]]
) -> None:
    short = {"shop.orders": "o", "shop.people": "p"}
    found = columns_of(sql, PLACES, columns)
    assert {name: [f"{short[place]}.{column}" for place, column in froms] for name, froms in found.items()} == reported


def test_sql_that_is_too_long_or_too_wide_is_left_alone() -> None:
    assert columns_of("SELECT id FROM {{orders}}" + " " * 60_000, PLACES, ["id"]) == {}
    assert columns_of("SELECT * FROM {{orders}}", PLACES, [f"c{n}" for n in range(301)]) == {}


def work_for(count: int) -> int:
    """Count the calls of functions that it takes to follow columns through two queries with names."""
    names = [f"column_{number}" for number in range(count)]
    sql = "WITH a AS (SELECT ALL_OF FROM {{orders}}), b AS (SELECT ALL_OF FROM a) SELECT ALL_OF FROM b"
    sql = sql.replace("ALL_OF", ", ".join(names))
    calls = 0

    def one_more(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(one_more)
    try:
        found = columns_of(sql, PLACES, names)
    finally:
        sys.setprofile(None)
    assert found == {name: [("shop.orders", name)] for name in names}
    return calls


def test_work_for_wide_sql_is_linear_in_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    # Counting the calls is slow: without this, a busy machine reaches the time limit.
    monkeypatch.setattr(column_lineage, "_PATIENCE", 600)
    # The first time, the parser is imported.
    work_for(1)
    assert work_for(120) < 3 * work_for(60)


def test_what_takes_the_parser_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.lineage.columns._PATIENCE", -1)
    assert columns_of("SELECT id FROM {{orders}}", PLACES, ["id"]) == {}


def test_without_the_parser_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert columns_of("SELECT id FROM {{orders}}", PLACES, ["id"]) == {}
