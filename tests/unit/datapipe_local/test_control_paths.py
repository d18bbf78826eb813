"""Patterns of paths, and what a request is about."""

from __future__ import annotations

from typing import Any

import pytest

from datapipe_local.app import interface_routes
from datapipe_local.control.paths import Interface, could_match, matches
from datapipe_local.errors import BadRequestError
from datapipe_local.ids import RunId


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/elt_streams/*/request_run", "/elt_streams/a/request_run", True),
        ("/elt_streams/{id}/request_run", "/elt_streams/a.b/request_run", True),
        ("/elt_streams/*/request_run", "/elt_streams/a/b/request_run", False),
        ("/elt_streams/a*", "/elt_streams/ab", True),
        ("/elt_streams/a*", "/elt_streams/ba", False),
        ("/elt_streams/**", "/elt_streams/a/request_run", True),
        ("/**", "/", True),
        ("/elt_streams", "/elt_streams/", False),
        ("/a.b", "/axb", False),
        ("/a[b]", "/ab", False),
        ("/*", "/line\nbreak", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/elt_streams/*/request_run", True),
        ("/elt_streams/orders/request_run", True),
        ("/elt_streams/*", False),
        ("/elt_streams/**", True),
        ("/**", True),
        ("/*/*/request_*", True),
        ("/elt_stream/**", False),
        ("elt_streams/*/request_run", False),
        ("", False),
    ],
)
def test_whether_a_pattern_can_mean_a_route(pattern: str, expected: bool) -> None:
    assert could_match(pattern, "/elt_streams/{stream_id}/request_run") is expected


RUN = str(RunId("orders", "2026-01-01T00:00:00.000Z"))


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("POST", "/elt_streams/orders/request_run", {}, ("orders", None)),
        ("GET", f"/elt_stream_runs/{RUN}", {}, ("orders", None)),
        ("GET", "/elt_stream_runs/odd", {}, (None, None)),
        ("GET", "/elt_stream_runs", {"elt_stream_id": "orders", "limit": "1"}, ("orders", None)),
        ("GET", "/orchestration_runs/r1", {}, (None, "r1")),
        ("GET", "/connections", {}, (None, None)),
        ("GET", "/health", {}, None),
        ("GET", "/_local/journal", {}, None),
        ("GET", "/", {}, None),
    ],
)
def test_what_a_request_is_about(method: str, path: str, query: dict[str, str], expected: Any) -> None:
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}
    assert Interface(interface_routes()).target(scope, query) == expected


def test_the_message_names_the_methods() -> None:
    with pytest.raises(BadRequestError, match=r"takes GET, not PUT"):
        Interface(interface_routes()).check("PUT", "/connections")
