from __future__ import annotations

import sys

import pytest

from airflow_provider_datapipe.lineage.columns import columns_of

PLACES = {"orders": "shop.orders", "people": "shop.people"}


@pytest.mark.parametrize(
    ("sql", "columns", "told"),
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
        # Braces in a comment are no reference.
        ("SELECT id -- from {{people}}\nFROM {{orders}}", ["id"], {"id": ["o.id"]}),
    ],
)
def test_columns_are_followed_as_far_as_can_be_told(sql: str, columns: list[str], told: dict[str, list[str]]) -> None:
    short = {"shop.orders": "o", "shop.people": "p"}
    found = columns_of(sql, PLACES, columns)
    assert {name: [f"{short[place]}.{column}" for place, column in froms] for name, froms in found.items()} == told


def test_sql_that_is_too_long_or_too_wide_is_left_alone() -> None:
    assert columns_of("SELECT id FROM {{orders}}" + " " * 60_000, PLACES, ["id"]) == {}
    assert columns_of("SELECT * FROM {{orders}}", PLACES, [f"c{n}" for n in range(301)]) == {}


def test_without_the_parser_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert columns_of("SELECT id FROM {{orders}}", PLACES, ["id"]) == {}
