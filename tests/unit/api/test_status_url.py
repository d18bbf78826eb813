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
def test_status_url_becomes_a_list_request(url: str, origin: str | None) -> None:
    request = status_request(url, LISTING)
    assert request.path == "/elt_stream_runs"
    assert dict(request.query) == {"elt_stream_id": "s", "starting_after": "c=", "limit": "1", "sort_direction": "asc"}
    assert (request.origin, request.endpoint) == (origin, LISTING.endpoint)


def test_all_parameters_of_a_status_url_are_kept() -> None:
    parameters = [("elt_stream_id", ""), *((f"p{number}", "1") for number in range(19))]
    url = "/elt_stream_runs?" + "&".join(f"{name}={value}" for name, value in parameters)
    assert status_request(url, LISTING).query == tuple(parameters)
    with pytest.raises(ProtocolError):
        status_request(f"{url}&more=1", LISTING)


@pytest.mark.parametrize("origin", ["https://api.example.com:0", "//api.example.com", "https://"])
def test_invalid_origin_is_refused(origin: str) -> None:
    with pytest.raises(ProtocolError):
        status_request(f"{origin}/elt_stream_runs?limit=1", LISTING)


@pytest.mark.parametrize("url", ["", "/", "/elt_streams?x=1", "https://evil.example/collect", "//[", "?" + "&a=1" * 99])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ProtocolError, match="is not a status URL"):
        status_request(url, LISTING)


@given(st.none() | st.text(min_size=1))
def test_created_status_url_is_parsed_back(run_id: str | None) -> None:
    query = dict(status_request(status_url_after(LISTING, run_id), LISTING).query)
    assert query.get("starting_after") == run_id
    assert (query["sort_direction"], query["limit"]) == ("asc", "1")


@given(st.text())
def test_arbitrary_text_is_parsed_or_refused(url: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert status_request(url, LISTING).path == "/elt_stream_runs"
