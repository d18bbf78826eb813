"""Generic operator: refused endpoints and arguments, and pages of lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import ENDPOINTS
from airflow_provider_datapipe.api.errors import InvalidInputError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.resources.requests import call
from tests.unit.changes.fake_service import build, run
from tests.unit.runs.model_service import ModelService


def called(
    endpoint: str, arguments: Any = None, *, all_pages: Any = False, limit: Any = None, **answers: list[Any]
) -> tuple[Any, ModelService]:
    return run(call(endpoint, arguments, all_pages=all_pages, limit=limit), **answers)


def refused(endpoint: str, arguments: Any = None, **options: Any) -> str:
    service = ModelService()
    options = {"all_pages": False, "limit": None} | options
    with pytest.raises((InvalidInputError, ValueError)) as said:
        service.run(call(endpoint, arguments, **options))
    assert service.asked == []
    return str(said.value)


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("elt_sync.enable", "There is no endpoint named 'elt_sync.enable'. Did you mean elt_syncs.enable"),
        ("orchestrations.list_", "There is no endpoint named 'orchestrations.list_'. Did you mean orchestrations.list"),
        ("Transforms.Publish", "There is no endpoint named 'Transforms.Publish'. Did you mean transforms.publish"),
        ("zzzzzzzzzzzz", "The documentation lists all of them"),
        ("", "endpoint is empty"),
    ],
)
def test_an_unknown_endpoint_is_refused_with_suggestions(endpoint: str, message: str) -> None:
    assert message in refused(endpoint)


@pytest.mark.parametrize(
    ("endpoint", "arguments", "message"),
    [
        ("elt_syncs.enable", None, "enable requires sync_id. Arguments: sync_id (required). Nothing was sent."),
        (
            "elt_syncs.enable",
            {"id": "y"},
            "enable does not accept 'id' and requires sync_id. Arguments: sync_id (required). Nothing was sent.",
        ),
        (
            "orchestrations.list",
            {"page": 2, "size": 3},
            "orchestrations.list does not accept 'page', 'size'. Arguments: limit, starting_after. Nothing was sent.",
        ),
        ("elt_syncs.enable", "[1]", "arguments must be a mapping"),
        ("elt_syncs.enable", "y", "arguments must be a mapping"),
        ("elt_syncs.enable", {"sync_id": ""}, "is not an id"),
        ("orchestrations.list", {"limit": 1000}, "limit"),
        *((endpoint, {"nonsense": 1}, f"{endpoint} does not accept 'nonsense'") for endpoint in ENDPOINTS),
    ],
)
def test_unknown_and_missing_arguments_are_refused(endpoint: str, arguments: Any, message: str) -> None:
    assert message in refused(endpoint, arguments)


@pytest.mark.parametrize(
    ("endpoint", "option", "message"),
    [
        ("elt_syncs.get", {"all_pages": "True"}, "does not return a list"),
        ("elt_syncs.get", {"limit": 5}, "does not return a list"),
        ("orchestrations.list", {"all_pages": "perhaps"}, "all_pages must be"),
        *(("orchestrations.list", {"limit": value}, "limit must be") for value in (0, "None", True)),
    ],
)
def test_wrong_options_are_refused(endpoint: str, option: dict[str, Any], message: str) -> None:
    assert message in refused(endpoint, {"sync_id": "y"} if endpoint == "elt_syncs.get" else None, **option)


def pages(request: Any) -> Page[Orchestration]:
    begin = int(dict(request.query).get("starting_after", 0))
    items = tuple(Orchestration(id=str(number), name=f"n{number}") for number in range(begin, min(begin + 2, 5)))
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
def test_items_of_all_or_limited_pages(options: dict[str, Any], ids: str, requests: int) -> None:
    result, service = called("orchestrations.list", orchestrations__list=[pages], **options)
    assert "".join(each["id"] for each in result) == ids
    assert len(service.requests) == requests


def test_single_page_is_returned_completely() -> None:
    result, _ = called("orchestrations.list", '{"limit": 2}', orchestrations__list=[pages])
    assert (result["has_more"], result["next_cursor"], len(result["data"])) == (True, "2", 2)


def test_results_contain_no_possible_secret() -> None:
    secret = build("elt_sync", config={"token": "hunter2"}, undeclared="hunter2")
    shown, _ = called("elt_syncs.get", {"sync_id": "y"}, elt_syncs__get=[secret])
    listed, _ = called("elt_syncs.list", elt_syncs__list=[Page(data=(secret,), has_more=False)])
    assert (shown["id"], listed["data"][0]["id"]) == ("x", "x")
    assert "hunter2" not in json.dumps([shown, listed])
