"""Allowed and refused queries, as DuckDB parses them."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from datapipe_local.warehouse import sandbox
from datapipe_local.warehouse.query_functions import ALLOWED_FUNCTIONS
from datapipe_local.warehouse.warehouse import Place, Warehouse, WarehouseError

pytestmark = pytest.mark.medium


READING = [
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
    # Names of the information schema are free.
    "WITH tables AS (SELECT 1 AS columns) SELECT columns FROM tables",
]
READERS = "read_csv read_text read_blob read_json_auto glob sniff_csv query_table"
FILES = [
    "FROM '{0}'",
    'FROM "{0}"',
    *(f"FROM {reader}('{{0}}')" for reader in READERS.split()),
    "FROM query('FROM ''{0}''')",
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
    *("", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE shop.numbers", "CREATE TABLE shop.x AS SELECT 1"),
    *("COPY shop.people TO '{0}'", "ATTACH '{0}'", "INSTALL httpfs", "SET threads = 1", "PRAGMA version"),
    *("CALL range(3)", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "FROM duckdb_settings()"),
    *("FROM duckdb_secrets()", "FROM checkpoint()", "FROM json_execute_serialized_sql('{{}}')", "FROM temp.x"),
    *("FROM warehouse.shop.people", "FROM (SHOW DATABASES)", "FROM (SHOW ALL TABLES)", "SHOW TABLES"),
    "SELECT a" + ".a" * 49_000,
    "FROM " + "(FROM " * 5_000 + "shop.people" + ")" * 5_000,
]

SETTING = "current_setting('temp_directory')"
#: Functions that read settings, variables, sequences and system state.
SYSTEM_CALLS = """
    CURRENT_SETTING('secret_directory') "Current_Setting"('temp_directory')
    system.main.current_setting('temp_directory') main.current_setting('temp_directory')
    pg_catalog.current_setting('temp_directory') 'temp_directory'.current_setting() write_log('x') getvariable('x')
    getenv('HOME') nextval('numbers') currval('numbers') version() current_query() current_database()
    current_schemas(true) txid_current() pg_get_viewdef(1) pg_sleep(1) sleep_ms(1) no_such_function(1)
"""
#: Catalogs, logs and secrets.
SYSTEM_TABLES = """
    duckdb_databases duckdb_databases() pragma_database_list pragma_database_list() sqlite_master "SQLite_Master"
    main.sqlite_master system.main.sqlite_master temp.main.sqlite_master sqlite_temp_master duckdb_views duckdb_logs
    duckdb_variables() duckdb_functions() pg_settings pg_catalog.pg_settings pg_class information_schema.tables
    INFORMATION_SCHEMA.COLUMNS which_secret('x','s3') pragma_user_agent() duckdb_secret_types()
"""
SYSTEM = [
    *(f"SELECT {call}" for call in [SETTING, *SYSTEM_CALLS.split()]),
    *(f"FROM {table}" for table in SYSTEM_TABLES.split()),
    *(
        query.replace("SETTING", SETTING)
        for query in (
            "SELECT id FROM shop.people WHERE SETTING LIKE '/%'",
            "SELECT id FROM shop.people ORDER BY SETTING",
            "SELECT count(*) FILTER (SETTING > 'a') FROM shop.people",
            "SELECT max(id) OVER (PARTITION BY SETTING) FROM shop.people",
            "SELECT * REPLACE (SETTING AS id) FROM shop.people",
            "SELECT CASE WHEN true THEN SETTING END",
            "SELECT (VALUES (SETTING))",
            "SELECT 1 LIMIT length(SETTING)",
            "FROM range(length(SETTING))",
            "WITH c AS (SELECT SETTING) FROM c",
            "FROM shop.people JOIN shop.numbers ON SETTING > 'a'",
            "FROM (PIVOT shop.people ON id IN (1) USING max(SETTING))",
        )
    ),
    "SELECT [current_setting(x) FOR x IN ['temp_directory']]",
    "SELECT list_transform(['temp_directory'], lambda x: current_setting(x))",
    "SELECT json_serialize_plan('FROM shop.people')",
    "FROM shop.people, sqlite_master",
    "SELECT (WITH sqlite_master AS (SELECT 1) FROM sqlite_master), * FROM sqlite_master",
    "SELECT (SELECT count(*) FROM sqlite_master)",
    "SELECT EXISTS (FROM duckdb_settings())",
]
#: Expressions of one query per line.
FUNCTIONS = """
1 + 2 - 3 * 4 / 5 // 6 % 7 ** 2, abs(-1), round(1.5), greatest(1, 2), sqrt(4), pi(), random(), log(2), ceil(1.2)
sign(-1), 5!, ~1, 1 << 2, xor(1, 2), 'a' || 'b', upper('a'), 'a'.upper(), trim(both 'x' FROM 'xax')
substring('abc' FROM 1 FOR 2), left('abc', 2), position('a' IN 'ba'), replace('a', 'a', 'b')
split_part('a-b', '-', 1), lpad('a', 3, ' '), repeat('a', 3), format('{} {}', 1, 'a'), printf('%d', 1)
concat_ws(',', 'a', 'b'), levenshtein('a', 'b'), strip_accents('é'), 'a' LIKE 'b', 'a' ILIKE 'b', 'a' GLOB 'b'
'a' SIMILAR TO 'b', 'a' NOT LIKE 'b' ESCAPE 'x', 'a' ~ 'b', 'a' !~ 'b', regexp_matches('a', 'a')
regexp_replace('a', 'a', 'b'), regexp_extract('a', 'a'), regexp_split_to_array('a', 'b'), md5('a'), sha256('a')
hash(1), sha1('a'), base64('a'::BLOB), hex('a'), encode('a'), uuid(), now(), today(), current_date, current_timestamp
localtimestamp, extract(year FROM today()), date_part('month', today()), date_trunc('month', DATE '2026-01-02')
date_diff('day', DATE '2026-01-01', today()), today() + INTERVAL 1 DAY, strftime(now(), '%Y'), strptime('2026', '%Y')
make_date(2026, 1, 2), epoch_ms(0), now() AT TIME ZONE 'UTC', age(now()), try_strptime('x', '%Y')
time_bucket(INTERVAL 1 DAY, today()), to_timestamp(0), dayname(today()), last_day(today()), [1, 2][1], [1, 2][1:2]
len([1]), list_sort([1]), list_transform([1], lambda x: x + 1), [x FOR x IN [1] IF x > 1]
list_filter([1], lambda x: x > 1), list_aggregate([1], 'sum'), flatten([[1]]), array_value(1, 2), unnest([1, 2])
range(3), {'a': 1}.a, struct_pack(a := 1), row(1, 2), map {'a': 1}['a'], map_keys(map {'a': 1})
struct_insert({'a': 1}, b := 2), json_extract('{}', '$.a'), '{"a": 1}'::JSON->'a', '{}'::JSON->>'$.a', to_json(1)
json_object('a', 1), json_keys('{}'), from_json('{"a": 1}', '{"a": "INTEGER"}'), json_array_length('[]')
json_valid('{}'), json_type('1'), coalesce(NULL, 1), nullif(1, 2), ifnull(1, 2), if(true, 1, 2)
CASE WHEN true THEN 1 END, try_cast('x' AS INTEGER), typeof(1), 1 IN (1, 2), 1 BETWEEN 0 AND 2, 1 IS DISTINCT FROM 2
NOT true, true AND false, NULL IS NULL, try(1 / 0), (SELECT 1), ARRAY(SELECT 1), EXISTS (SELECT 1), 1 = ANY (SELECT 1)
count(*), count(id), sum(id), avg(id), min(id), max(id), any_value(id), first(id), list(id)
string_agg(id, ',' ORDER BY id), median(id), quantile_cont(id, 0.5), mode(id), stddev(id), var_pop(id), corr(id, id)
approx_count_distinct(id), histogram(id), arg_max(id, id), max_by(id, id), bool_and(id > 1), bit_or(id)
count(DISTINCT id), sum(id) FILTER (id > 1), array_agg(id), percentile_cont(0.5) WITHIN GROUP (ORDER BY id)
regr_slope(id, id), entropy(id), product(id), geomean(id), json_group_array(id)
row_number() OVER (), rank() OVER (ORDER BY id), lag(id) OVER (ORDER BY id), sum(id) OVER (PARTITION BY id)
ntile(2) OVER (), first_value(id) OVER (ORDER BY id), nth_value(id, 1) OVER (), percent_rank() OVER (ORDER BY id)
cume_dist() OVER (ORDER BY id)
COLUMNS('id') + 1, COLUMNS(*)
id COLLATE nocase FROM (SELECT id::VARCHAR AS id FROM shop.people) --
alias(id), setseed(0.5), current_user
""".strip().splitlines()
#: The functions of DuckDB that are refused on purpose.
REFUSED_NAMES = """
    __cast binom bitstring_byte_comparable cast_to_type col_description combine combine_aggr constant_or_null
    create_sort_key current_catalog current_connection_id current_database current_query current_query_id
    current_role current_schema current_schemas current_setting current_transaction_id current_user currval
    finalize format_pg_type format_type get_block_size get_type getvariable hive_partition_component
    icu_sort_key in_search_path index_key invoke is_histogram_other_bin json_deserialize_sql json_serialize_plan
    json_serialize_sql make_type map_to_pg_oid nextval obj_description parse_duckdb_log_message replace_type
    session_user setval shobj_description sleep_ms stats timetz_byte_comparable to_aggregate_state txid_current
    user variant_bytes_to_variant variant_comparator variant_normalize variant_to_parquet_variant vector_type
    version write_log
"""
REFUSED = frozenset(REFUSED_NAMES.split())
REFUSED_FAMILIES = re.compile(r"__internal_|(icu_)?collate_|pg_|has_.*_privilege$|inet_|json_copy_")

#: DuckDB's parser would block this process for seconds, and take gigabytes; with longer queries it would not end.
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


@pytest.mark.parametrize("query", [*READING, *(f"SELECT {one} FROM shop.people" for one in FUNCTIONS)])  # noqa: S608 - fixed names of the test
def test_queries_of_the_warehouse_are_allowed(ours: Warehouse, query: str) -> None:
    ours.check_query(query)
    assert ours.columns(f"FROM ({query}\n)")


@pytest.mark.parametrize("query", [*FILES, *WRITING, *OTHER, *SYSTEM])
def test_other_queries_are_refused(ours: Warehouse, tmp_path: Path, query: str) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id\n1\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(WarehouseError):
        ours.check_query(query.format(file))
    assert sorted(tmp_path.iterdir()) == before
    assert ours.count(Place("shop", "numbers")) == 1


@pytest.mark.parametrize("query", SYSTEM)
def test_a_custom_report_refuses_system_reads(query: str) -> None:
    with pytest.raises(WarehouseError):
        sandbox.tables_named(re.sub(r"\bshop\.", "", query))


def test_files_named_like_tables_are_not_read(ours: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.csv").write_text("id\n1\n")
    with pytest.raises(WarehouseError, match=r"There is no table shop\.csv"):
        ours.check_query("FROM shop.csv")
    ours.create_view(Place("shop", "csv"), "SELECT 2 AS id")
    ours.check_query("FROM shop.csv")


@pytest.mark.parametrize("name", ["query", "cursor", "self", "json"])
def test_variables_of_this_program_are_not_tables(ours: Warehouse, name: str) -> None:
    ours.check_query(f"FROM {name}")
    # The function that executes the query has variables of these names.
    with pytest.raises(WarehouseError, match=f"{name} does not exist"):
        ours.columns(f"FROM {name}")


@pytest.mark.parametrize("query", NESTED)
def test_deeply_nested_queries_are_not_parsed(ours: Warehouse, query: str) -> None:
    for check in (ours.check_query, sandbox.tables_named):
        with pytest.raises(WarehouseError, match="nested too deeply"):
            check(query)


@pytest.mark.parametrize("query", NOT_NESTED)
def test_brackets_side_by_side_or_in_texts_are_not_nested(ours: Warehouse, query: str) -> None:
    ours.check_query(query)
    assert sandbox.tables_named(query) == set()


def test_each_duckdb_function_is_allowed_or_refused() -> None:
    found = duckdb.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions()"
        " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
    ).fetchall()
    known = ALLOWED_FUNCTIONS | REFUSED
    unknown = {name for (name,) in found if name not in known and not REFUSED_FAMILIES.match(name)}
    assert unknown == set(), "enter them in warehouse/query_functions.py, or in REFUSED"
    assert not ALLOWED_FUNCTIONS & REFUSED
