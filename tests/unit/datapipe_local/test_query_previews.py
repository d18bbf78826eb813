"""Query previews, where it takes more than the interface to get there."""

from __future__ import annotations

import threading

import pytest

from datapipe_local.clock import later
from datapipe_local.engine.query_previews import QueryPreviewer
from datapipe_local.engine.stop import Stop
from datapipe_local.errors import RunError
from datapipe_local.previews import preview
from datapipe_local.service import jobs, query_previews
from datapipe_local.service.context import Context
from datapipe_local.store.records import JobKind, QueryPreview
from datapipe_local.warehouse import Warehouse

ENDLESS = "SELECT count(*) FROM range(100000000000) a, range(100000) b WHERE a.range % 7 = b.range % 5"


def done(context: Context, sql: str, *, seconds: float = 30.0) -> QueryPreview:
    preview = query_previews.create(context, sql)
    job = jobs.get(context, JobKind.QUERY_PREVIEW, preview.id)
    assert job is not None
    previewer = QueryPreviewer(context, seconds=seconds)
    try:
        result, error = previewer.work(job, Stop()), None
    except RunError as failure:
        result, error = None, str(failure)
    previewer.finish(job, result, error)
    assert jobs.get(context, JobKind.QUERY_PREVIEW, preview.id) is None
    return query_previews.get(context, preview.id)


@pytest.mark.slow
@pytest.mark.parametrize("query", [ENDLESS, "FROM range(3), (" + ENDLESS + ")", "SELECT 1 WHERE 1 = (" + ENDLESS + ")"])
def test_a_query_that_takes_too_long(context: Context, query: str) -> None:
    failed = done(context, query, seconds=0.2)
    assert failed.status == "FAILED"
    assert (
        failed.error
        == "The query took longer than 0.2 seconds: have it read less, or raise --preview-time-limit of the service."
    )
    # The warehouse works on.
    assert done(context, "SELECT 1 AS x").rows == [{"x": 1}]


def test_the_count_has_its_time_too(context: Context) -> None:
    # The first rows are there at once.
    failed = done(context, "SELECT * FROM range(100000000000) WHERE range % 3 = 1 AND hash(range) > 0", seconds=0.5)
    assert "took longer than 0.5 seconds" in str(failed.error)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 999, 1000, 1001, 12345])
def test_the_first_rows_and_the_number_of_all(context: Context, number: int) -> None:
    preview = done(context, f"FROM range({number}) AS numbers(i) ORDER BY i DESC")
    assert (preview.status, preview.num_rows_total) == ("DONE", number)
    assert preview.rows == [{"i": number - 1 - index} for index in range(min(number, 1000))]


def test_large_rows_are_fewer(context: Context) -> None:
    preview = done(context, "SELECT repeat('x', 1000000) AS text FROM range(100)")
    assert preview.num_rows_total == 100
    assert len(preview.rows or []) == 4


def test_values_as_json_can_carry_them(context: Context) -> None:
    preview = done(
        context,
        "SELECT 1 AS a, 2 AS a, 3 AS a_1, TIMESTAMPTZ '2026-01-01 10:00:00+02' AS z, {'k': [1, NULL]} AS n,"
        " 'nan'::DOUBLE AS f, 'é' || chr(0) AS t, 'x'::BLOB AS b, DATE '2026-01-02' AS d, 1.50::DECIMAL(9,2) AS m"
        " -- the end",
    )
    assert preview.rows == [
        {
            "a": 1,
            "a_2": 2,
            "a_1": 3,
            "z": "2026-01-01T08:00:00.000000Z",
            "n": {"k": [1, None]},
            "f": None,
            "t": "é\0",
            "b": "eA==",
            "d": "2026-01-02",
            "m": 1.5,
        }
    ]
    # Whatever DuckDB has.
    assert done(context, "FROM test_all_types()").status == "DONE"


def test_sequence_cannot_be_advanced(context: Context) -> None:
    with context.warehouse.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE numbers")
    assert "nextval" in str(done(context, "SELECT nextval('numbers') AS n").error)


def test_old_ones_go(context: Context) -> None:
    old, running, kept = (done(context, "SELECT 1") for _ in range(3))
    day_ago = later(context.clock.now(), -24 * 60 * 60 - 1)
    context.store.query_previews.update(old.id, created_at=day_ago)
    context.store.query_previews.update(running.id, created_at=day_ago, status="RUNNING")
    newest = query_previews.create(context, "SELECT 1")
    assert [preview.id for preview in context.store.query_previews.all("ORDER BY seq")] == [
        running.id,
        kept.id,
        newest.id,
    ]


def test_a_thousand_are_kept(context: Context) -> None:
    with context.store.transaction():
        for number in range(1_005):
            context.store.query_previews.insert(
                QueryPreview(id=str(number), dw_sql="SELECT 1", status="DONE", created_at=context.clock.now())
            )
        query_previews.create(context, "SELECT 1")
    ids = [preview.id for preview in context.store.query_previews.all("ORDER BY seq")]
    assert (len(ids), ids[0]) == (1_000, "6")


def test_preview_leaves_no_thread_or_file_behind(warehouse: Warehouse) -> None:
    before = threading.active_count()
    found = preview(warehouse, "SELECT 1 AS x", seconds=60, most_rows=5, most_characters=100, with_total=True)
    assert found == ([{"x": 1}], 1, True)
    assert threading.active_count() == before
    assert list(warehouse.scratch.iterdir()) == []
