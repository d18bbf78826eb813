"""Request bodies: content, and refusal of invalid arguments before a request."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.api.endpoints import (
    ENDPOINTS,
    FUNCTIONS,
    connection_bridges,
    elt_streams,
    elt_syncs,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import DatapipeError, InvalidInputError
from airflow_provider_datapipe.api.models.common import UNSET, Body
from airflow_provider_datapipe.api.models.elt_syncs import SourceStream
from airflow_provider_datapipe.api.models.query import Query
from airflow_provider_datapipe.api.models.reverse_etl_syncs import (
    MappingRequest,
    Operation,
    OperationName,
    OperationRequest,
)
from airflow_provider_datapipe.api.models.rules import check_cron, check_redirect_uri
from airflow_provider_datapipe.api.models.transforms import TransformUpdateRequest
from airflow_provider_datapipe.api.request import Request
from tests.contract.calls import ALSO_NEEDED, arguments
from tests.support.examples import scaled
from tests.unit.api.json_of_models import objects

#: Rules that involve several fields.
TOGETHER = {
    "reverse_etl_syncs.create": lambda body: {"sync_interval", "orchestration_workflow_id"} & body.keys(),
    "reverse_etl_syncs.update": lambda body: {"sync_interval", "orchestration_workflow_id"} & body.keys(),
    "transforms.create_bulk": lambda body: body["transforms"],
}
OPERATION: dict[str, Any] = {
    "mode": "upsert",
    "mappings": [{"source_property_id": "a", "destination_property_id": "b"}],
}
REVERSE_ETL: dict[str, Any] = {
    "destination_connection_id": "c",
    "source_id": "t",
    "object_type_id": "o",
    "operation": OPERATION,
    "sync_interval": "0 3 * * *",
}
ELT: dict[str, Any] = {"connection_id": "c", "destination_schema_name": "s", "sync_interval": "0 3 * * *"}
BRIDGE: dict[str, Any] = {"redirect_uri": "https://app.example.com/done", "integration_id": "i", "label": "l"}
DRAFT: dict[str, Any] = {"name": "n", "sql_template": "SELECT 1"}
SECRET = "hunter2"


def sent(request: Request[Any]) -> dict[str, Any]:
    assert request.body is not None
    body: dict[str, Any] = json.loads(json.dumps(request.body.as_json()))
    return body


def with_bodies() -> Iterator[tuple[str, type[Body]]]:
    for name, function in FUNCTIONS.items():
        request = function(**arguments(function, all_of_them=True, needed=set()))
        if request.body is not None:
            yield name, type(request.body)


BODIES = dict(with_bodies())
every_body = pytest.mark.parametrize("name", BODIES)


def bodies(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return objects(BODIES[name]).filter(TOGETHER.get(name, lambda _: True))


def needed_by(name: str) -> dict[str, Any]:
    return arguments(FUNCTIONS[name], all_of_them=False, needed=ALSO_NEEDED.get(name, set()))


@every_body
@settings(max_examples=scaled(25))
@given(st.data())
def test_body_contains_exactly_the_given_arguments(name: str, data: st.DataObject) -> None:
    drawn = data.draw(bodies(name))
    # The function also requires arguments that the body does not, such as IDs and the streams to add.
    needed = arguments(FUNCTIONS[name], all_of_them=False, needed=set())
    given_body = {field: value for field, value in needed.items() if field in BODIES[name].model_fields} | drawn
    request = FUNCTIONS[name](**needed | drawn)
    assert ({} if request.body is None else sent(request)) == given_body
    # A service can parse the body with the same model.
    assert BODIES[name].model_validate_json(json.dumps(drawn)).as_json() == drawn


@pytest.mark.parametrize(
    "operation",
    [
        OPERATION,
        OperationRequest(
            mode=OperationName.UPSERT, mappings=(MappingRequest(source_property_id="a", destination_property_id="b"),)
        ),
        {"mode": "upsert", "mappings": [MappingRequest(source_property_id="a", destination_property_id="b")]},
        Operation.model_validate(OPERATION),
    ],
)
def test_nested_values_can_be_models_or_objects(operation: Any) -> None:
    assert sent(reverse_etl_syncs.create(**REVERSE_ETL | {"operation": operation}))["operation"] == OPERATION


def test_streams_can_be_models_or_objects() -> None:
    request = elt_syncs.add_source_streams("y", source_streams=[SourceStream(name="a"), {"name": "b"}])
    assert sent(request) == {"source_streams": [{"name": "a"}, {"name": "b"}]}


def test_none_for_a_nullable_field_is_sent_as_null() -> None:
    assert sent(transforms.update("t", cron_expression=None)) == {"cron_expression": None}
    assert sent(transforms.update("t")) == sent(transforms.update("t", cron_expression=UNSET)) == {}
    assert repr(UNSET) == "UNSET"


def test_an_empty_optional_body_is_omitted() -> None:
    assert elt_streams.request_full_refresh("s").body is None
    assert sent(elt_streams.request_full_refresh("s", reset_history_table=True)) == {"reset_history_table": True}
    assert sent(transforms.publish("t")) == {}


def test_values_at_the_limits_are_sent() -> None:
    for uri in ("https://a.example", "https://localhost:8443/x", "http://localhost:8080", BRIDGE["redirect_uri"]):
        assert sent(connection_bridges.create(**BRIDGE | {"redirect_uri": uri}))["redirect_uri"] == uri
    assert len(sent(connection_bridges.create(**BRIDGE, state="x" * 255))["state"]) == 255
    assert len(sent(transforms.create_bulk(transforms=[DRAFT] * 50))["transforms"]) == 50
    assert dict(elt_streams.list_(limit=100).query) == {"limit": "100"}
    attached = {key: value for key, value in REVERSE_ETL.items() if key != "sync_interval"}
    assert "sync_interval" not in sent(reverse_etl_syncs.create(**attached, orchestration_workflow_id="w"))
    for day in ("2020-01-31", dt.date(2020, 1, 31)):
        assert sent(elt_syncs.create(**ELT, start_date=day))["start_date"] == "2020-01-31"


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "http://app.example.com"}, "redirect_uri: .*https"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "https://app.example.com:8443/x"}, "redirect_uri: .*port"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "https://a.example/?x=hunter2"}, "redirect_uri: .*query"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "ftp://localhost/x"}, "redirect_uri: .*https"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "/done"}, "redirect_uri: .*URL"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "https://a.example:port/"}, "redirect_uri: .*URL"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "http://evil.example\\@localhost/"}, "redirect_uri: .*URL"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "https://[::1].evil.example/"}, "redirect_uri: .*URL"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "https://localhost@evil.example/"}, "redirect_uri: .*user"),
    ("connection_bridges.create", BRIDGE | {"redirect_uri": "https://a.example/\n"}, "redirect_uri: .*URL"),
    ("connection_bridges.create", BRIDGE | {"state": SECRET * 40}, "state: .*255"),
    ("connection_bridges.create", BRIDGE | {"label": ""}, "label: .*1 character"),
    ("elt_syncs.create", ELT | {"sync_interval": None}, "sync_interval: .*string"),
    ("elt_syncs.create", ELT | {"sync_interval": "@daily"}, "sync_interval: .*five fields"),
    ("elt_syncs.create", ELT | {"sync_interval": "0 3 * * * *"}, "sync_interval: .*five fields"),
    ("elt_syncs.create", ELT | {"sync_interval": "0 24 * * *"}, "sync_interval: '24' is not a valid hour"),
    ("elt_syncs.create", ELT | {"start_date": "2020-1-1"}, "start_date: .*YYYY-MM-DD"),
    ("elt_syncs.create", ELT | {"start_date": "2020-02-30"}, "start_date: .*date"),
    ("elt_syncs.create", ELT | {"start_date": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}, "start_date: .*YYYY-MM-DD"),
    ("elt_syncs.create", ELT | {"elt_settings": {"token": SECRET, "at": object()}}, "elt_settings: .*JSON"),
    ("elt_syncs.create", ELT | {"elt_settings": {"token": SECRET, "n": float("nan")}}, "elt_settings: .*JSON"),
    ("elt_syncs.create", ELT | {"elt_settings": [SECRET]}, "elt_settings: .*dictionary"),
    ("elt_syncs.add_source_streams", {"sync_id": "y", "source_streams": ["orders"]}, r"source_streams\.0: "),
    ("elt_syncs.delete", {"sync_id": "y", "remove_data_references": "perhaps"}, "remove_data_references: .*boolean"),
    ("elt_streams.set_sync_interval", {"stream_id": "s", "sync_interval": "x * * * *"}, "'x' is not a valid minute"),
    ("elt_streams.list", {"elt_sync_id": ""}, "elt_sync_id: .*1 character"),
    ("elt_stream_runs.list", {"elt_stream_id": None}, "elt_stream_id: must not be null"),
    ("elt_stream_runs.list", {"elt_stream_id": "s", "sort_direction": "up"}, "sort_direction: .*'asc' or 'desc'"),
    ("reverse_etl_sync_runs.list", {"reverse_etl_sync_id": "s", "sort_direction": "ASC"}, "sort_direction: "),
    ("integrations.list", {"ability": "Everything"}, "ability: .*EltSource"),
    ("transforms.list", {"status": "deleted"}, "status: .*draft"),
    ("orchestrations.create", {"name": "n", "cron_schedule": "* * * * 8"}, "cron_schedule: '8' is not .*day of week"),
    ("orchestrations.delete", {"orchestration_id": "o", "cron_schedule": None}, "cron_schedule: must not be null"),
    ("orchestrations.delete", {"orchestration_id": "o", "cron_schedule": "daily"}, "cron_schedule: .*five fields"),
    ("transforms.detach_orchestration", {"transform_id": "t", "cron_expression": "0 0 32 * *"}, "not .*day of month"),
    ("transforms.create", DRAFT | {"materialization": "stream"}, "materialization: .*'view' or 'table'"),
    ("transforms.create", DRAFT | {"cron_expression": "0 0 * 13 *"}, "cron_expression: '13' is not a valid month"),
    ("transforms.create", DRAFT | {"folder_path": None}, "folder_path: must not be null"),
    ("transforms.create_bulk", {"transforms": []}, "transforms: .*1 to 50"),
    ("transforms.create_bulk", {"transforms": [DRAFT] * 51}, "transforms: .*1 to 50"),
    ("transforms.create_bulk", {"transforms": [{"name": "n"}]}, r"transforms\.0\.sql_template: is required"),
    ("transforms.create_bulk", {"transforms": [DRAFT | {"sql": SECRET}]}, r"transforms\.0\.sql: is not a field"),
    ("reverse_etl_failed_records.retry", {"reverse_etl_sync_id": "s", "record_ids": "r1"}, "record_ids: "),
    ("reverse_etl_syncs.create", REVERSE_ETL | {"sync_interval": UNSET}, "sync_interval is required unless"),
    ("reverse_etl_syncs.create", REVERSE_ETL | {"operation": OPERATION | {"mode": "MERGE"}}, r"operation\.mode: "),
    *(("elt_streams.get", {"stream_id": each}, f"id: '{re.escape(each)}' is not an id") for each in ("", ".", "..")),
    ("elt_streams.get", {"stream_id": {"token": SECRET}}, "id: a value of type dict is not an id"),
]


@pytest.mark.parametrize(("name", "wrong", "rule"), BROKEN)
def test_invalid_arguments_are_refused_without_secrets(name: str, wrong: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        FUNCTIONS[name](**wrong)
    message = str(refused.value)
    assert re.match(rf"{name}: .*{rule}", message)
    assert "\n" not in message
    assert SECRET not in message
    assert isinstance(refused.value, DatapipeError)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("limit", [0, 101, -1, "many", 1.5])
@pytest.mark.parametrize("name", [name for name, declared in ENDPOINTS.items() if declared.takes_limit])
def test_invalid_page_size_is_refused(name: str, limit: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"^{name}: limit: "):
        FUNCTIONS[name](**needed_by(name), limit=limit)


@every_body
def test_none_for_a_non_nullable_field_is_refused(name: str) -> None:
    for field in BODIES[name].model_fields:
        if (BODIES[name], field) != (TransformUpdateRequest, "cron_expression"):
            with pytest.raises(InvalidInputError, match=rf"^{name}: {field}: "):
                FUNCTIONS[name](**needed_by(name) | {field: None})


@every_body
def test_misspelled_field_is_refused(name: str) -> None:
    asked = FUNCTIONS[name](**needed_by(name))
    body = {} if asked.body is None else asked.body.as_json()
    with pytest.raises(ValueError, match="misspelt"):
        BODIES[name].model_validate(body | {"misspelt": 1})


def test_representations_contain_no_secret() -> None:
    requests: list[Request[Any]] = [
        elt_syncs.create(**ELT, elt_settings={"token": SECRET}),
        elt_syncs.update("y", elt_settings={"token": SECRET}),
        reverse_etl_syncs.create(**REVERSE_ETL, settings={"token": SECRET}),
        reverse_etl_syncs.settings_schema(connection_id="c", object_type="o", partial_settings={"token": SECRET}),
        connection_bridges.create(**BRIDGE, state=SECRET),
    ]
    for request in requests:
        assert SECRET in json.dumps(sent(request))
        assert SECRET not in repr(request)


def test_request_has_a_copy_of_the_settings() -> None:
    mine = {"sheets": ["a"]}
    request = elt_syncs.update("y", elt_settings=mine)
    mine["sheets"].append("b")
    assert sent(request) == {"elt_settings": {"sheets": ["a"]}}


def problem_with(check: Callable[[str], str], text: str) -> str | None:
    try:
        assert check(text) == text
    except ValueError as error:
        return str(error)
    return None


@given(st.text() | st.lists(st.text("0123456789*/,-LRHjan?#@ \u0663"), min_size=5, max_size=5).map(" ".join))
def test_arbitrary_text_breaks_no_check(text: str) -> None:
    problem = problem_with(check_cron, text)
    assert problem is None or (re.search("cron expression", problem) and problem.isprintable())
    for uri in (text, f"https://{text}"):
        problem = problem_with(check_redirect_uri, uri)
        assert problem is None or problem.startswith("must ")


def test_each_query_parameter_has_a_rule() -> None:
    names = {
        query
        for function in FUNCTIONS.values()
        for query, _ in function(**arguments(function, all_of_them=True, needed=set())).query
    }
    assert names == {field.alias or name for name, field in Query.model_fields.items()}


def test_schedules_are_checked_by_a_library_loaded_on_first_use() -> None:
    program = "import sys, airflow_provider_datapipe.api.endpoints as e; print('croniter' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - program of this test
    assert answer.stdout.strip() == "False"
