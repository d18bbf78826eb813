from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.endpoints import elt_stream_runs
from airflow_provider_datapipe.api.errors import ProtocolError
from airflow_provider_datapipe.api.status_url import status_request, status_url_after

LISTING = elt_stream_runs.list_("s")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("/elt_stream_runs?elt_stream_id=s&starting_after=c%3D&limit=1&sort_direction=asc", None),
        ("/api/v1/elt_stream_runs?elt_stream_id=s&starting_after=c%3D&limit=1&sort_direction=asc", None),
        (
            "https://other.example/elt_stream_runs?elt_stream_id=s&starting_after=c%3D&limit=1&sort_direction=asc",
            "https://other.example",
        ),
    ],
)
def test_a_status_url_is_a_page_of_the_list(url: str, origin: str | None) -> None:
    request = status_request(url, LISTING)
    assert request.path == "/elt_stream_runs"
    assert dict(request.query) == {
        "elt_stream_id": "s",
        "starting_after": "c=",
        "limit": "1",
        "sort_direction": "asc",
    }
    assert request.origin == origin


@pytest.mark.parametrize("url", ["", "/", "/elt_streams?x=1", "https://evil.example/collect", "//[", "?" + "&a=1" * 99])
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ProtocolError, match="is no status URL"):
        status_request(url, LISTING)


@given(st.none() | st.text(min_size=1))
def test_a_made_status_url_reads_back(run_id: str | None) -> None:
    query = dict(status_request(status_url_after(LISTING, run_id), LISTING).query)
    assert query.get("starting_after") == run_id
    assert query["sort_direction"] == "asc"


@given(st.text())
def test_no_text_breaks_the_client(url: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert status_request(url, LISTING).path == "/elt_stream_runs"
