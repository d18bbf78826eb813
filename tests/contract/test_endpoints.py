"""Tests of the endpoint functions against the table of the interface."""

from __future__ import annotations

import inspect
import re
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_datapipe.api.endpoints import ENDPOINTS, FUNCTIONS
from airflow_provider_datapipe.api.errors import ConflictError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.api.models.common import ListOrPage, Page
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat, Request
from docs import generate_endpoints
from tests.contract.calls import ALSO_NEEDED, arguments
from tests.contract.interface_table import ROWS, Row

NAMES = {f"{endpoint.method} {endpoint.path}": name for name, endpoint in ENDPOINTS.items()}
ERRORS = {400: InvalidRequestError, 404: NotFoundError, 409: ConflictError}

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
every_endpoint = pytest.mark.parametrize("name", ENDPOINTS)


def build(name: str, *, all_of_them: bool) -> tuple[dict[str, Any], Request[Any]]:
    given = arguments(FUNCTIONS[name], all_of_them=all_of_them, needed=ALSO_NEEDED.get(name, set()))
    return given, FUNCTIONS[name](**given)


def test_every_endpoint_is_there_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {row.name for row in ROWS}
    with capsys.disabled():
        print(f"\n{len(expected & NAMES.keys())} of {len(expected)} endpoints")
    assert sorted(NAMES) == sorted(expected)
    assert len(NAMES) == len(ENDPOINTS) == len(ROWS) == 71


@every_row
def test_an_endpoint_takes_what_its_row_says(row: Row) -> None:
    _, request = build(NAMES[row.name], all_of_them=True)
    assert {name for name, _ in request.query} == row.query.keys()
    assert (request.body is not None) == (row.body != "none")


@every_row
def test_an_endpoint_needs_no_more_than_its_row_says(row: Row) -> None:
    _, request = build(NAMES[row.name], all_of_them=False)
    assert {name for name, _ in request.query} == {name for name, required in row.query.items() if required}
    assert (request.body is not None) == (row.body == "required")


@every_row
def test_an_endpoint_reads_the_answer_that_its_row_says(row: Row) -> None:
    answer: Any = ENDPOINTS[NAMES[row.name]].answer
    is_page = answer is not NO_CONTENT and issubclass(answer, Page)
    kinds = {"nothing": answer is NO_CONTENT, "list": is_page and issubclass(answer, ListOrPage), "page": is_page}
    assert kinds.get(row.success, answer is not NO_CONTENT and not is_page)


@every_row
def test_an_endpoint_names_its_row_and_the_errors_of_it(row: Row) -> None:
    documentation = inspect.getdoc(FUNCTIONS[NAMES[row.name]]) or ""
    assert f'Source: interface.md, "{row.name}".' in documentation
    raised = set(re.findall(r"^:raises (\w+):", documentation, re.MULTILINE))
    assert {ERRORS[status].__name__ for status in row.errors} <= raised <= {error.__name__ for error in ERRORS.values()}


@every_row
def test_only_what_changes_nothing_is_a_read(row: Row) -> None:
    reads = row.method == "GET" or row.name == "POST /reverse_etl_syncs/settings_schema"
    assert (ENDPOINTS[NAMES[row.name]].repeat is Repeat.READ) == reads


@every_endpoint
def test_every_argument_arrives(name: str) -> None:
    given, request = build(name, all_of_them=True)
    body = {} if request.body is None else request.body.as_json()
    sent = {quote(str(value), safe="") for value in given.values()} & set(request.path.split("/"))
    sent |= {value for _, value in request.query}
    for argument, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert body.get(argument) == value or sent & {text, quote(text, safe="")}, argument


@every_endpoint
def test_every_argument_is_documented(name: str) -> None:
    documentation = inspect.getdoc(FUNCTIONS[name]) or ""
    documented = re.findall(r"^:param (\w+):", documentation, re.MULTILINE)
    assert documented == list(inspect.signature(FUNCTIONS[name]).parameters)


@every_endpoint
def test_every_endpoint_is_on_the_page_of_the_docs(name: str) -> None:
    page = generate_endpoints.page()
    assert f"\n### {name}\n" in page
    assert f"\n`{ENDPOINTS[name].method} {ENDPOINTS[name].path}`\n" in page
