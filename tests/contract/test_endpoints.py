"""Tests of the endpoint functions and the models against the tables of the interface."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, get_args
from urllib.parse import quote

import pytest
from pydantic import BaseModel

from airflow_provider_datapipe.api import models
from airflow_provider_datapipe.api.endpoints import ENDPOINTS, FUNCTIONS
from airflow_provider_datapipe.api.errors import ConflictError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.api.models.common import Answer, Body, ErrorAnswer, ListOrPage, Page
from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat, Request
from docs import generate_interface
from tests.contract.calls import ALSO_NEEDED, arguments
from tests.contract.interface_table import ROWS, SCHEMAS, Row
from tests.support.documents import ROOT

NAMES = {f"{endpoint.method} {endpoint.path}": name for name, endpoint in ENDPOINTS.items()}
ERRORS = {400: InvalidRequestError, 404: NotFoundError, 409: ConflictError}

#: Committed page of the docs.
PAGE = generate_interface.PAGE.read_text(encoding="utf-8")

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
every_endpoint = pytest.mark.parametrize("name", ENDPOINTS)


def build(name: str, *, all_of_them: bool) -> tuple[dict[str, Any], Request[Any]]:
    given = arguments(FUNCTIONS[name], all_of_them=all_of_them, needed=ALSO_NEEDED.get(name, set()))
    return given, FUNCTIONS[name](**given)


def test_endpoints_are_those_of_the_interface() -> None:
    assert sorted(NAMES) == sorted(row.name for row in ROWS)
    assert len(NAMES) == len(ENDPOINTS) == len(ROWS) == 71


@every_row
def test_parameters_and_body_of_each_endpoint(row: Row) -> None:
    _, request = build(NAMES[row.name], all_of_them=True)
    assert {name for name, _ in request.query} == row.query.keys()
    assert (request.body is not None) == (row.body != "none")
    _, least = build(NAMES[row.name], all_of_them=False)
    assert {name for name, _ in least.query} == {name for name, required in row.query.items() if required}
    assert (least.body is not None) == (row.body == "required")


@every_row
def test_answer_type_of_each_endpoint(row: Row) -> None:
    answer: Any = ENDPOINTS[NAMES[row.name]].answer
    is_page = answer is not NO_CONTENT and issubclass(answer, Page)
    kinds = {"nothing": answer is NO_CONTENT, "list": is_page and issubclass(answer, ListOrPage), "page": is_page}
    assert kinds.get(row.success, answer is not NO_CONTENT and not is_page)


@every_row
def test_endpoint_functions_document_their_errors(row: Row) -> None:
    documentation = inspect.getdoc(FUNCTIONS[NAMES[row.name]]) or ""
    raised = set(re.findall(r"^:raises (\w+):", documentation, re.MULTILINE))
    assert {ERRORS[status].__name__ for status in row.errors} <= raised <= {error.__name__ for error in ERRORS.values()}


@every_row
def test_only_reading_endpoints_are_marked_as_reads(row: Row) -> None:
    reads = row.method == "GET" or row.name == "POST /reverse_etl_syncs/settings_schema"
    assert (ENDPOINTS[NAMES[row.name]].repeat is Repeat.READ) == reads


@every_endpoint
def test_each_argument_is_sent(name: str) -> None:
    given, request = build(name, all_of_them=True)
    body = {} if request.body is None else request.body.as_json()
    sent = {quote(str(value), safe="") for value in given.values()} & set(request.path.split("/"))
    sent |= {value for _, value in request.query}
    for argument, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert body.get(argument) == value or sent & {text, quote(text, safe="")}, argument


@every_endpoint
def test_endpoints_and_their_arguments_are_documented(name: str) -> None:
    documentation = inspect.getdoc(FUNCTIONS[name]) or ""
    documented = re.findall(r"^:param (\w+):", documentation, re.MULTILINE)
    assert documented == list(inspect.signature(FUNCTIONS[name]).parameters)
    endpoint = ENDPOINTS[name]
    title = f"\n({generate_interface.anchor(name)})=\n\n### {name}\n\n`{endpoint.method} {endpoint.path}`\n"
    assert title in PAGE
    section = PAGE.partition(title)[2].partition("\n## ")[0].partition("\n### ")[0]
    for argument in documented:
        assert f"\n| `{argument}` | " in section
    for error in re.findall(r"^:raises (\w+):", documentation, re.MULTILINE):
        assert f" | `{error}` | " in section


def test_committed_page_is_up_to_date() -> None:
    assert generate_interface.page() == PAGE, "`make docs` generates docs/interface.md: commit it"


def test_targets_of_the_page_are_unique() -> None:
    targets = generate_interface.anchors(PAGE)
    assert len(targets) == len(set(targets))
    assert {generate_interface.anchor(name.partition(".")[0]) for name in ENDPOINTS} <= set(targets)


def test_links_within_the_page_resolve() -> None:
    links = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    assert links <= set(generate_interface.anchors(PAGE)) | {"rules"}


def test_references_in_docstrings_resolve() -> None:
    targets = set(generate_interface.anchors(PAGE))
    files = (ROOT / "src").rglob("*.py")
    found = {file: generate_interface.references(file.read_text(encoding="utf-8")) for file in files}
    assert sum(map(len, found.values())) > len(ENDPOINTS) // 2
    assert {file.name: wrong for file, names in found.items() if (wrong := set(names) - targets)} == {}


def test_docstrings_use_the_full_path_of_the_page() -> None:
    lines = [
        f"{file.name}: {line.strip()}"
        for file in (ROOT / "src").rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"(?<!docs/)\b(?:interface|fields)\.md", line)
    ]
    assert lines == []


for _module in pkgutil.iter_modules(models.__path__, f"{models.__name__}."):
    importlib.import_module(_module.name)

#: Fields from the descriptions of the interface that are missing in its schemas.
BEYOND = {
    "EltStreamDto": {"sync_interval"},
    "TransformDto": {"cron_expression", "rebuild_trigger"},
    "TransformCreateRequestDto": {"cron_expression"},
    "TransformUpdateRequestDto": {"cron_expression"},
}


def below(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from below(model)


#: Models by the schema names in their docstrings.
MODELS = {
    schema: model
    for base in (Answer, Body)
    for model in below(base)
    for schema in re.findall(r"``(\w+)``", model.__doc__ or "")
    if schema in SCHEMAS
}


def enum_in(annotation: Any) -> type[StrEnum]:
    parts = (part for part in (annotation, *get_args(annotation)) if isinstance(part, type))
    (found,) = (part for part in parts if issubclass(part, StrEnum))
    return found


@pytest.mark.parametrize("schema", SCHEMAS)
def test_models_have_the_fields_of_their_schemas(schema: str) -> None:
    of_model = MODELS[schema].model_fields.items()
    fields = {field.serialization_alias or field.alias or name: field for name, field in of_model}
    declared = [re.fullmatch(r"(\w+)(!?)=?(.*)", word) for word in SCHEMAS[schema].split()]
    expected = {match[1]: (match[2] == "!", match[3]) for match in declared if match}
    assert fields.keys() == expected.keys() | BEYOND.get(schema, set())
    for name, (required, values) in expected.items():
        assert fields[name].is_required() == required, name
        if values:
            assert set(enum_in(fields[name].annotation)) == set(values.split("|")), name


def test_values_of_integration_abilities() -> None:
    assert set(IntegrationAbility) == {"EltSource", "ReverseEtlDestination"}


@pytest.mark.parametrize("schema", [name for name, model in MODELS.items() if issubclass(model, Answer)])
def test_page_contains_the_fields_of_responses(schema: str) -> None:
    title = f"\n({generate_interface.anchor('fields', MODELS[schema].__name__)})=\n"
    # The introduction describes the bodies of errors.
    section = PAGE if issubclass(MODELS[schema], ErrorAnswer) else PAGE.partition(title)[2].partition("\n(")[0]
    for name in re.findall(r"(\w+)(?:!|=\S+)*(?:\s|$)", SCHEMAS[schema]):
        assert f"`{name}`" in section
