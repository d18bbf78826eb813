"""Rewritten responses of the control plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datapipe_local.control.answer import Answer, made_up, malformed, rewritten
from datapipe_local.control.models import Fault


def answer(body: Any) -> Answer:
    return Answer(200, ((b"content-type", b"application/json"),), json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "values", "removed", "expected"),
    [
        ({"status": "A", "x": 1}, {"status": "B"}, [], {"status": "B", "x": 1}),
        ({"status": "A"}, {"status": None}, [], {"status": None}),
        ({"status": "A"}, {}, ["status"], {}),
        ({"data": [{"a": 1}, {}]}, {"a": 2}, [], {"data": [{"a": 2}, {"a": 2}]}),
        ({"data": [{"a": {"b": 1}}, {}]}, {"a.b": 2}, [], {"data": [{"a": {"b": 2}}, {}]}),
        ({"l": [{"a": 1}, 5, {"b": 1}]}, {"l.a": 2}, [], {"l": [{"a": 2}, 5, {"b": 1, "a": 2}]}),
        ({"data": []}, {"a": 2}, ["b"], None),
        ({"a": 1}, {"a": 1}, [], None),
        ([1, 2], {"a": 1}, [], None),
        ("text", {"a": 1}, [], None),
    ],
)
def test_fields_are_rewritten(body: Any, values: dict[str, Any], removed: list[str], expected: Any) -> None:
    changed = rewritten(answer(body), values, removed)
    assert (None if changed is None else json.loads(changed.body)) == expected


def test_what_is_no_json_is_left_alone() -> None:
    assert rewritten(Answer(204, (), b""), {"a": 1}, []) is None


def test_an_answer_without_a_body_gets_one_to_spoil() -> None:
    spoilt = malformed(Answer(204, (), b""), "truncated")
    assert spoilt.status == 200
    assert spoilt.body
    with pytest.raises(json.JSONDecodeError):
        json.loads(spoilt.body)


@pytest.mark.parametrize(
    ("rule", "kind", "body"),
    [
        ({"status": 500}, b"application/json", None),
        ({"status": 500, "body": None}, b"application/json", b"null"),
        ({"status": 500, "body": [1]}, b"application/json", b"[1]"),
        ({"status": 500, "body": "so"}, b"text/plain; charset=utf-8", b"so"),
        ({"status": 500, "body": "so", "headers": {"Content-Type": "x/y"}}, b"x/y", b"so"),
        ({"status": 204, "body": "so"}, b"text/plain; charset=utf-8", b""),
    ],
)
def test_made_up_answers(rule: dict[str, Any], kind: bytes, body: bytes | None) -> None:
    made = made_up(Fault.model_validate({"path": "/x", **rule}))
    assert dict(made.headers)[b"content-type"] == kind
    if body is None:
        assert json.loads(made.body)["error_code"] == "fault"
    else:
        assert made.body == body


@pytest.mark.parametrize(
    ("rule", "moment"),
    [
        ({"delay": 1}, "before"),
        ({"status": 500}, "before"),
        ({"drop": True}, "before"),
        ({"drop": True, "when": "after"}, "after"),
        ({"reset": True}, "after"),
        ({"malformed": "html"}, "after"),
        ({"malformed": "html", "when": "before"}, "before"),
        ({"remove": ["a"], "delay": 1}, "after"),
    ],
)
def test_when_faults_act(rule: dict[str, Any], moment: str) -> None:
    assert Fault.model_validate({"path": "/x", **rule}).moment == moment
