from __future__ import annotations

from datetime import UTC, datetime

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from airflow_provider_datapipe.api.models.common import Page, RunConflict, format_timestamp, parse_timestamp
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun, EltStreamRunStatus
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncRun
from airflow_provider_datapipe.api.models.transforms import PublishRequest, Transform

RUN = {"id": "r", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2024-03-20T09:00:00.000Z"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - hypothesis wants naive bounds
    lambda time: pendulum.instance(time.replace(microsecond=time.microsecond // 1000 * 1000, tzinfo=UTC))
)


@given(
    st.dictionaries(st.text(min_size=1), JSON, max_size=4),
    st.sampled_from(EltStreamRunStatus) | st.text(),
    TIMES,
    st.none() | st.integers(0) | st.floats(0, 1e12),
)
def test_runs_keep_what_this_version_does_not_know(
    unknown: dict[str, object], status: str, started: pendulum.DateTime, rows: float | None
) -> None:
    sent = unknown | RUN | {"status": str(status), "started_at": format_timestamp(started), "rows_synced": rows}
    run = EltStreamRun.model_validate(sent)
    assert run.model_dump(mode="json", exclude_unset=True) == sent
    assert run.started_at == started
    assert isinstance(run.status, EltStreamRunStatus) == (status in set(EltStreamRunStatus))


def test_absent_fields_are_none() -> None:
    run = EltStreamRun.model_validate(RUN)
    assert (run.status, run.finished_at, run.rows_synced) == (None, None, None)


@pytest.mark.parametrize("text", ["", "yesterday", "2024-03-20", "09:00:00", "2024-13-20T09:00:00Z", "P1D"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"ISO 8601|time of day|DateTime"):
        EltStreamRun.model_validate(RUN | {"started_at": text})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-20T09:00:00.000Z", "2024-03-20T09:00:00.000Z"),
        ("2024-03-20T09:00:00Z", "2024-03-20T09:00:00.000Z"),
        ("2024-03-20T10:30:00.123456+01:30", "2024-03-20T09:00:00.123Z"),
        ("2024-03-20T09:00:00", "2024-03-20T09:00:00.000Z"),
    ],
)
def test_times_are_written_in_the_form_of_the_interface(text: str, expected: str) -> None:
    time = parse_timestamp(text)
    assert isinstance(time, pendulum.DateTime)
    assert format_timestamp(time) == expected


@pytest.mark.parametrize(
    "envelope",
    [
        {"hasMore": True, "nextCursor": "c"},
        {"has_more": True, "next_cursor": "c"},
        {"has_more": True, "hasMore": True, "next_cursor": "c", "nextCursor": "c"},
    ],
)
def test_both_spellings_of_the_page_envelope(envelope: dict[str, object]) -> None:
    page = Page[EltStreamRun].model_validate(envelope | {"data": [RUN]})
    assert (page.has_more, page.next_cursor, page.data[0].id) == (True, "c", "r")


def test_the_last_page_needs_no_cursor() -> None:
    assert Page[EltStreamRun].model_validate({"data": [], "has_more": False}).next_cursor is None


def test_a_conflict_may_not_name_the_run() -> None:
    assert RunConflict(error_code="c", message="m").active_run_id is None


def test_what_is_sent_has_only_what_was_set() -> None:
    assert PublishRequest(name="n").as_json() == {"name": "n"}


def test_a_misspelt_field_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValidationError, match="materialisation"):
        PublishRequest.model_validate({"materialisation": "table"})


def test_references_are_named_as_the_interface_names_them() -> None:
    sent = {
        "id": "t",
        "name": "n",
        "folder_path": "",
        "status": "archived",
        "materialization": "stream",
        "sql_template": "SELECT 1",
        "parameters": [{"weld_tag": "raw.a.b", "type": "raw_view", "dw_item_id": "a.b"}],
        "created_at": "2024-03-20T09:00:00.000Z",
        "updated_at": "2024-03-20T09:00:00.000Z",
    }
    transform = Transform.model_validate(sent)
    assert transform.parameters[0].tag == "raw.a.b"
    assert transform.materialization == "stream"
    assert transform.model_dump(mode="json", by_alias=True, exclude_unset=True) == sent


def test_a_run_of_reverse_etl_counts_rows() -> None:
    run = ReverseEtlSyncRun.model_validate(
        {
            "id": "r",
            "reverse_etl_sync_id": "s",
            "started_at": RUN["started_at"],
            "status": "COMPLETED",
            "failed_rows": 3,
        }
    )
    assert run.failed_rows == 3
