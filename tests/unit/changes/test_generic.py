"""Any endpoint by its name: what is refused, and what is read of a list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import ENDPOINTS
from airflow_provider_datapipe.api.errors import InvalidInputError, NotFoundError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.changes.generic import call
from airflow_provider_datapipe.runs.steps import drive
from tests.unit.changes.test_elt import sync
from tests.unit.runs.model_service import ModelService


def run(
    endpoint: str, arguments: Any = None, *, all_pages: Any = False, limit: Any = None, **answers: list[Any]
) -> tuple[Any, ModelService]:
    service = ModelService(**answers)
    result = drive(call(endpoint, arguments, all_pages=all_pages, limit=limit), service.send, service.sleep)
    assert json.loads(json.dumps(result)) == result
    return result, service


def refused(endpoint: str, arguments: Any = None, **options: Any) -> str:
    service = ModelService()
    options = {"all_pages": False, "limit": None} | options
    with pytest.raises((InvalidInputError, ValueError)) as said:
        drive(call(endpoint, arguments, **options), service.send, service.sleep)
    assert service.asked == []
    return str(said.value)


@pytest.mark.parametrize(
    ("endpoint", "near"),
    [
        ("elt_sync.enable", "elt_syncs.enable"),
        ("orchestrations.list_", "orchestrations.list"),
        ("Transforms.Publish", "transforms.publish"),
    ],
)
def test_an_endpoint_that_is_not_there_is_said_with_what_is_near(endpoint: str, near: str) -> None:
    said = refused(endpoint)
    assert said.startswith(f"There is no endpoint named {endpoint!r}. Did you mean ")
    assert near in said


def test_an_endpoint_that_is_like_none() -> None:
    assert "The documentation lists all of them" in refused("zzzzzzzzzzzz")
    assert "endpoint is empty" in refused("")


@pytest.mark.parametrize(
    ("endpoint", "arguments", "says"),
    [
        ("elt_syncs.enable", None, "elt_syncs.enable needs sync_id. It takes: sync_id (needed). Nothing was sent."),
        (
            "elt_syncs.enable",
            {"id": "y"},
            "elt_syncs.enable does not take 'id' and needs sync_id. It takes: sync_id (needed). Nothing was sent.",
        ),
        (
            "orchestrations.list",
            {"page": 2, "size": 3},
            "orchestrations.list does not take 'page', 'size'. It takes: limit, starting_after. Nothing was sent.",
        ),
        ("elt_syncs.enable", "[1]", "arguments must be a mapping"),
        ("elt_syncs.enable", "y", "arguments must be a mapping"),
        ("elt_syncs.enable", {"sync_id": ""}, "is not an id"),
        ("orchestrations.list", {"limit": 1000}, "limit"),
    ],
)
def test_arguments_that_an_endpoint_does_not_take(endpoint: str, arguments: Any, says: str) -> None:
    assert says in refused(endpoint, arguments)


@pytest.mark.parametrize("option", [{"all_pages": "True"}, {"limit": 5}])
def test_what_is_no_list_has_no_pages(option: dict[str, Any]) -> None:
    assert "answers no list" in refused("elt_syncs.get", {"sync_id": "y"}, **option)


@pytest.mark.parametrize("option", [{"all_pages": "perhaps"}, {"limit": 0}, {"limit": "None"}, {"limit": True}])
def test_options_that_make_no_sense(option: dict[str, Any]) -> None:
    assert f"{next(iter(option))} must be" in refused("orchestrations.list", **option)


def orchestration(number: int) -> Orchestration:
    return Orchestration(id=str(number), name=f"n{number}")


def pages(request: Any) -> Page[Orchestration]:
    begin = int(dict(request.query).get("starting_after", 0))
    items = tuple(orchestration(number) for number in range(begin, min(begin + 2, 5)))
    return Page(data=items, has_more=begin + 2 < 5, next_cursor=str(begin + 2))


@pytest.mark.parametrize(
    ("options", "ids", "requests"),
    [
        ({"all_pages": True}, "01234", 3),
        ({"all_pages": "true", "limit": None}, "01234", 3),
        ({"limit": "3"}, "012", 2),
        ({"limit": 2}, "01", 1),
        ({"limit": 9, "all_pages": True}, "01234", 3),
    ],
)
def test_the_items_of_a_list(options: dict[str, Any], ids: str, requests: int) -> None:
    result, service = run("orchestrations.list", orchestrations__list=[pages], **options)
    assert "".join(each["id"] for each in result) == ids
    assert len(service.requests) == requests


def test_one_page_is_shown_as_it_is() -> None:
    result, _ = run("orchestrations.list", '{"limit": 2}', orchestrations__list=[pages])
    assert (result["has_more"], result["next_cursor"], len(result["data"])) == (True, "2", 2)


def test_what_may_be_secret_is_not_shown_in_any_page() -> None:
    secret = sync(config={"token": "hunter2"}, undeclared="hunter2")
    shown, _ = run("elt_syncs.get", {"sync_id": "y"}, elt_syncs__get=[secret])
    listed, _ = run("elt_syncs.list", elt_syncs__list=[Page(data=(secret,), has_more=False)])
    assert (shown["id"], listed["data"][0]["id"]) == ("y", "y")
    assert "hunter2" not in json.dumps([shown, listed])


def test_no_answer_is_none_and_what_is_not_there_an_error() -> None:
    assert run("elt_syncs.enable", {"sync_id": "y"}, elt_syncs__enable=[None])[0] is None
    with pytest.raises(NotFoundError):
        run("elt_syncs.enable", {"sync_id": "y"}, elt_syncs__enable=[NotFoundError("none", status=404)])


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_says_what_it_takes(endpoint: str) -> None:
    assert f"{endpoint} does not take 'nonsense'" in refused(endpoint, {"nonsense": 1})
