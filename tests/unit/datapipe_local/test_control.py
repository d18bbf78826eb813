"""Tests of the control plane: patterns of paths, and rewritten responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datapipe_local.control.answer import Answer, made_up, malformed, rewritten
from datapipe_local.control.models import Fault
from datapipe_local.control.paths import Interface, could_match, matches
from datapipe_local.server.app import interface_routes


@pytest.mark.parametrize(
    ("body", "values", "removed", "expected"),
    [
        ({"status": "A", "x": 1}, {"status": None}, [], {"status": None, "x": 1}),
        ({"data": [{"a": {"b": 1}}, {}]}, {"a.b": 2}, [], {"data": [{"a": {"b": 2}}, {}]}),
        ({"l": [{"a": 1}, 5, {"b": 1}]}, {"l.a": 2}, [], {"l": [{"a": 2}, 5, {"b": 1, "a": 2}]}),
        ({"data": []}, {"a": 2}, ["b"], None),
        *((body, {"a": 1}, [], None) for body in ({"a": 1}, [1, 2], "text")),
    ],
)
def test_fields_are_rewritten(body: Any, values: dict[str, Any], removed: list[str], expected: Any) -> None:
    changed = rewritten(Answer(200, (), json.dumps(body).encode()), values, removed)
    assert (None if changed is None else json.loads(changed.body)) == expected


def test_an_empty_response_can_be_malformed_only() -> None:
    empty = Answer(204, (), b"")
    assert rewritten(empty, {"a": 1}, []) is None
    spoilt = malformed(empty, "truncated")
    assert spoilt.status == 200
    assert spoilt.body
    with pytest.raises(json.JSONDecodeError):
        json.loads(spoilt.body)


@pytest.mark.parametrize(
    ("rule", "kind", "body"),
    [
        ({"status": 500, "body": None}, b"application/json", b"null"),
        ({"status": 500, "body": [1]}, b"application/json", b"[1]"),
        ({"status": 500, "body": "so"}, b"text/plain; charset=utf-8", b"so"),
        ({"status": 204, "body": "so"}, b"text/plain; charset=utf-8", b""),
    ],
)
def test_bodies_of_another_status(rule: dict[str, Any], kind: bytes, body: bytes) -> None:
    made = made_up(Fault.model_validate({"path": "/x", **rule}))
    assert (dict(made.headers)[b"content-type"], made.body) == (kind, body)


BEFORE = ({"delay": 1}, {"status": 500}, {"drop": True}, {"malformed": "html", "when": "before"})
AFTER = ({"drop": True, "when": "after"}, {"reset": True}, {"malformed": "html"}, {"remove": ["a"], "delay": 1})


@pytest.mark.parametrize(
    ("rule", "moment"), [*((rule, "before") for rule in BEFORE), *((rule, "after") for rule in AFTER)]
)
def test_faults_occur_before_or_after_the_request(rule: dict[str, Any], moment: str) -> None:
    assert Fault.model_validate({"path": "/x", **rule}).moment == moment


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/elt_streams/{id}/request_run", "/elt_streams/a.b/request_run", True),
        ("/elt_streams/*/request_run", "/elt_streams/a/b/request_run", False),
        ("/elt_streams/a*", "/elt_streams/ab", True),
        ("/elt_streams/a*", "/elt_streams/ba", False),
        ("/**", "/", True),
        ("/elt_streams", "/elt_streams/", False),
        ("/a.b", "/axb", False),
        ("/a[b]", "/ab", False),
        ("/*", "/line\nbreak", True),
    ],
)
def test_patterns_match_paths(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        *((pattern, True) for pattern in ("/elt_streams/orders/request_run", "/elt_streams/**", "/*/*/request_*")),
        *((pattern, False) for pattern in ("/elt_streams/*", "elt_streams/*/request_run", "")),
    ],
)
def test_patterns_can_match_a_route(pattern: str, expected: bool) -> None:
    assert could_match(pattern, "/elt_streams/{stream_id}/request_run") is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/elt_stream_runs/odd", (None, None)), ("/_local/journal", None), ("/health", None), ("/", None)],
)
def test_requests_without_a_resource(path: str, expected: Any) -> None:
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    assert Interface(interface_routes()).target(scope, {}) == expected
