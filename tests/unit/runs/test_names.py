"""Lookup of resources by name."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.flows import Flow
from airflow_provider_datapipe.runs.names import (
    NameLookupError,
    find_connection,
    find_elt_sync,
    find_orchestration,
    find_stream,
    find_transform,
)
from airflow_provider_datapipe.runs.targets import (
    connection_target,
    elt_sync_target,
    orchestration_target,
    stream_target,
    transform_target,
)
from tests.unit.runs.model_service import ModelService, page, stream, sync, transform

CONNECTIONS = [Connection(id=i, label=n) for i, n in (("1", "Shop"), ("2", "Twin"), ("3", "Twin"), ("4", None))]
SYNCS = [
    sync(str(number), source_connection_id=connection_id, destination_schema_name=schema)
    for number, (connection_id, schema) in enumerate(
        [("a", "raw_shop"), *((each, "shared") for each in "ab"), ("b", None)], 1
    )
]
STREAMS = [stream("1", "orders"), stream("2", "Orders"), stream("3", "customers")]
ORCHESTRATIONS = [
    Orchestration(id=i, name=n) for i, n in (("1", "Nightly"), ("2", "Hourly"), ("3", "Twin"), ("4", "Twin"))
]
TRANSFORMS = [
    transform(id=str(number), folder_path=folder, name=name)
    for number, (folder, name) in enumerate([("sales", "daily"), ("ops", "daily"), ("", "top")], 1)
]


def list_syncs(request: Any) -> Any:
    connection_id = dict(request.query).get("connection_id")
    return page(*(each for each in SYNCS if connection_id in (None, each.source_connection_id)))


def list_transforms(request: Any) -> Any:
    query = dict(request.query)
    name, folder = query.get("name", "").casefold(), query.get("folder_path")
    return page(*(each for each in TRANSFORMS if name in each.name.casefold() and folder in (None, each.folder_path)))


def run(flow: Flow[Any]) -> Any:
    service = ModelService(
        connections__list=[page(*CONNECTIONS)],
        elt_syncs__list=[list_syncs],
        elt_streams__list=[page(*STREAMS)],
        elt_streams__get=[STREAMS[0]],
        orchestrations__list=[page(*ORCHESTRATIONS)],
        transforms__list=[list_transforms],
    )
    return service.run(flow)


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (find_connection("Shop"), "1"),
        (find_elt_sync("raw_shop"), "1"),
        (find_elt_sync("shared", "b"), "3"),
        (find_stream("y", "orders"), "1"),
        (find_stream("y", "Orders"), "2"),
        (find_orchestration("Nightly"), "1"),
        (find_transform("daily", "ops"), "2"),
        (find_transform("top"), "3"),
        (find_transform("top", ""), "3"),
    ],
)
def test_an_exact_name_is_found(flow: Flow[Any], expected: str) -> None:
    assert run(flow).id == expected


@pytest.mark.parametrize(
    ("flow", "says"),
    [
        (find_connection("shop"), r"no connection named 'shop'. Did you mean Shop"),
        (find_connection("Twin"), r"more than one connection: 2, 3\."),
        (find_elt_sync("raw_shops"), r"no ELT sync named 'raw_shops'. Did you mean raw_shop"),
        (find_elt_sync("shared"), r"more than one ELT sync: 2, 3\."),
        (find_stream("y", "order"), r"no stream of ELT sync y named 'order'. Did you mean .*[oO]rders"),
        (find_stream("y", "zzz"), r"There is Orders, customers, orders\."),
        (find_orchestration("nightly"), r"no orchestration named 'nightly'. Did you mean Nightly"),
        (find_orchestration("Twin"), r"'Twin' is the name of more than one orchestration: 3, 4\. Use the ID"),
        (find_transform("daily"), r"more than one transform: ops/daily, sales/daily"),
        (find_transform("dayly", "sales"), r"no transform named 'sales/dayly'. Did you mean sales/daily"),
    ],
)
def test_unknown_and_ambiguous_names_raise_helpful_errors(flow: Flow[Any], says: str) -> None:
    with pytest.raises(NameLookupError, match=says):
        run(flow)


def test_unknown_name_in_an_empty_account() -> None:
    service = ModelService(orchestrations__list=[page()])
    with pytest.raises(NameLookupError, match=r"There are none\."):
        service.run(find_orchestration("x"))


def test_targets_by_id_and_by_name() -> None:
    by_id = run(stream_target("1", None, None))
    assert (by_id.resource_id, by_id.name, by_id.sync_id) == ("1", "orders", "y")
    assert run(stream_target(None, "y", "orders", {"full_refresh": True})).options == {"full_refresh": True}
    assert run(connection_target(None, "Shop")).resource_id == "1"
    assert run(connection_target("any", None)).resource_id == "any"
    assert run(elt_sync_target(None, "raw_shop")).resource_id == "1"
    assert run(elt_sync_target("any", None)).resource_id == "any"
    assert run(orchestration_target(None, "Hourly")).resource_id == "2"
    assert run(transform_target(None, "daily", "sales", {})).name == "daily"


@pytest.mark.parametrize(
    "flow",
    [
        connection_target("", None),
        elt_sync_target(None, "None"),
        stream_target(None, "", "orders"),
        stream_target("", None, None),
        transform_target(None, "None", None, {}),
    ],
)
def test_empty_rendered_ids_and_names_are_rejected(flow: Flow[Any]) -> None:
    with pytest.raises(ValueError, match="is empty"):
        run(flow)
